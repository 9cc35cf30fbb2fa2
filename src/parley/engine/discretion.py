"""Rows of the bus without the secrets in their words.

What the protocol itself reads in them stays as it is: names, threads, states and numbers are never touched,
whatever value somebody calls a secret.
"""

from __future__ import annotations

import json
import re
from typing import Any

from parley.engine.names import HANDLE
from parley.engine.records import dumps
from parley.engine.redaction import Secrets
from parley.ports import InputRow, JobRow, MessageRow, StepRow

# Members of JSON objects that hold words of a person or an agent.
WORDS = frozenset(
    {
        "text",
        "reason",
        "fault",
        "problem",
        "framing",
        "failure",
        "prompt",
        "description",
        "match",
        "shell",
        "say",
        "notes",
        "refused",
        "left_out",
        "found",
        "remarks",
        "words",
        "excerpt",
        "context",
        "resolution",
        "escalation_reason",
        "findings",
        "output",
        "objective",
        "boundaries",
        "deliverable",
        "problems",
        "written",
        "mended",
        "gaps",
        "plan",
        "draft",
        "instructions",
        "diff",
        "more",
        "judged",
        "answer",
        "said",
        "workflow",
        "path",
        "unportable",
        "paths",
        "outside",
        "do",
        "assumption",
        "model",
    }
)
# Terms that hold such words, and at which place.
TERMS = {"Passage": 3, "Entry": 4}
# What the protocol itself puts before a message's words.
_MARK = re.compile(
    r"\[(?:INTENT|PLAN|EXECUTE|PENDING|VIOLATION|FAILED|STALLED|RECOVERED|WITHDRAW|QUESTION|MERGE (?:clean|conflict)"
    r"|INTERVENE (?:advisory|authoritative)"
    r"|(?:ANSWER|HUMAN)(?: (?:approve|revise|withdraw|backtrack (?:intent|plan)|chose [a-z]+))?)\]"
)
# Slots of the derived table that hold words as they are.
KEPT = (f"{HANDLE} retry ",)


def job_row(row: JobRow, secrets: Secrets) -> JobRow:
    """A job's row: its request, and the words in its settings."""
    return row._replace(request=secrets.redact(row.request), settings=words(row.settings, secrets))


def message_row(row: MessageRow, secrets: Secrets) -> MessageRow:
    """A message: its body, and the words in what is known about it."""
    mark = _MARK.match(row.body)
    start = mark.end() if mark else 0
    return row._replace(body=row.body[:start] + secrets.redact(row.body[start:]), meta=words(row.meta, secrets))


def step_row(row: StepRow, secrets: Secrets) -> StepRow:
    """A step: the words in what was chosen and in what its turn left behind."""
    return row._replace(choice=words(row.choice, secrets), extra=words(row.extra, secrets))


def input_row(row: InputRow, secrets: Secrets) -> InputRow:
    """An input: the words in it, and the note on it."""
    return row._replace(body=words(row.body, secrets), note=secrets.redact(row.note))


def molecule(where: str, body: str, secrets: Secrets) -> str:
    """A derived row: a term, or words that are kept beside the soup."""
    return secrets.redact(body) if where.startswith(KEPT) else words(body, secrets)


def file(name: str, data: bytes, secrets: Secrets) -> bytes:
    """One of a job's files; to the byte the same where there is nothing to redact."""
    text = data.decode("utf-8", "surrogateescape")
    redacted = words(text, secrets) if name.endswith(".json") else secrets.redact(text)
    return data if redacted == text else redacted.encode("utf-8", "surrogateescape")


def words(text: str, secrets: Secrets) -> str:
    """A JSON text with the words in it redacted; to the letter the same where there is nothing to redact."""
    if secrets.redact(text) == text:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return secrets.redact(text)
    redacted = _walk(value, secrets)
    return text if redacted == value else dumps(redacted)


def _walk(value: Any, secrets: Secrets) -> Any:
    if isinstance(value, list):
        return [_walk(item, secrets) for item in value]
    if not isinstance(value, dict):
        return value
    found: dict[str, Any] = {}
    for key, item in value.items():
        if key in WORDS:
            found[key] = secrets.document(item)
        elif key in TERMS and isinstance(item, list) and len(item) > TERMS[key]:
            at = TERMS[key]
            found[key] = [*_walk(item[:at], secrets), secrets.document(item[at]), *_walk(item[at + 1 :], secrets)]
        else:
            found[key] = _walk(item, secrets)
    return found
