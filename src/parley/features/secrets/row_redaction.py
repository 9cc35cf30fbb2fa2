"""Rows of the bus without the secrets in their words.

What the protocol itself reads in them stays as it is: names, threads, states and numbers are never touched,
even if a `.env` file calls one of them a secret.
"""

from __future__ import annotations

import json
import re
from typing import Any

from msgspec.structs import replace

from parley.base.json_codec import encode
from parley.base.redaction import Secrets
from parley.bus.rows import InputRow, JobRow, MessageRow, StepRow
from parley.bus.slots import holds_handle, holds_molecule
from parley.protocol.codec import decode_choice, decode_molecule, encode_term
from parley.protocol.errors import ProtocolError
from parley.protocol.molecules import ORCHESTRATOR, MessageKind, Record
from parley.protocol.rule import Passage

# Members of JSON objects that the protocol, or a view of it, goes by: names, threads, states, digests and the like. All
# others hold words of a person or an agent, or may come to: what is not listed here is redacted.
NAMES = frozenset({
    "about", "action", "actor", "agent", "agents", "architect", "artifact", "asked", "asker", "author", "base",
    "bus", "by", "category", "choice", "commit", "commits", "contents", "day", "decider", "decision",
    "digest", "doing", "end", "event", "host", "how", "id", "kept", "kind", "may", "message", "name", "note_id",
    "of", "origin", "people", "person", "phase", "policies", "policy", "put", "question", "read", "record",
    "resolved_by", "role", "route", "ruling", "runner", "settings", "sides", "state", "status", "step", "task_id",
    "team", "thread", "threads", "to", "tools", "tree", "turn", "verdict", "verified", "verifier", "workspace",
})  # fmt: skip
# Of these, the ones whose members have names of any kind as well.
MAPS = frozenset({"contents", "people", "policies"})
# Members in which an agent, or a playbook, has named members of its own: those may hold words, too.
FREE = frozenset({"arguments", "do", "more", "note", "notes", "said", "usage"})
# The messages that the protocol itself writes, and the mark that it puts before their words. Of the mark only what is
# known is kept as it is: an archive is redacted too whose rows another program has changed.
_MARKED = frozenset(
    {MessageKind.QUESTION, MessageKind.REPLY, MessageKind.ANSWER, MessageKind.INTERVENTION, MessageKind.NOTICE}
)
_MARK = re.compile(
    r"\[(?:INTENT|PLAN|EXECUTE|PENDING|VIOLATION|FAILED|STALLED|RECOVERED|WITHDRAW|QUESTION|MERGE (?:clean|conflict)"
    r"|INTERVENE (?:advisory|authoritative)"
    r"|(?:ANSWER|HUMAN)(?: (?:approve|revise|withdraw|backtrack (?:intent|plan)|chose [a-z]+))?)\]"
)


def job_row(row: JobRow, secrets: Secrets) -> JobRow:
    """A job's row: its request, and the words in its settings."""
    return replace(row, request=secrets.redact(row.request), settings=words(row.settings, secrets))


def message_row(row: MessageRow, secrets: Secrets) -> MessageRow:
    """A message: its body, and the words in what is known about it."""
    mark = _MARK.match(row.body) if row.kind in _MARKED or row.sender == ORCHESTRATOR else None
    start = mark.end() if mark else 0
    return replace(row, body=row.body[:start] + secrets.redact(row.body[start:]), meta=words(row.meta, secrets))


def step_row(row: StepRow, secrets: Secrets) -> StepRow:
    """A step: the words in what was chosen and in what its turn left behind."""
    return replace(row, choice=choice(row.choice, secrets), extra=words(row.extra, secrets))


def input_row(row: InputRow, secrets: Secrets) -> InputRow:
    """An input: the words in it, and the note on it."""
    return replace(row, body=words(row.body, secrets), note=words(row.note, secrets))


def molecule(where: str, body: str, secrets: Secrets) -> str:
    """A derived row: a molecule, of which only the reasons in a record are words, or what is kept beside the soup."""
    if not holds_molecule(where):
        return secrets.redact(body) if holds_handle(where) else words(body, secrets)  # a handle is words as it is
    if secrets.redact(body) == body:
        return body
    try:
        found = decode_molecule(body)
    except ProtocolError:
        return words(body, secrets)  # another program has written it
    if not isinstance(found, Record):
        return body
    entries = (replace(entry, reason=secrets.redact(entry.reason)) for entry in found.history)
    return encode_term(replace(found, history=tuple(entries)))


def choice(text: str, secrets: Secrets) -> str:
    """What was chosen in a step: only the reason of an outcome is words."""
    if not text or secrets.redact(text) == text:
        return text
    try:
        found = decode_choice(text)
    except ProtocolError:
        return words(text, secrets)  # another program has written it
    return encode_term(replace(found, reason=secrets.redact(found.reason))) if isinstance(found, Passage) else text


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
    redacted = _walk(value, secrets, "")
    return text if redacted == value else encode(redacted)


def _walk(value: Any, secrets: Secrets, member: str) -> Any:
    """A value redacted. `member`: which member it is, or is in the list of."""
    if member in FREE:
        return secrets.document(value)
    if isinstance(value, str):
        return value if member in NAMES else secrets.redact(value)
    if isinstance(value, list):
        return [_walk(item, secrets, member) for item in value]
    if isinstance(value, dict):
        inner = member if member in MAPS else ""
        return {key: _walk(item, secrets, inner or key) for key, item in value.items()}
    return value
