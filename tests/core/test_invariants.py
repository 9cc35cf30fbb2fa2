"""The invariants are not empty words: each is broken by a soup made for it, and the report names the thread."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from parley.core.choices import CODER, SQUAD, Bounds
from parley.core.errors import Violated
from parley.core.invariants import INVARIANTS, LAWS, check, lawful, problems
from parley.core.rule import Answer, Reaction
from parley.core.rules import RULES, apply
from parley.core.soup import Soup
from parley.core.states import Record, State
from parley.core.terms import (
    ORCHESTRATOR,
    PROXY,
    Assertion,
    Charter,
    Deliver,
    Idle,
    Interrupt,
    Mailbox,
    Molecule,
    Parent,
    Ruling,
    Run,
    Send,
    Surface,
    Terminate,
    Verdict,
)
from tests.core.walks import opened
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
    "nobody_waits_for_the_dead": (changed(ASKING, [ASKING.need(Surface, "escalation:q")], []), "escalation:q"),
    "bus_durability": (changed(WORKING, [], [Charter("k", ())]), "charters"),
    "bounded_crash_loss": (changed(WORKING, [WORKING.need(Mailbox, B)], []), B),
    "audit_append_only": (changed(WORKING, [RECORD], [replace(RECORD, backtrack_count=1)]), "j"),
    "live_gates": (changed(WORKING, [], [Assertion("k", "INTENT.md", "q", "d")]), "k"),
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


def test_a_proxy_in_its_askers_workspace_is_a_problem() -> None:
    apart = ASKING.need(Surface, "escalation:q")
    soup = changed(ASKING, [apart], [replace(apart, workspace=JOB)])

    assert [problem for name, problem in problems(soup) if name == "sandbox_integrity"] == [
        f"escalation:q works in {JOB}, where its asker goes on"
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
                    Verdict("j", "", Ruling.APPROVE, "", "human", "q"),
                ),
            ),
        ),
    }
    answer = fire("respond", "q", choice=Answer("yes", PROXY))

    with pytest.raises(Violated, match="verdicts_come_from_answers"):
        lawful(ASKING, answer, apply(ASKING, answer, forged), forged)
