"""What is explored: how often each kind of choice may be made, and a menu that offers every kind.

The rules leave open what agents, humans and crashes choose. What winds a job down (reading mail, ending a
turn without a word, answering, terminating) is never bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import cast

import msgspec
from msgspec.structs import replace

from parley.protocol.conversation import fresh
from parley.protocol.gates import JOIN
from parley.protocol.molecules import (
    EVERYDAY,
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    Charter,
    Close,
    Deliver,
    Interrupt,
    Kind,
    MessageKind,
    Molecule,
    Origin,
    Payload,
    Phase,
    Policy,
    Proxy,
    Question,
    Record,
    Role,
    Ruling,
    Run,
    Surface,
    Verdict,
    dispatch_thread,
    job_thread,
    thread_kind,
)
from parley.protocol.rule import Answer, Asking, Broadcast, Choice, Ending, Enrolment, Firing, Opening, Passage
from parley.protocol.rules import anything
from parley.protocol.soup import Soup
from parley.protocol.states import LIVE, TRANSITIONS, Action, State

CODER, SQUAD = "coder", "squad"  # a doer, and a subteam's lead: a role with a team of its own
HELPER = "helper"  # a role that no job is opened with
LEADS = ("intent-lead", "project-lead", "project-lead")
ARTIFACTS = ("intent", "plan", "work")  # what the live states produce
TASK_ALONE = (MessageKind.TASK, MessageKind.NOTICE)


def phases(policy: Policy = Policy.ALWAYS) -> tuple[Phase, Phase, Phase]:
    """The live states of an explored job, all of one policy."""
    intent, plan, work = (Phase(lead, artifact, policy) for lead, artifact in zip(LEADS, ARTIFACTS, strict=True))
    return intent, plan, work


class Bounds(msgspec.Struct, frozen=True):
    """How often each kind of choice may be made, and what there is to choose from."""

    sends: int = 0  # letters, those that open a state's thread not counted
    threads: int = 0  # dispatches, among the letters
    closes: int = 0
    questions: int = 0
    escalations: int = 0  # that the proxy asks the human once more, after a reply
    interrupts: int = 0
    withdrawals: int = 0  # the job's own, once its record has ended, not counted
    crashes: int = 0
    holds: int = 0
    transitions: int = 0
    failures: int = 0  # strikes and dialogs
    pendings: int = 0
    observations: int = 0  # outcome records that leads leave
    merges: int = 0
    enrolments: int = 0
    silences: int = 0  # broadcasts of nothing
    policy: Policy = Policy.WHEN_UNSURE
    rulings: tuple[Ruling, ...] = ()
    kinds: tuple[Kind, ...] = (Kind.QUESTION,)
    several: bool = False  # two payloads, or two questions, in one turn
    nested: bool = False  # there is a subteam to dispatch
    parked: bool = False  # holds also of single instances
    steered: bool = False  # interrupts also for the turn boundary, advisory and authoritative
    deaf: bool = False  # the coder takes its task, and nothing else that an agent or a human might send
    fan_out: int = 2
    crash_budget: int = 2
    retry_budget: int = 1
    brief_human: bool = True  # whether the proxy has a turn before a human who is always asked
    accompanied: bool = False  # plans come with and without a companion, and are approved only with one
    backtracks: int = 5
    repeats: int = 10
    exchanges: int = 40
    same: bool = False  # every plain question asks the same
    changing: bool = False  # turns that change their files too
    voices: frozenset[str] | None = None  # who sends and asks; the others end their turns without a word
    prelude: tuple[Firing, ...] = ()  # what happens after [open] and before anything is left open

    @property
    def opening(self) -> Opening:
        """What the explored job is opened with."""
        leads = frozenset(LEADS)
        doers = frozenset({CODER, SQUAD} if self.nested else {CODER})
        roles = [
            Role(ORCHESTRATOR, leads),
            Role(PROXY, tools=("Answer", "AskHuman")),
            *(Role(lead, doers) for lead in sorted(leads)),
            Role(CODER, messages=TASK_ALONE if self.deaf else EVERYDAY),
        ]
        if self.nested:
            roles.append(Role(SQUAD, frozenset({CODER})))
        charter = Charter(
            "j",
            tuple(roles),
            phases(self.policy),
            fan_out=self.fan_out,
            crash_budget=self.crash_budget,
            retry_budget=self.retry_budget,
            brief_human=self.brief_human,
            companions=ARTIFACTS[1:2] if self.accompanied else (),
            backtracks=self.backtracks,
            repeats=self.repeats,
            exchanges=self.exchanges,
        )
        return Opening(charter, "request")


COUNTED = (
    "sends", "threads", "closes", "questions", "escalations", "interrupts", "withdrawals", "crashes", "holds",
    "transitions", "failures", "pendings", "observations", "merges", "enrolments", "silences",
)  # fmt: skip
Spent = tuple[int, ...]
NOTHING: Spent = (0,) * len(COUNTED)
PLACE = {name: place for place, name in enumerate(COUNTED)}


# ---- what may be chosen --------------------------------------------------------------------------


class Choices:
    """A menu for the rules at one point of the search: ids are numbered by what was spent before."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.limits: Spent = tuple(getattr(bounds, name) for name in COUNTED)
        self.spent = NOTHING

    def number(self, name: str) -> int:
        """The number of the next choice of a kind."""
        return self.spent[PLACE[name]] + 1

    def left(self, name: str) -> int:
        """How many choices of a kind are left."""
        return self.limits[PLACE[name]] - self.spent[PLACE[name]]

    def pay(self, soup: Soup, firing: Firing) -> Spent | None:
        """What is spent after the firing, or nothing if it is beyond the bounds."""
        if firing.rule in FREE:
            return self.spent
        price = _price(soup, firing)
        if not price:
            return self.spent
        spent = list(self.spent)
        for name in price:
            spent[PLACE[name]] += 1
        return None if any(s > limit for s, limit in zip(spent, self.limits, strict=True)) else tuple(spent)

    def __call__(self, rule: str, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """Offer what may be chosen for a rule at a molecule."""
        offer = OFFERS.get(rule)
        return offer(self, soup, molecule) if offer is not None else iter((None,))

    # ---- a turn ------------------------------------------------------------------------------

    def broadcasts(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """What a turn may send: one payload of each kind, some pairs, with and without a question."""
        run = cast("Run", molecule)
        if self.bounds.voices is not None and run.agent not in self.bounds.voices:
            return
        yield Broadcast(())
        singles = list(self._payloads(soup, run, 0))
        for payload in singles:
            yield Broadcast((payload,))
            if self.bounds.changing:
                yield Broadcast((payload,), progress=True)
        if self.bounds.several:
            for payload in singles:
                for second in self._payloads(soup, run, isinstance(payload, Deliver)):
                    yield Broadcast((payload, second))
        if self.left("questions") and run.agent != ORCHESTRATOR:
            for payload in singles:
                for questions in self._questions(soup, run):
                    yield Broadcast((payload,), questions)

    def _payloads(self, soup: Soup, run: Run, earlier: int) -> Iterator[Payload]:
        message = f"m{self.number('sends') + earlier}"
        record = soup.need(Record, soup.charter.job)
        if run.agent == ORCHESTRATOR and record.live and soup.get(Surface, record.thread) is None:
            yield Deliver(record.actor, record.thread, f"begin {record.visit}")
        parent = soup.parent(run.thread)
        above = soup.get(Surface, parent) if parent is not None else None
        if above is not None and self.left("sends"):
            yield Deliver(above.agent, above.thread, message)
        for child in soup.children(run.thread):
            if thread_kind(child) == "escalation":
                continue
            if self.left("sends"):
                there = soup.get(Surface, child)
                yield Deliver(there.agent if there else CODER, child, message)
            if self.left("closes"):
                yield Close(child)
        team = soup.need(Surface, run.thread, run.agent).team & {CODER, SQUAD, HELPER}
        if self.left("threads") > earlier:
            for agent in sorted(team):
                yield Deliver(agent, dispatch_thread(str(self.number("threads") + earlier)), message)

    def _questions(self, soup: Soup, run: Run) -> Iterator[tuple[Question, ...]]:
        number = self.number("questions")
        first = [
            question
            for kind in self.bounds.kinds
            for question in self._versions(self._question(soup, run, kind, number))
        ]
        yield from ((question,) for question in first)
        if self.bounds.several:
            second = (self._question(soup, run, kind, number + 1) for kind in self.bounds.kinds)
            yield from ((one, other) for other in second for one in first)

    def _versions(self, question: Question) -> tuple[Question, ...]:
        """A question; where companions matter, about a plan with one, too."""
        if not self.bounds.accompanied or question.artifact != ARTIFACTS[1]:
            return (question,)
        return question, replace(question, digest=f"{question.digest}{JOIN}w")

    def _question(self, soup: Soup, run: Run, kind: Kind, number: int) -> Question:
        if kind is not Kind.ASSERT:
            return Question(f"q{number}", f"?{number}", kind, key="same" if self.bounds.same else f"k{number}")
        state = soup.need(Record, soup.charter.job).state
        artifact = soup.charter.phase(state if state in LIVE else LIVE[0]).artifact
        return Question(id=f"q{number}", message=f"?{number}", kind=kind, artifact=artifact, digest=f"d{number}")

    def askings(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """What a turn may ask."""
        run = cast("Run", molecule)
        heard = self.bounds.voices is None or run.agent in self.bounds.voices
        if self.left("questions") and heard:
            for questions in self._questions(soup, run):
                yield Asking(questions)

    # ---- the proxy and the human -------------------------------------------------------------

    def replies(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """What the human may say."""
        asked = cast("AskHuman", molecule)
        for ruling in (None, *self.bounds.rulings):
            yield Answer(f"h{asked.id}{len(asked.words) or ''}", HUMAN, ruling)

    def answers(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """What may be answered, in whose name, with whose words; the rules choose which may pass."""
        proxy = cast("Proxy", molecule)
        for ruling in (None, *self.bounds.rulings):
            for author in (PROXY, HUMAN):
                yield Answer(f"a{proxy.id}", author, ruling, proxy.words)
            if proxy.words:
                yield Answer(f"a{proxy.id}", HUMAN, ruling)

    def relays(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """How a lead hears of a verdict that was given to another."""
        yield f"relayed {cast('Verdict', molecule).question}"

    # ---- from outside ------------------------------------------------------------------------

    def redirections(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """Interrupts of every kind."""
        thread = cast("Surface", molecule).thread
        if self.left("interrupts"):
            message = f"i{self.number('interrupts')}"
            yield Interrupt(thread, message, now=True)
            if self.bounds.steered:
                yield Interrupt(thread, message)
                yield Interrupt(thread, message, authoritative=True)

    def endings(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """A withdrawal of any thread; of the job's own when it is over."""
        thread = cast("Surface", molecule).thread
        if thread == job_thread(soup.charter.job):
            yield Ending(Origin.END)
            yield Ending(Origin.WITHDRAWAL)
        elif self.left("withdrawals"):
            yield Ending(Origin.WITHDRAWAL, f"gone {thread}")

    def holds(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """A pause of the job, and a limit that parks one instance."""
        thread = cast("Surface", molecule).thread
        if thread == job_thread(soup.charter.job):
            yield "pause"
        elif self.bounds.parked and thread_kind(thread) != "escalation":
            yield "limit"

    def enrolments(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """A role that is new, and one that the job has."""
        if self.left("enrolments"):
            yield Enrolment((Role(HELPER),))
            yield Enrolment((Role(CODER), Role(HELPER, frozenset({CODER}))))

    def passages(self, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        """Every action, by the lead on each content it might have, by the orchestrator, by the human."""
        record = cast("Record", molecule)
        if not self.left("transitions"):
            return
        yield Passage(Action.WITHDRAW, HUMAN)
        yield Passage(Action.FAILURE, ORCHESTRATOR)
        artifact = (soup.charter.phase(record.state).artifact,) if record.live else ()
        for number in range(self.number("questions") + 1):
            plans = ("", f"{JOIN}w") if self.bounds.accompanied and record.state is State.PLAN else ("",)
            for more in plans:
                contents = (*record.approved, *((name, f"d{number}{more}") for name in artifact))
                for action in TRANSITIONS[record.state]:
                    if action is not Action.FAILURE:
                        yield Passage(action, record.actor, contents=contents)


Offer = Callable[[Choices, Soup, Molecule | None], Iterator[Choice]]


def _always(*offered: Choice) -> Offer:
    def offer(choices: Choices, soup: Soup, molecule: Molecule | None) -> Iterator[Choice]:
        return iter(offered)

    return offer


OFFERS: dict[str, Offer] = {
    "open": _always(),
    "send-step": Choices.broadcasts,
    "ask-step": Choices.askings,
    "human-reply": Choices.replies,
    "respond": Choices.answers,
    "intervene": Choices.redirections,
    "withdraw": Choices.endings,
    "transition": Choices.passages,
    "term-record": _always(*(Passage(action, ORCHESTRATOR) for action in Action)),
    "wake": _always("turn"),
    "wake-int": _always("turn"),
    "interrupt": _always("turn"),
    "escalate": _always("framed"),
    "relay": Choices.relays,
    "dead-letter": _always("dead letter"),
    "give-up": _always("failed"),
    "pending": _always("pending"),
    "observe": _always("outcome"),
    "merge": _always("merge"),
    "enrol": Choices.enrolments,
    "hold": Choices.holds,
    "recover": _always("engine", "agent"),
    "strike": _always("pending", "violation"),
}

FREE = frozenset(
    {
        "open", "send", "spark", "dead-letter", "send-terminate", "send-empty", "send-ask", "wake", "wake-int",
        "interrupt", "nosend-step", "ask", "human-reply", "respond", "relay", "release", "cascade", "term-run",
        "term-idle", "term-mbox", "term-send", "term-ask", "term-proxy", "term-human", "term-interrupt", "term-record",
        "term-again", "term-final",
    }
)  # fmt: skip
"""The rules that carry on what was begun; with the first question to the human, they are never bounded."""

ONE_EACH = {
    "intervene": ("interrupts",),
    "recover": ("crashes",),
    "give-up": ("crashes",),
    "hold": ("holds",),
    "transition": ("transitions",),
    "strike": ("failures",),
    "dialog": ("failures",),
    "pending": ("pendings",),
    "observe": ("observations",),
    "merge": ("merges",),
    "enrol": ("enrolments",),
}


def _price(soup: Soup, firing: Firing) -> tuple[str, ...]:
    """What a firing uses up of the bounds, once for each name."""
    choice = firing.choice
    if isinstance(choice, Broadcast):
        letters = [payload for payload in choice.payloads if isinstance(payload, Deliver)]
        opened = {letter.thread for letter in letters if fresh(soup, letter.thread)}
        free = sum(thread_kind(thread) == "state" for thread in opened)
        new = len(opened) - free
        closes = sum(isinstance(p, Close) for p in choice.payloads)
        return (
            *(("silences",) if not choice.payloads else ()),
            *("sends",) * (len(choice.payloads) - closes - free),
            *("threads",) * new,
            *("closes",) * closes,
            *("questions",) * len(choice.questions),
        )
    if isinstance(choice, Asking):
        return ("questions",) * len(choice.questions)
    if isinstance(choice, Ending):
        own = firing.at[0] == job_thread(soup.charter.job)
        return ("withdrawals",) if choice.origin is Origin.WITHDRAWAL and not own else ()
    if firing.rule == "escalate":
        heard = any(proxy.heard for proxy in soup.all(Proxy, f"escalation:{firing.at[0]}"))
        return ("escalations",) if heard else ()
    return ONE_EACH.get(firing.rule, ())


def plain(rule: str, soup: Soup, molecule: Molecule | None) -> Iterable[Choice]:
    """The plainest choice for each rule, to see whether it is enabled at all."""
    if rule == "transition":
        return (Passage(Action.WITHDRAW, HUMAN),)
    if rule == "term-record":
        return tuple(Passage(action, ORCHESTRATOR) for action in Action)
    return anything(rule, soup, molecule)
