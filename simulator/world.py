"""The simulated world: time that jumps from event to event, a store, and a fuse for crashes."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from parley.base.json_codec import decode
from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import Commit
from parley.engine.values.human_inputs import AnswerInput

BEGINNING = 1_800_000_000.0


class Crash(BaseException):
    """The simulated process dies here. Not an Exception: nothing may catch it on the way out."""


@dataclass
class Fuse:
    """Counts down over everything that the process does to the world; at zero the process dies."""

    left: int | None
    torn: Random
    log: list[str] = field(default_factory=list)

    def burn(self, what: str, act: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        """Do something to the world, unless the process dies before it, in the middle, or right after."""
        if self.left is None:
            return act()
        self.left -= 1
        if self.left > 0:
            return act()
        self.left = None
        when = self.torn.choice(("before", "after", "torn") if half else ("before", "after"))
        self.log.append(f"crash {when} {what}")
        if when == "after":
            act()
        elif when == "torn" and half is not None:
            half()
        raise Crash(what)


class SimClock:
    """Time that only moves when somebody waits."""

    def __init__(self) -> None:
        self.time = 0.0

    def now(self) -> float:
        """Wall-clock time."""
        return BEGINNING + self.time

    def monotonic(self) -> float:
        """The same without its origin."""
        return self.time


class SimIds:
    """Names in a row. They go on after a crash: no process gives a name that another gave."""

    def __init__(self) -> None:
        self.given = 0

    def new(self) -> str:
        """A name."""
        self.given += 1
        return f"n{self.given}"


class Timetable(Protocol):
    """Where things are planned."""

    clock: SimClock

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Plan something."""

    def step(self, until: float) -> bool:
        """Do the next thing that is due by then; whether there was one."""


class Schedule:
    """What will happen, in order of time, and among equals in order of being planned."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Plan something."""
        self._count += 1
        heapq.heappush(self._heap, (self.clock.time + seconds, self._count, act))

    def step(self, until: float) -> bool:
        """Do the next thing that is due by then; whether there was one."""
        if not self._heap or self._heap[0][0] > until:
            self.clock.time = max(self.clock.time, until)
            return False
        due, _, act = heapq.heappop(self._heap)
        self.clock.time = max(self.clock.time, due)
        act()
        return True


class SimStore(MemoryStore):
    """The memory store, in a process that may die at a commit. What is begun is written with the next call."""

    def __init__(self, bus: MemoryBus, owner: str, fuse: Fuse, ahead: int = 0) -> None:
        super().__init__(bus, owner)
        self._fuse = fuse
        self._ahead = ahead
        self._begun: Sequence[Commit] = ()

    @property
    def ahead(self) -> int:
        """After how many events a commit is begun."""
        return self._ahead

    def begin_commit(self, commits: Sequence[Commit]) -> None:
        """All or nothing, later: not at all if the process dies meanwhile."""
        self._open()
        self._begun = commits

    def _open(self) -> MemoryBus:
        begun, self._begun = self._begun, ()
        if begun:
            self.commit(begun)
        return super()._open()

    def commit(self, commits: Sequence[Commit]) -> None:
        """All or nothing, also when the process dies."""
        self._open()
        self._fuse.burn("commit", lambda: super(SimStore, self).commit(commits))

    def put(self, job: str, kind: str, key: str, time: float, by: str, body: str) -> int:
        """An answer is given only to what was asked for good, not to what a crash may take back."""
        if (
            kind == AnswerInput.kind
            and f"question {decode(body, AnswerInput).question}" not in self.load(job).molecules
        ):
            raise AssertionError(f"{by} answers a question that is not on the bus: {key}")
        return super().put(job, kind, key, time, by, body)
