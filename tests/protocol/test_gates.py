"""A gate can't be talked past: forged, stale, voided and superseded approvals count for nothing."""

import pytest
from msgspec.structs import replace

from parley.protocol.errors import Refused
from parley.protocol.gates import refuse_assert
from parley.protocol.molecules import (
    HUMAN,
    ORCHESTRATOR,
    PROXY,
    AskHuman,
    Assertion,
    Deliver,
    Interrupt,
    Kind,
    Mailbox,
    Policy,
    Question,
    Record,
    Role,
    Ruling,
    Verdict,
)
from parley.protocol.rule import Answer, Asking, Enrolment, Firing, Passage
from parley.protocol.rules import apply
from parley.protocol.soup import Soup
from parley.protocol.states import Action, State
from parley.verify.exploration_menu import CODER, SQUAD, Bounds
from tests.explorer.scenarios import (
    AT_WORK,
    JOB,
    LEAD,
    STATE,
    A,
    B,
    Prelude,
    fire,
    led_back,
    open_question,
    says,
    two_at_work,
    withdrawn,
    woken,
)
from tests.protocol.walks import opened

BOUNDS = Bounds(nested=True, policy=Policy.NEVER)
INTENT = "intent"


def asserts(name: str, digest: str, artifact: str = INTENT) -> Prelude:
    question = Question(id=name, message=f"?{name}", kind=Kind.ASSERT, artifact=artifact, digest=digest)
    return fire("ask-step", LEAD, STATE, choice=Asking((question,))), fire("ask", LEAD, STATE)


def rules(name: str, ruling: Ruling | None, author: str = PROXY, words: tuple[str, ...] = ()) -> Firing:
    return fire("respond", name, choice=Answer(f"a{name}", author, ruling, words))


def passes(action: Action, *contents: tuple[str, str], actor: str = LEAD) -> Firing:
    return fire("transition", "j", choice=Passage(action, actor, contents=contents))


AGAIN = woken(LEAD, STATE)
APPROVED: Prelude = (*AT_WORK, *asserts("q", "d1"), rules("q", Ruling.APPROVE))


def at(*then: Firing, bounds: Bounds = BOUNDS) -> Soup:
    return opened(bounds, then)


def state(soup: Soup, record: str = "j") -> State:
    return soup.need(Record, record).state


def test_an_approval_of_the_very_content_opens_the_gate_and_is_spent() -> None:
    soup = apply(at(*APPROVED), passes(Action.APPROVED_INTENT, (INTENT, "d1")))

    record = soup.need(Record, "j")
    assert record.state is State.PLAN
    assert record.approved == ((INTENT, "d1"),)
    assert record.thread == "state:j/2"
    assert not soup.of(Verdict)
    assert not soup.of(Assertion)


def test_without_a_verdict_nothing_passes_but_what_the_human_may_do() -> None:
    soup = at(*AT_WORK)

    with pytest.raises(Refused, match="no live approval"):
        apply(soup, passes(Action.APPROVED_INTENT, (INTENT, "d1")))
    with pytest.raises(Refused, match="needs the verdict"):
        apply(soup, passes(Action.WITHDRAW))
    with pytest.raises(Refused, match="only WITHDRAW is theirs"):
        apply(soup, passes(Action.APPROVED_INTENT, (INTENT, "d1"), actor=HUMAN))
    assert state(apply(soup, passes(Action.WITHDRAW, actor=HUMAN))) is State.WITHDRAWN


def test_an_approval_in_the_humans_name_is_refused_before_the_human_spoke() -> None:
    with pytest.raises(Refused, match="said nothing"):
        at(*AT_WORK, *asserts("q", "d1"), rules("q", Ruling.APPROVE, author=HUMAN))


def test_the_proxy_may_not_turn_the_humans_verdict_round() -> None:
    heard = (
        *AT_WORK, *asserts("q", "d1"), fire("escalate", "q", choice="look"),
        fire("human-reply", "q", choice=Answer("no", HUMAN, Ruling.REVISE)),
    )  # fmt: skip
    soup = at(*heard, bounds=replace(BOUNDS, policy=Policy.ALWAYS))

    for ruling in (None, *Ruling):
        if ruling is not Ruling.REVISE:
            for author in (PROXY, HUMAN):
                with pytest.raises(Refused, match="no other verdict is passed on"):
                    apply(soup, rules("q", ruling, author, ("no",)))
    (verdict,) = apply(soup, rules("q", Ruling.REVISE, HUMAN, ("no",))).of(Verdict)
    assert (verdict.ruling, verdict.author, verdict.answer) == (Ruling.REVISE, HUMAN, "aq")


def heard(ruling: Ruling | None, policy: Policy = Policy.ALWAYS) -> Soup:
    """The human has replied to an assert in the message `no`."""
    reply = fire("human-reply", "q", choice=Answer("no", HUMAN, ruling))
    then = (*AT_WORK, *asserts("q", "d1"), fire("escalate", "q", choice="look"), reply)
    return at(*then, bounds=replace(BOUNDS, policy=policy))


@pytest.mark.parametrize("words", [(), ("other",), ("no", "other"), ("other", "no")])
@pytest.mark.parametrize("ruling", [None, Ruling.REVISE])
def test_an_answer_carries_what_the_human_said_and_nothing_else(ruling: Ruling | None, words: tuple[str, ...]) -> None:
    for author in (HUMAN, PROXY):
        with pytest.raises(Refused, match=r"carries all that the human said|this answer is the human's"):
            apply(heard(ruling), rules("q", ruling, author, words))
    assert apply(heard(ruling), rules("q", ruling, HUMAN, ("no",)))


def test_words_in_the_humans_name_are_refused_where_the_human_was_not_asked() -> None:
    with pytest.raises(Refused, match="nothing else in their name"):
        at(*AT_WORK, *asserts("q", "d1"), rules("q", Ruling.REVISE, PROXY, ("mine",)))


def test_a_verdict_that_the_human_gave_is_not_asked_again_and_wakes_no_proxy() -> None:
    soup = heard(Ruling.APPROVE)
    with pytest.raises(Refused, match="that is not asked again"):
        apply(soup, fire("escalate", "q", choice="sure?"))
    with pytest.raises(Refused, match="this answer is the human's"):
        apply(soup, rules("q", Ruling.APPROVE, PROXY, ("no",)))
    assert soup.need(Mailbox, "escalation:q").queue == ("?q",)


@pytest.mark.parametrize("policy", [Policy.WHEN_UNSURE, Policy.ALWAYS])
@pytest.mark.parametrize("ruling", Ruling)
def test_a_verdict_that_the_proxy_reads_in_words_is_its_own_or_the_humans_to_confirm(
    ruling: Ruling, policy: Policy
) -> None:
    soup = heard(None, policy)
    confirm = ruling is Ruling.WITHDRAW or (ruling is Ruling.APPROVE and policy is Policy.ALWAYS)
    if confirm:
        with pytest.raises(Refused, match="only the human"):
            apply(soup, rules("q", ruling, PROXY, ("no",)))
    else:
        (verdict,) = apply(soup, rules("q", ruling, PROXY, ("no",))).of(Verdict)
        assert (verdict.ruling, verdict.author) == (ruling, PROXY)
    with pytest.raises(Refused, match=r"only the human|this answer is the proxy's"):
        apply(soup, rules("q", ruling, HUMAN, ("no",)))


def test_what_was_said_before_the_human_confirmed_travels_with_the_verdict() -> None:
    asked = apply(heard(None), fire("escalate", "q", choice="approve?"))
    soup = apply(asked, fire("human-reply", "q", choice=Answer("yes", HUMAN, Ruling.APPROVE)))
    with pytest.raises(Refused, match="carries all that the human said"):
        apply(soup, rules("q", Ruling.APPROVE, HUMAN, ("yes",)))
    (verdict,) = apply(soup, rules("q", Ruling.APPROVE, HUMAN, ("no", "yes"))).of(Verdict)
    assert (verdict.ruling, verdict.author) == (Ruling.APPROVE, HUMAN)


@pytest.mark.parametrize("policy", [Policy.NEVER, Policy.WHEN_UNSURE])
def test_the_proxy_never_withdraws_by_itself(policy: Policy) -> None:
    with pytest.raises(Refused, match="only the human withdraws"):
        at(*AT_WORK, *asserts("q", "d1"), rules("q", Ruling.WITHDRAW), bounds=replace(BOUNDS, policy=policy))


@pytest.mark.parametrize("policy", Policy)
@pytest.mark.parametrize("briefed", [True, False])
def test_the_proxy_is_woken_before_the_human_is_asked_unless_that_is_switched_off(
    policy: Policy, briefed: bool
) -> None:
    soup = at(*AT_WORK, *asserts("q", "d1"), bounds=replace(BOUNDS, policy=policy, brief_human=briefed))
    woken_first = briefed or policy is not Policy.ALWAYS
    assert bool(soup.need(Mailbox, "escalation:q").queue) == woken_first
    if policy is not Policy.NEVER:
        assert apply(soup, fire("escalate", "q", choice="look")).of(AskHuman)


def test_changing_the_content_voids_its_approval() -> None:
    with pytest.raises(Refused, match="changed after it was approved"):
        apply(at(*APPROVED), passes(Action.APPROVED_INTENT, (INTENT, "d2")))
    with pytest.raises(Refused, match="changed after it was approved"):
        apply(at(*APPROVED), passes(Action.APPROVED_INTENT))


def test_a_later_verdict_supersedes_an_earlier_one() -> None:
    soup = at(*APPROVED, AGAIN, *asserts("r", "d1"), rules("r", Ruling.REVISE))

    assert [(v.ruling, v.question) for v in soup.of(Verdict)] == [(Ruling.REVISE, "r")]
    with pytest.raises(Refused, match="no live approval"):
        apply(soup, passes(Action.APPROVED_INTENT, (INTENT, "d1")))


def test_only_the_newest_assert_of_an_artifact_gets_a_verdict_that_counts() -> None:
    two = (
        Question(id="q", message="?q", kind=Kind.ASSERT, artifact=INTENT, digest="d1"),
        Question(id="r", message="?r", kind=Kind.ASSERT, artifact=INTENT, digest="d2"),
    )
    soup = at(
        *AT_WORK, fire("ask-step", LEAD, STATE, choice=Asking(two)), fire("ask", LEAD, STATE),
        rules("q", Ruling.APPROVE),
    )  # fmt: skip

    assert [a.question for a in soup.of(Assertion)] == ["r"]
    assert not soup.of(Verdict)
    assert [v.digest for v in apply(soup, rules("r", Ruling.APPROVE)).of(Verdict)] == ["d2"]


def test_words_are_no_verdict() -> None:
    assert not at(*AT_WORK, *asserts("q", "d1"), rules("q", None)).of(Verdict)


def test_an_assert_that_is_put_after_its_state_was_left_binds_nothing() -> None:
    ask, put = asserts("q", "d1")
    soup = at(*AT_WORK, ask, passes(Action.WITHDRAW, actor=HUMAN), put, rules("q", Ruling.APPROVE))

    assert not soup.of(Assertion)
    assert not soup.of(Verdict)


@pytest.mark.parametrize(
    "action, ruling", [(Action.WITHDRAW, Ruling.WITHDRAW), (Action.APPROVED_INTENT, Ruling.BACKTRACK_PLAN)]
)
def test_a_steering_verdict_opens_its_own_way_only(action: Action, ruling: Ruling) -> None:
    human = (fire("escalate", "r", choice="?"), fire("human-reply", "r", choice=Answer("so", HUMAN, ruling)))
    then = (*APPROVED, AGAIN, *asserts("r", "d1"), *human, rules("r", ruling, HUMAN, ("so",)))
    soup = at(*then, bounds=replace(BOUNDS, policy=Policy.WHEN_UNSURE))
    if action is Action.WITHDRAW:
        assert state(apply(soup, passes(action))) is State.WITHDRAWN
    else:
        with pytest.raises(Refused, match="no live approval"):
            apply(soup, passes(action, (INTENT, "d1")))


def test_an_outcome_with_an_own_question_open_is_refused_at_every_stage_of_it() -> None:
    question = fire("ask-step", LEAD, STATE, choice=Asking((Question("r", "?r"),)))
    asked = (*APPROVED, AGAIN, question)
    outcome = passes(Action.APPROVED_INTENT, (INTENT, "d1"))

    for then in (asked, (*asked, fire("ask", LEAD, STATE))):
        with pytest.raises(Refused, match="still open"):
            apply(at(*then), outcome)
    riding = (*APPROVED, AGAIN, says(LEAD, STATE, asks=(Question("r", "?r"),)))
    with pytest.raises(Refused, match="still open"):
        apply(at(*riding), outcome)
    answered = (*asked, fire("ask", LEAD, STATE), rules("r", None))
    assert state(apply(at(*answered), outcome)) is State.PLAN


@pytest.mark.parametrize("thread", [STATE, JOB])
def test_an_authoritative_intervention_is_taken_up_before_an_outcome_counts(thread: str) -> None:
    waiting = Interrupt(thread, "no", authoritative=True)
    outcome = passes(Action.APPROVED_INTENT, (INTENT, "d1"))

    with pytest.raises(Refused, match="authoritative intervention"):
        apply(at(*APPROVED, fire("intervene", thread, choice=waiting)), outcome)
    advisory = replace(waiting, authoritative=False)
    assert state(apply(at(*APPROVED, fire("intervene", thread, choice=advisory)), outcome)) is State.PLAN


def test_failure_is_the_orchestrators_and_only_when_the_budget_is_spent() -> None:
    failure = passes(Action.FAILURE, actor=ORCHESTRATOR)

    with pytest.raises(Refused, match="may still be retried"):
        apply(at(*AT_WORK), failure)
    spent = at(*AT_WORK, fire("strike", "j", choice="pending"))
    with pytest.raises(Refused, match="orchestrator's to emit"):
        apply(spent, passes(Action.FAILURE))
    assert state(apply(spent, failure)) is State.FAILURE
    assert state(apply(apply(spent, fire("dialog", "j")), failure)) is State.FAILURE


@pytest.mark.parametrize(
    "artifact, digest, why", [("plan", "d", "not an artifact of this state"), (INTENT, "", "does not exist")]
)
def test_only_what_exists_in_this_state_is_asserted(artifact: str, digest: str, why: str) -> None:
    with pytest.raises(Refused, match=why):
        at(*AT_WORK, *asserts("q", digest, artifact))


def test_an_outcome_outside_the_states_own_is_refused() -> None:
    with pytest.raises(Refused, match="not an outcome of INTENT; write one of: APPROVED_INTENT, WITHDRAW"):
        apply(at(*APPROVED), passes(Action.APPROVED_PLAN, (INTENT, "d1")))


def test_a_withdrawn_subteam_leaves_no_verdict_behind() -> None:
    question = Question(id="q", message="?q", kind=Kind.ASSERT, artifact=INTENT, digest="d1")
    soup = at(
        *two_at_work(SQUAD, SQUAD), fire("ask-step", SQUAD, A, choice=Asking((question,))), fire("ask", SQUAD, A),
        rules("q", Ruling.APPROVE), withdrawn(A),
    )  # fmt: skip
    assert [v.record for v in soup.of(Verdict)] == [A]

    ended = apply(soup, fire("term-record", A, choice=Passage(Action.WITHDRAW, ORCHESTRATOR)))
    assert state(ended, A) is State.WITHDRAWN
    assert not ended.of(Verdict)
    assert not ended.of(Assertion)


# ---- the plan that changes while it is carried out ------------------------------------------------

PLANNER, PLANNING, BELOW, PLAN = "project-lead", "state:j/2", "dispatch:x", "plan"
DEPUTY = "deputy"


def dispatched(agent: str, *more: Firing) -> Soup:
    """The lead of PLAN waits; somebody of this name, whom it has dispatched, runs."""
    return at(
        *APPROVED,
        fire("observe", "j", choice="it is approved"),
        passes(Action.APPROVED_INTENT, (INTENT, "d1")),
        woken(ORCHESTRATOR, JOB),
        says(ORCHESTRATOR, JOB, Deliver(PLANNER, PLANNING, "begin 2")),
        fire("spark", ORCHESTRATOR, JOB),
        fire("send-empty", ORCHESTRATOR, JOB),
        fire("enrol", PLANNER, PLANNING, choice=Enrolment((Role(agent, asserts=(PLAN,) if agent == DEPUTY else ()),))),
        woken(PLANNER, PLANNING),
        says(PLANNER, PLANNING, Deliver(agent, BELOW, "run it")),
        fire("spark", PLANNER, PLANNING),
        fire("send-empty", PLANNER, PLANNING),
        woken(agent, BELOW),
        *more,
    )


def asserted(agent: str, artifact: str = PLAN) -> Prelude:
    question = Question(id="x", message="?x", kind=Kind.ASSERT, artifact=artifact, digest="d2+b")
    return fire("ask-step", agent, BELOW, choice=Asking((question,))), fire("ask", agent, BELOW)


def test_a_deputy_below_a_lead_asserts_what_its_role_says_and_the_verdict_on_it_counts() -> None:
    soup = dispatched(DEPUTY, *asserted(DEPUTY), rules("x", Ruling.APPROVE))

    assert soup.of(Verdict) == (
        Verdict(
            record="j", artifact=PLAN, ruling=Ruling.APPROVE, digest="d2+b", author=PROXY, question="x", answer="ax"
        ),
    )
    moved = apply(soup, passes(Action.APPROVED_PLAN, (INTENT, "d1"), (PLAN, "d2+b"), actor=PLANNER))
    assert state(moved) is State.EXECUTE


@pytest.mark.parametrize("agent, artifact", [(DEPUTY, INTENT), ("coder-2", PLAN)])
def test_no_other_agent_asserts_and_a_deputy_nothing_else(agent: str, artifact: str) -> None:
    with pytest.raises(Refused, match="only the lead"):
        dispatched(agent, *asserted(agent, artifact))


def test_a_deputy_that_another_than_the_lead_has_dispatched_asserts_nothing() -> None:
    soup = dispatched(DEPUTY)
    record = soup.need(Record, "j")
    moved = soup.after((record,), (replace(record, thread="state:j/9"),))

    with pytest.raises(Refused, match="only the lead"):
        refuse_assert(
            moved,
            moved.need(Record, "j"),
            BELOW,
            Question(id="y", message="?", kind=Kind.ASSERT, artifact=PLAN, digest="d3"),
        )


# ---- giving up, and ways back ----------------------------------------------------------------------


def answered_by_human(name: str, ruling: Ruling) -> Prelude:
    """The human has answered a question that stands open, and their verdict was passed on."""
    return (
        fire("escalate", name, choice="look"),
        fire("human-reply", name, choice=Answer(f"h{name}", HUMAN, ruling)),
        rules(name, ruling, HUMAN, (f"h{name}",)),
    )


UNSURE = replace(BOUNDS, policy=Policy.WHEN_UNSURE)
REPORT = Deliver(LEAD, STATE, "done")
GIVEN_UP: Prelude = (
    *two_at_work(SQUAD, CODER), *open_question(CODER, B, "q", "Proxy"),
    *answered_by_human("q", Ruling.WITHDRAW),
)  # fmt: skip


def test_whoever_asked_a_withdrawal_is_the_jobs_and_nothing_else_moves_it() -> None:
    soup = at(*GIVEN_UP, bounds=UNSURE)
    (verdict,) = soup.of(Verdict)
    assert (verdict.record, verdict.ruling, verdict.author, verdict.told) == ("j", Ruling.WITHDRAW, HUMAN, True)
    for action, actor in ((Action.APPROVED_INTENT, LEAD), (Action.FAILURE, ORCHESTRATOR)):
        with pytest.raises(Refused, match="the human has given the job up"):
            apply(soup, passes(action, actor=actor))
    for actor in (LEAD, ORCHESTRATOR, HUMAN):
        assert state(apply(soup, passes(Action.WITHDRAW, actor=actor))) is State.WITHDRAWN


def test_no_later_verdict_overtakes_a_withdrawal() -> None:
    told = (*two_at_work(SQUAD, CODER), *open_question(SQUAD, A, "q", "Proxy"), says(CODER, B, REPORT))
    asked = (*told, fire("send", CODER, B), AGAIN, *asserts("r", "d1"))
    soup = at(*asked, *answered_by_human("q", Ruling.WITHDRAW), rules("r", Ruling.APPROVE), bounds=UNSURE)
    assert [verdict.ruling for verdict in soup.of(Verdict)] == [Ruling.WITHDRAW]


def test_a_subteam_is_given_up_only_with_the_humans_word() -> None:
    gives_up = fire("transition", A, choice=Passage(Action.WITHDRAW, SQUAD))
    with pytest.raises(Refused, match="needs the verdict 'withdraw'"):
        apply(at(*two_at_work(SQUAD, CODER)), gives_up)
    assert state(apply(at(*GIVEN_UP, bounds=UNSURE), gives_up), A) is State.WITHDRAWN


def test_a_way_back_counts_for_the_record_around_its_asker_and_its_lead_is_told() -> None:
    soup = at(*led_back(), bounds=UNSURE)
    (verdict,) = soup.of(Verdict)
    assert (verdict.record, verdict.told) == (A, False)
    told = apply(soup, fire("relay", A, "qc", choice="back too"))
    assert [v.told for v in told.of(Verdict)] == [True]
    assert told.need(Mailbox, A).queue == ("back too",)


def test_a_way_back_that_the_state_does_not_have_is_words() -> None:
    asked = (*two_at_work(SQUAD, CODER), *open_question(CODER, B, "q", "Proxy"))
    assert not at(*asked, rules("q", Ruling.BACKTRACK_INTENT), bounds=UNSURE).of(Verdict)
