"""The job's readable records, made from the bus: state records, streams, outcomes."""

from __future__ import annotations

import json
import json.encoder
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from parley.core.states import PHASES, Record
from parley.core.terms import Ruling
from parley.ports import MERGE, InputRow
from parley.text import BadText, read_json, visible_json

dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""JSON as the bus and the streams hold it, on one line."""
quote = json.encoder.encode_basestring
"""A string as `dumps` writes it."""
LONGEST_LINE = 1 << 23  # characters of a stream's line


STATE_FORMAT = 1  # of a state record's document
ANSWERED = "answered"  # the note of an answer that was taken
LATE, REFUSED = "too late: ", "refused: "  # how the note of an input begins that had no effect
UNSIGNED = f"{REFUSED}it is not signed with this bus's key: another program wrote it"
WORDLESS = "revise needs words; say what is to change"
NOT_DONE = (LATE, REFUSED)  # how the note on an input begins that had no effect


def asks(rows: Iterable[InputRow]) -> bool:
    """Whether somebody asks something of a job by these inputs."""
    return any(row.kind != MERGE for row in rows)


def answered(rows: Iterable[InputRow]) -> list[InputRow]:
    """The answers among a job's inputs that were taken."""
    return [row for row in rows if row.kind == "answer" and row.note == ANSWERED]


def state_document(
    record: Record, head: dict[str, Any] | None = None, answers: Iterable[InputRow] = ()
) -> dict[str, Any]:
    """A state record as people and programs read it, whole; a job's own says who has answered for the human."""
    document: dict[str, Any] = {"format": STATE_FORMAT, "id": record.id, "phase": record.phase}
    for field in fields(record):
        document[field.name] = getattr(record, field.name)
    document["history"] = [
        {field.name: getattr(entry, field.name) for field in fields(entry)} for entry in record.history
    ]
    document["approved"] = dict(record.approved)
    if head is not None:
        document["answers"] = [_answer(row) for row in answers]
        document["head"] = head
    return document


def _answer(row: InputRow) -> dict[str, Any]:
    body = json.loads(row.body)
    return {"question": body["question"], "verdict": body["ruling"], "by": row.by, "timestamp": row.time}


def render(document: dict[str, Any]) -> str:
    """A document as it is written to a file: with nothing in it that a terminal would obey."""
    return visible_json(json.dumps(document, indent=2, ensure_ascii=False)) + "\n"


def stream_of(record: Record, thread: str) -> str:
    """The stream of a thread: one for each phase's lead, one for each other thread."""
    kind, _, name = thread.partition(":")
    if kind == "state" and record.thread == thread and record.live:
        return PHASES[record.state].stream
    return f"streams/{kind}-{name.replace('/', '-')}.jsonl"


def home_of(agent: str, thread: str) -> str:
    """The folder of an instance's home, beside those of the others."""
    return f"{agent}-{thread.replace(':', '-').replace('/', '-')}"


def line(time: float, turn: str, event: str, rest: str) -> str:
    """One line of a stream. `rest` is what the event has to say, as members of a JSON object.

    People read streams as they are, so there is nothing in it that a terminal would obey, or take for a line's end.
    """
    moment = repr(time)  # by itself: within the literal, a compiled module calls `format` for it
    return visible_json(f'{{"time":{moment},"turn":"{turn}","event":"{event}",{rest}}}')


def read_line(text: str) -> dict[str, Any]:
    """What a line of a stream says; nothing where a crash has cut it off."""
    try:
        said = read_json(text, LONGEST_LINE, mend=True)
    except BadText:
        return {}
    return said if isinstance(said, dict) else {}


def lacks_words(ruling: str | None, text: str) -> bool:
    """Whether a verdict is of no use as it is: the agent that is to revise something has to read what."""
    return ruling == Ruling.REVISE and not text.strip()
