"""Pending notes: refused for their form, and kept as written until their maker corrects or withdraws them.

An assumption must not be lost because it was written down badly. A pending note keeps the gate closed like an open
one. Another note in its place corrects it; its maker may withdraw it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from parley.base.text import cut, mended
from parley.workflow.model.terms import Note, RefusedNote, Session

MOST_PENDING = 50  # of one session; further ones are added to the last
MOST_WRITTEN = 8_000  # characters that are kept of one
MOST_PROBLEMS = 20
ALIKE = 60  # characters; descriptions that begin with the same count as one
WITHDRAWN = "withdrawn"
_ID = re.compile(r"pending_([0-9]{3,6})")


def pending_id(number: int) -> str:
    """The name of a note that was refused; the first is 1."""
    return f"pending_{number:03}"


def number_of(name: Any) -> int:
    """The number in such a name; 0: it is none."""
    found = _ID.fullmatch(name) if isinstance(name, str) else None
    return int(found[1]) if found else 0


def refused(session: Session, number: int, written: str, problems: Sequence[str], now: int) -> Session:
    """The session with a refused note; the same text is not added twice."""
    kept = cut(mended(written), MOST_WRITTEN)
    if any(one.written == kept for one in session.pending):
        return session
    told = tuple(cut(mended(problem), MOST_WRITTEN) for problem in problems[:MOST_PROBLEMS])
    if len(session.pending) < MOST_PENDING:
        return replace(session, pending=(*session.pending, RefusedNote(pending_id(number), now, kept, told)))
    last = session.pending[-1]
    more = replace(last, written=cut(f"{last.written}\n{kept}", MOST_WRITTEN))
    return replace(session, pending=(*session.pending[:-1], more))


def without(session: Session, name: str) -> Session:
    """The session without a pending note that was corrected or withdrawn."""
    return replace(session, pending=tuple(one for one in session.pending if one.pending_id != name))


def mended_by(session: Session, note: Note, named: str = "") -> tuple[str, ...]:
    """The pending notes that a new note corrects: the one that it names, else those that say the same."""
    if named:
        return tuple(one.pending_id for one in session.pending if one.pending_id == named)
    return tuple(one.pending_id for one in session.pending if _says_the_same(one, note))


def _says_the_same(one: RefusedNote, note: Note) -> bool:
    try:
        said = json.loads(one.written)
    except ValueError:
        return False
    if not isinstance(said, dict):
        return False
    for name, text in (("description", note.description), ("context", note.context)):
        was = said.get(name)
        if isinstance(was, str) and was.strip():
            return was.strip()[:ALIKE].casefold() == text.strip()[:ALIKE].casefold()
    return False
