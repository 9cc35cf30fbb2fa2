"""The invariants are not empty words: each is broken by a soup made for it, and the report names the thread."""

from collections.abc import Iterable
from typing import Any

import pytest
from msgspec.structs import replace

from parley.audit import audit
from parley.protocol.errors import Violated
from parley.protocol.molecules import (
    ORCHESTRATOR,
    PROXY,
    Assertion,
    Charter,
    Crashed,
    Deliver,
    Entry,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    Molecule,
    Parent,
    Record,
    Ruling,
    Run,
    Send,
    Surface,
    Terminate,
    Verdict,
)
from parley.protocol.rule import Answer, Firing, Reaction, RuleSet
from parley.protocol.rules import RULES, apply
from parley.protocol.soup import Soup
from parley.protocol.states import Action, State
from parley.verify.exploration_menu import CODER, SQUAD, Bounds, phases
from parley.verify.invariants import ELSEWHERE, INVARIANTS, LAWS, check, lawful, problems
from simulator import survival
from tests.explorer.scenarios import (
    AT_WORK,
    JOB,
    LEAD,
    STATE,
    A,
    B,
    fire,
    gone,
    open_question,
    two_at_work,
    woken,
)
from tests.protocol.walks import opened

BOUNDS = Bounds(nested=True)
WORKING = opened(BOUNDS, two_at_work(SQUAD, CODER))
ASKING = opened(BOUNDS, (*AT_WORK, *open_question(LEAD, STATE, "q", "Proxy")))
BURIED = opened(BOUNDS, (*two_at_work(CODER, SQUAD), *gone(CODER, A)))
RECORD = WORKING.need(Record, "j")
SURFACE = WORKING.need(Surface, B)


def changed(soup: Soup, out: Iterable[Molecule], into: Iterable[Molecule]) -> Soup:
    return soup.after(tuple(out), tuple(into))


BROKEN: dict[str, tuple[Soup, str]] = {
    "deterministic_transitions": (changed(WORKING, [RECORD], [replace(RECORD, state=State.PLAN)]), "j"),
    "termination_guaranteed": (changed(WORKING, [RECORD], [replace(RECORD, pendings=9)]), "j"),
    "single_instance": (changed(WORKING, [], [Idle(CODER, B)]), B),
    "tree_shape": (changed(WORKING, [], [Parent(B, JOB)]), B),
    "fan_out_cap": (
        changed(WORKING, [WORKING.charter], [replace(WORKING.charter, fan_out=1)]), STATE,
    ),
    "spark_exclusivity": (changed(WORKING, [SURFACE], [replace(SURFACE, tools=())]), B),
    "routing_locality": (
        changed(WORKING, [WORKING.need(Run, B)], [Send(CODER, B, (Deliver(SQUAD, A, "x"),))]), A,
    ),
    "sends_get_out": (
        changed(WORKING, [WORKING.need(Run, B)], [Send(CODER, B, (Deliver(SQUAD, "dispatch:z", "x"),))]), B,
    ),
    "sandbox_integrity": (changed(WORKING, [SURFACE], [replace(SURFACE, workspace=A)]), B),
    "escalation_reaches_respond": (changed(ASKING, [ASKING.need(Mailbox, STATE)], []), STATE),
    "cascade_completeness": (changed(WORKING, [], [Terminate("dispatch:z"), Idle("x", "dispatch:z")]), "dispatch:z"),
    "the_dead_stay_dead": (changed(BURIED, [], [Interrupt(A, "x")]), A),
    "no_instance_waits_for_the_dead": (changed(ASKING, [ASKING.need(Surface, "escalation:q")], []), "escalation:q"),
    "bus_durability": (changed(WORKING, [], [Charter("k", (), phases())]), "charters"),
    "bounded_crash_loss": (changed(WORKING, [WORKING.need(Mailbox, B)], []), B),
    "audit_append_only": (changed(WORKING, [RECORD], [replace(RECORD, backtrack_count=1)]), "j"),
    "live_gates": (changed(WORKING, [], [Assertion("k", "intent", "q", "d")]), "k"),
}  # fmt: skip

# A cascade that can't end is a matter of the rules, not of the soup: here one of them is missing.
HALF = {**RULES, "term-idle": replace(RULES["term-idle"], react=RULES["term-run"].react)}


@pytest.mark.parametrize("name", BROKEN)
def test_each_invariant_can_be_broken_and_says_where(name: str) -> None:
    soup, where = BROKEN[name]
    rules = HALF if name == "cascade_completeness" else RULES
    found = [problem for broken, problem in problems(soup, rules) if broken == name]

    assert any(where in problem for problem in found), found
    with pytest.raises(Violated):
        check(soup, rules)


def test_every_invariant_is_broken_here_and_every_one_and_every_law_is_explained() -> None:
    assert BROKEN.keys() == INVARIANTS.keys()
    for function in (*INVARIANTS.values(), *LAWS.values()):
        assert function.__doc__
        assert function.__doc__.endswith(".")


def surface_of(thread: str, workspace: str) -> Soup:
    there = WORKING.need(Surface, thread)
    return changed(WORKING, [there], [replace(there, workspace=workspace)])


def record_with(**fields: Any) -> Soup:
    return changed(WORKING, [RECORD], [replace(RECORD, **fields)])


PASSED = {
    "state": State.PLAN,
    "visit": 2,
    "actor": "project-lead",
    "thread": "state:j/2",
    "history": (Entry(State.INTENT, Action.APPROVED_INTENT, "intent-lead", 0.0),),
}
"""A record that has left INTENT by an approval, and shows none."""

MORE: list[tuple[str, Soup, str]] = [
    ("sandbox_integrity", surface_of(B, JOB), f"{B} works in {JOB}, and not in {B}"),
    ("sandbox_integrity", surface_of(B, ""), f"{B} works in no workspace"),
    ("sandbox_integrity", surface_of(STATE, STATE), f"{STATE} works in {STATE}, and not in {JOB}"),
    ("sandbox_integrity", surface_of(JOB, STATE), f"{JOB} works in {STATE}"),
    ("bus_durability", changed(WORKING, [], [Hold(JOB, "\ud800")]), "is not read as it was written"),
    ("bus_durability", changed(WORKING, [], [Crashed(CODER, B, True)]), "is not read as it was written"),
    ("audit_append_only", record_with(circled=1), "the counts of j"),
    ("audit_append_only", record_with(visit=2), "the counts of j"),
    ("audit_append_only", record_with(actor="eve"), "j is led by eve"),
    ("audit_append_only", record_with(thread="state:j/7"), "on state:j/7"),
    ("audit_append_only", record_with(approved=(("plan", "d"),)), "plan stands approved in j"),
    ("audit_append_only", record_with(**PASSED), "intent was approved in j, and does not stand approved"),
]


@pytest.mark.parametrize("name, soup, what", MORE, ids=[f"{name}-{number}" for number, (name, *_) in enumerate(MORE)])
def test_these_invariants_check_all_that_their_names_say(name: str, soup: Soup, what: str) -> None:
    assert [problem for broken, problem in problems(soup) if broken == name and what in problem]


def recovering(*more: Molecule, queue: tuple[str, ...] | None = None) -> RuleSet:
    """A crash that takes more than its turn, or leaves other mail than there was."""

    def react(soup: Soup, firing: Firing) -> Reaction:
        back = RULES["recover"].react(soup, firing)
        boxes = (replace(m, queue=queue) if isinstance(m, Mailbox) and queue is not None else m for m in back.produced)
        return Reaction((*back.consumed, *more), tuple(boxes))

    return {**RULES, "recover": replace(RULES["recover"], react=react)}


@pytest.mark.parametrize("lost", [WORKING.need(Parent, A), SURFACE, RECORD, WORKING.need(Mailbox, STATE)])
def test_what_a_crash_takes_along_is_found(lost: Molecule) -> None:
    found = [problem for name, problem in problems(WORKING, recovering(lost)) if name == "bus_durability"]
    assert any(f"{lost.brief()} is lost when the turn of" in problem for problem in found)


def test_mail_that_a_crash_takes_along_is_found() -> None:
    box = WORKING.need(Mailbox, B)
    waiting = changed(WORKING, [box], [box.grown("m7")])
    for queue in (("mb",), ("mb", "m8"), ("m7", "mb")):
        found = [problem for name, problem in problems(waiting, recovering(queue=queue)) if name == "bus_durability"]
        assert any(f"Mailbox {CODER} {B}" in problem for problem in found)
    assert list(problems(waiting)) == []


def test_what_is_checked_elsewhere_too_is_checked_there_under_its_name() -> None:
    assert ELSEWHERE.keys() == {"sandbox_integrity", "bus_durability", "audit_append_only"} <= INVARIANTS.keys()
    for name, where in ELSEWHERE.items():
        assert ("as a law" in where) == (name in LAWS)
        assert ("by the audit" in where) == hasattr(audit, name)
        assert ("by the simulator" in where) == hasattr(survival, name)


def test_a_proxy_in_its_askers_workspace_is_a_problem() -> None:
    apart = ASKING.need(Surface, "escalation:q")
    soup = changed(ASKING, [apart], [replace(apart, workspace=JOB)])

    assert [problem for name, problem in problems(soup) if name == "sandbox_integrity"] == [
        f"escalation:q works in {JOB}, and not in escalation:q"
    ]


@pytest.mark.parametrize("soup", [Soup(), opened(BOUNDS), WORKING, ASKING, BURIED], ids=range(5))
def test_a_sound_soup_has_no_problems(soup: Soup) -> None:
    assert list(problems(soup)) == []


def test_a_violation_names_the_invariant_first() -> None:
    with pytest.raises(Violated, match=r"^single_instance: coder has 2 instances on dispatch:b$"):
        check(BROKEN["single_instance"][0])


def test_a_tree_may_not_close_on_itself() -> None:
    edge = WORKING.need(Parent, STATE)
    ring = changed(WORKING, [edge], [Parent(STATE, B)])

    assert any(name == "tree_shape" and "ancestor" in problem for name, problem in problems(ring))


def test_a_step_that_did_something_else_than_its_rule_is_unlawful() -> None:
    before = opened(BOUNDS)
    after = apply(before, woken(ORCHESTRATOR, JOB))

    lawful(before, woken(ORCHESTRATOR, JOB), after)
    with pytest.raises(Violated, match=r"\[wake\] at orchestrator, job:j does something else"):
        lawful(before, woken(ORCHESTRATOR, JOB), after.after((), (Idle("x", "y"),)))
    with pytest.raises(Violated, match=r"\[wake\] at orchestrator, job:j is not enabled"):
        lawful(after, woken(ORCHESTRATOR, JOB), after)


def test_a_verdict_on_a_proxys_own_word_is_no_humans() -> None:
    forged = {
        **RULES,
        "respond": replace(
            RULES["respond"],
            react=lambda soup, firing: Reaction(
                RULES["respond"].react(soup, firing).consumed,
                (
                    *RULES["respond"].react(soup, firing).produced,
                    Verdict(record="j", artifact="", ruling=Ruling.APPROVE, digest="", author="human", question="q"),
                ),
            ),
        ),
    }
    answer = fire("respond", "q", choice=Answer("yes", PROXY))

    with pytest.raises(Violated, match="verdicts_come_from_answers"):
        lawful(ASKING, answer, apply(ASKING, answer, forged), forged)
