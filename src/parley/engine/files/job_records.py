"""The job's readable records, made from the bus: state records, streams, outcomes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import asdict

from parley.base.json_codec import decode
from parley.base.text import visible_json
from parley.bus.rows import InputRow
from parley.engine.values.human_inputs import AnswerInput
from parley.protocol.molecules import Record
from parley.roles.phases import phase_of

STATE_FORMAT = 1  # of a state record's document


def state_document(
    record: Record, head: Mapping[str, Any] | None = None, answers: Iterable[InputRow] = ()
) -> dict[str, Any]:
    """A state record as people and programs read it, whole; a job's own says who has answered for the human."""
    document: dict[str, Any] = {"format": STATE_FORMAT, "id": record.id, "phase": phase_of(record)}
    document |= asdict(record)
    document["history"] = [asdict(entry) for entry in record.history]
    document["approved"] = dict(record.approved)
    if head is not None:
        document["answers"] = [_answer(row) for row in answers]
        document["head"] = head
    return document


def _answer(row: InputRow) -> dict[str, Any]:
    given = decode(row.body, AnswerInput)
    return {"question": given.question, "verdict": given.ruling, "by": row.by, "timestamp": row.time}


def render(document: dict[str, Any]) -> str:
    """A document as it is written to a file: with nothing in it that a terminal would obey."""
    return visible_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"
