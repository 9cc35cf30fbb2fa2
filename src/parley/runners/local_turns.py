"""Runs turns on this machine: slots, time limits, and a runner for each kind of agent."""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parley.machine.process_tags import end_marked
from parley.ports.turns import Ended, Order, Progress, Runner, Sign, TurnEvent, Waiting
from parley.runners.flood import FloodGuard

QUEUE = "the queue"  # what people read where a turn waits for a slot
GRACE_SHARE, SHORTEST_GRACE, LONGEST_GRACE = 0.1, 5.0, 60.0  # of its limit that a turn gets to wrap up; in seconds
STOP_SECONDS = 10.0  # that a runner gets to stop a turn

Key = tuple[str, str]  # a job, and a turn of it


@dataclass(slots=True)
class _RunningTurn:
    """A running turn with its deadline, which moves while the turn waits for its provider."""

    order: Order
    runner: Runner
    deadline: float
    waiting_since: float | None = None
    asked: bool = False  # to wrap up
    stopping: bool = False

    def hear(self, event: Waiting, now: float) -> None:
        """The turn waits for its provider, or goes on."""
        if event.reason and self.waiting_since is None:
            self.waiting_since = now
        elif not event.reason and self.waiting_since is not None:
            self.deadline += now - self.waiting_since
            self.waiting_since = None

    def is_over(self, now: float) -> bool:
        """Whether its deadline has passed."""
        return self.waiting_since is None and self.deadline <= now


class LocalTurns:
    """Runs a limited number of turns at once. Runners report from their threads; the engine asks from one."""

    def __init__(
        self, runners: Mapping[str, Runner], slots: int = 8, *, shortest_grace: float = SHORTEST_GRACE
    ) -> None:
        self._runners = dict(runners)
        self._slots = slots
        self._shortest_grace = shortest_grace
        self._running: dict[Key, _RunningTurn] = {}
        self._waiting: deque[Order] = deque()
        self._told: queue.SimpleQueue[TurnEvent | None] = queue.SimpleQueue()  # None: only to wake

    def hosts(self) -> tuple[str, ...]:
        """Turns run here."""
        return ("local",)

    def submit(self, order: Order) -> None:
        """Start the turn, or let it wait for a free slot."""
        if (order.job, order.turn) in self._running or order in self._waiting:
            return
        if len(self._running) >= self._slots:
            self._waiting.append(order)
            self._told.put(queued(order, "waits for a free slot"))
        else:
            self._start(order)

    def _start(self, order: Order) -> None:
        """Hand the turn to the runner that its role names; where there is none, the turn is lost."""
        runner = self._runners.get(order.runner)
        if runner is None:
            known = ", ".join(sorted(self._runners))
            fault = f"there is no runner {order.runner!r} for {order.agent}; this Parley has: {known}"
            self._told.put(Ended(order.job, order.turn, order.epoch, fault=fault, hard=True))
            return
        self._running[order.job, order.turn] = _RunningTurn(order, runner, time.monotonic() + order.time_limit_seconds)
        runner.start(order, FloodGuard(order, runner, self._told.put).tell)

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""
        found = self._running.get((job, turn))
        if found is not None:
            found.runner.reply(job, turn, number, ok, text, data)

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """What has happened, in order. An overdue turn is asked to wrap up, then ended, and reported as lost."""
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

    def _overdue(self, out: _RunningTurn, now: float, found: list[TurnEvent]) -> list[TurnEvent]:
        """Ask an overdue turn to wrap up, then stop it, then end it; returns the events with its end."""
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
        found: list[TurnEvent | None] = []
        try:
            found.append(self._told.get(timeout=seconds) if seconds else self._told.get_nowait())
            while True:
                found.append(self._told.get_nowait())
        except queue.Empty:
            return [event for event in found if event is not None]

    def wake(self) -> None:
        """End the wait for events, in whatever thread: something else has happened that the engine should look at."""
        self._told.put(None)

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._slots:
            order = self._waiting.popleft()
            self._told.put(queued(order, "begins", over=True))
            self._start(order)

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes; its events that the engine has not read yet are dropped."""
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
        """End what a dead owner may have left running."""
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


def queued(order: Order, text: str, *, over: bool = False) -> Progress:
    """Report a turn that waits for a slot as a tool use, so that its silence is no stall."""
    return Progress(job=order.job, turn=order.turn, text=text, tool=QUEUE, use=QUEUE, over=over, sign=Sign.QUEUE)


def _ends(event: TurnEvent, order: Order) -> bool:
    return isinstance(event, Ended) and (event.job, event.turn) == (order.job, order.turn)
