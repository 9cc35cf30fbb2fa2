"""The checks themselves are checked: each planted bug is found, quickly, and its report leads to it."""

import pytest

from parley.protocol.errors import Violated
from parley.protocol.rule import RuleSet
from parley.protocol.rules import apply
from parley.protocol.soup import Soup
from parley.verify.explorer import SearchReport, explore
from parley.verify.invariants import check, lawful
from tests.explorer.bugs import BUGS


def replayed_violation(report: SearchReport, rules: RuleSet) -> str:
    """Go along a finding's trace, with nothing but the public checks, to the first thing that is wrong."""
    assert report.finding is not None
    soup = Soup()
    for firing in report.finding.trace:
        check(soup, rules)
        after = apply(soup, firing, rules)
        try:
            lawful(soup, firing, after, rules)
        except Violated as violated:
            return str(violated)
        soup = after
    with pytest.raises(Violated) as caught:
        check(soup, rules)
    return str(caught.value)


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found_and_named(name: str) -> None:
    bug = BUGS[name]
    report = explore(bug.bounds, bug.rules)

    assert report.finding is not None, f"{report.soups} soups, and nothing found"
    assert report.finding.name in bug.seen_by, str(report.finding)
    assert report.finding.trace[0].rule == "open"
    assert str(report.finding).startswith(f"{report.finding.name}: {report.finding.problem}\n  1. [open]")
    assert replayed_violation(report, bug.rules) == f"{report.finding.name}: {report.finding.problem}"


@pytest.mark.soak
@pytest.mark.parametrize("bounds", {bug.bounds for bug in BUGS.values()}, ids=lambda bounds: "bounds")
def test_without_the_bug_the_same_bounds_are_clean(bounds: object) -> None:
    report = explore(bounds)  # type: ignore[arg-type]  # one of several kinds

    assert report.finding is None, str(report.finding)


def test_there_are_many_different_bugs() -> None:
    assert len(BUGS) >= 15
    assert len({name for bug in BUGS.values() for name in bug.seen_by}) >= 12
