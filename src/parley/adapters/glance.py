"""A quick look at a bus: its jobs, for a listing, and who owns them. Nothing is written.

It imports little, so that a listing starts fast. It knows less than the store: what it makes no sense of is
an error here, and whoever gets one asks the store, which can say what is wrong.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from parley.adapters import bus_gate

PATIENCE_SECONDS = 2.0


class Glimpse(NamedTuple):
    """A job as a listing shows it."""

    job: str
    request: str
    updated: float
    state: str
    backtracks: int
    waiting: int  # questions that wait for the human, those left out whose answers are there
    held: int
    stalled: int = 0  # instances that show no sign of life, as long as somebody works on the job
    alarms: int = 0  # those of them that count among what waits for the human
    waits: tuple[str, ...] = ()  # why instances wait for their provider: the causes of those holds


def glance(home: Path) -> list[Glimpse]:
    """The jobs, oldest first. An error if that is not so simple, or the bus is refused."""
    with opened(home) as bus:
        bus.connection.execute("PRAGMA query_only = ON")
        answered = _answered(bus.execute("glance_answers").fetchall(), bus.key)
        found = [_glimpse(*row) for row in bus.execute("glance_jobs")]
        return [seen._replace(waiting=seen.waiting - answered.get(seen.job, 0)) for seen in found]


class Opened(NamedTuple):
    """A bus that was admitted and looked over, with the queries of its store."""

    connection: sqlite3.Connection
    key: bus_gate.Key
    queries: str

    def execute(self, name: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        """Run one of the queries."""
        return self.connection.execute(_named(self.queries, name), values)


@contextmanager
def opened(home: Path, patience_seconds: float = PATIENCE_SECONDS) -> Iterator[Opened]:
    """The bus of a home, without its store. An error if there is none, or it is refused."""
    key = bus_gate.admit(home)
    if key is None:
        raise sqlite3.DatabaseError("there is no bus")
    connection = bus_gate.connect(home, patience_seconds)
    try:
        queries = Path(__file__).with_name("queries.sql").read_text(encoding="utf-8")
        if not bus_gate.version_of(connection, home / bus_gate.FILE):
            raise sqlite3.DatabaseError("it has no schema yet")
        bus_gate.check_schema(connection, home / bus_gate.FILE, _named(queries, "schema"))
        bus_gate.check_identity(connection, home, key)
        yield Opened(connection, key, queries)
    finally:
        connection.close()


def _answered(rows: list[tuple[Any, ...]], key: bus_gate.Key) -> dict[str, int]:
    """How many answers of each job wait for its owner: only those count that were signed with the bus's key."""
    if not rows:
        return {}
    signatures = import_module("parley.adapters.signatures")  # seldom needed, and takes longer than all the rest
    found: dict[str, int] = {}
    for row in map(signatures.InputRow._make, rows):
        if signatures.is_signed(key.secret, row):
            found[row.job] = found.get(row.job, 0) + 1
    return found


def _named(queries: str, name: str) -> str:
    return queries.partition(f"-- name: {name}\n")[2].partition("-- name: ")[0]


def _glimpse(
    job: str, request: str, updated: float, state: str, backtracks: int, waiting: int, holds: int, slots: str | None
) -> Glimpse:
    return Glimpse(job, request, updated, state, backtracks, waiting, holds, *held(slots or ""))


def held(slots: str) -> tuple[int, int, tuple[str, ...]]:
    """What the slots of a job's holds, a line each, say: how many are stalled, alarms among them, and who waits."""
    found = [slot.split(" ", 2) for slot in slots.splitlines()]
    causes = [(place[1], place[2]) for place in found if len(place) == 3]  # noqa: PLR2004 - `hold`, a thread, a cause
    stalled = [thread for thread, cause in causes if cause.startswith("stall ")]
    alarms = sum(not thread.startswith("dispatch:") for thread in stalled)
    return len(stalled), alarms, tuple(cause for _, cause in causes if cause.startswith(("wait ", "limit ")))


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
