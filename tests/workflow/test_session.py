"""A session's file is read as its format says; what a worker changed in it is taken back only as far as it may."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.base.text import DEEPEST
from parley.workflow.files.reading.strict_json import MOST_CHARACTERS
from parley.workflow.files.session import NoteChange, TakenSession, read_session, render_session, take_back
from parley.workflow.model.notes import SELF
from parley.workflow.model.terms import Category, Note, NoteStatus, Session
from tests.workflow.plan_strategies import FILLED, mutations, sessions

NOW = 1_727_550_000
NOTE: dict[str, Any] = {
    "note_id": "note_001",
    "timestamp": 1727540700,
    "description": "Assuming the address is unique",
    "context": "Making the table of users",
    "status": "resolved",
    "resolution": "The user says so",
    "resolved_by": "workflow_executor",
    "resolution_timestamp": 1727541600,
    "escalation_reason": None,
}
FILE: dict[str, Any] = {"task_id": "create_user_table_1727539200", "session_start": 1727539800, "notes": [NOTE]}
OPEN = Note("note_001", 1727540700, "Whether names are sorted", "Listing", category=Category.DETAIL)
MUST = Note("note_002", 1727540701, "Which hash", "Passwords", category=Category.SECURITY)
GIVEN = Session("create_user_table_1727539200", 1727539800, (OPEN, MUST))


def changed(**fields: Any) -> str:
    """The good file with fields of its note changed; `...` takes one away."""
    note = {name: value for name, value in {**NOTE, **fields}.items() if value is not ...}
    return json.dumps({**FILE, "notes": [note]})


@settings(max_examples=60)
@given(sessions())
def test_what_is_written_is_read_again(session: Session) -> None:
    assert read_session(render_session(session)) == (session, [])


@settings(max_examples=60)
@given(sessions())
def test_a_file_that_was_not_touched_changes_nothing(session: Session) -> None:
    assert take_back(session, render_session(session), NOW) == TakenSession()


@settings(max_examples=60)
@given(st.data())
def test_whatever_happens_to_a_session_it_is_read_or_told(data: st.DataObject) -> None:
    text = data.draw(mutations(render_session(GIVEN)))
    session, findings = read_session(text)
    taken = take_back(GIVEN, text, NOW)

    assert (session is None) == bool(findings)
    told = (*findings, *taken.findings)
    assert all("\n" not in str(finding) and finding.text and finding.remedy for finding in told)
    assert all(written.strip() and problems for written, problems in taken.unfit)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=60)
@given(st.sampled_from([*NOTE, "category", "other"]), JSON)
def test_any_value_in_any_field_is_taken_or_told(field: str, value: Any) -> None:
    text = changed(**{field: value})
    session, findings = read_session(text, "database_agent")

    assert (session is None) == bool(findings)
    for finding in findings:
        assert finding.file == "orchestration/agents/database_agent/completion_drive/session_current.json"


def test_the_file_has_every_field_of_the_format_in_its_order() -> None:
    assert read_session(json.dumps(FILE))[0] is not None
    written = json.loads(render_session(GIVEN))

    assert list(written) == ["task_id", "session_start", "notes"]
    assert [name for name in written["notes"][0] if name != "category"] == list(NOTE)
    assert written["notes"][0]["category"] == "implementation_detail"


WRONG = [
    (changed(note_id=...), "notes[0].note_id is missing"),
    (changed(note_id="n1"), 'notes[0].note_id is "n1"'),
    (changed(note_id="note_002"), "notes[0].note_id is note_002, out of sequence"),
    (json.dumps({**FILE, "notes": [NOTE, NOTE]}), "notes[1].note_id is note_001, as in notes[0]"),
    (changed(timestamp="1727540700"), 'notes[0].timestamp is "1727540700"'),
    (changed(timestamp=1727540700.5), "notes[0].timestamp is 1727540700.5"),
    (changed(timestamp=True), "notes[0].timestamp is true"),
    (changed(timestamp=-1), "notes[0].timestamp is -1"),
    (changed(description=""), 'notes[0].description is ""'),
    (changed(description="x" * 8001), "notes[0].description has 8001 characters"),
    (changed(context=...), "notes[0].context is missing"),
    (changed(status="done"), 'notes[0].status is "done"'),
    (changed(resolution=...), "notes[0].resolution is missing"),
    (changed(resolution=None), "notes[0].resolution is null"),
    (changed(resolved_by="somebody"), 'notes[0].resolved_by is "somebody"'),
    (changed(resolved_by=...), "notes[0].resolved_by is missing"),
    (changed(resolution_timestamp=None), "notes[0].resolution_timestamp is null"),
    (changed(resolution_timestamp=1727540699), "notes[0].resolution_timestamp is before"),
    (changed(status="escalated"), "notes[0].escalation_reason is null"),
    (changed(status="escalated", escalation_reason=...), "notes[0].escalation_reason is missing"),
    (changed(status="open"), "notes[0].resolution is given, but the status is open"),
    (changed(category="colour"), 'notes[0].category is "colour"'),
    (changed(resolved_by=SELF), "a note without a category must be escalated"),
    (changed(resolved_by=SELF, category="security"), "a note of category security must be escalated"),
    (changed(severity="high"), 'notes[0]."severity" is not a field'),
    (json.dumps({**FILE, "task_id": "CreateTable"}), 'task_id is "CreateTable"'),
    (json.dumps({**FILE, "task_id": 7}), "task_id is 7"),
    (json.dumps({**FILE, "session_start": "2025-09-28T14:30:00Z"}), 'session_start is "2025-09-28T14:30:00Z"'),
    (json.dumps({**FILE, "notes": {}}), "notes is an object"),
    (json.dumps({**FILE, "notes": [3]}), "notes[0] is 3"),
    (json.dumps({**FILE, "notes": [NOTE] * 501}), "notes has 501 notes"),
    (json.dumps([FILE]), "the file is a list"),
    ("{}", "notes is missing"),
    ("", "this is not JSON"),
    ('{"task_id": "a_1727539200", "task_id": "b_1727539200"}', 'the key "task_id" is given twice'),
    ('{"session_start": NaN}', "NaN is not a number of JSON"),
    ('{"session_start": ' + "9" * 5000 + "}", "is too large a number"),
    ('{"task_id": "\\ud800"}', "half of a surrogate pair"),
    ("[" * 100_000, f"nested deeper than {DEEPEST} levels"),
    ('"' + "x" * MOST_CHARACTERS + '"', f"it has {MOST_CHARACTERS + 2} characters"),
]  # fmt: skip


@pytest.mark.parametrize("text, told", WRONG, ids=[told for _, told in WRONG])
def test_what_is_wrong_is_told_with_field_and_what_is_expected(text: str, told: str) -> None:
    session, findings = read_session(text)

    assert session is None
    assert [finding for finding in findings if told in finding.text], [str(finding) for finding in findings]
    assert all(finding.remedy for finding in findings)


def test_the_line_of_what_is_no_json_is_told() -> None:
    _, findings = read_session('{\n "task_id": ,\n}')

    assert [finding.line for finding in findings] == [2]


# ---- taking back ---------------------------------------------------------------------------------


def edited(*changes: dict[str, Any], given: Session = GIVEN, **top: Any) -> str:
    """The given file with fields of its notes changed, in order; more of them are notes of its own."""
    document = json.loads(render_session(given))
    for number, change in enumerate(changes):
        if number < len(document["notes"]):
            document["notes"][number].update(change)
        else:
            document["notes"].append(change)
    return json.dumps({**document, **top})


SETTLED = {"status": "resolved", "resolution": "as elsewhere", "resolved_by": SELF, "resolution_timestamp": 5}
HANDED = {"status": "escalated", "escalation_reason": "not mine to decide"}
NEW = {"note_id": "note_003", "timestamp": 1, "description": "A new doubt", "context": "Here", "status": "open"}


def test_a_worker_settles_escalates_and_adds_notes_in_its_file() -> None:
    taken = take_back(GIVEN, edited(SETTLED, HANDED, NEW), NOW)
    changes = taken.changes

    assert (taken.findings, taken.unfit) == ((), ())
    assert [(change.note.note_id, change.note.status, change.made) for change in changes] == [
        ("note_001", NoteStatus.RESOLVED, False),
        ("note_002", NoteStatus.ESCALATED, False),
        ("note_003", NoteStatus.OPEN, True),
    ]
    assert changes[0].note.resolution_timestamp == NOW
    assert changes[2] == NoteChange(Note("note_003", NOW, "A new doubt", "Here"), made=True)


def test_a_note_without_a_category_may_be_given_one_later() -> None:
    given = Session(GIVEN.task_id, GIVEN.session_start, (Note("note_001", 3, "a", "b"),))
    taken = take_back(given, edited({"category": "obvious_bug", **SETTLED}, given=given), NOW)

    assert taken.findings == ()
    assert taken.changes[0].note.category is Category.BUG


NOT_ALLOWED = [
    (edited({}, SETTLED), "a note of category security must be escalated"),
    (edited({**SETTLED, "resolved_by": "user"}), 'notes[0].resolved_by is "user"'),
    (edited({"description": "other"}), "notes[0].description of note_001 was changed"),
    (edited({}, {"category": "obvious_bug", **SETTLED}), "notes[1].category of note_002 was changed"),
    (edited({"timestamp": 9}), "notes[0].timestamp of note_001 was changed"),
    (edited(task_id="other_1727539200"), "task_id was"),
    (edited(notes=[]), "note_001 is gone"),
    (edited({}, {}, {**NEW, "note_id": "note_009"}), "notes[2].note_id is note_009, out of sequence"),
    (edited({}, {}, {**NEW, **SETTLED}), "must be escalated"),
    (edited({**SETTLED, "escalation_reason": "was"}), "notes[0].escalation_reason is given"),
    ('{"task_id": ', "this is not JSON"),
]


@pytest.mark.parametrize("text, told", NOT_ALLOWED, ids=[told for _, told in NOT_ALLOWED])
def test_what_a_worker_may_not_change_is_told_and_nothing_is_taken(text: str, told: str) -> None:
    taken = take_back(GIVEN, text, NOW)

    assert taken.changes == ()
    found = [*(str(finding) for finding in taken.findings), *(text for _, texts in taken.unfit for text in texts)]
    assert [text for text in found if told in text], found


@pytest.mark.parametrize("status", [NoteStatus.ESCALATED, NoteStatus.RESOLVED])
def test_a_note_that_has_gone_up_is_no_longer_its_makers(status: NoteStatus) -> None:
    by_user: dict[str, Any] = {"resolution": "yes", "resolved_by": "user", "resolution_timestamp": 4}
    note = Note(
        note_id="note_001",
        timestamp=3,
        description="a",
        context="b",
        status=status,
        category=Category.BUG,
        escalation_reason="why",
    )
    note = replace(note, **by_user) if status is NoteStatus.RESOLVED else note
    given = Session(GIVEN.task_id, GIVEN.session_start, (note,))
    text = edited({**SETTLED, "escalation_reason": None}, given=given)

    taken = take_back(given, text, NOW)

    assert taken.changes == ()
    assert f"(note_001) is {status} and was changed" in taken.findings[0].text


@settings(max_examples=40)
@given(sessions(), FILLED)
def test_what_was_taken_back_is_a_session_again(session: Session, text: str) -> None:
    fresh = {**NEW, "note_id": f"note_{len(session.notes) + 1:03}", "description": text}
    taken = take_back(session, edited(*({} for _ in session.notes), fresh, given=session), NOW)

    assert (taken.findings, taken.unfit) == ((), ())
    after = Session(session.task_id, session.session_start, (*session.notes, taken.changes[0].note))
    assert read_session(render_session(after)) == (after, [])
