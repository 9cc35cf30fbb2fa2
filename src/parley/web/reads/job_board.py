"""The jobs of all repositories as the first page lists them: read once for all visitors, again after changes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from parley.base.json_codec import Unreadable
from parley.bus.attendant import read_problems
from parley.bus.rows import BusError
from parley.views import job_list
from parley.views.job_list import JobEntry, JobList
from parley.views.repository_context import RepositoryContext

NEEDS, PROBLEMS, WORKING, PAUSED, FINISHED = "needs you", "problems", "working", "paused", "finished"
GROUPS = (NEEDS, PROBLEMS, WORKING, PAUSED, FINISHED)
OLDEST_SECONDS = 5.0  # the engine's problems, and how long a failure is fresh, are told by no change
_GROUPS = {
    job_list.NEEDS: NEEDS,
    job_list.FAILED: PROBLEMS,
    job_list.WORKING: WORKING,
    job_list.PAUSED: PAUSED,
    job_list.DONE: FINISHED,
}


class BoardEntry(NamedTuple):
    """A job on the board."""

    entry: JobEntry
    repository: str  # its key
    group: str
    problem: str = ""  # why the engine can't go on with it


@dataclass(slots=True)
class _Place:
    """What was last read of a repository."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    jobs: JobList = field(default_factory=JobList)
    entries: list[BoardEntry] = field(default_factory=list)
    problem: str = ""
    version: int = -1
    read: float = 0.0


class JobBoard:
    """The board. Pages run in several threads at once; each repository is read by one of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: dict[str, _Place] = {}

    def read(self, key: str, context: RepositoryContext, version: int) -> tuple[list[BoardEntry], str]:
        """A repository's jobs as they are in this version of it, and why they can't be read, if they can't."""
        with self._lock:
            place = self._places.setdefault(key, _Place())
        with place.lock:
            if place.version != version or time.monotonic() - place.read > OLDEST_SECONDS:
                try:
                    place.jobs.read([context])
                    problems = read_problems(Path(context.home))
                    place.entries = [_on_board(entry, key, problems) for entry in place.jobs.entries]
                    place.problem = ""
                except (BusError, Unreadable, OSError) as error:  # one that can't be read hides no other
                    place.entries, place.problem = [], str(error)
                place.version, place.read = version, time.monotonic()
            return place.entries, place.problem


def _on_board(entry: JobEntry, key: str, problems: dict[str, str]) -> BoardEntry:
    problem = problems.get(entry.job, "")
    group = _GROUPS[entry.group]
    stuck = problem and group in (NEEDS, WORKING, PAUSED) and not entry.asks and not entry.held
    return BoardEntry(entry, key, PROBLEMS if stuck else group, problem)


def in_order(entries: list[BoardEntry]) -> list[BoardEntry]:
    """The jobs of several repositories, by group: the longest waiting first, else the newest."""
    rank = {name: number for number, name in enumerate(GROUPS)}

    def place(one: BoardEntry) -> tuple[int, float]:
        entry = one.entry
        when = entry.since if one.group == NEEDS else -entry.created if one.group == WORKING else -entry.updated
        return rank[one.group], when

    return sorted(entries, key=place)
