"""The work summary tells every assumption, and the lead's own words stay as they are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from parley.workflow.assumptions import render_assumptions, with_assumptions
from parley.workflow.cells import sections, text_of
from parley.workflow.terms import Category, Note, NoteStatus, Session
from tests.workflow.values import texts

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
HEAD = ["Agent", "Note", "About", "What was assumed or uncertain", "How it was settled", "By whom"]


@settings(max_examples=50)
@given(st.lists(notes, max_size=4))
def test_every_note_is_one_row_whatever_it_says(made: list[Note]) -> None:
    section = render_assumptions([("api_agent", Session("t_1", 1, tuple(made)))])
    (found,) = [one for one in sections(section) if one.title == "Assumptions"]
    rows = [cells for _, cells in found.rows(HEAD)]
    assert [text_of(cells[3]) for cells in rows] == [note.description for note in made]
    settled = [note.status is NoteStatus.RESOLVED for note in made]
    assert ["not settled" not in cells[4].split("`")[-1] for cells in rows] == settled


def test_a_row_says_how_it_was_settled_and_by_whom() -> None:
    answered = Note(
        "note_001",
        1,
        "emails are unique",
        "making the table",
        NoteStatus.RESOLVED,
        Category.REQUIREMENTS,
        "yes, they are",
        "user",
        2,
        "the request does not say",
    )
    waiting = Note("note_002", 3, "which hash?", "sign up", NoteStatus.ESCALATED, escalation_reason="security")
    section = render_assumptions([("database_agent", Session("t_1", 1, (answered, waiting)))])
    row = "| `database_agent` | `note_001` | requirements | `emails are unique` |"
    assert f"{row} asked because `the request does not say`<br>`yes, they are` | the user |" in section
    assert (
        "| not said | `which hash?` | asked because `security`<br>**not settled**: the note is escalated | nobody"
        in section
    )


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
    "a",
]
SECTION = render_assumptions([])


@settings(max_examples=150)
@given(st.lists(st.sampled_from(LINES)))
def test_the_section_is_there_once_and_what_the_lead_wrote_elsewhere_stays(lines: list[str]) -> None:
    once = with_assumptions("\n".join(lines), SECTION)
    assert with_assumptions(once, SECTION) == once
    assert once.count(SECTION.rstrip("\n")) == 1
    if not any("Assumptions" in line for line in lines):
        assert once.startswith("\n".join(lines).rstrip("\n"))


def test_an_older_section_is_replaced_with_all_that_stood_below_it() -> None:
    summary = (
        "# Work\n\nAll done.\n\n## Assumptions\n\nnone, believe me\n\n### really\n\nnone\n\n## How to run it\n\nmake\n"
    )
    replaced = with_assumptions(summary, SECTION)
    assert "believe me" not in replaced
    assert "really" not in replaced
    assert replaced.startswith("# Work\n\nAll done.\n\n## Assumptions\n\n")
    assert replaced.endswith("\n\n## How to run it\n\nmake\n")


def test_a_summary_made_to_be_slow_to_read_is_not() -> None:
    for hostile in ("# " + " " * 900_000 + "x", "#" * 900_000, "# " + " #" * 400_000, "`" * 900_000, "~~~" * 300_000):
        assert with_assumptions(hostile, SECTION).endswith(SECTION)
