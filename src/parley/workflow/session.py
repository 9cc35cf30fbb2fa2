"""A worker's notes as its file has them: `completion_drive/session_current.json`, read, written and taken back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from parley.wording import count
from parley.workflow.grammar import NOTE_ID_FORM, is_note_id
from parley.workflow.notes import (
    CATEGORIES,
    MOST_NOTES,
    MOST_TEXT,
    RESOLVERS,
    SELF,
    escalated,
    note_id,
    refuse_self,
    resolved,
)
from parley.workflow.strictly import Fields, read_json, shown, write_json
from parley.workflow.terms import Category, Finding, Note, NoteStatus, Session, session_of

_FILE_FIELDS = ("task_id", "session_start", "notes")
_NOTE_FIELDS = (
    "note_id",
    "timestamp",
    "description",
    "context",
    "category",
    "status",
    "resolution",
    "resolved_by",
    "resolution_timestamp",
    "escalation_reason",
)
_OF_RESOLVED = ("resolution", "resolved_by", "resolution_timestamp")
_FIXED = ("timestamp", "description", "context")


@dataclass(frozen=True, slots=True)
class Change:
    """What a worker did to one note: made it, or changed it."""

    note: Note  # as it is now
    made: bool = False


def render_session(session: Session) -> str:
    """The file: every field of the format, `null` where one does not apply."""
    notes = [{name: _plain(getattr(note, name)) for name in _NOTE_FIELDS} for note in session.notes]
    return write_json({"task_id": session.task_id, "session_start": session.session_start, "notes": notes})


def read_session(text: str, agent: str = "") -> tuple[Session | None, list[Finding]]:
    """The session of a file, or all that is wrong with it."""
    return _read(text, agent, dated=True)


def take_back(given: Session, text: str, now: int, agent: str = "") -> tuple[list[Change], list[Finding]]:
    """What a worker changed in the file that it was given, or why nothing of it is taken.

    It may add notes, resolve what it may resolve, escalate; the rest of the file is not its to change. When it did so
    is not its to say either: it has no clock that can be trusted.
    """
    session, findings = _read(text, agent, dated=False)
    if session is None:
        return [], findings
    file = _file(agent)
    changes: list[Change] = []

    def find(field: str, problem: str, remedy: str) -> None:
        findings.append(Finding(file, 0, agent, "not-yours", f"{field} {problem}", remedy))

    if given.task_id != session.task_id:
        was, found = shown(given.task_id), shown(session.task_id)
        find("task_id", f"was {was} and is {found}", "put it back; it belongs to the protocol")
    for number, before in enumerate(given.notes):
        after = session.notes[number] if number < len(session.notes) else None
        if after is None:
            find(before.note_id, "is gone", "put it back; a note stays, settled or not")
        elif (change := _change(before, after, number, now, find)) is not None:
            changes.append(change)
    for number, note in enumerate(session.notes[len(given.notes) :], len(given.notes)):
        fresh = Note(note.note_id, now, note.description, note.context, category=note.category)
        if (moved := _moved(fresh, note, f"notes[{number}]", now, find)) is not None:
            changes.append(Change(moved, made=True))
    return ([], findings) if findings else (changes, [])


# ---- reading -------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """A category that was not given is null in the file."""
    return None if value is Category.UNKNOWN else value


def _file(agent: str) -> str:
    return session_of(agent) if agent else "session_current.json"


def _read(text: str, agent: str, *, dated: bool) -> tuple[Session | None, list[Finding]]:
    file = _file(agent)
    value, findings = read_json(text, file, agent)
    if findings:
        return None, findings
    if not isinstance(value, dict):
        expected = "it must be an object with task_id, session_start and notes"
        return None, [Finding(file, 0, agent, "wrong-value", f"the file is {shown(value)}", expected)]
    fields = Fields(file, agent, "", value)
    fields.only(_FILE_FIELDS)
    task_id = fields.task_id()
    start = fields.second("session_start")
    notes = _notes(fields, dated=dated)
    return (None, fields.findings) if fields.findings else (Session(task_id, start or 0, notes), [])


def _notes(fields: Fields, *, dated: bool) -> tuple[Note, ...]:
    expected = "a list of notes, [] for none"
    if fields.missing("notes", expected):
        return ()
    listed = fields.values["notes"]
    if not isinstance(listed, list):
        fields.wrong("notes", expected)
        return ()
    if len(listed) > MOST_NOTES:
        fields.find("too-long", "notes", f"has {count(len(listed), 'note')}", f"keep it within {MOST_NOTES}")
        return ()
    notes: list[Note] = []
    seen: dict[str, int] = {}
    for number, value in enumerate(listed):
        at = f"notes[{number}]"
        if not isinstance(value, dict):
            fields.find("wrong-value", at, f"is {shown(value)}", "it must be an object, a note")
            continue
        note = Fields(fields.file, fields.agent, at, value, fields.findings)
        _number(note, number, seen)
        notes.append(_note(note, dated=dated))
    return tuple(notes)


def _number(note: Fields, number: int, seen: dict[str, int]) -> None:
    """A note's name says which one of its session it is."""
    expected = json_name(number)
    if note.missing("note_id", expected):
        return
    name = note.values["note_id"]
    if not isinstance(name, str) or not is_note_id(name):
        note.wrong("note_id", f"{expected}, the next of {NOTE_ID_FORM}")
    elif name in seen:
        note.find("duplicate-note", "note_id", f"is {name}, as in notes[{seen[name]}]", f"make it {expected}")
    elif name != note_id(number + 1):
        note.find("note-sequence", "note_id", f"is {name}, out of sequence", f"make it {expected}")
    if isinstance(name, str):
        seen.setdefault(name, number)


def json_name(number: int) -> str:
    """The name that the note at this place must have, as JSON has it."""
    return f'"{note_id(number + 1)}"'


def _note(note: Fields, *, dated: bool) -> Note:
    note.only(_NOTE_FIELDS)
    made = note.second("timestamp")
    description = note.text("description", "a text: what was assumed or uncertain", MOST_TEXT)
    context = note.text("context", "a text: what was being done when it came up", MOST_TEXT)
    category = _category(note)
    status = note.word("status", tuple(NoteStatus))
    settled = _resolution(note, status)
    if dated and settled[2] is not None and made is not None and settled[2] < made:
        note.find("wrong-value", "resolution_timestamp", "is before the note's timestamp", "it can't be earlier")
    if settled[1] == SELF and category is not None and (refusal := refuse_self(category)):
        note.find("must-escalate", "resolved_by", f"is {shown(SELF)}, but {refusal}", "escalate it instead")
    return Note(
        str(note.values.get("note_id", "")),
        made or 0,
        description,
        context,
        NoteStatus(status or NoteStatus.OPEN),
        category or Category.UNKNOWN,
        *settled,
        _reason(note, status),
    )


def _category(note: Fields) -> Category | None:
    """What a note is about; None: something that there is not."""
    value = note.values.get("category")
    if value is None or value == "":
        return Category.UNKNOWN
    if not isinstance(value, str) or value not in CATEGORIES:
        note.wrong("category", f"one of {', '.join(CATEGORIES)}, or left out")
        return None
    return Category(value)


def _resolution(note: Fields, status: str) -> tuple[str | None, str | None, int | None]:
    """How a note was settled: all three fields if it was, and none if not."""
    if status == NoteStatus.RESOLVED:
        how = note.text("resolution", "a text: how the note was settled", MOST_TEXT)
        return how or None, note.word("resolved_by", RESOLVERS) or None, note.second("resolution_timestamp")
    for name in _OF_RESOLVED:
        if status and note.values.get(name) is not None:
            note.find("not-resolved", name, f"is given, but the status is {status}", "write null, or status resolved")
    return None, None, None


def _reason(note: Fields, status: str) -> str | None:
    """Why a note was handed up; it stays when the answer has come."""
    value = note.values.get("escalation_reason")
    if status == NoteStatus.ESCALATED:
        return note.text("escalation_reason", "a text: why others have to answer it", MOST_TEXT) or None
    if value is None:
        return None
    if status == NoteStatus.OPEN:
        note.find("not-escalated", "escalation_reason", "is given, but the status is open", "write null, or escalated")
        return None
    if not isinstance(value, str) or len(value) > MOST_TEXT:
        note.wrong("escalation_reason", f"a text of up to {MOST_TEXT} characters, or null")
        return None
    return value


# ---- taking back ---------------------------------------------------------------------------------


def _change(before: Note, after: Note, number: int, now: int, find: Any) -> Change | None:
    """What became of a note that was given; None: nothing, or nothing that is allowed."""
    at = f"notes[{number}]"
    changed = [name for name in _FIXED if getattr(before, name) != getattr(after, name)]
    if before.category is not Category.UNKNOWN and before.category is not after.category:
        changed.append("category")
    for name in changed:
        find(f"{at}.{name}", f"of {before.note_id} was changed", "put it back, and make another note instead")
    if changed or before == after:
        return None
    if before.status is not NoteStatus.OPEN:
        find(f"{at}", f"({before.note_id}) is {before.status} and was changed", "put it back, and make another note")
        return None
    fresh = Note(before.note_id, before.timestamp, before.description, before.context, category=after.category)
    moved = _moved(fresh, after, at, now, find)
    return Change(moved) if moved is not None else None


def _moved(fresh: Note, wanted: Note, at: str, now: int, find: Any) -> Note | None:
    """An open note, moved to where its maker wants it."""
    if wanted.status is NoteStatus.OPEN:
        return fresh
    if wanted.status is NoteStatus.ESCALATED:
        moved, refusal = escalated(fresh, wanted.escalation_reason or "")
    elif wanted.resolved_by != SELF:
        find(f"{at}.resolved_by", f"is {shown(wanted.resolved_by)}", f"a worker may write only {SELF}; escalate it")
        return None
    elif wanted.escalation_reason is not None:
        find(f"{at}.escalation_reason", "is given, but the note was never escalated", "write null")
        return None
    else:
        moved, refusal = resolved(fresh, wanted.resolution or "", SELF, now)
    if moved is None:
        find(at, f"can't be {wanted.status}: {refusal}", "correct it")
    return moved
