"""A quick look at a bus: its jobs, for a listing, and which of them a process owns. Nothing is written.

It imports little, so that a listing starts fast, and knows less than the store: where it raises an error, the caller
asks the store, which can say what is wrong.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from parley.bus.glimpses import Glimpse, glimpse_of
from parley.bus.sqlite import bus_schema, safe_open
from parley.bus.sqlite.queries import QUERIES

PATIENCE_SECONDS = 2.0


class Opened(NamedTuple):
    """A bus that was admitted and compared with its schema."""

    connection: sqlite3.Connection
    key: safe_open.Key

    def execute(self, name: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Run one of the queries."""
        return self.connection.execute(QUERIES[name], values)

    def glimpses(self) -> list[Glimpse]:
        """The jobs, oldest first."""
        answered = self._answered()
        rows = self.execute("glance_jobs")
        rows.row_factory = sqlite3.Row
        return [glimpse_of(dict(row), answered[row["job"]]) for row in rows]

    def _answered(self) -> Counter[str]:
        """How many answers of each job wait for its owner: only those count that were signed with the bus's key."""
        found: Counter[str] = Counter()
        rows = self.execute("glance_answers").fetchall()
        if rows:
            signatures = import_module("parley.bus.signatures")  # seldom needed, and takes longer than all the rest
            left = [signatures.LeftInput._make(row) for row in rows]
            found.update(row.job for row in left if signatures.is_signed(self.key.secret, row, row.signature))
        return found


@contextmanager
def opened(home: Path, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[Opened]:
    """The bus of a home, without its store. An error if there is none, or it is refused."""
    key = safe_open.admit(home)
    if key is None or key.server:
        raise sqlite3.DatabaseError("there is no bus in a file")
    connection = safe_open.connect(home, patience_seconds)
    try:
        path = home / safe_open.FILE
        if bus_schema.version_of(connection, path) != bus_schema.latest():
            raise sqlite3.DatabaseError("it has no schema yet, or one that the store has to migrate")
        bus_schema.check_schema(connection, path, bus_schema.latest())
        safe_open.check_identity(connection, home, key)
        yield Opened(connection, key)
    finally:
        connection.close()


def glance(home: Path) -> list[Glimpse]:
    """The jobs, oldest first. An error if that is not so simple, or the bus is refused."""
    with opened(home) as bus:
        bus.connection.execute("PRAGMA query_only = ON")
        return bus.glimpses()


def is_owned(home: Path, job: str) -> bool:
    """Whether a living process owns the job: the kernel's word on its lock."""
    try:
        descriptor = os.open(home / "locks" / f"{job}.lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
