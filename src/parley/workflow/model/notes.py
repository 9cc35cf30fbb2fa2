"""The rules of notes: who may make, resolve or escalate one, and what a note must say for that.

A doer may settle by itself only what its category allows; all else is escalated, and answered by others.
Nothing here changes a session in place: each call gives the note as it becomes, or one line that says why not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from parley.base.text import BadText, check
from parley.protocol.molecules import HUMAN
from parley.workflow.files.reading.strict_json import shown
from parley.workflow.model.terms import MAY_SELF_RESOLVE, Category, Note, NoteStatus, Session

MOST_TEXT = 8_000  # characters of one field
MOST_NOTES = 500  # of one session

SELF = "agent_self"
BY_EXECUTOR = "workflow_executor"
BY_USER = "user"
RESOLVERS = (SELF, BY_EXECUTOR, BY_USER)

CATEGORIES = tuple(category.value for category in Category if category is not Category.UNKNOWN)
MUST_ESCALATE = tuple(
    category.value for category in Category if category not in MAY_SELF_RESOLVE and category is not Category.UNKNOWN
)
_MAKES = ("description", "context", "category", "status", "resolution", "escalation_reason")
_CHANGES = ("note_id", "category", "status", "resolution", "escalation_reason")


def note_id(number: int) -> str:
    """The name of a session's note; the first is 1."""
    return f"note_{number:03}"


def put(session: Session, note: Note) -> Session:
    """The session with a note: in the place of the one that has its name, or as the last."""
    names = [each.note_id for each in session.notes]
    if note.note_id not in names:
        return replace(session, notes=(*session.notes, note))
    at = names.index(note.note_id)
    return replace(session, notes=(*session.notes[:at], note, *session.notes[at + 1 :]))


def of_status(session: Session | None, status: NoteStatus) -> tuple[Note, ...]:
    """The notes with this status."""
    return tuple(note for note in session.notes if note.status is status) if session else ()


def unsettled(session: Session | None) -> tuple[Note, ...]:
    """The notes that keep the gate closed: open or escalated."""
    return tuple(note for note in session.notes if note.status is not NoteStatus.RESOLVED) if session else ()


def refuse_ready(session: Session | None) -> str:
    """Why a worker can't be ready for verification; empty: it can."""
    left = [f"{note.note_id} ({note.status})" for note in unsettled(session)]
    if left:
        return f"not every note is settled: {', '.join(left)}; resolve each, or escalate it and report blocked"
    names = [one.pending_id for one in session.pending] if session else []
    return f"refused notes are pending: {', '.join(names)}; mend each, or withdraw it" if names else ""


def refuse_blocked(session: Session | None) -> str:
    """Why a worker can't be blocked; empty: it can."""
    if of_status(session, NoteStatus.ESCALATED):
        return ""
    return "no note is escalated, so there is nothing to answer; escalate a note with its escalation_reason first"


def refuse_self(category: Category) -> str:
    """Why a doer can't settle a note of this category itself; empty: it may."""
    if category in MAY_SELF_RESOLVE:
        return ""
    allowed = ", ".join(sorted(MAY_SELF_RESOLVE))
    what = f"a note of category {category.value}" if category is not Category.UNKNOWN else "a note without a category"
    return f"{what} must be escalated; its maker may resolve only: {allowed}"


# ---- what a doer calls ---------------------------------------------------------------------------


class NoteCall(Struct, frozen=True, kw_only=True):
    """A call of the tool Note; what it did not say is empty."""

    note_id: str | None = None  # the note that it changes; None: it makes the next
    description: str = ""
    context: str = ""
    category: Category = Category.UNKNOWN
    status: NoteStatus | None = None
    resolution: str = ""
    escalation_reason: str = ""
    problem: str = ""  # what is wrong with its form; the rest counts only where nothing is


def read_call(arguments: Mapping[str, Any]) -> NoteCall:
    """Read a call of the tool Note from what an agent gave."""
    name = str(arguments["note_id"]) if "note_id" in arguments else None
    if problem := _misused(arguments, _MAKES if name is None else _CHANGES):
        return NoteCall(note_id=name, problem=problem)
    said = {key: str(value) for key, value in arguments.items() if value}
    return NoteCall(
        note_id=name,
        description=said.get("description", ""),
        context=said.get("context", ""),
        category=Category(said.get("category", "")),
        status=NoteStatus(said["status"]) if "status" in said else None,
        resolution=said.get("resolution", ""),
        escalation_reason=said.get("escalation_reason", ""),
    )


def called(session: Session, call: NoteCall, now: int) -> tuple[Note | None, str]:
    """What a call of the tool Note makes of a session's note, or why it is refused."""
    if call.problem:
        return None, call.problem
    if call.note_id is not None:
        return _changed(session, call.note_id, call, now)
    if len(session.notes) >= MOST_NOTES:
        return None, f"this session has {MOST_NOTES} notes already; settle what is there first"
    for name, text in (("description", call.description), ("context", call.context)):
        if not text.strip():
            return None, f"{name} is missing; say {_ABOUT[name]}"
    made = Note(note_id(len(session.notes) + 1), now, call.description, call.context, category=call.category)
    return (made, "") if call.status in (None, NoteStatus.OPEN) else _moved(made, call.status, call, now)


def _changed(session: Session, name: str, call: NoteCall, now: int) -> tuple[Note | None, str]:
    note = next((each for each in session.notes if each.note_id == name), None)
    if note is None:
        there = ", ".join(each.note_id for each in session.notes) or "none yet"
        return None, f"there is no note {shown(name)} in this session; its notes: {there}"
    if call.category is not Category.UNKNOWN and call.category is not note.category:
        if note.category is not Category.UNKNOWN:
            return None, f"{name} is of category {note.category}, which stays; make another note for something else"
        note = replace(note, category=call.category)
    if call.status is None:
        return None, "status is missing; write resolved or escalated"
    return _moved(note, call.status, call, now)


def _moved(note: Note, status: NoteStatus, call: NoteCall, now: int) -> tuple[Note | None, str]:
    if status is NoteStatus.OPEN:
        return None, f"{note.note_id} can't be opened again; make another note"
    if status is NoteStatus.ESCALATED:
        return escalated(note, call.escalation_reason)
    return resolved(note, call.resolution, SELF, now)


def escalated(note: Note, reason: str) -> tuple[Note | None, str]:
    """A note escalated by its maker."""
    if note.status is not NoteStatus.OPEN:
        return None, f"{note.note_id} is {note.status} already; make another note"
    if not reason.strip():
        return None, f"escalation_reason is missing; say {_ABOUT['escalation_reason']}"
    return replace(note, status=NoteStatus.ESCALATED, escalation_reason=reason), ""


def handed_up(note: Note, reason: str) -> Note:
    """An open note that the executor escalates for its maker."""
    return replace(note, status=NoteStatus.ESCALATED, escalation_reason=reason)


def resolved(note: Note, resolution: str, by: str, now: int) -> tuple[Note | None, str]:
    """A note resolved by its maker (`agent_self`), or by an answer from above."""
    if by not in RESOLVERS:
        return None, f"resolved_by is {shown(by)}; it must be one of {', '.join(RESOLVERS)}"
    if note.status is NoteStatus.RESOLVED:
        return None, f"{note.note_id} is resolved already; make another note"
    if by == SELF and note.status is NoteStatus.ESCALATED:
        return None, f"{note.note_id} is escalated: its answer comes from others; report blocked and wait for it"
    if by == SELF and (refusal := refuse_self(note.category)):
        return None, f"{note.note_id}: {refusal}"
    if not resolution.strip():
        return None, f"resolution is missing; say {_ABOUT['resolution']}"
    settled = replace(note, status=NoteStatus.RESOLVED, resolution=resolution, resolved_by=by, resolution_timestamp=now)
    return settled, ""


def by_whom(author: str) -> str:
    """The `resolved_by` of an answer: the proxy's own words are not the user's."""
    return BY_USER if author == HUMAN else BY_EXECUTOR


_ABOUT = {
    "description": "what you assume or are unsure of",
    "context": "what you were doing when it came up",
    "resolution": "how it was settled, with the evidence",
    "escalation_reason": "why others have to answer it",
}


def _misused(arguments: Mapping[str, Any], known: Sequence[str]) -> str:
    """What is wrong with the form of a call."""
    for name, value in arguments.items():
        if name not in known:
            return f"{shown(name)} can't be given here; use: {', '.join(known)}"
        if value is None:
            continue
        if not isinstance(value, str):
            return f"{name} is {shown(value)}; it must be a text"
        try:
            check(value, MOST_TEXT, name)
        except BadText as wrong:
            return f"{wrong}; {wrong.remedy}"
    if (category := arguments.get("category")) and category not in CATEGORIES:
        return f"category is {shown(category)}; it must be one of {', '.join(CATEGORIES)}"
    if (status := arguments.get("status")) and status not in tuple(NoteStatus):
        return f"status is {shown(status)}; it must be one of {', '.join(NoteStatus)}"
    return ""
