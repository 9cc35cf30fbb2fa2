"""Threads that a seed schedules: each runs until it waits, and chance says which one goes on.

A fiber is a thread of this very program that runs only while it has the baton, so that real code with threads, locks
and queues comes out the same each time. It belongs to a simulated process, which can be frozen, thawed and killed at
every point where one of its fibers waits.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from random import Random
from typing import Any

from simulator.world import BEGINNING, Crash, Fuse, Schedule


class Suspended(Exception):
    """The process of a call was frozen in the middle of it: `fiber` goes on once it is thawed."""

    def __init__(self, fiber: Fiber) -> None:
        super().__init__(fiber.name)
        self.fiber = fiber


class Process:
    """A simulated process: what all its fibers share."""

    def __init__(self, name: str, fuse: Fuse | None = None) -> None:
        self.name = name
        self.frozen = False
        self.blinks = False  # it is frozen for so short a time that its callers wait for it
        self.dead = False
        self.why = ""  # it died
        self.skew = 0.0  # seconds that its wall clock is ahead
        self.cut: set[str] = set()  # services that it can't reach
        self.full = False  # its disk
        self.acts = 0  # what it has done to the world
        self.aim: tuple[int, str, Callable[[Process], None]] | None = None  # what strikes: at which act, called what
        self._fuse = fuse
        self._late: list[Callable[[], None]] = []

    def act(self, what: str) -> None:
        """It is about to do something to the world: here it may die, or be struck."""
        self.acts += 1
        if self.aim is not None and self.acts >= self.aim[0] and self.aim[1] in what:
            strike, self.aim = self.aim[2], None
            strike(self)
        if self._fuse is not None:
            self._fuse.burn(what, lambda: None)

    def later(self, act: Callable[[], None]) -> Callable[[], None]:
        """The same, as long as the process lives; where it is frozen then, after that."""

        def due() -> None:
            if self.frozen:
                self._late.append(due)
            elif not self.dead:
                act()

        return due

    def thaw(self) -> None:
        """Go on."""
        self.frozen = self.blinks = False
        late, self._late = self._late, []
        for act in late:
            act()

    def kill(self, why: str = "killed") -> None:
        """It is gone: none of its fibers does anything any more."""
        self.dead, self.frozen, self.why = True, False, self.why or why


class Fiber:
    """One thread of a simulated process."""

    def __init__(self, process: Process, act: Callable[[], Any], name: str) -> None:
        self.process, self.act, self.name = process, act, name
        self.ready: Callable[[], bool] | None = None  # None: it can go on
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.baton: _Carrier | None = None


class _Carrier:
    """A real thread that carries fibers out, one after the other."""

    def __init__(self, fibers: Fibers) -> None:
        self.go = threading.Semaphore(0)
        self.fiber: Fiber | None = None
        self._fibers = fibers
        self._thread = threading.Thread(target=self._run, name="fiber", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            if self.fiber is None:
                return
            self._fibers.carry(self.fiber)
            self.fiber = None
            self._fibers.idle.append(self)
            self._fibers.back.release()

    def end(self) -> None:
        self.go.release()
        self._thread.join()


class Fibers:
    """All fibers of a run. `run` is called from outside, everything else from fibers too."""

    def __init__(self, schedule: Schedule, rng: Random) -> None:
        self.schedule, self.clock, self.rng = schedule, schedule.clock, rng
        self.current: Fiber | None = None
        self.back = threading.Semaphore(0)
        self.idle: list[_Carrier] = []
        self.faults: list[BaseException] = []  # of fibers that no other waits for
        self._fibers: list[Fiber] = []

    # ---- from outside ------------------------------------------------------------------------------

    def call(self, process: Process, act: Callable[[], Any]) -> Any:
        """Do something as a process. Raises Crash where it dies over it, and Suspended where it is frozen."""
        fiber = self.spawn(process, act, "main", watched=True)
        self.run(lambda: fiber.done or process.dead or (process.frozen and not process.blinks))
        if process.dead:
            raise Crash(process.why)
        if not fiber.done:
            raise Suspended(fiber)
        if fiber.error is not None:
            raise fiber.error
        return fiber.result

    def run(self, until: Callable[[], bool]) -> None:
        """Let the world go on until something is so."""
        while not until():
            if self.faults:
                raise self.faults[0]
            able = [fiber for fiber in self._fibers if _can_go_on(fiber)]
            if able:
                self._resume(able[self.rng.randrange(len(able))] if len(able) > 1 else able[0])
            else:
                self.schedule.step(float("inf"))

    def pass_time(self, seconds: float) -> None:
        """Let the world go on for a while."""
        over = self.clock.time + seconds
        self.schedule.after(seconds, lambda: None)
        self.run(lambda: self.clock.time >= over)

    def close(self, processes: Iterable[Process]) -> None:
        """End all: every thread of this run is gone afterwards."""
        for process in processes:
            process.kill("the run is over")
        while self._fibers:
            self._resume(self._fibers[0])
        for carrier in self.idle:
            carrier.end()

    def _resume(self, fiber: Fiber) -> None:
        if fiber.baton is None:
            fiber.baton = self.idle.pop() if self.idle else _Carrier(self)
            fiber.baton.fiber = fiber
        self.current, fiber.ready = fiber, None
        fiber.baton.go.release()
        self.back.acquire()
        self.current = None
        if fiber.done:
            self._fibers.remove(fiber)

    # ---- from fibers -------------------------------------------------------------------------------

    def spawn(self, process: Process, act: Callable[[], Any], name: str, *, watched: bool = False) -> Fiber:
        """A new fiber. `watched`: its error is its caller's to deal with."""
        fiber = Fiber(process, act, name)
        fiber.result = watched
        self._fibers.append(fiber)
        return fiber

    def carry(self, fiber: Fiber) -> None:
        """Run a fiber, in its thread."""
        watched, fiber.result = fiber.result, None
        try:
            if not fiber.process.dead:
                fiber.result = fiber.act()
        except Crash as crash:
            fiber.process.kill(str(crash))
        except Exception as error:  # noqa: BLE001 - it is told where the fiber was called from
            fiber.error = error
            if not watched and not fiber.process.dead:
                self.faults.append(error)
        fiber.done = True

    @property
    def here(self) -> Process:
        """The process whose fiber runs."""
        assert self.current is not None, "only a fiber belongs to a process"  # noqa: S101
        return self.current.process

    def wait(self, ready: Callable[[], bool], seconds: float | None = None) -> bool:
        """Wait until something is so, or so long at most; whether it is."""
        fiber = self.current
        assert fiber is not None, "only a fiber may wait"  # noqa: S101
        assert fiber.baton is not None  # noqa: S101 - it runs
        if fiber.process.dead:
            raise Crash(fiber.process.why)
        if seconds is None:
            fiber.ready = ready
        else:
            due = self.clock.time + max(seconds, 0.0)
            fiber.ready = lambda: self.clock.time >= due or ready()
            self.schedule.after(max(seconds, 0.0), lambda: None)
        self.back.release()
        fiber.baton.go.acquire()
        if fiber.process.dead:
            raise Crash(fiber.process.why)
        return ready()

    def sleep(self, seconds: float) -> None:
        """Wait that long."""
        self.wait(lambda: False, seconds)

    def act(self, what: str) -> None:
        """The process that runs is about to do something to the world."""
        process = self.here
        process.act(what)
        if process.dead:
            raise Crash(process.why)
        if process.frozen:
            self.wait(lambda: True)


def _can_go_on(fiber: Fiber) -> bool:
    if fiber.process.dead:
        return True
    return not fiber.process.frozen and (fiber.ready is None or fiber.ready())


# ---- what stands in for the modules threading, queue and time ------------------------------------------


class _Semaphore:
    def __init__(self, fibers: Fibers, free: int) -> None:
        self._fibers, self._free = fibers, free

    def __enter__(self) -> None:
        if self._free < 1 or self._fibers.rng.random() < 0.1:  # here another fiber may come first
            self._fibers.wait(lambda: self._free > 0)
        self._free -= 1

    def __exit__(self, *error: object) -> None:
        self._free += 1


class _Event:
    def __init__(self, fibers: Fibers) -> None:
        self._fibers, self._set = fibers, False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    def wait(self, timeout: float | None = None) -> bool:
        return self._set or self._fibers.wait(lambda: self._set, timeout)


class _Thread:
    def __init__(self, fibers: Fibers, target: Callable[..., Any], args: tuple[Any, ...], name: str) -> None:
        self._fibers, self._act, self._name = fibers, lambda: target(*args), name
        self._fiber: Fiber | None = None

    def start(self) -> None:
        self._fiber = self._fibers.spawn(self._fibers.here, self._act, self._name)

    def join(self, timeout: float | None = None) -> None:
        fiber = self._fiber
        if fiber is not None and not fiber.done:
            self._fibers.wait(lambda: fiber.done, timeout)


class _Queue:
    def __init__(self, fibers: Fibers) -> None:
        self._fibers = fibers
        self._held: deque[Any] = deque()

    def put(self, one: object) -> None:
        self._held.append(one)

    def get(self, timeout: float | None = None) -> Any:
        if not self._held and not self._fibers.wait(lambda: bool(self._held), timeout):
            raise queue.Empty
        return self._held.popleft()

    def get_nowait(self) -> Any:
        if not self._held:
            raise queue.Empty
        return self._held.popleft()

    def empty(self) -> bool:
        return not self._held


class SimThreading:
    """The module threading, as far as the layer of hosts uses it."""

    def __init__(self, fibers: Fibers) -> None:
        self._fibers = fibers

    def Lock(self) -> AbstractContextManager[None]:  # noqa: N802 - the module's own names
        """A lock."""
        return _Semaphore(self._fibers, 1)

    def Semaphore(self, free: int) -> AbstractContextManager[None]:  # noqa: N802
        """A semaphore."""
        return _Semaphore(self._fibers, free)

    def Event(self) -> _Event:  # noqa: N802
        """An event."""
        return _Event(self._fibers)

    def Thread(  # noqa: N802
        self, target: Callable[..., Any], args: tuple[Any, ...] = (), name: str = "", *, daemon: bool = False
    ) -> _Thread:
        """A thread of the process that runs."""
        return _Thread(self._fibers, target, args, name)


class SimQueues:
    """The module queue."""

    Empty = queue.Empty

    def __init__(self, fibers: Fibers) -> None:
        self._fibers = fibers

    def SimpleQueue(self) -> _Queue:  # noqa: N802
        """A queue."""
        return _Queue(self._fibers)


class SimTime:
    """The module time: the wall clock is the process's own, and may be wrong."""

    def __init__(self, fibers: Fibers) -> None:
        self._fibers = fibers

    def monotonic(self) -> float:
        """Seconds since the world began."""
        return self._fibers.clock.time

    def time(self) -> float:
        """What the process takes for the time."""
        return BEGINNING + self._fibers.clock.time + self._fibers.here.skew

    def sleep(self, seconds: float) -> None:
        """Wait that long."""
        self._fibers.sleep(seconds)
