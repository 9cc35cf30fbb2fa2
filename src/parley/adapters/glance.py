"""A quick look at a bus: its jobs, for a listing, and who owns them. Nothing is written.

It imports little, so that a listing starts fast. It knows less than the store: what it makes no sense of is
an error here, and whoever gets one asks the store, which can say what is wrong.
"""

from __future__ import annotations

import fcntl
import os
import re
import sqlite3
from pathlib import Path
from typing import NamedTuple


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
    """The jobs, oldest first. sqlite3.Error if that is not so simple."""
    connection = sqlite3.connect(home / "bus.db", timeout=2.0, isolation_level=None)
    try:
        queries = Path(__file__).with_name("queries.sql").read_text(encoding="utf-8")
        newest = max(map(int, re.findall(r"^-- name: schema-(\d+)$", queries, re.MULTILINE)))
        if connection.execute("PRAGMA user_version").fetchone()[0] != newest:
            raise sqlite3.DatabaseError("it has another schema")
        connection.execute("PRAGMA query_only = ON")
        query = queries.partition("-- name: glance_jobs\n")[2].partition("-- name: ")[0]
        return [_glimpse(*row) for row in connection.execute(query)]
    finally:
        connection.close()


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
        descriptor = os.open(home / "locks" / f"{job}.lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
