"""A conversation summary is read as its format says; what is wrong is told with its line."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.workflow.files.beginning import begin
from parley.workflow.files.plan import read_plan
from parley.workflow.files.reading.finding_reader import MOST_FINDINGS
from parley.workflow.files.status_file import read_status
from parley.workflow.files.structure import check_structure
from parley.workflow.files.summary import (
    SECTIONS,
    Summary,
    SummaryDecision,
    read_summary,
    render_summary,
    slug,
    summary_of,
)
from parley.workflow.model.grammar import is_slug
from parley.workflow.model.terms import PLAN, SHARED_STATUS
from tests.workflow.plan_strategies import PLAN_TEXT, mutations

FILE = "notes.md"
TEXT = """\
# Conversation Summary: User Management

## What We're Trying to Accomplish
People can be kept
and listed.

## Key Decisions Made
- Decision: SQLite
  - Rationale: nothing to
    install
  - Alternatives considered: PostgreSQL, too much to run
- Decision: No passwords yet
  - Rationale: nobody logs in

## Constraints & Assumptions
- Python only
* One machine

## Questions Resolved
- Q: Is the address unique?
- A: Yes

## Open Items
- Which port

## Dependencies & Integration Points
- None
"""

WORDS = st.lists(
    st.sampled_from(["a", "Rest", "é", "the", "1.", "(x)", "日本", "`code`", "q", "no"]), min_size=1, max_size=4
)
LINES = WORDS.map(lambda words: f"say {' '.join(words)}")
SUMMARIES = st.builds(
    Summary,
    LINES,
    LINES,
    st.lists(st.builds(SummaryDecision, LINES, LINES, LINES | st.just("")), max_size=2).map(tuple),
    st.lists(LINES, max_size=2).map(tuple),
    st.lists(st.tuples(LINES, LINES), max_size=2).map(tuple),
    st.lists(LINES, max_size=2).map(tuple),
    st.lists(LINES, max_size=2).map(tuple),
)


@settings(max_examples=60)
@given(SUMMARIES)
def test_what_is_written_is_read_again(summary: Summary) -> None:
    assert read_summary(render_summary(summary), FILE) == (summary, [])


@settings(max_examples=60)
@given(SUMMARIES)
def test_the_files_that_are_made_from_a_summary_have_their_formats(summary: Summary) -> None:
    text = render_summary(summary)
    files = begin(summary, text).files

    assert check_structure(files) == []
    assert files[summary_of(summary.task)] == text
    plan, _ = read_plan(files[PLAN])
    assert plan is not None
    assert (plan.task, plan.goal) == (summary.task, summary.goal)
    assert all(" ".join(item.split()) in files[PLAN] for item in summary.open_items)


@settings(max_examples=60)
@given(st.data())
def test_whatever_happens_to_a_summary_it_is_read_or_told(data: st.DataObject) -> None:
    text = data.draw(mutations(TEXT))
    summary, findings = read_summary(text, FILE)

    assert (summary is None) == bool(findings)
    assert all(0 <= finding.line <= text.count("\n") + 1 and "\n" not in str(finding) for finding in findings)


@settings(max_examples=100)
@given(st.text(max_size=100))
def test_a_task_is_named_so_that_files_can_be(title: str) -> None:
    made = slug(title)

    assert made == "" or is_slug(made)
    assert slug(made) == made


def test_a_summary_is_read_with_all_that_it_says() -> None:
    assert read_summary(TEXT, FILE) == (
        Summary(
            title="User Management",
            goal="People can be kept\nand listed.",
            decisions=(
                SummaryDecision("SQLite", "nothing to install", "PostgreSQL, too much to run"),
                SummaryDecision("No passwords yet", "nobody logs in"),
            ),
            constraints=("Python only", "One machine"),
            questions=(("Is the address unique?", "Yes"),),
            open_items=("Which port",),
        ),
        [],
    )
    assert slug("User Management") == "user_management"
    assert slug("Überraschung № 5!") == "uberraschung_no_5"


def test_headings_may_be_written_as_people_do() -> None:
    text = TEXT.replace("We're", "We\u2019re").replace("Constraints &", "CONSTRAINTS and").replace("\n", "\r\n")
    text = text.replace("- Decision:", "- **Decision:**").replace(
        "## Open Items", "## References\r\n- a\r\n\r\n## Open Items ##"
    )

    assert read_summary(text, FILE)[1] == []


def test_what_stands_in_a_block_of_code_is_no_heading() -> None:
    text = TEXT.replace("and listed.", "and listed.\n```\n# a comment\n## Open Items\n```")

    assert read_summary(text, FILE)[1] == []


WRONG = [
    ("# Conversation Summary: User Management\n", "", 1, "there is no title"),
    ("Conversation Summary: User", "Summary: User", 1, "the title is 'Summary: User Management'"),
    ("User Management", "[Task Name]", 1, "the title is 'Conversation Summary: [Task Name]'"),
    ("User Management", "日本", 1, "has no letter or digit"),
    ("## Open Items", "# Open Items", 23, "the title is 'Open Items'"),
    ("People can be kept\nand listed.\n", "", 3, "does not say it"),
    ("People can be kept\nand listed.\n", "[The goal in plain language]\n", 3, "does not say it"),
    ("  - Rationale: nobody logs in\n", "", 12, "this decision has no rationale"),
    ("Decision: SQLite", "Decision: [what was decided]", 8, "is what the format says"),
    ("- Decision: SQLite\n", "", 8, "'rationale: nothing to install' belongs to no decision"),
    ("- A: Yes\n", "", 20, "this question has no answer"),
    ("- Q: Is the address unique?\n", "", 20, "'Yes' is no answer to a question"),
    ("- Which port", "- [Things still unclear or needing resolution]", 24, "is what the format says"),
    ("## Open Items", "## Key Decisions Made", 23, "stands here for the second time"),
    *((f"## {name}", "## Something Else", 0, f"there is no section {name!r}") for name in SECTIONS),
]


@pytest.mark.parametrize("old, new, line, told", WRONG, ids=[told for *_, told in WRONG])
def test_what_is_wrong_is_told_with_its_line(old: str, new: str, line: int, told: str) -> None:
    assert old in TEXT
    summary, findings = read_summary(TEXT.replace(old, new, 1), FILE)

    assert summary is None
    assert [finding.line for finding in findings if told in finding.text] == [line], [str(each) for each in findings]


def test_with_a_plan_every_agent_gets_its_folder_its_instructions_and_its_place_in_the_status() -> None:
    summary, _ = read_summary(TEXT, FILE)
    plan, _ = read_plan(PLAN_TEXT)
    assert summary is not None
    assert plan is not None
    begun = begin(summary, TEXT, plan)

    assert PLAN not in begun.files
    shared, findings = read_status(begun.files[SHARED_STATUS])
    assert findings == []
    assert shared is not None
    assert list(shared.agents) == ["database_agent", "api_agent", "frontend_agent"]
    for name in plan.workers:
        text = begun.files[f"orchestration/agents/{name}/agent_instructions.md"]
        assert text.startswith(f"# {name}\n")
        assert f"orchestration/agents/{name}/completion_drive" in begun.folders
    api = begun.files["orchestration/agents/api_agent/agent_instructions.md"]
    assert "- Read `orchestration/agents/database_agent/task_output/schema.sql`" in api
    assert "The endpoints answer" in api
    assert re.search("To be defined", api)
    assert "orchestration/agents/api_agent/task_output" in begun.folders
    assert "orchestration/agents/api_verifier/task_output" not in begun.folders


@pytest.mark.parametrize("heading", ["# " + "#" * 400_000 + "x", "# " + " " * 400_000 + "x", "## " + "*" * 400_000])
def test_a_heading_of_any_length_is_read_in_no_time(heading: str) -> None:
    assert read_summary(heading, FILE)[0] is None


def test_no_more_findings_are_told_than_anybody_would_read() -> None:
    text = TEXT.replace("- Which port\n", "- [x]\n" * 5000)

    assert len(read_summary(text, FILE)[1]) == MOST_FINDINGS
