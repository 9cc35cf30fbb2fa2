"""Turns on this machine: slots, time limits, and the runner that each kind of agent has."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parley.adapters.flood import Flood
from parley.adapters.marks import end_marked
from parley.ports import Ended, Order, Progress, Runner, TurnEvent, Waiting

QUEUE = "the queue"
GRACE_SHARE, SHORTEST_GRACE, LONGEST_GRACE = 0.1, 5.0, 60.0  # of its limit that a turn has to wrap up; in seconds
STOP_SECONDS = 10.0  # that a runner has to end a turn where it is

Key = tuple[str, str]  # a job, and a turn of it


@dataclass(slots=True)
class _Out:
    """A turn that is out, and its clock, which stands still while the turn waits for its provider."""

    order: Order
    runner: Runner
    deadline: float
    waiting_since: float | None = None
    asked: bool = False  # to wrap up
    stopping: bool = False

    def hear(self, event: Waiting, now: float) -> None:
        """It waits, or goes on."""
        if event.reason and self.waiting_since is None:
            self.waiting_since = now
        elif not event.reason and self.waiting_since is not None:
            self.deadline += now - self.waiting_since
            self.waiting_since = None

    def is_over(self, now: float) -> bool:
        """Whether its time is over."""
        return self.waiting_since is None and self.deadline <= now


class LocalTurns:
    """Runs turns here, so many at once. A runner tells from its own threads; the engine asks from one."""

    def __init__(
        self, runners: Mapping[str, Runner], slots: int = 8, *, shortest_grace: float = SHORTEST_GRACE
    ) -> None:
        self._runners = dict(runners)
        self._slots = slots
        self._shortest_grace = shortest_grace
        self._running: dict[Key, _Out] = {}
        self._waiting: deque[Order] = deque()
        self._told: queue.SimpleQueue[TurnEvent] = queue.SimpleQueue()

    def hosts(self) -> tuple[str, ...]:
        """Turns run here."""
        return ("local",)

    def submit(self, order: Order) -> None:
        """Start the turn, or let it wait for a free slot."""
        if (order.job, order.turn) in self._running or order in self._waiting:
            return
        if len(self._running) >= self._slots:
            self._waiting.append(order)
            self._told.put(_queued(order, "waits for a free slot"))
        else:
            self._start(order)

    def _start(self, order: Order) -> None:
        runner = self._runners.get(order.runner)
        if runner is None:
            known = ", ".join(sorted(self._runners))
            fault = f"there is no runner {order.runner!r} for {order.agent}; this Parley has: {known}"
            self._told.put(Ended(order.job, order.turn, order.epoch, fault=fault, hard=True))
            return
        self._running[order.job, order.turn] = _Out(order, runner, time.monotonic() + order.time_limit_seconds)
        runner.start(order, Flood(order, runner, self._told.put).tell)

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""
        found = self._running.get((job, turn))
        if found is not None:
            found.runner.reply(job, turn, number, ok, text, data)

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """What has happened, in order. A turn beyond its time is asked to wrap up, then ended, and told as lost."""
        now = time.monotonic()
        counting = (out.deadline for out in self._running.values() if out.waiting_since is None)
        found = self._take(max(0.0, min(timeout_seconds, min(counting, default=now + timeout_seconds) - now)))
        now = time.monotonic()
        for event in found:
            if isinstance(event, Waiting) and (event.job, event.turn) in self._running:
                self._running[event.job, event.turn].hear(event, now)
        for out in list(self._running.values()):
            if out.is_over(now) and not any(_ends(event, out.order) for event in found):
                found = self._overdue(out, now, found)
        for event in found:
            if isinstance(event, Ended):
                self._running.pop((event.job, event.turn), None)
        self._fill()
        return found

    def _overdue(self, out: _Out, now: float, found: list[TurnEvent]) -> list[TurnEvent]:
        """A turn's time is over, or its time to wrap up is, or to be ended: what has happened, with that."""
        job, turn, limit = out.order.job, out.order.turn, out.order.time_limit_seconds
        if not out.asked and not out.stopping:
            out.asked = True
            if out.runner.wrap_up(job, turn):
                out.deadline = now + max(self._shortest_grace, min(LONGEST_GRACE, GRACE_SHARE * limit))
                return found
        if not out.stopping:
            out.stopping = True
            if out.runner.stop(job, turn):
                out.deadline = now + STOP_SECONDS
                return found
        self._end(job, turn)
        order = out.order
        ended = Ended(job, turn, order.epoch, handle=order.handle, fault=order.overran, overtime=True)
        return [*(event for event in found if (event.job, event.turn) != (job, turn)), ended]

    def _take(self, seconds: float) -> list[TurnEvent]:
        found: list[TurnEvent] = []
        try:
            found.append(self._told.get(timeout=seconds) if seconds else self._told.get_nowait())
            while True:
                found.append(self._told.get_nowait())
        except queue.Empty:
            return found

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._slots:
            order = self._waiting.popleft()
            self._told.put(_queued(order, "begins", over=True))
            self._start(order)

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes; what it has told and nobody has heard yet is forgotten."""
        self._waiting = deque(order for order in self._waiting if (order.job, order.turn) != (job, turn))
        if (job, turn) in self._running:
            self._end(job, turn)
            for event in self._take(0.0):
                if (event.job, event.turn) != (job, turn):
                    self._told.put(event)
            self._fill()

    def _end(self, job: str, turn: str) -> None:
        self._running.pop((job, turn)).runner.cancel(job, turn)

    def reclaim(self, job: str) -> None:
        """End what an owner that died may have left running."""
        end_marked(f"{job}/")

    def rest(self, job: str) -> None:
        """End what is kept ready of a job between its turns."""
        for runner in self._runners.values():
            runner.rest(job)

    def close(self) -> None:
        """End every turn."""
        self._waiting.clear()
        for job, turn in list(self._running):
            self._end(job, turn)
        for runner in self._runners.values():
            runner.close()


def _queued(order: Order, text: str, *, over: bool = False) -> Progress:
    """Whoever waits for a slot is silent for a reason, as in a tool."""
    return Progress(order.job, order.turn, text, QUEUE, QUEUE, over)


def _ends(event: TurnEvent, order: Order) -> bool:
    return isinstance(event, Ended) and (event.job, event.turn) == (order.job, order.turn)
