"""The claim that workers own disjoint paths is derived anew from the page alone."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.workflow.files.task_record import record_of, render_record
from parley.workflow.model.terms import Finding, Plan, Rescope, Task, Worker
from parley.workflow.paths.disjointness import disjoint, rescopes
from parley.workflow.paths.patterns import matches, overlap

PATTERNS = [
    "db/**",
    "db/*.sql",
    "api/**",
    "web/",
    "a|b`c",
    "{db,web}/x",
    "*.md",
    "README*",
    "src/[a-m]*",
    "src/[!a-k]*",
]


def plan(**owned: tuple[str, ...]) -> Plan:
    """A plan of doers that own these, and a verifier that owns nothing, whatever it says."""
    workers = {name: Worker(name, Task.DOER, "coder", owns=patterns) for name, patterns in owned.items()}
    workers["judge"] = Worker("judge", Task.VERIFIER, "reviewer", owns=("**",))
    return Plan("t", "g", workers, ())


def page(now: Plan, *changes: Rescope) -> str:
    """The page of a plan after these changes."""
    return render_record(record_of(now, {}, (), changes))


def rules(findings: list[Finding]) -> list[tuple[str, str]]:
    """Who, and which rule."""
    return [(finding.agent, finding.rule) for finding in findings]


owned = st.lists(st.sampled_from(PATTERNS), max_size=3, unique=True).map(tuple)


@settings(max_examples=60)
@given(st.lists(owned, max_size=4))
def test_the_claim_holds_exactly_if_no_path_has_two_owners(scopes: list[tuple[str, ...]]) -> None:
    names = [f"agent_{number}" for number in range(len(scopes))]
    found = disjoint(page(plan(**dict(zip(names, scopes, strict=True)))))
    meeting = {
        (names[one], names[other], mine, theirs)
        for one in range(len(scopes))
        for other in range(one + 1, len(scopes))
        for mine in scopes[one]
        for theirs in scopes[other]
        if overlap(mine, theirs)
    }
    assert len(found) == len(meeting)
    assert {finding.rule for finding in found} <= {"overlap"}


def test_two_patterns_that_look_disjoint_and_are_not_are_told_with_a_path_and_a_line() -> None:
    text = page(plan(one=("src/[a-m]*",), two=("src/[!a-k]*",)))
    (finding,) = disjoint(text)
    witness = finding.text.rsplit("`", 2)[1]
    assert matches("src/[a-m]*", witness)
    assert matches("src/[!a-k]*", witness)
    assert text.split("\n")[finding.line - 1].startswith("| `one` | pending | `src/[a-m]*` |")


def test_patterns_with_pipes_and_backticks_are_read_from_the_page() -> None:
    assert rules(disjoint(page(plan(one=("a|b`c",), two=("a[|]b?c",))))) == [("one", "overlap")]
    assert disjoint(page(plan(one=("a|b`c",), two=("a|b'c",)))) == []


def test_a_path_that_was_handed_over_was_never_owned_by_two() -> None:
    old, new = plan(one=("db/**", "api/**"), two=("web/**",)), plan(one=("db/**",), two=("web/**", "api/**"))
    changes = rescopes(old.workers, new.workers, "project-lead", "two needs it", 1000)
    assert [(one.agent, one.before, one.after) for one in changes] == [
        ("one", ("db/**", "api/**"), ("db/**",)),
        ("two", ("web/**",), ("web/**", "api/**")),
    ]
    assert disjoint(page(new, *changes)) == []


def test_workers_that_come_and_go_with_a_plan_are_re_scopes_too() -> None:
    old, new = plan(one=("db/**",)), plan(two=("db/**",))
    changes = rescopes(old.workers, new.workers, "project-lead", "one was abandoned", 1000)
    assert [(one.agent, one.before, one.after) for one in changes] == [
        ("one", ("db/**",), ()),
        ("two", (), ("db/**",)),
    ]
    assert disjoint(page(new, *changes)) == []


def test_a_path_that_two_owned_for_a_while_is_found_afterwards() -> None:
    now = plan(one=("db/**",), two=("api/**",))
    given = Rescope(
        time=1000, agent="two", by="project-lead", before=("web/**",), after=("web/**", "db/x"), reason="hurry"
    )
    taken = Rescope(
        time=2000, agent="two", by="project-lead", before=("web/**", "db/x"), after=("api/**",), reason="sorry"
    )
    (finding,) = disjoint(page(now, given, taken))
    assert (finding.agent, finding.rule) == ("one", "overlap")
    assert finding.text == "`db/**` and `db/x` of `two` both match `db/x` until 1970-01-01T00:33:20Z"


def test_a_tracker_that_does_not_follow_from_its_re_scopes_is_told() -> None:
    now = plan(one=("db/**",))
    assert rules(
        disjoint(
            page(now, Rescope(time=1000, agent="one", by="project-lead", before=(), after=("db/x",), reason="because"))
        )
    ) == [("one", "re-scope")]


def test_a_row_that_is_there_twice_or_holds_no_pattern_is_told() -> None:
    text = page(plan(one=("db/**",)))
    row = next(line for line in text.split("\n") if line.startswith("| `one` |"))
    assert rules(disjoint(text.replace(row, f"{row}\n{row}"))) == [("one", "record")]
    assert rules(disjoint(text.replace("`db/**`", "`../db`"))) == [("one", "pattern")]


def test_a_page_that_can_not_be_read_proves_nothing() -> None:
    assert [finding.rule for finding in disjoint("# Task orchestration\n")] == ["record"]


def test_a_plan_that_changes_no_scope_is_no_re_scope() -> None:
    old = plan(one=("db/**",))
    assert rescopes(old.workers, replace(old, goal="another").workers, "project-lead", "why", 1) == ()


def test_a_large_plan_is_looked_through_without_comparing_all_that_can_not_meet() -> None:
    scopes: dict[str, tuple[str, ...]] = {
        f"agent_{number}": (f"src/m{number}/**", f"tests/m{number}/*.py", f"docs/m{number}.md") for number in range(200)
    }
    scopes["late"] = ("{lib,src}/m19?/**",)
    assert rules(disjoint(page(plan(**scopes)))) == [(f"agent_{number}", "overlap") for number in range(190, 200)]
