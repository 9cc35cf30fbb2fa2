"""The agents on a simulated host: those of the simulator, in a process that may be frozen or die."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from parley.bus.memory_store import MemoryStore
from parley.hosts.board import TurnKey
from parley.ports.turns import Order, TurnEvent
from parley.runners.scripted import scripted_agent as scripted
from simulator.agents import Actor, SimTurns
from simulator.deeds import Deeds
from simulator.disk import SimDisk
from simulator.fibers import Fibers, Process
from simulator.world import Fuse, Schedule

SLOW, SLOWEST_SECONDS = 0.3, 3.0  # how often processes take a while to end, and how long at most


class ProcessSchedule:
    """What a process plans: it happens while the process lives, and after it is thawed."""

    def __init__(self, schedule: Schedule, process: Process) -> None:
        self.clock = schedule.clock
        self._schedule, self._process = schedule, process

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Plan something."""
        self._schedule.after(seconds, self._process.later(act))

    def step(self, until: float) -> bool:
        """The world goes on by itself."""
        return False


class HostTurns(SimTurns):
    """The turns on a host, for the real TurnHost. Each text that an agent sends has a mark of its own."""

    def __init__(
        self,
        fibers: Fibers,
        process: Process,
        disk: SimDisk,
        faults: Mapping[str, float],
        outside: MemoryStore,
        deeds: Deeds,
        host: str,
    ) -> None:
        rng = Random(fibers.rng.random())
        super().__init__(ProcessSchedule(fibers.schedule, process), disk, rng, Fuse(None, rng), faults, outside)
        self._fibers, self._deeds, self._host, self._process = fibers, deeds, host, process
        self._woken = False
        self._unanswered: dict[TurnKey, tuple[int, str]] = {}

    def recorded(self, order: Order) -> bool:
        """Whether the bus has had the turn: by now it may be over."""
        return any(row.turn == order.turn and row.epoch == order.epoch for row in self.outside.turns(order.job))

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """What happens next."""
        self._fibers.wait(lambda: bool(self._events) or self._woken, timeout_seconds)
        self._woken = False
        events, self._events = self._events, []
        return events

    def wake(self) -> None:
        """Let `events` return."""
        self._woken = True

    def laid_out(self, order: Order) -> None:
        """A turn's place is laid out: no agent may be at work in it."""
        for other in self.running.values():
            if order.site.writable and other.order.site.workspace == order.site.workspace:
                self._deeds.broken.append(f"turn {order.turn} was laid out where {other.order.turn} still runs")

    def _start(self, order: Order) -> None:
        if (order.job, order.turn) not in self.running:
            self._deeds.began(order, self._host, self._process, self.schedule.clock.time)
        super()._start(order)

    def _carry_out(self, actor: Actor, effect: scripted.Effect) -> None:
        if isinstance(effect, scripted.Call) and effect.tool == "Send":
            text = f"{effect.args.get('text', '')} {self._deeds.mark()}"
            effect = effect._replace(args={**effect.args, "text": text})
            self._unanswered[_key(actor.order)] = actor.calls + 1, text
        super()._carry_out(actor, effect)

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call: the one that waits."""
        actor = self.running.get((job, turn))
        if actor is None:
            return  # it has ended meanwhile
        if number != actor.calls:
            self._deeds.broken.append(f"turn {turn} waits for a reply to call {actor.calls}, and got one to {number}")
            return
        called = self._unanswered.pop(_key(actor.order), None)
        if ok and called is not None and called[0] == number:
            self._deeds.turns[_key(actor.order)].sent.append(called[1])
        super().reply(job, turn, number, ok, text, data)

    def _end(self, actor: Actor, ending: scripted.PlayEnding | None = None, *given: Any, **named: Any) -> None:
        deed = self._deeds.turns[_key(actor.order)]
        if ending is not None:
            if ending.text:
                ending = ending._replace(text=f"{ending.text} {self._deeds.mark()}")
            site = actor.order.site
            job, _, name = site.workspace.partition("|")
            if name.startswith("dispatch:") and not site.claims:  # what a lead leaves is looked at: it stays as it was
                self.disk.write(site.workspace, f"marks/{self._deeds.mark()}", actor.order.turn)
            deed.end, deed.files = ending.text, dict(self.disk.work.get((job, name), {}))
        deed.over = True
        super()._end(actor, ending, *given, **named)

    def cancel(self, job: str, turn: str) -> None:
        """End a turn. Its processes may take a while."""
        if self.rng.random() < SLOW:
            self._fibers.sleep(self.rng.random() * SLOWEST_SECONDS)
        if (actor := self.running.get((job, turn))) is not None:
            self._deeds.turns[_key(actor.order)].over = True
        super().cancel(job, turn)


def _key(order: Order) -> TurnKey:
    return TurnKey(order.job, order.turn, order.epoch)
