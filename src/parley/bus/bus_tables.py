"""The tables of a bus as plain rows, as a copy from one store to another carries them: every column, to the letter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from parley.bus.key_files import Key

Values = tuple[Any, ...]

# A row of a job has its job's serial and its number; who owns a job is not carried.
TABLES: dict[str, tuple[str, ...]] = {
    "jobs": (
        "serial", "job", "decider", "created", "updated", "state", "visit", "backtracks", "needs_human", "held",
        "agent",
    ),
    "charters": ("job", "request", "settings"),
    "owners": ("job", "epoch"),
    "commits": ("job", "number", "time", "epoch", "steps", "messages", "head", "digests", "seal"),
    "steps": (
        "job", "number", "txn", "rule", "who", "time", "at", "choice", "consumed", "produced", "extra",
    ),
    "messages": (
        "job", "number", "txn", "sender", "sender_thread", "agent", "thread", "seq", "key", "time", "body", "meta",
        "kind",
    ),
    "recipients": ("job", "agent", "thread", "seq"),
    "molecules": ("job", "slot", "body"),
    "turns": ("job", "number", "agent", "thread", "message", "epoch", "host", "status", "started"),
    "inputs": ("number", "job", "kind", "key", "time", "by", "body", "taken", "note", "signature"),
    "spending": ("job", "day", "turns", "tokens", "micros", "millis"),
}  # fmt: skip


class Copied(Protocol):
    """A store that can be copied."""

    key: Key | None

    def alone(self) -> AbstractContextManager[object]:
        """No other process writes while it lasts."""

    def table(self, name: str) -> Iterator[Values]:
        """The rows of a table, with the columns of TABLES."""


def same_rows(one: Copied, other: Copied) -> str:
    """The first table in which two buses differ; empty where they are the same."""
    for name in TABLES:
        if sorted(one.table(name), key=repr) != sorted(other.table(name), key=repr):
            return name
    return ""


def all_tables(source: Copied) -> Iterable[tuple[str, Iterator[Values]]]:
    """Every table with its rows."""
    return ((name, source.table(name)) for name in TABLES)
