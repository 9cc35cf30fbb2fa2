"""`completion_drive/session_current.json`: a worker's notes, written for it and read back after its turn."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec.structs import asdict

from parley.base.documents.node import Entries, Node, plain
from parley.base.text import cut
from parley.base.wording import count
from parley.workflow.files.reading.strict_json import JsonFields, read_object, shown, write_json
from parley.workflow.model.grammar import NOTE_ID_FORM, is_note_id
from parley.workflow.model.notes import (
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
from parley.workflow.model.pending_notes import MOST_PENDING, MOST_WRITTEN, WITHDRAWN, number_of
from parley.workflow.model.terms import Category, Finding, Note, NoteStatus, RefusedNote, Session, session_of

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
class NoteChange:
    """One note that a worker made or changed."""

    note: Note  # as it is now
    made: bool = False
    mends: str = ""  # the pending note that it says it stands for


@dataclass(frozen=True, slots=True)
class TakenSession:
    """What is read back from a worker's file."""

    changes: tuple[NoteChange, ...] = ()
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


def take_back(given: Session, text: str, now: int, agent: str = "") -> TakenSession:
    """What a worker changed in the file that it was given.

    It may add notes, resolve those that it may, and escalate; it must not change the rest of the file, nor the times,
    since its clock can't be trusted. A new note that can't be taken is not lost: it is kept as it was written, and so
    is a file that can't be read.
    """
    top, findings = _document(text, agent)
    if top is None:
        return TakenSession((), () if text.strip() else tuple(findings), _as_written(text, findings))
    task_id, _ = _head(top)
    listed = _listed(top)
    if listed is None:
        return TakenSession((), (), _as_written(text, top.findings))
    if task_id and task_id != given.task_id:
        was, found = shown(given.task_id), shown(task_id)
        top.find("not-yours", "task_id", f"was {was} and is {found}", "put it back; it belongs to the protocol")
    taking = _Taking(given, now, top)
    for number, item in enumerate(listed):
        taking.take(number, item)
    for gone in (name for name in taking.known if name not in taking.found):
        top.find("not-yours", gone, "is gone", "put it back; a note stays, settled or not")
    return TakenSession(tuple(taking.changes), tuple(top.findings), tuple(taking.unfit), _withdrawn(top, given))


def _as_written(text: str, findings: Sequence[Finding]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ((text, tuple(str(one) for one in findings)),) if text.strip() else ()


class _Taking:
    """Reads the notes of a file one by one, so that an error in one does not lose another."""

    def __init__(self, given: Session, now: int, top: JsonFields) -> None:
        self.now, self.top = now, top
        self.known = {note.note_id: note for note in given.notes}
        self.seen: dict[str, int] = {}  # the names in the file, each with its place
        self.found: set[str] = set()  # the given notes that are still there
        self.next = len(given.notes)  # how many notes there are with those that are new
        self.changes: list[NoteChange] = []
        self.unfit: list[tuple[str, tuple[str, ...]]] = []

    def take(self, number: int, item: Node) -> None:
        """One note: one that was given, or a new one."""
        note = JsonFields(item, self.top.agent, f"notes[{number}]") if isinstance(item, Entries) else None
        name = note.values.get("note_id") if note is not None else None
        before = self.known.get(name) if isinstance(name, str) and name not in self.found else None
        if note is not None and before is not None and _is_about(before, note.values):
            self.seen.setdefault(before.note_id, number)
            self.found.add(before.note_id)
            self._given(note, before)
        else:
            problems = self._new(note) if note is not None else self._no_note(number, item)
            if problems:
                self.unfit.append((json.dumps(plain(item), ensure_ascii=False), problems))

    def _given(self, note: JsonFields, before: Note) -> None:
        after = _note(note, dated=False)
        changed = None if note.findings else _change(before, after, note, self.now)
        self.top.findings.extend(note.findings)
        if changed is not None and not note.findings:
            self.changes.append(changed)

    def _new(self, given: JsonFields) -> tuple[str, ...]:
        """A note that was not there before; what is wrong with it."""
        mends = given.values.get("mends")
        note = given.without("mends")
        _number(note, self.next, self.seen)
        self.next += 1
        wanted = _note(note, dated=False)
        if mends is not None and not number_of(mends):
            given.find("wrong-value", "mends", f"is {shown(mends)}", "name a pending note, as pending_001")
        if not note.findings:
            fresh = Note(wanted.note_id, self.now, wanted.description, wanted.context, category=wanted.category)
            moved = _moved(fresh, wanted, note, self.now)
            if moved is not None and not note.findings:
                self.changes.append(NoteChange(moved, made=True, mends=str(mends or "")))
        return tuple(map(str, note.findings))

    def _no_note(self, number: int, item: Node) -> tuple[str, ...]:
        told = JsonFields(self.top.node, self.top.agent, "")
        told.find("wrong-value", f"notes[{number}]", f"is {shown(plain(item))}", "it must be an object, a note")
        return tuple(map(str, told.findings))


def _is_about(before: Note, item: Mapping[str, Any]) -> bool:
    """Whether an entry of the file is still the note that was given: one that says another thing would be lost."""
    said = item.get("description")
    return said is None or said == before.description or item.get("context") == before.context


def _withdrawn(top: JsonFields, given: Session) -> tuple[tuple[str, str], ...]:
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


def _document(text: str, agent: str) -> tuple[JsonFields | None, list[Finding]]:
    return read_object(text, _file(agent), agent, "an object with task_id, session_start and notes")


def _head(top: JsonFields) -> tuple[str, int]:
    """The fields of the session itself."""
    top.only(_FILE_FIELDS)
    task_id = top.task_id()
    return task_id, top.second("session_start") or 0


def _listed(top: JsonFields) -> tuple[Node, ...] | None:
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
    return top.nodes("notes")


def _notes(top: JsonFields) -> tuple[Note, ...]:
    notes: list[Note] = []
    seen: dict[str, int] = {}
    for number, item in enumerate(_listed(top) or ()):
        at = f"notes[{number}]"
        if not isinstance(item, Entries):
            top.find("wrong-value", at, f"is {shown(plain(item))}", "it must be an object, a note")
            continue
        note = top.inner(item, at)
        _number(note, number, seen)
        notes.append(_note(note, dated=True))
    return tuple(notes)


def _pending(top: JsonFields) -> tuple[RefusedNote, ...]:
    """What was refused, and waits for its maker."""
    listed = top.values.get("pending", [])
    if not isinstance(listed, list) or len(listed) > MOST_PENDING:
        top.wrong("pending", f"a list of up to {MOST_PENDING} notes that were refused")
        return ()
    found: list[RefusedNote] = []
    for number, node in enumerate(top.nodes("pending")):
        at = f"pending[{number}]"
        if not isinstance(node, Entries):
            top.find("wrong-value", at, f"is {shown(plain(node))}", "it must be an object, a note that was refused")
            continue
        item = top.inner(node, at)
        item.only(_PENDING_FIELDS)
        name, problems = item.values.get("pending_id"), item.values.get("problems")
        if not number_of(name):
            item.wrong("pending_id", "pending_001, pending_002, …")
        if not isinstance(problems, list) or not all(isinstance(one, str) for one in problems):
            item.wrong("problems", "a list of texts: what is wrong with it")
            problems = []
        made = item.second("timestamp") or 0
        written = item.text("written", "a text: the note as it was written", MOST_WRITTEN)
        found.append(RefusedNote(str(name), made, written, tuple(problems)))
    return tuple(found)


def _number(note: JsonFields, number: int, seen: dict[str, int]) -> None:
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


class _Resolution(NamedTuple):
    """How a note was settled, by whom and when."""

    how: str | None = None
    by: str | None = None
    timestamp: int | None = None


def _note(note: JsonFields, *, dated: bool) -> Note:
    note.only(_NOTE_FIELDS)
    made = note.second("timestamp")
    description = note.text("description", "a text: what was assumed or uncertain", MOST_TEXT)
    context = note.text("context", "a text: what was being done when it came up", MOST_TEXT)
    category = _category(note)
    status = note.word("status", tuple(NoteStatus))
    settled = _resolution(note, status)
    if dated and settled.timestamp is not None and made is not None and settled.timestamp < made:
        note.find("wrong-value", "resolution_timestamp", "is before the note's timestamp", "it can't be earlier")
    if settled.by == SELF and category is not None and (refusal := refuse_self(category)):
        note.find("must-escalate", "resolved_by", f"is {shown(SELF)}, but {refusal}", "escalate it instead")
    return Note(
        note_id=str(note.values.get("note_id", "")),
        timestamp=made or 0,
        description=description,
        context=context,
        status=NoteStatus(status or NoteStatus.OPEN),
        category=category or Category.UNKNOWN,
        resolution=settled.how,
        resolved_by=settled.by,
        resolution_timestamp=settled.timestamp,
        escalation_reason=_reason(note, status),
    )


def _category(note: JsonFields) -> Category | None:
    """What a note is about; None: something that there is not."""
    value = note.values.get("category")
    if value is None or value == "":
        return Category.UNKNOWN
    if not isinstance(value, str) or value not in CATEGORIES:
        note.wrong("category", f"one of {', '.join(CATEGORIES)}, or left out")
        return None
    return Category(value)


def _resolution(note: JsonFields, status: str) -> _Resolution:
    """How a note was settled: all three fields if it was, and none if not."""
    if status == NoteStatus.RESOLVED:
        how = note.text("resolution", "a text: how the note was settled", MOST_TEXT)
        by = note.word("resolved_by", RESOLVERS)
        return _Resolution(how or None, by or None, note.second("resolution_timestamp"))
    for name in _OF_RESOLVED:
        if status and note.values.get(name) is not None:
            note.find("not-resolved", name, f"is given, but the status is {status}", "write null, or status resolved")
    return _Resolution()


def _reason(note: JsonFields, status: str) -> str | None:
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


def _change(before: Note, after: Note, note: JsonFields, now: int) -> NoteChange | None:
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
    return NoteChange(moved) if moved is not None else None


def _moved(fresh: Note, wanted: Note, note: JsonFields, now: int) -> Note | None:
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
