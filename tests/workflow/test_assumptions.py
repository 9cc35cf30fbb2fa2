"""The work summary tells every assumption, and the lead's own words stay as they are."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from parley.views.job_result import assumptions
from parley.workflow.files.assumptions import NOTED, render_assumptions, with_assumptions
from parley.workflow.files.reading.markdown_codec import code
from parley.workflow.model.terms import Category, Note, NoteStatus, Session
from tests.workflow.value_strategies import texts

notes = st.builds(
    Note,
    note_id=st.just("note_001"),
    timestamp=st.just(1),
    description=texts,
    context=texts,
    status=st.sampled_from(NoteStatus),
    category=st.sampled_from(Category),
    resolution=st.none() | texts,
    resolved_by=st.sampled_from(["agent_self", "workflow_executor", "user"]),
    escalation_reason=st.none() | texts,
)


@settings(max_examples=50)
@given(st.lists(notes, min_size=1, max_size=4))
def test_every_note_is_one_line_whatever_it_says(made: list[Note]) -> None:
    lines = render_assumptions([("api_agent", Session("t_1", 1, tuple(made)))]).split("\n")
    assert len(lines) == len(made)
    for line, note in zip(lines, made, strict=True):
        assert line.startswith("- `api_agent` note_001")
        assert f": {code(note.description)}. " in line
        assert ("**Not settled**" in re.sub(r"`[^`]*`", "", line)) == (note.status is not NoteStatus.RESOLVED)


ANSWERED = Note(
    note_id="note_001",
    timestamp=1,
    description="emails are unique",
    context="making the table",
    status=NoteStatus.RESOLVED,
    category=Category.REQUIREMENTS,
    resolution="yes, they are",
    resolved_by="user",
    resolution_timestamp=2,
    escalation_reason="the request does not say",
)
WAITING = Note(
    note_id="note_002",
    timestamp=3,
    description="which hash?",
    context="sign up",
    status=NoteStatus.ESCALATED,
    escalation_reason="security",
)
LISTED = render_assumptions([("database_agent", Session("t_1", 1, (ANSWERED, WAITING)))])


def test_a_line_says_how_it_was_settled_and_by_whom() -> None:
    first, second = LISTED.split("\n")
    assert first.startswith(
        "- `database_agent` note_001 (requirements): `emails are unique`. Settled by the user: `yes,"
    )
    assert first.endswith(" `yes, they are`. It was asked because `the request does not say`.")
    assert second.startswith(
        "- `database_agent` note_002: `which hash?`. **Not settled**: it is escalated. It was asked"
    )


def test_what_a_job_hands_over_names_the_leads_assumptions_and_the_agents() -> None:
    summary = with_assumptions(
        "# Work\n\nDone.\n\n## Assumptions\n\n- The port is free.\n\n## How to run\n\nmake\n", LISTED
    )
    assert list(assumptions(summary)) == ["The port is free.", *(line[2:] for line in LISTED.split("\n"))]
    assert summary.endswith("\n\n## How to run\n\nmake\n")
    assert list(assumptions(with_assumptions("# Work\n", render_assumptions([])))) == []


LINES = [
    "# Work",
    "## Done ##",
    "### More",
    "words",
    "",
    "```",
    "```py3",
    "~~~~",
    "## Assumptions",
    " ##  Assumptions #",
    "###### Assumption",
    f"### {NOTED}",
    f"# {NOTED}",
    "- mine",
]


@settings(max_examples=200)
@given(st.lists(st.sampled_from(LINES)))
def test_the_notes_are_there_once_and_all_that_the_lead_wrote_stays(lines: list[str]) -> None:
    before = "\n".join(lines)
    once = with_assumptions(before, LISTED)
    assert with_assumptions(once, LISTED) == once
    assert once.count(LISTED) == 1
    if NOTED not in before:
        kept = [line for line in lines if line]
        left = iter(once.split("\n"))
        assert all(line in left for line in kept), "in their order"


def test_newer_notes_take_the_place_of_older_ones() -> None:
    older = with_assumptions("# Work\n\n## Assumptions\n\n- mine\n\n## Run\n", "- older")
    newer = with_assumptions(older, LISTED)
    assert "- older" not in newer
    assert newer == f"# Work\n\n## Assumptions\n\n- mine\n\n### {NOTED}\n\n{LISTED}\n\n## Run\n"


def test_a_summary_without_the_heading_gets_it() -> None:
    assert with_assumptions("", LISTED) == f"## Assumptions\n\n### {NOTED}\n\n{LISTED}\n"
    assert with_assumptions("```\nopen\n", LISTED).startswith("```\nopen\n```\n\n## Assumptions\n")


def test_a_summary_made_to_be_slow_to_read_is_not() -> None:
    for hostile in ("# " + " " * 900_000 + "x", "#" * 900_000, "# " + " #" * 400_000, "`" * 900_000, "~~~" * 300_000):
        assert with_assumptions(hostile, LISTED).endswith(f"{LISTED}\n")
