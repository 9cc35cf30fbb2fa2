"""A worker's notes as its file has them: `completion_drive/session_current.json`, read, written and taken back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from parley.text import cut
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
from parley.workflow.pending import MOST_PENDING, MOST_WRITTEN, WITHDRAWN, number_of
from parley.workflow.strictly import Fields, read_json, shown, write_json
from parley.workflow.terms import Category, Finding, Note, NoteStatus, Session, Unfit, session_of

_FILE_FIELDS = ("task_id", "session_start", "notes", "pending")
_PENDING_FIELDS = ("pending_id", "timestamp", "written", "problems")
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
    mends: str = ""  # the pending note that it says it stands for


@dataclass(frozen=True, slots=True)
class Taken:
    """What is taken back from a worker's file."""

    changes: tuple[Change, ...] = ()
    findings: tuple[Finding, ...] = ()  # what it did to the rest of the file, which has changed nothing
    unfit: tuple[tuple[str, tuple[str, ...]], ...] = ()  # notes that can't be taken: as written, and what is wrong
    withdrawn: tuple[tuple[str, str], ...] = ()  # pending notes that it gives up, and why


def render_session(session: Session) -> str:
    """The file: every field of the format, `null` where one does not apply; `pending` only where something is."""
    notes = [{name: _plain(getattr(note, name)) for name in _NOTE_FIELDS} for note in session.notes]
    document = {"task_id": session.task_id, "session_start": session.session_start, "notes": notes}
    if session.pending:
        document["pending"] = [{**asdict(one), "problems": list(one.problems)} for one in session.pending]
    return write_json(document)


def read_session(text: str, agent: str = "") -> tuple[Session | None, list[Finding]]:
    """The session of a file, or all that is wrong with it."""
    top, findings = _document(text, agent)
    if top is None:
        return None, findings
    task_id, start = _head(top)
    notes = _notes(top)
    pending = _pending(top)
    return (None, top.findings) if top.findings else (Session(task_id, start, notes, pending), [])


def take_back(given: Session, text: str, now: int, agent: str = "") -> Taken:
    """What a worker changed in the file that it was given.

    It may add notes, resolve what it may resolve, escalate; the rest of the file is not its to change. When it did so
    is not its to say either: it has no clock that can be trusted. A new note that can't be taken is not lost: it is
    told as it was written. So is a file that can't be read, with all that may be in it.
    """
    top, findings = _document(text, agent)
    if top is None:
        return Taken((), () if text.strip() else tuple(findings), _as_written(text, findings))
    task_id, _ = _head(top)
    listed = _listed(top)
    if listed is None:
        return Taken((), (), _as_written(text, top.findings))
    if task_id and task_id != given.task_id:
        was, found = shown(given.task_id), shown(task_id)
        top.find("not-yours", "task_id", f"was {was} and is {found}", "put it back; it belongs to the protocol")
    taking = _Taking(given, now, top)
    for number, item in enumerate(listed):
        taking.take(number, item)
    for gone in (name for name in taking.known if name not in taking.found):
        top.find("not-yours", gone, "is gone", "put it back; a note stays, settled or not")
    return Taken(tuple(taking.changes), tuple(top.findings), tuple(taking.unfit), _withdrawn(top, given))


def _as_written(text: str, findings: Sequence[Finding]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ((text, tuple(str(one) for one in findings)),) if text.strip() else ()


class _Taking:
    """The notes of a file, taken one by one: what is wrong with one is no reason to lose another."""

    def __init__(self, given: Session, now: int, top: Fields) -> None:
        self.now, self.top = now, top
        self.known = {note.note_id: note for note in given.notes}
        self.seen: dict[str, int] = {}  # the names in the file, each with its place
        self.found: set[str] = set()  # the given notes that are still there
        self.next = len(given.notes)  # how many notes there are with those that are new
        self.changes: list[Change] = []
        self.unfit: list[tuple[str, tuple[str, ...]]] = []

    def take(self, number: int, item: Any) -> None:
        """One note: one that was given, or a new one."""
        name = item.get("note_id") if isinstance(item, dict) else None
        before = self.known.get(name) if isinstance(name, str) and name not in self.found else None
        if before is not None and _is_about(before, item):
            self.seen.setdefault(before.note_id, number)
            self.found.add(before.note_id)
            self._given(number, item, before)
        else:
            self._new(number, item)

    def _fields(self, number: int, item: Any) -> Fields:
        return Fields(self.top.file, self.top.agent, f"notes[{number}]", item)

    def _given(self, number: int, item: Any, before: Note) -> None:
        note = self._fields(number, item)
        after = _note(note, dated=False)
        changed = None if note.findings else _change(before, after, note, self.now)
        self.top.findings.extend(note.findings)
        if changed is not None and not note.findings:
            self.changes.append(changed)

    def _new(self, number: int, item: Any) -> None:
        if not isinstance(item, dict):
            note = self._fields(number, {})
            note.find("wrong-value", "", f"is {shown(item)}", "it must be an object, a note")
        else:
            mends = item.get("mends")
            note = self._fields(number, {key: value for key, value in item.items() if key != "mends"})
            _number(note, self.next, self.seen)
            self.next += 1
            wanted = _note(note, dated=False)
            if mends is not None and not number_of(mends):
                note.find("wrong-value", "mends", f"is {shown(mends)}", "name a pending note, as pending_001")
            if not note.findings:
                fresh = Note(wanted.note_id, self.now, wanted.description, wanted.context, category=wanted.category)
                moved = _moved(fresh, wanted, note, self.now)
                if moved is not None and not note.findings:
                    self.changes.append(Change(moved, made=True, mends=str(mends or "")))
                    return
        written = json.dumps(item, ensure_ascii=False)
        self.unfit.append((written, tuple(str(one) for one in note.findings)))


def _is_about(before: Note, item: Mapping[str, Any]) -> bool:
    """Whether an entry of the file is still the note that was given: one that says another thing would be lost."""
    said = item.get("description")
    return said is None or said == before.description or item.get("context") == before.context


def _withdrawn(top: Fields, given: Session) -> tuple[tuple[str, str], ...]:
    """The pending notes that their maker has marked as withdrawn. That one is left out changes nothing."""
    listed = top.values.get("pending")
    names = {one.pending_id for one in given.pending}
    found: dict[str, str] = {}
    for item in listed if isinstance(listed, list) else ():
        name, why = (item.get(key) for key in ("pending_id", WITHDRAWN)) if isinstance(item, dict) else (None, None)
        if isinstance(name, str) and name in names and isinstance(why, str) and why.strip():
            found[name] = cut(why.strip(), MOST_TEXT)
    return tuple(found.items())


# ---- reading -------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """A category that was not given is null in the file."""
    return None if value is Category.UNKNOWN else value


def _file(agent: str) -> str:
    return session_of(agent) if agent else "session_current.json"


def _document(text: str, agent: str) -> tuple[Fields | None, list[Finding]]:
    file = _file(agent)
    value, findings = read_json(text, file, agent)
    if findings:
        return None, findings
    if not isinstance(value, dict):
        expected = "it must be an object with task_id, session_start and notes"
        return None, [Finding(file, 0, agent, "wrong-value", f"the file is {shown(value)}", expected)]
    return Fields(file, agent, "", value), []


def _head(top: Fields) -> tuple[str, int]:
    """The fields of the session itself."""
    top.only(_FILE_FIELDS)
    task_id = top.task_id()
    return task_id, top.second("session_start") or 0


def _listed(top: Fields) -> list[Any] | None:
    expected = "a list of notes, [] for none"
    if top.missing("notes", expected):
        return None
    listed = top.values["notes"]
    if not isinstance(listed, list):
        top.wrong("notes", expected)
        return None
    if len(listed) > MOST_NOTES:
        top.find("too-long", "notes", f"has {count(len(listed), 'note')}", f"keep it within {MOST_NOTES}")
        return None
    return listed


def _notes(top: Fields) -> tuple[Note, ...]:
    notes: list[Note] = []
    seen: dict[str, int] = {}
    for number, value in enumerate(_listed(top) or ()):
        at = f"notes[{number}]"
        if not isinstance(value, dict):
            top.find("wrong-value", at, f"is {shown(value)}", "it must be an object, a note")
            continue
        note = Fields(top.file, top.agent, at, value, top.findings)
        _number(note, number, seen)
        notes.append(_note(note, dated=True))
    return tuple(notes)


def _pending(top: Fields) -> tuple[Unfit, ...]:
    """What was refused, and waits for its maker."""
    listed = top.values.get("pending", [])
    if not isinstance(listed, list) or len(listed) > MOST_PENDING:
        top.wrong("pending", f"a list of up to {MOST_PENDING} notes that were refused")
        return ()
    found: list[Unfit] = []
    for number, value in enumerate(listed):
        at = f"pending[{number}]"
        if not isinstance(value, dict):
            top.find("wrong-value", at, f"is {shown(value)}", "it must be an object, a note that was refused")
            continue
        item = Fields(top.file, top.agent, at, value, top.findings)
        item.only(_PENDING_FIELDS)
        name, problems = value.get("pending_id"), value.get("problems")
        if not number_of(name):
            item.wrong("pending_id", "pending_001, pending_002, …")
        if not isinstance(problems, list) or not all(isinstance(one, str) for one in problems):
            item.wrong("problems", "a list of texts: what is wrong with it")
            problems = []
        made = item.second("timestamp") or 0
        written = item.text("written", "a text: the note as it was written", MOST_WRITTEN)
        found.append(Unfit(str(name), made, written, tuple(problems)))
    return tuple(found)


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


def _change(before: Note, after: Note, note: Fields, now: int) -> Change | None:
    """What became of a note that was given; None: nothing, or nothing that is allowed."""
    changed = [name for name in _FIXED if getattr(before, name) != getattr(after, name)]
    if before.category is not Category.UNKNOWN and before.category is not after.category:
        changed.append("category")
    for name in changed:
        note.find("not-yours", name, f"of {before.note_id} was changed", "put it back, and make another note instead")
    if changed or before == after:
        return None
    if before.status is not NoteStatus.OPEN:
        told = f"({before.note_id}) is {before.status} and was changed"
        note.find("not-yours", "", told, "put it back, and make another note")
        return None
    fresh = Note(before.note_id, before.timestamp, before.description, before.context, category=after.category)
    moved = _moved(fresh, after, note, now)
    return Change(moved) if moved is not None else None


def _moved(fresh: Note, wanted: Note, note: Fields, now: int) -> Note | None:
    """An open note, moved to where its maker wants it."""
    if wanted.status is NoteStatus.OPEN:
        return fresh
    if wanted.status is NoteStatus.ESCALATED:
        moved, refusal = escalated(fresh, wanted.escalation_reason or "")
    elif wanted.resolved_by != SELF:
        told = f"is {shown(wanted.resolved_by)}"
        note.find("not-yours", "resolved_by", told, f"a worker may write only {SELF}; escalate it")
        return None
    elif wanted.escalation_reason is not None:
        note.find("not-yours", "escalation_reason", "is given, but the note was never escalated", "write null")
        return None
    else:
        moved, refusal = resolved(fresh, wanted.resolution or "", SELF, now)
    if moved is None:
        note.find("not-yours", "", f"can't be {wanted.status}: {refusal}", "correct it")
    return moved
