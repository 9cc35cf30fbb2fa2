"""What is explored: each scenario is exhaustive within its bounds, and together they meet every rule and pair.

A prelude leads to a soup where something is already under way, so that two rare things can be met at once
without all the ways to get there.
"""

from parley.protocol.molecules import (
    ORCHESTRATOR,
    PROXY,
    Close,
    Deliver,
    Interrupt,
    Kind,
    Origin,
    Payload,
    Policy,
    Question,
    Ruling,
)
from parley.protocol.rule import Answer, Asking, Broadcast, Choice, Ending, Firing, Passage
from parley.protocol.states import Action
from parley.verify.explorer import CODER, SQUAD, Bounds

LEAD, STATE, JOB = "intent-lead", "state:j/1", "job:j"
A, B, C = "dispatch:a", "dispatch:b", "dispatch:c"

Prelude = tuple[Firing, ...]


def fire(rule: str, *at: str, choice: Choice = None) -> Firing:
    return Firing(rule, at, choice)


def woken(agent: str, thread: str) -> Firing:
    return fire("wake", agent, thread, choice="turn")


def says(agent: str, thread: str, *payloads: Payload, asks: tuple[Question, ...] = ()) -> Firing:
    return fire("send-step", agent, thread, choice=Broadcast(payloads, asks))


def asks(agent: str, thread: str, name: str) -> Firing:
    return fire("ask-step", agent, thread, choice=Asking((Question(name, f"?{name}"),)))


def withdrawn(thread: str) -> Firing:
    return fire("withdraw", thread, choice=Ending(Origin.WITHDRAWAL, f"gone {thread}"))


AT_WORK: Prelude = (
    woken(ORCHESTRATOR, JOB),
    says(ORCHESTRATOR, JOB, Deliver(LEAD, STATE, "begin 1")),
    fire("spark", ORCHESTRATOR, JOB),
    fire("send-empty", ORCHESTRATOR, JOB),
    woken(LEAD, STATE),
)
"""The lead of INTENT runs; the orchestrator waits."""


def two_at_work(first: str = CODER, second: str = CODER) -> Prelude:
    """The lead has dispatched two and waits; both run."""
    return (
        *AT_WORK,
        says(LEAD, STATE, Deliver(first, A, "ma"), Deliver(second, B, "mb")),
        fire("spark", LEAD, STATE),
        fire("spark", LEAD, STATE),
        fire("send-empty", LEAD, STATE),
        woken(first, A),
        woken(second, B),
    )


def gone(agent: str, thread: str) -> Prelude:
    """A running instance is withdrawn to its end, and the lead has read of it."""
    return (
        withdrawn(thread),
        fire("term-run", thread, agent),
        fire("term-mbox", thread, agent),
        fire("term-final", thread),
        woken(LEAD, STATE),
    )


HELD = fire("hold", JOB, choice="pause")


def open_question(agent: str, thread: str, name: str, stage: str) -> Prelude:
    """A running instance asks, and its question has come as far as `stage`."""
    steps = (
        asks(agent, thread, name),
        fire("ask", agent, thread),
        fire("escalate", name, choice="framed"),
    )
    return steps[: ("AskQuestion", "Proxy", "AskHuman").index(stage) + 1]


def recorded(thread: str) -> Firing:
    return fire("term-record", thread, choice=Passage(Action.WITHDRAW, ORCHESTRATOR))


def dying_asker(stage: str) -> Prelude:
    """Of two at work, the one with a team has asked, and is withdrawn and closed; all but its question is gone."""
    ended = (
        withdrawn(A),
        woken(LEAD, STATE),
        says(LEAD, STATE, Close(A)),
        fire("send-terminate", LEAD, STATE),
        fire("send-empty", LEAD, STATE),
        fire("term-mbox", A, SQUAD),
    )
    question = (
        fire("term-idle", A, SQUAD),
        fire("cascade", A, "escalation:qa"),
        fire("term-idle", "escalation:qa", PROXY),
    )
    return (
        *two_at_work(SQUAD, CODER),
        *open_question(SQUAD, A, "qa", stage),
        *ended,
        *(question if stage != "AskQuestion" else ()),
    )


def broadcast(*meanwhile: Firing) -> Prelude:
    """The lead sends a dead letter, a close and a new dispatch; someone with a team does something meanwhile."""
    return (
        *two_at_work(CODER, SQUAD),
        *gone(CODER, A),
        says(
            LEAD, STATE,
            Deliver(CODER, A, "late"), Close(A), Deliver(CODER, "dispatch:c", "mc"),
        ),
        *meanwhile,
    )  # fmt: skip


def redirected(thread: str, name: str, *, now: bool) -> Firing:
    return fire("intervene", thread, choice=Interrupt(thread, name, now))


def led_back(second: str = CODER, *, alone: bool = False) -> Prelude:
    """A doer below a subteam in PLAN was answered with a way back; unless that is alone, another is at work beside it.

    Of the answered question nothing is left; the subteam's lead has yet to be told.
    """
    esc = "escalation:qc"
    lone = (
        *AT_WORK,
        says(LEAD, STATE, Deliver(SQUAD, A, "ma")),
        fire("spark", LEAD, STATE),
        fire("send-empty", LEAD, STATE),
        woken(SQUAD, A),
    )
    return (
        *(lone if alone else two_at_work(SQUAD, second)),
        says(SQUAD, A, Deliver(CODER, C, "mc")),
        fire("spark", SQUAD, A),
        fire("send-empty", SQUAD, A),
        fire("transition", A, choice=Passage(Action.APPROVED_INTENT, SQUAD)),
        woken(CODER, C),
        *open_question(CODER, C, "qc", "Proxy"),
        fire("respond", "qc", choice=Answer("back", PROXY, Ruling.BACKTRACK_INTENT)),
        fire("term-idle", esc, PROXY),
        fire("term-mbox", esc, PROXY),
        fire("term-final", esc),
    )


ESC, PLANNER, PLANNING = "escalation:qi", "project-lead", "state:j/2"
IN_PLAN: Prelude = (
    *AT_WORK,
    fire(
        "ask-step",
        LEAD,
        STATE,
        choice=Asking((Question(id="qi", message="?qi", kind=Kind.ASSERT, artifact="intent", digest="di"),)),
    ),
    fire("ask", LEAD, STATE),
    fire("respond", "qi", choice=Answer("ai", PROXY, Ruling.APPROVE)),
    fire("term-idle", ESC, PROXY),
    fire("term-mbox", ESC, PROXY),
    fire("term-final", ESC),
    woken(LEAD, STATE),
    fire("nosend-step", LEAD, STATE),
    fire("observe", "j", choice="report"),
    woken(ORCHESTRATOR, JOB),
    fire("transition", "j", choice=Passage(Action.APPROVED_INTENT, LEAD, contents=(("intent", "di"),))),
    says(ORCHESTRATOR, JOB, Close(STATE, Origin.PHASE), Deliver(PLANNER, PLANNING, "begin 2")),
    fire("send-terminate", ORCHESTRATOR, JOB),
    fire("term-idle", STATE, LEAD),
    fire("term-mbox", STATE, LEAD),
    fire("cascade", STATE, ESC),
    fire("term-final", ESC),
    fire("term-final", STATE),
    fire("spark", ORCHESTRATOR, JOB),
    fire("send-empty", ORCHESTRATOR, JOB),
    woken(PLANNER, PLANNING),
)
"""The intent is approved, and the lead of PLAN runs."""
LED_BACK: Prelude = (
    *IN_PLAN,
    asks(PLANNER, PLANNING, "q2"),
    fire("ask", PLANNER, PLANNING),
    fire("respond", "q2", choice=Answer("a2", PROXY, Ruling.BACKTRACK_INTENT)),
)
"""The plan's lead was told by the proxy, and not by the human, to go back."""


def both(*names: str) -> tuple[Question, ...]:
    """An assert of the intent and one of the plan."""
    artifacts = zip(names, ("intent", "plan"), strict=True)
    return tuple(
        Question(id=name, message=f"?{name}", kind=Kind.ASSERT, artifact=artifact, digest=f"d{name}")
        for name, artifact in artifacts
    )


def answered(name: str, ruling: Ruling) -> Prelude:
    """A question was answered, and nothing is left of it."""
    thread = f"escalation:{name}"
    return (
        fire("respond", name, choice=Answer(f"a{name}", PROXY, ruling)),
        fire("term-idle", thread, PROXY),
        fire("term-mbox", thread, PROXY),
        fire("term-final", thread),
    )


def approved_both(agent: str, thread: str) -> Prelude:
    """A running lead has asserted the intent and the plan, both were approved, and it runs again."""
    return (
        fire("ask-step", agent, thread, choice=Asking(both("q1", "q2"))),
        fire("ask", agent, thread),
        *answered("q1", Ruling.APPROVE),
        *answered("q2", Ruling.APPROVE),
        woken(agent, thread),
    )


TWO_VERDICTS: Prelude = (
    *IN_PLAN,
    *approved_both(PLANNER, PLANNING),
    says(PLANNER, PLANNING, Deliver(ORCHESTRATOR, JOB, "again"), asks=both("q3", "q4")),
    fire("send", PLANNER, PLANNING),
    fire("send-ask", PLANNER, PLANNING),
    HELD,
)
"""The plan's lead has two approvals, and has asserted both artifacts again."""
APPROVED_PLAN = Passage(Action.APPROVED_PLAN, ORCHESTRATOR, contents=(("intent", "dq1"), ("plan", "dq2")))
TWO_OF_A_SUBTEAM: Prelude = (
    *two_at_work(SQUAD, CODER),
    fire("transition", A, choice=Passage(Action.APPROVED_INTENT, SQUAD)),
    *approved_both(SQUAD, A),
    fire("ask-step", SQUAD, A, choice=Asking(both("q3", "q4"))),
    fire("ask", SQUAD, A),
    HELD,
    withdrawn(A),
    recorded(A),
    fire("term-idle", A, SQUAD),
    fire("term-mbox", A, SQUAD),
    *(fire("cascade", A, f"escalation:{name}") for name in ("q1", "q2", "q3", "q4")),
    *(fire("term-final", f"escalation:{name}") for name in ("q1", "q2")),
    *(fire(rule, f"escalation:{name}", PROXY) for name in ("q3", "q4") for rule in ("term-idle", "term-mbox")),
)
"""The same of a subteam, which is withdrawn."""

LATER = Question("qb", "?qb")
NOBODY: frozenset[str] = frozenset()
DOERS = frozenset({CODER})
TEAM = frozenset({SQUAD})
TASKS = frozenset({LEAD, SQUAD, CODER})

SCENARIOS: dict[str, Bounds] = {
    # a job from its very beginning, each choice by whoever can make it
    "dispatch": Bounds(sends=2, threads=2, closes=1, several=True, silences=1, fan_out=1),
    "death": Bounds(sends=1, threads=1, withdrawals=1, holds=1),
    "subteams": Bounds(
        sends=2, threads=2, nested=True, withdrawals=1, retry_budget=0, voices=TASKS, prelude=AT_WORK
    ),
    "crashes": Bounds(sends=1, threads=1, questions=1, crashes=1),
    "interrupts": Bounds(sends=1, threads=1, interrupts=1, steered=True, holds=1),
    "always": Bounds(
        questions=1, policy=Policy.ALWAYS, rulings=(Ruling.APPROVE, Ruling.WITHDRAW), transitions=1,
        kinds=(Kind.ASSERT,),
    ),
    "no briefing": Bounds(
        questions=1, policy=Policy.ALWAYS, brief_human=False, rulings=(Ruling.APPROVE,), kinds=(Kind.ASSERT,),
    ),
    "never": Bounds(questions=1, policy=Policy.NEVER, withdrawals=1),
    "failure": Bounds(failures=2, pendings=1, observations=1, transitions=1),
    "letters": Bounds(questions=1, sends=1, threads=1),
    "redirection": Bounds(interrupts=1, questions=1, withdrawals=1, voices=TASKS, prelude=AT_WORK),
    "merges": Bounds(sends=1, threads=1, closes=1, merges=1, withdrawals=1, voices=TASKS, prelude=AT_WORK),
    "enrolments": Bounds(sends=1, threads=1, enrolments=1, closes=1, voices=TASKS, prelude=AT_WORK),
    "deaf": Bounds(sends=1, threads=1, questions=1, interrupts=1, deaf=True, voices=TASKS, prelude=AT_WORK),
    "parked": Bounds(sends=1, threads=1, interrupts=1, holds=1, parked=True, voices=TASKS, prelude=AT_WORK),
    # two at work: what one does meets what the other does
    "letter and dying letter": Bounds(
        voices=NOBODY, nested=True, policy=Policy.NEVER,
        prelude=(
            *two_at_work(SQUAD, CODER), says(CODER, B, asks=(LATER,)),
            says(SQUAD, A, Deliver(LEAD, STATE, "ma2")), withdrawn(A), fire("term-mbox", A, SQUAD),
        ),
    ),
    "letter and question": Bounds(
        questions=1, voices=TEAM, nested=True, retry_budget=0, policy=Policy.NEVER,
        prelude=(*two_at_work(SQUAD, CODER), says(CODER, B, Deliver(LEAD, STATE, "mb2"), asks=(LATER,))),
    ),
    "letter and dying asker": Bounds(
        voices=NOBODY, nested=True, policy=Policy.NEVER,
        prelude=(
            *two_at_work(SQUAD, CODER), says(CODER, B, Deliver(LEAD, STATE, "mb2"), asks=(LATER,)),
            asks(SQUAD, A, "qa"), withdrawn(A), fire("term-mbox", A, SQUAD), recorded(A), HELD,
        ),
    ),
    "letter and dying human": Bounds(
        voices=NOBODY, nested=True,
        prelude=(
            *dying_asker("AskHuman"), recorded(A), says(CODER, B, Deliver(LEAD, STATE, "mb2"), asks=(LATER,)),
            HELD,
        ),
    ),
    "letter and interrupts": Bounds(
        voices=NOBODY, nested=True, policy=Policy.NEVER,
        prelude=(
            *two_at_work(SQUAD, CODER), says(CODER, B, Deliver(LEAD, STATE, "mb2"), asks=(LATER,)),
            redirected(A, "ia", now=True), redirected(STATE, "is", now=False),
        ),
    ),
    "letter and dying interrupt": Bounds(
        voices=NOBODY, nested=True, policy=Policy.NEVER,
        prelude=(
            *two_at_work(SQUAD, CODER), says(CODER, B, Deliver(LEAD, STATE, "mb2"), asks=(LATER,)),
            redirected(A, "ia", now=True), withdrawn(A), fire("term-mbox", A, SQUAD), HELD,
        ),
    ),
    "dying letter and close": Bounds(
        voices=NOBODY, nested=True,
        prelude=(
            *two_at_work(SQUAD, CODER), says(SQUAD, A, Deliver(LEAD, STATE, "ma2")),
            redirected(A, "ia", now=True), redirected(B, "ib", now=True), redirected(JOB, "ij", now=True),
            withdrawn(A), woken(LEAD, STATE), says(LEAD, STATE, Close(B)),
        ),
    ),
    "dying asker and dying dispatcher": Bounds(
        voices=NOBODY, nested=True, policy=Policy.NEVER,
        prelude=(
            *two_at_work(SQUAD, CODER), asks(SQUAD, A, "qa"), withdrawn(A), withdrawn(STATE),
            fire("cascade", STATE, B), fire("term-run", B, CODER), fire("term-mbox", B, CODER),
            fire("term-final", B), fire("term-idle", STATE, LEAD), fire("term-mbox", STATE, LEAD),
            fire("term-mbox", A, SQUAD), HELD,
        ),
    ),
    "broadcast and broadcast": Bounds(
        voices=NOBODY, nested=True, policy=Policy.NEVER,
        prelude=broadcast(
            says(SQUAD, B, Deliver(CODER, "dispatch:d", "md"), Close("dispatch:d"), asks=(LATER,)), HELD
        ),
    ),
    "broadcast and question": Bounds(
        questions=1, voices=TEAM, nested=True, crash_budget=1, prelude=broadcast()
    ),
    "broadcast and letters": Bounds(
        sends=1, threads=1, closes=1, voices=TEAM, nested=True, prelude=broadcast()
    ),
    "broadcast and interrupt": Bounds(interrupts=1, voices=NOBODY, nested=True, prelude=broadcast()),
    "broadcast and dying asker": Bounds(
        voices=NOBODY, nested=True, crash_budget=1, policy=Policy.NEVER,
        prelude=broadcast(asks(SQUAD, B, "qb"), withdrawn(B), fire("term-mbox", B, SQUAD), HELD),
    ),
    "broadcast and dying question": Bounds(
        voices=NOBODY, nested=True, crash_budget=1,
        prelude=broadcast(
            *open_question(SQUAD, B, "qb", "Proxy"), withdrawn(B), fire("term-idle", B, SQUAD), recorded(B), HELD
        ),
    ),
    "broadcast and withdrawn interrupt": Bounds(
        voices=NOBODY, nested=True, retry_budget=0,
        prelude=broadcast(redirected(B, "ib", now=True), withdrawn(B), HELD),
    ),
    "dying question and question": Bounds(
        voices=NOBODY, nested=True, prelude=(*dying_asker("Proxy"), asks(CODER, B, "qb"))
    ),
    "dying askers": Bounds(
        voices=NOBODY, nested=True, retry_budget=0,
        prelude=(
            *dying_asker("Proxy"), recorded(A), asks(CODER, B, "qb"), withdrawn(B),
            fire("term-mbox", B, CODER), HELD,
        ),
    ),
    "dying asker and interrupts": Bounds(
        voices=NOBODY, nested=True, retry_budget=0,
        prelude=(
            *dying_asker("Proxy"), redirected(B, "ib", now=True), redirected(STATE, "is", now=True), HELD,
        ),
    ),
    # a verdict that the lead of a subteam has yet to be told meets all that goes on around it
    "way back and letters": Bounds(
        sends=1, threads=1, closes=1, voices=DOERS | {LEAD}, nested=True, policy=Policy.NEVER, prelude=led_back()
    ),
    "way back and question": Bounds(
        questions=1, voices=frozenset({CODER}), nested=True, prelude=(*led_back(), HELD)
    ),
    "way back and dying human": Bounds(
        voices=NOBODY, nested=True, crash_budget=1,
        prelude=(
            *led_back(SQUAD), *open_question(SQUAD, B, "qb", "AskHuman"), withdrawn(B), fire("term-idle", B, SQUAD),
            fire("term-mbox", B, SQUAD), recorded(B), fire("cascade", B, "escalation:qb"),
            fire("term-idle", "escalation:qb", PROXY), fire("term-mbox", "escalation:qb", PROXY),
        ),
    ),
    "way back and dying asker": Bounds(
        voices=NOBODY, nested=True, crash_budget=1, policy=Policy.NEVER,
        prelude=(
            *led_back(SQUAD), *open_question(SQUAD, B, "qb", "Proxy"), withdrawn(B), fire("term-mbox", B, SQUAD),
        ),
    ),
    "way back and dying words": Bounds(
        voices=NOBODY, nested=True, crash_budget=1, policy=Policy.NEVER,
        prelude=(*led_back(), asks(CODER, B, "qb"), withdrawn(B), fire("term-mbox", B, CODER)),
    ),
    "way back and dying letter": Bounds(
        voices=NOBODY, nested=True, crash_budget=1, policy=Policy.NEVER,
        prelude=(*led_back(), says(CODER, B, Deliver(LEAD, STATE, "mb2")), withdrawn(B), HELD),
    ),
    "way back and dying turn": Bounds(
        voices=NOBODY, nested=True, crash_budget=1, policy=Policy.NEVER,
        prelude=(
            *led_back(), redirected(B, "ib", now=False), withdrawn(B), woken(LEAD, STATE), says(LEAD, STATE, Close(B)),
            fire("send-terminate", LEAD, STATE), HELD,
        ),
    ),
    "way back and broadcast": Bounds(
        voices=NOBODY, nested=True, policy=Policy.NEVER,
        prelude=(
            *led_back(), *gone(CODER, B),
            says(LEAD, STATE, Deliver(CODER, B, "late"), Deliver(CODER, "dispatch:d", "md"), asks=(LATER,)), HELD,
        ),
    ),
    "way back and failures": Bounds(
        failures=1, observations=1, merges=1, voices=NOBODY, nested=True, policy=Policy.NEVER, crash_budget=1,
        prelude=(*led_back(alone=True), woken(CODER, C)),
    ),
    "way back and interrupts": Bounds(
        voices=NOBODY, nested=True, policy=Policy.NEVER,
        prelude=(*led_back(), redirected(B, "ib", now=True), redirected(JOB, "ij", now=False)),
    ),
    # what ends loops
    "lead and doer": Bounds(
        sends=4, threads=1, exchanges=1, changing=True, voices=frozenset({LEAD, CODER}), prelude=AT_WORK
    ),
    "the same question": Bounds(
        questions=2, repeats=1, same=True, policy=Policy.NEVER, voices=frozenset({LEAD}), prelude=AT_WORK
    ),
    "the human again": Bounds(questions=1, escalations=2, repeats=2, voices=frozenset({LEAD}), prelude=AT_WORK),
    "stuck lead": Bounds(crashes=2, interrupts=1, crash_budget=2, failures=1, voices=NOBODY, prelude=AT_WORK),
    # as much as a rule takes and gives at once
    "two verdicts superseded": Bounds(
        policy=Policy.NEVER, voices=NOBODY, prelude=(*TWO_VERDICTS, *answered("q3", Ruling.BACKTRACK_INTENT))
    ),
    "two verdicts spent": Bounds(
        policy=Policy.NEVER, voices=NOBODY,
        prelude=(*TWO_VERDICTS, fire("transition", "j", choice=APPROVED_PLAN)),
    ),
    "two verdicts of a dying subteam": Bounds(
        policy=Policy.NEVER, voices=NOBODY, nested=True, prelude=TWO_OF_A_SUBTEAM
    ),
    "held twice": Bounds(
        voices=NOBODY, prelude=(
            *two_at_work(), fire("hold", A, choice="limit"), fire("hold", A, choice="silence"), withdrawn(A), HELD
        ),
    ),
    "lost twice": Bounds(crashes=2, crash_budget=3, voices=NOBODY, prelude=AT_WORK),
    "failing records": Bounds(
        failures=1, voices=NOBODY, nested=True,
        prelude=(*two_at_work(SQUAD, CODER), fire("strike", "j", choice="pending"), withdrawn(A), HELD),
    ),
}  # fmt: skip

WIDER: dict[str, Bounds] = {
    "death": Bounds(sends=2, threads=1, withdrawals=1, holds=1),
    "crashes": Bounds(sends=1, threads=1, questions=1, crashes=2),
    "never": Bounds(questions=1, policy=Policy.NEVER, withdrawals=1, holds=1),
    "letters": Bounds(questions=1, sends=1, threads=1, closes=1),
    "letter and question": Bounds(
        questions=1, voices=TEAM, nested=True, retry_budget=0,
        prelude=(*two_at_work(SQUAD, CODER), says(CODER, B, Deliver(LEAD, STATE, "mb2"), asks=(LATER,))),
    ),
    "dying question and broadcast": Bounds(
        voices=NOBODY, nested=True,
        prelude=(*dying_asker("Proxy"), says(CODER, B, asks=(Question("qb", "?qb"),)), HELD),
    ),
    "deaf": Bounds(sends=3, threads=1, questions=1, interrupts=1, deaf=True, voices=TASKS, prelude=AT_WORK),
    "two questions": Bounds(questions=2, sends=1, threads=1),
    "asserts": Bounds(questions=2, kinds=(Kind.ASSERT,), rulings=(Ruling.APPROVE,), transitions=1, policy=Policy.NEVER),
    "question and withdrawal": Bounds(questions=1, sends=1, threads=1, withdrawals=1),
    "interrupt and withdrawal": Bounds(questions=1, interrupts=1, withdrawals=1, steered=True),
    "subteam and withdrawals": Bounds(sends=2, threads=2, nested=True, withdrawals=2, closes=1),
    "broadcast and withdrawal": Bounds(
        voices=NOBODY, nested=True, crash_budget=1, prelude=broadcast(asks(SQUAD, B, "qb"), withdrawn(B), HELD)
    ),
    "failure dialog": Bounds(failures=2, pendings=1, observations=1, transitions=1, questions=1, kinds=(Kind.FAILURE,)),
}  # fmt: skip
"""For long runs."""
