"""Every soup within the scenarios' bounds keeps every promise; every rule fires, every pair of rules meets."""

import gc
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from msgspec.structs import replace

from parley.protocol.molecules import Policy
from parley.protocol.rules import RULES
from parley.verify.exploration_menu import COUNTED, Bounds
from parley.verify.explorer import WINDING, Atlas, explore
from parley.verify.notation import Witness
from tests.explorer.scenarios import AT_WORK, LEAD, SCENARIOS, WIDER

LEAST_SOUPS = 100_000

STIRRING = {
    "send", "spark", "send-terminate", "send-empty", "send-ask", "dead-letter", "wake", "send-step", "nosend-step",
    "ask-step", "ask", "escalate", "human-reply", "respond", "interrupt", "wake-int", "cascade", "recover",
    "give-up", *(name for name in RULES if name.startswith("term-")),
}  # fmt: skip

NEVER_TOGETHER: list[tuple[set[str], set[str], str]] = [
    ({"open"}, set(RULES), "a job opens in an empty soup, where there is nothing for another rule"),
    ({"pending"}, STIRRING, "each needs a Run, Send, question, Interrupt, Terminate or mail; pending needs none"),
    ({"release"}, {"pending"}, "release needs a Hold, which disables it"),
]


def possible_pairs() -> set[tuple[str, str]]:
    """All pairs of rules but those that can't be enabled in one soup."""
    return {
        pair
        for pair in combinations(RULES, 2)
        if not any(
            (pair[0] in some and pair[1] in others) or (pair[1] in some and pair[0] in others)
            for some, others, _ in NEVER_TOGETHER
        )
    }


@pytest.fixture
def without_collection() -> Iterator[None]:
    """The search makes millions of small objects and no cycles; looking for those takes a third of its time."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.timeout(1200)
@pytest.mark.usefixtures("without_collection")
def test_every_soup_keeps_every_promise_and_every_rule_meets_every_other() -> None:
    atlas, witness = Atlas(), Witness()
    rules = witness.watch(RULES)
    reports = {name: explore(bounds, rules, atlas) for name, bounds in SCENARIOS.items()}
    findings = [f"{name}: {report.finding}" for name, report in reports.items() if report.finding]
    met = {pair for report in reports.values() for pair in report.met}

    assert findings == []
    assert len(atlas.soups) >= LEAST_SOUPS
    assert {rule for report in reports.values() for rule in report.fired} == set(RULES)
    assert possible_pairs() - met == set()
    assert met <= possible_pairs(), "two rules met that were thought never to"
    assert list(witness.problems(RULES)) == [], "a rule's notation is not what it does"


@pytest.mark.soak
@pytest.mark.usefixtures("without_collection")
@pytest.mark.parametrize("name", WIDER)
def test_wider_bounds_are_clean_too(name: str) -> None:
    report = explore(WIDER[name])

    assert report.finding is None, str(report.finding)


def test_a_search_counts_each_soup_once_and_comes_to_the_same_end_every_time() -> None:
    bounds = Bounds(sends=1, threads=1, closes=1, several=True)
    one, other = explore(bounds), explore(bounds)

    assert one == other
    assert one.soups <= one.nodes <= one.steps + 1
    atlas = Atlas()
    explore(bounds, atlas=atlas)
    explore(bounds, atlas=atlas)
    assert len(atlas.soups) == one.soups


def test_wider_bounds_see_all_that_narrower_ones_see() -> None:
    narrow, wide = Atlas(), Atlas()
    explore(Bounds(sends=1, threads=1), atlas=narrow)
    explore(Bounds(sends=1, threads=1, holds=1, withdrawals=1), atlas=wide)

    seen = [{frozenset(atlas.molecules[number] for number in key) for key in atlas.soups} for atlas in (narrow, wide)]
    assert seen[0] < seen[1]


NEEDED: dict[str, Bounds] = {
    "threads": Bounds(sends=1),
    "closes": Bounds(sends=1, threads=1, several=True),
    "escalations": Bounds(questions=1),
}
"""What has to be open for a choice to be possible at all."""


@pytest.mark.parametrize("kind", COUNTED)
def test_every_bound_opens_something_new(kind: str) -> None:
    base = replace(NEEDED.get(kind, Bounds()), prelude=AT_WORK)
    more: dict[str, Any] = {kind: 1}
    without, within = explore(base), explore(replace(base, **more))

    assert within.finding is None
    assert within.soups > without.soups


def test_what_winds_down_is_free() -> None:
    at_rest = explore(Bounds(prelude=AT_WORK))

    assert at_rest.fired <= WINDING | {"open", "send-step"}
    assert at_rest.soups == 2


@pytest.mark.parametrize(
    "bounds, more",
    [
        (Bounds(sends=3, threads=1, exchanges=1, voices=frozenset({LEAD}), prelude=AT_WORK), {"sends": 9}),
        (
            Bounds(questions=3, exchanges=1, policy=Policy.NEVER, voices=frozenset({LEAD}), prelude=AT_WORK),
            {"questions": 9},
        ),
        (
            Bounds(questions=2, repeats=1, same=True, policy=Policy.NEVER, voices=frozenset({LEAD}), prelude=AT_WORK),
            {"questions": 9},
        ),
        (Bounds(failures=4, transitions=1, voices=frozenset(), prelude=AT_WORK), {"failures": 20}),
    ],
    ids=["letters", "questions", "the same question", "failures"],
)  # fmt: skip
def test_agents_that_may_go_on_for_ever_do_not(bounds: Bounds, more: dict[str, Any]) -> None:
    """The search lets them go on much longer, and nothing more happens: the job's own bounds have ended it."""
    shorter, longer = explore(bounds), explore(replace(bounds, **more))

    assert (shorter.finding, longer.finding) == (None, None)
    assert longer.soups == shorter.soups
