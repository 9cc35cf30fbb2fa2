"""The simulated agents: the scripted agent's own player, stepped in process by the schedule, with faults."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from parley.bus.memory_store import MemoryStore
from parley.ports.turns import Called, Confined, Ended, Order, Progress, TurnEvent, Waiting
from parley.runners.scripted import scripted_agent as scripted
from parley.workflow.paths.claims import refuse_at
from simulator.disk import SimDisk
from simulator.world import Fuse, Timetable


@dataclass
class Actor:
    """An agent's turn under way."""

    order: Order
    script: Generator[scripted.Effect, scripted.CallReply, scripted.PlayEnding]
    dies_at: int | None  # after how many steps it is lost
    stalls: bool
    steps: int = 0
    calls: int = 0
    alive: bool = True


class SimTurns:
    """Turns in process: the scripted agent's own player, stepped by the schedule, with faults."""

    def __init__(
        self,
        schedule: Timetable,
        disk: SimDisk,
        rng: Random,
        fuse: Fuse,
        faults: Mapping[str, float],
        outside: MemoryStore,
    ) -> None:
        self.schedule = schedule
        self.outside = outside  # the bus as somebody else sees it
        self.disk = disk
        self.rng = rng
        self.faults = faults
        self.running: dict[tuple[str, str], Actor] = {}
        self.over = False  # the process that this belongs to has died
        self.late_calls_accepted: list[str] = []
        self.unrecorded: list[str] = []  # turns that were submitted before the bus knew of them
        self._fuse = fuse
        self._events: list[TurnEvent] = []
        self._ghosts: set[tuple[str, str]] = set()

    def hosts(self) -> tuple[str, ...]:
        """Here."""
        return ("here",)

    def reclaim(self, job: str) -> None:
        """What an earlier process left running died with it in this world."""

    def rest(self, job: str) -> None:
        """Nothing is kept ready."""

    def chance(self, fault: str) -> bool:
        """Whether a fault strikes now."""
        return self.rng.random() < self.faults.get(fault, 0.0)

    def submit(self, order: Order) -> None:
        """Start a turn."""
        self._fuse.burn("submit", lambda: self._start(order))

    def _start(self, order: Order) -> None:
        if (order.job, order.turn) in self.running:
            return
        if not self.recorded(order):
            self.unrecorded.append(order.turn)
        script = scripted.play(
            scripted.PlayOrder(
                agent=order.agent,
                rules=None if order.rules == "null" else tuple(json.loads(order.rules)),
                message=order.message,
                state=order.state,
                visit=order.visit,
                handle=json.loads(order.handle) if order.handle else {},
                may_ask=order.may_ask,
                kind=order.kind,
                asked=order.asked,
                default="",
            )
        )
        dies = self.rng.randrange(4) if self.chance("agent dies") else None
        actor = Actor(order, script, dies, self.chance("agent stalls"))
        self.running[order.job, order.turn] = actor
        self.schedule.after(order.time_limit_seconds, lambda: self._expire(actor))
        self.schedule.after(self.rng.random(), lambda: self._step(actor, None))

    def recorded(self, order: Order) -> bool:
        """Whether the bus has the turn as one that is out."""
        return any(row.turn == order.turn and row.epoch == order.epoch for row in self.outside.load(order.job).turns)

    def _step(self, actor: Actor, reply: scripted.CallReply | None) -> None:
        if self.over or not actor.alive:
            return
        actor.steps += 1
        if actor.stalls:
            return
        if actor.dies_at is not None and actor.steps > actor.dies_at:
            self._end(actor, fault="it was killed by signal 9")
            return
        try:
            effect = next(actor.script) if reply is None else actor.script.send(reply)
        except StopIteration as stop:
            self._end(actor, stop.value)
            return
        self._carry_out(actor, effect)

    def _carry_out(self, actor: Actor, effect: scripted.Effect) -> None:
        order = actor.order
        delay = self.rng.random() * 0.5
        if isinstance(effect, scripted.Crash):
            self._end(actor, fault=f"it was killed by signal {effect.signal}", remembered=effect.handle)
        elif isinstance(effect, scripted.Call):
            actor.calls += 1
            self._events.append(
                Called(
                    job=order.job,
                    turn=order.turn,
                    token=order.token,
                    number=actor.calls,
                    tool=effect.tool,
                    arguments=dict(effect.args),
                )
            )
        else:
            ok, text = True, ""
            if isinstance(effect, scripted.Sleep):
                delay = effect.seconds
            elif isinstance(effect, scripted.Write):
                text = refuse_at(order.site, effect.path)
                ok = not text and self.disk.write(order.site.workspace, effect.path, effect.text)
            elif isinstance(effect, scripted.Shell):
                self.disk.run(order.site.workspace, effect.command)
            if self.chance("provider fails"):
                delay += self._trouble(actor)
            name = type(effect).__name__.lower()
            tool = name if isinstance(effect, scripted.Shell) else ""
            self._events.append(Progress(job=order.job, turn=order.turn, text=name, tool=tool, use=tool))
            self.schedule.after(delay, lambda: self._go_on(actor, scripted.CallReply(ok, text, {}), tool))

    def _trouble(self, actor: Actor) -> float:
        """The provider fails for a while: the turn waits, and goes on; how long that takes."""
        job, turn = actor.order.job, actor.order.turn
        seconds = self.rng.random() * 5
        self._events.append(Waiting(job, turn, "the API is down (502)", self.schedule.clock.now() + seconds))

        def over() -> None:
            if actor.alive and not self.over:
                self._events.append(Waiting(job, turn))

        self.schedule.after(seconds, over)
        return seconds

    def _go_on(self, actor: Actor, reply: scripted.CallReply, tool: str) -> None:
        if tool and actor.alive and not self.over:
            self._events.append(
                Progress(job=actor.order.job, turn=actor.order.turn, text="", tool=tool, use=tool, over=True)
            )
        self._step(actor, reply)

    def _end(
        self,
        actor: Actor,
        ending: scripted.PlayEnding | None = None,
        fault: str = "",
        remembered: Mapping[str, Any] | None = None,
        *,
        overtime: bool = False,
    ) -> None:
        actor.alive = False
        order = actor.order
        self.running.pop((order.job, order.turn), None)
        ended = Ended(
            job=order.job,
            turn=order.turn,
            epoch=order.epoch,
            text=ending.text if ending else "",
            handle=json.dumps(ending.handle, sort_keys=True) if ending else "",
            usage={"turns": 1.0, **(ending.usage if ending else {})},
            fault=fault,
            remembered=json.dumps(remembered, sort_keys=True) if remembered else "",
            overtime=overtime,
            boundary=Confined(ok=True, held=1, tried=1),
        )
        self._events.append(ended)
        if self.chance("doubled end"):
            self._events.append(ended)
        self._haunt(actor)

    def _haunt(self, actor: Actor) -> None:
        """A process that outlived its turn makes one more call."""
        if not self.chance("late call"):
            return
        order = actor.order
        self._ghosts.add((order.job, order.turn))

        def late() -> None:
            self._events.append(
                Called(
                    job=order.job,
                    turn=order.turn,
                    token=order.token,
                    number=99,
                    tool="Send",
                    arguments={"thread": "dispatcher", "text": "late"},
                )
            )

        self.schedule.after(self.rng.random() * 3, late)

    def _expire(self, actor: Actor) -> None:
        if actor.alive and not self.over:
            self._end(actor, fault="it took too long", overtime=True)

    def cancel(self, job: str, turn: str) -> None:
        """End a turn: nothing of it happens after this."""

        def act() -> None:
            actor = self.running.pop((job, turn), None)
            if actor is not None:
                actor.alive = False
                self._haunt(actor)
            self._events = [e for e in self._events if (e.job, e.turn) != (job, turn) or isinstance(e, Called)]

        self._fuse.burn("cancel", act)

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call; a call from beyond its turn must be refused."""
        actor = self.running.get((job, turn))
        if actor is None or number != actor.calls:
            if ok:
                self.late_calls_accepted.append(f"{job}/{turn}: {text}")
            return
        self.schedule.after(
            self.rng.random() * 0.2, lambda: self._step(actor, scripted.CallReply(ok, text, dict(data)))
        )

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """What happens next, in this world's time."""
        until = self.schedule.clock.time + timeout_seconds
        while not self._events and self.schedule.step(until):
            pass
        events, self._events = self._events, []
        return events

    def close(self) -> None:
        """All turns end with their process."""
        self.over = True
        self.running.clear()
