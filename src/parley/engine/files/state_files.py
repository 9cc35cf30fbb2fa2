"""State records as files: saved for people and programs, and read back by them.

The bus alone says where a job stands. What is loaded here is a value to look at: no module of a job's own imports this
one, and a contract of the import checker says so.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from parley.engine.files.job_records import STATE_FORMAT, render, state_document
from parley.protocol.molecules import Entry, Record
from parley.protocol.states import ACTION_TO_STATE, TRANSITIONS, State
from parley.roles.phases import phase_of

T = TypeVar("T", bound=msgspec.Struct)

BESIDE = ("format", "phase", "answers", "head")  # what a document has besides the record's own fields


class StateFileError(Exception):
    """A file holds no state record: the text says why, and what to do, in one line."""


def save_state(record: Record, path: Path) -> None:
    """Write a state record to a file, whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(render(state_document(record)))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise StateFileError(
            f"{path} can't be written: {error.strerror}; name a place that is yours to change"
        ) from error


def load_state(path: Path) -> Record:
    """The state record that a file holds: `save_state` wrote it, or it is a job's `state.json` or `records/*.json`."""
    try:
        document = json.loads(path.read_text(encoding="utf-8", errors="surrogatepass"))
    except OSError as error:
        raise StateFileError(f"{path} can't be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise StateFileError(f"{path} is not JSON: {error}; name a state record") from error
    try:
        return _record(document)
    except _Wrong as wrong:
        raise StateFileError(f"{path} holds no state record: {wrong}") from wrong


class _Wrong(Exception):
    """What is wrong with a document."""


def _record(document: Any) -> Record:
    if not isinstance(document, dict):
        raise _Wrong("it is no JSON object")
    if document.get("format") != STATE_FORMAT:
        found = document.get("format")
        raise _Wrong(f"its format is {found!r:.40}, and this Parley reads {STATE_FORMAT}")
    names = Record.__struct_fields__
    _refuse_other_keys(document, (*names, *BESIDE), (*names, "phase"))
    history, approved = document["history"], document["approved"]
    if not isinstance(history, list) or not isinstance(approved, dict):
        raise _Wrong("its history must be a list, and what it approved an object")
    entries = [_entry(number, entry) for number, entry in enumerate(history, 1)]
    record = _term(Record, {**document, "history": entries, "approved": list(approved.items())})
    if odd := [entry for entry in record.history if entry.action not in TRANSITIONS[entry.state]]:
        raise _Wrong(f"{odd[0].action} in its history does not leave {odd[0].state}")
    leads_to = ACTION_TO_STATE[record.history[-1].action] if record.history else State.INTENT
    if record.state is not leads_to:
        raise _Wrong(f"it says {record.state}, and its history leads to {leads_to}")
    if document["phase"] != phase_of(record):
        raise _Wrong(f"its phase is {document['phase']!r:.40}, and its state belongs to {phase_of(record)}")
    return record


def _entry(number: int, entry: Any) -> Entry:
    if not isinstance(entry, dict):
        raise _Wrong(f"entry {number} of its history is no JSON object")
    _refuse_other_keys(entry, Entry.__struct_fields__, Entry.__struct_fields__)
    return _term(Entry, entry)


def _refuse_other_keys(document: dict[str, Any], known: Sequence[str], due: Sequence[str]) -> None:
    if missing := [name for name in due if name not in document]:
        raise _Wrong(f"it has no {missing[0]!r}")
    if extra := [name for name in document if name not in known]:
        raise _Wrong(f"it has {extra[0]!r:.60}, which no state record has")


def _term(kind: type[T], values: dict[str, Any]) -> T:
    found = {}
    for field in msgspec.structs.fields(kind):
        try:
            found[field.name] = msgspec.convert(values[field.name], field.type)
        except msgspec.ValidationError as error:
            raise _Wrong(f"its {field.name}: {error}") from error
    return kind(**found)
