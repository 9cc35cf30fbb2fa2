"""The tables of a bus as plain rows, as a copy from one store to another carries them: every column, to the letter."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from hashlib import blake2b
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

# How many columns at its beginning tell a table's rows apart; a table is read in their order.
KEY_COLUMNS = {
    "jobs": 1, "charters": 1, "owners": 1, "commits": 2, "steps": 2, "messages": 2, "recipients": 3, "molecules": 2,
    "turns": 2, "inputs": 1, "spending": 2,
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
    return next((name for name in TABLES if _summary(one.table(name)) != _summary(other.table(name))), "")


def _summary(rows: Iterator[Values]) -> tuple[int, int]:
    """How many rows there are, and the sum of their digests: the same in any order, and no row is kept in memory."""
    number = total = 0
    for row in rows:
        number += 1
        total += int.from_bytes(blake2b(repr(row).encode("utf-8", "surrogatepass")).digest())
    return number, total


def all_tables(source: Copied) -> Iterable[tuple[str, Iterator[Values]]]:
    """Every table with its rows."""
    return ((name, source.table(name)) for name in TABLES)
