"""Rows of the bus without the secrets in their words.

What the protocol itself reads in them stays as it is: names, threads, states and numbers are never touched,
whatever value somebody calls a secret.
"""

from __future__ import annotations

import json
import re
from typing import Any

from parley.core.wire import TERM_NAMES
from parley.engine.names import HANDLE
from parley.engine.records import dumps
from parley.engine.redaction import Secrets
from parley.ports import InputRow, JobRow, MessageRow, StepRow

# Members of JSON objects that the protocol, or a view of it, goes by: names, threads, states, digests and the like. All
# others hold words of a person or an agent, or may come to: what is not listed here is redacted.
NAMES = frozenset({
    "about", "action", "actor", "agent", "agents", "architect", "artifact", "asked", "asker", "author", "base",
    "bus", "by", "category", "choice", "commit", "commits", "contents", "day", "dead", "decider", "decision",
    "digest", "doing", "end", "event", "failed", "host", "how", "id", "kept", "kind", "message", "name", "note_id",
    "of", "origin", "phase", "policies", "policy", "question", "read", "record", "resolved_by", "role", "route",
    "ruling", "runner", "settings", "sides", "stalled", "state", "status", "step", "task_id", "team",
    "thread", "threads", "to", "tools", "tree", "turn", "verdict", "verified", "verifier", "workspace",
})  # fmt: skip
# Of these, the ones whose members have names as well, whatever they are called.
MAPS = frozenset({"contents", "policies"})
# Members in which an agent, or a playbook, has named members of its own: those may hold words, too.
FREE = frozenset({"arguments", "do", "more", "note", "notes", "said", "usage"})
# Of the protocol's own terms, all is names; but for words at these places.
TERMS = {"Passage": 3, "Entry": 4}
# What the protocol itself puts before a message's words.
_MARK = re.compile(
    r"\[(?:INTENT|PLAN|EXECUTE|PENDING|VIOLATION|FAILED|STALLED|RECOVERED|WITHDRAW|QUESTION|MERGE (?:clean|conflict)"
    r"|INTERVENE (?:advisory|authoritative)"
    r"|(?:ANSWER|HUMAN)(?: (?:approve|revise|withdraw|backtrack (?:intent|plan)|chose [a-z]+))?)\]"
)
# Slots of the derived table that hold words as they are.
KEPT = (f"{HANDLE} ",)


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
    return row._replace(choice=words(row.choice, secrets, "choice"), extra=words(row.extra, secrets))


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


def words(text: str, secrets: Secrets, member: str = "") -> str:
    """A JSON text with the words in it redacted; to the letter the same where there is nothing to redact.

    `member`: what it is a member of, where it is not a whole document.
    """
    if secrets.redact(text) == text:
        return text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return secrets.redact(text)
    redacted = _walk(value, secrets, member)
    return text if redacted == value else dumps(redacted)


def _walk(value: Any, secrets: Secrets, member: str) -> Any:
    """A value redacted. `member`: which member it is, or is in the list of."""
    if member in FREE:
        return secrets.document(value)
    if isinstance(value, str):
        return value if member in NAMES or member in TERM_NAMES else secrets.redact(value)
    if isinstance(value, list):
        said = TERMS.get(member, -1)
        return [_walk(item, secrets, "" if place == said else member) for place, item in enumerate(value)]
    if isinstance(value, dict):
        inner = member if member in MAPS else ""
        return {key: _walk(item, secrets, inner or key) for key, item in value.items()}
    return value
