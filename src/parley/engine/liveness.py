"""Liveness: the last sign of life of every instance, and who hears of it when there is none.

An agent that is silent outside a tool for longer than its limit is stalled. That is an observation, and changes
nothing: a Hold of its thread says so on the bus for as long as it is true, whoever dispatched it gets an Interrupt
at its turn boundary, and for a lead, whom nobody but the orchestrator has dispatched, the human is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parley.core.terms import ORCHESTRATOR, Hold, Interrupt, MessageKind, Run, Surface, thread_kind
from parley.engine import texts
from parley.engine.live import LiveJob
from parley.engine.projections import Present
from parley.engine.records import dumps, stream_of
from parley.engine.roster import CODE
from parley.engine.signs import cause_of, heard, stall_of, stalls, turn_of
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.ports import Called, Clock, Files, Progress, Waiting

STALL_SECONDS = 300.0
LOOK_SECONDS = 0.5  # between two looks at who is silent
ABSENCE_SECONDS = 10.0  # what one look counts for at most
USES = 1000  # tools that are remembered as under way in one turn
SHOWN = 200  # characters of the last thing that was done


def stall_seconds(settings: Mapping[str, Any], role: Mapping[str, Any]) -> float:
    """How long a role may be silent outside a tool: its own limit, or the job's."""
    own = role.get("limits", {}).get("stall_seconds")
    return float(own or settings.get("stall_seconds", STALL_SECONDS))


# ---- noticing ------------------------------------------------------------------------------------


class Pulse:
    """Time as far as the engine was there to listen.

    It is monotonic, so that no clock that is set makes anybody stalled; and while the engine itself is held up, by a
    large workspace, a suspended machine or a signal, it hears nobody, which is not their silence.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()
        self._looked = 0.0
        self.time = 0.0

    def beat(self) -> float:
        """Count the time since the last beat."""
        now = self._clock.monotonic()
        self.time += max(0.0, min(now - self._last, ABSENCE_SECONDS))
        self._last = now
        return self.time

    def due(self) -> bool:
        """Whether it is time to look again."""
        if self.time - self._looked < LOOK_SECONDS:
            return False
        self._looked = self.time
        return True


def begin(turn: Turn, pulse: Pulse, now: float) -> None:
    """A turn is put out: its silence is counted from here."""
    turn.heard, turn.heard_at = pulse.time, now


def hear(live: LiveJob, world: World, turn: Turn, event: Progress | Called | Waiting, pulse: Pulse) -> None:
    """A sign of life. If it was missed, that is over."""
    turn.heard, turn.heard_at = pulse.time, world.clock.now()
    if isinstance(event, Called):
        turn.last = event.tool
    elif isinstance(event, Progress):
        if event.tool and event.over:
            turn.uses.pop(event.use, None)
        elif event.tool and len(turn.uses) < USES:
            turn.uses[event.use] = event.tool
        turn.last = event.text or turn.last
    hold = stall_of(live.soup, turn.thread)
    if hold is not None:
        _release(live, world, hold, "it shows life again")


def look(live: LiveJob, world: World, pulse: Pulse) -> None:
    """See who has been silent for too long."""
    for turn in live.running.values():
        silent = pulse.time - turn.heard
        if (
            turn.heard < 0
            or turn.uses
            or turn.waiting
            or silent <= stall_seconds(live.settings, live.role(turn.agent, turn.thread))
        ):
            continue
        if stall_of(live.soup, turn.thread) is None:
            _stall(live, world, turn, silent)


def relieve(live: LiveJob, world: World) -> None:
    """A stall ends with its turn, however that came about."""
    for hold in stalls(live.soup):
        run = live.soup.get(Run, hold.thread)
        if run is None or run.turn != turn_of(hold):
            _release(live, world, hold, "its turn is over")


def _stall(live: LiveJob, world: World, turn: Turn, silent: float) -> None:
    now = world.clock.now()
    last = texts.excerpt(world.secrets.redact(turn.last), SHOWN)
    extra = dumps({"agent": turn.agent, "silent": round(silent, 1), "text": texts.fit(last)})
    cause = cause_of(turn.turn, turn.heard_at)
    live.fire("hold", turn.thread, choice=cause, who=ORCHESTRATOR, time=now, extra=extra)
    parent = live.soup.parent(turn.thread)
    above = live.soup.get(Surface, parent) if parent else None
    if above is None or above.agent == ORCHESTRATOR or thread_kind(turn.thread) != "dispatch":
        return  # nobody but the human could act on it: the Hold counts for the listing
    if MessageKind.INTERVENTION not in above.messages:
        return  # its role lets nothing redirect it: the human acts on the Hold
    name = live.write(
        (ORCHESTRATOR, live.thread),
        (above.agent, above.thread),
        texts.fit(texts.stalled(turn.agent, turn.thread, turn.heard_at, silent, last)),
        kind=MessageKind.INTERVENTION,
        key=f"stalled:{live.step}",
        time=now,
        meta={"stalled": turn.thread, "turn": turn.turn, "since": turn.heard_at},
        alone=True,
    )
    live.fire("intervene", above.thread, choice=Interrupt(above.thread, name), who=ORCHESTRATOR, time=now)


def _release(live: LiveJob, world: World, hold: Hold, why: str) -> None:
    now = world.clock.now()
    live.fire("release", hold.thread, choice=hold.cause, who=ORCHESTRATOR, time=now, extra=dumps({"text": why}))
    surface = live.soup.get(Surface, hold.thread)
    if surface is not None:
        live.ready[surface.agent, hold.thread] = None  # it may have mail by now


# ---- reading -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Vital:
    """How an instance at work was last heard of. `last` is when, `said` what; `stalled` is what the bus says."""

    thread: str
    last: float
    silent_seconds: float
    in_tool: str
    stalled: bool
    said: str = ""


def vitals(present: Present, files: Files, now: float) -> dict[str, Vital]:
    """The instances that are at work, by their threads. After its owner's death a job has none: nobody works on it."""
    found: dict[str, Vital] = {}
    if present.record is None or not present.owned:
        return found
    for run in present.soup.of(Run):
        if run.agent in CODE:
            continue
        hold = stall_of(present.soup, run.thread)
        stalled = hold is not None and turn_of(hold) == run.turn
        told = heard(files.tail(present.job, stream_of(present.record, run.thread)), run.turn)
        last = told.last or present.started(run.turn)
        found[run.thread] = Vital(run.thread, last, max(0.0, now - last), told.tool, stalled, told.said)
    return found
