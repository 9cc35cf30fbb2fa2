"""The page of a workflow: what is written is read back to the letter, whatever agents put into it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.workflow.files.reading.markdown_codec import block, code, sections, text_of
from parley.workflow.files.task_record import TaskRecord, read_record, record_of, render_record
from parley.workflow.model.terms import (
    Acceptance,
    Merged,
    Plan,
    Proof,
    Rescope,
    Round,
    Status,
    Task,
    Worker,
    WorkerStanding,
)
from tests.workflow import value_strategies


@given(value_strategies.texts)
def test_a_text_in_code_is_read_back_to_the_letter(text: str) -> None:
    span = code(text)
    assert text_of(span) == text
    assert re.fullmatch(r"`[^`\n\r]+`", span)
    assert not re.search(r"(?<!\\)(?:\\\\)*\|", span), "an open pipe would end the cell"


@given(value_strategies.texts)
def test_a_block_is_read_back_to_the_letter_and_holds_no_heading(text: str) -> None:
    page = "\n".join(["# One", *block(text), "# Two"])
    one, two = sections(page)[1:]
    assert (one.title, two.title) == ("One", "Two")
    assert [(found, is_block) for _, found, is_block in one.parts()] == [(text, True)]


@settings(max_examples=40)
@given(value_strategies.records)
def test_a_record_is_read_back_to_the_letter(record: TaskRecord) -> None:
    page = render_record(record)
    assert read_record(page) == (record, [])
    assert read_record(page.replace("\n", "\r\n")) == (record, [])


@settings(max_examples=20)
@given(value_strategies.records)
def test_nothing_an_agent_wrote_acts_in_the_page(record: TaskRecord) -> None:
    """Outside code there is only what the program itself writes."""
    outside = [
        re.sub(r"`[^`]+`", "", line)
        for section in sections(render_record(record))
        for _, line, is_block in section.parts()
        if not is_block
    ]
    assert [line for line in outside if "script" in line or "<!--" in line or "\u202e" in line] == []


@pytest.mark.parametrize("numbers", [("9" * 6000, "1.0"), ("0", "1.2.3"), ("0", "."), ("-", "1.0")])
def test_a_proof_with_numbers_that_are_none_is_a_finding(numbers: tuple[str, str]) -> None:
    merge = Merged(1, "one", 1800000000, taken=True, proofs=(Proof("true", 0, "said", 1.0),))
    page = render_record(TaskRecord("t", "g", merges=(merge,)))
    assert read_record(page)[1] == []

    found, findings = read_record(page.replace("ended with 0 after 1.0 s", "ended with {} after {} s".format(*numbers)))

    assert found is None
    assert [finding.rule for finding in findings] == ["record"]


@settings(max_examples=20)
@given(value_strategies.records, st.data())
def test_a_damaged_page_is_a_finding_or_another_record_but_never_a_crash(
    record: TaskRecord, data: st.DataObject
) -> None:
    page = render_record(record)
    at = data.draw(st.integers(0, len(page)))
    damaged = page[:at] + data.draw(value_strategies.texts) + page[at + data.draw(st.integers(0, 40)) :]
    found, findings = read_record(damaged)
    assert (found is None) == bool(findings)


PLAN = Plan(
    "user_management",
    "Users can sign up",
    {
        "database_agent": Worker(
            "database_agent",
            Task.DOER,
            "coder",
            "create_user_table_1727539200",
            verifier="database_verifier",
            owns=("db/**", "a|b`c"),
            forbids=("web/**",),
            deliverable="the schema",
            acceptance=Acceptance("it loads", ("make db",)),
        ),
        "database_verifier": Worker("database_verifier", Task.VERIFIER, "reviewer"),
    },
    (("database_agent",),),
)
STANDING = WorkerStanding(
    "database_agent",
    Status.VERIFIED,
    last_progress=1727539300,
    version=1,
    rounds=(Round(1, "database_verifier", "rejected"), Round(2, "database_verifier", "verified")),
)
MERGE = Merged(
    1,
    "database_agent",
    1727539400,
    taken=False,
    commits=("0f3c", "77aa"),
    paths=tuple(f"db/{number}.sql" for number in range(9)),
    conflicts=("db/1.sql",),
    resolved_by="integrator",
    trivial=False,
    proofs=(Proof("make db", 2, "no such table\n", 1.5), Proof("make web", 0, "ok")),
    reason="make db ended with 2",
)


def test_a_person_finds_the_tracker_the_log_and_each_proof() -> None:
    page = render_record(record_of(PLAN, {"database_agent": STANDING}, [MERGE]))
    assert "| `database_agent` | verified | `db/**`<br>`a\\|b\\u0060c` | `web/**` | `the schema` | `it loads` |" in page
    assert "2024-09-28T16:01:40Z" in page
    assert "`rejected`<br>`verified`" in page
    assert "| not taken | `make db ended with 2` | `0f3c`<br>`77aa` |" in page
    assert re.search(r"and 3 more \(\[list (\w{8})\]\(#list-\1\)\)", page)
    assert "1 of 2 hold" in page
    assert "### Merge 1\n\n- `make db` ended with 2 after 1.5 s\n\n```text\nno such table\n\n```" in page


def test_one_more_merge_adds_lines_and_changes_none_of_the_earlier() -> None:
    """The page is read in diffs."""
    more = Merged(2, "api_agent", 1727539500, taken=True, reason="long " * 99)
    moved = Rescope(
        time=1727539350, agent="database_agent", by="project-lead", before=(), after=("db/**",), reason="long\nreason"
    )
    one = render_record(record_of(PLAN, {}, [MERGE], [])).split("\n")
    two = render_record(record_of(PLAN, {}, [MERGE, more], [moved])).split("\n")
    assert [line for line in one if line not in two] == ["Changes of what a worker owns, in order. None so far."]


FILES = re.findall(r"### List (\w+)", render_record(record_of(PLAN, {}, [MERGE])))[0]


@pytest.mark.parametrize(
    "old,new,text",
    [
        ("| verified |", "| finished |", "Status: 'finished'"),
        ("`db/**`<br>", "db/**<br>", "Owns: texts between backticks"),
        ("| Owns |", "| Owned |", "the table should have these columns"),
        ("2024-09-28T16:01:40Z", "yesterday", "Last progress: "),
        ("# Task orchestration: ", "# Tasks: ", "one heading `# Task orchestration: …` is expected"),
        (f"([list {FILES}](#list-{FILES}))", "([list 7](#list-7))", "Files: list 7 is not in the appendix"),
        (f"- {code('db/1.sql')}\n", "- db/1.sql\n", "a text between backticks is expected"),
    ],
)
def test_a_page_that_was_changed_says_where_it_can_not_be_read(old: str, new: str, text: str) -> None:
    page = render_record(record_of(PLAN, {"database_agent": STANDING}, [MERGE]))
    changed = page.replace(old, new, 1)
    assert changed != page
    record, (finding,) = read_record(changed)
    assert record is None
    assert text in finding.text
    assert finding.line == changed[: changed.index(new)].count("\n") + 1


@pytest.mark.parametrize("title", ["Worker tracker", "Assignments", "Re-scopes", "Liveness", "Merge log"])
def test_a_page_that_lost_a_section_or_has_it_twice_is_not_believed(title: str) -> None:
    page = render_record(record_of(PLAN, {"database_agent": STANDING}, [MERGE]))
    for changed, count in ((page.replace(f"## {title}", "## Else"), 0), (f"{page}\n## {title}\n", 2)):
        record, (finding,) = read_record(changed)
        assert record is None
        assert finding.text == f"one section `## {title}` is expected, not {count}"


def test_a_page_made_to_be_slow_to_read_is_not() -> None:
    """Each of these takes hours where a pattern has to try every way to take a text apart."""
    page = render_record(record_of(PLAN, {"database_agent": STANDING}, [MERGE]))
    slow = "- " + "`a` ended with 1 after 1.0 s: " * 30_000
    for hostile in (
        slow,
        "| " + "and 1 more " * 90_000,
        "`" * 900_000,
        "#" * 900_000,
        "| " + "\\\\" * 400_000,
        " " * 900_000,
    ):
        record, findings = read_record(page.replace("### Merge 1\n", f"### Merge 1\n\n{hostile}\n"))
        assert (record is None) == bool(findings)
