"""Waiting for a provider: an instance at work whose API fails waits within its turn, and goes on by itself.

A Hold of its thread says so on the bus for as long as it is true. It holds nothing up, for the instance has its turn;
it tells every reader of the bus who waits, for what, and until when.
"""

from __future__ import annotations

from parley.core.terms import ORCHESTRATOR, Hold, Run, Surface
from parley.engine import spending, texts
from parley.engine.holds import WAIT, Wait, kind_of, wait_of
from parley.engine.live import LiveJob
from parley.engine.records import dumps, quote
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.ports import Waiting

SHOWN = 300  # characters of a reason
GOES_ON = "it goes on"


def hear(live: LiveJob, world: World, turn: Turn, event: Waiting) -> tuple[str, str]:
    """A turn waits for its provider, waits on, or goes on; what its stream is told: the event, and the rest of it."""
    now = world.clock.now()
    reason = reason_of(world, event.reason)
    turn.waiting = bool(reason)
    for hold in live.soup.all(Hold, turn.thread):
        if kind_of(hold) == WAIT:
            extra = "" if reason else dumps({"text": GOES_ON})
            live.fire("release", turn.thread, choice=hold.cause, who=ORCHESTRATOR, time=now, extra=extra)
    if reason:
        cause = Wait(event.until, turn.agent, turn.turn, reason).cause
        live.fire("hold", turn.thread, choice=cause, who=ORCHESTRATOR, time=now)
    if live.purse.timed:
        spending.clock(live, world)
    return ("waits", f'"reason":{quote(reason)},"until":{event.until!r}') if reason else ("goes on", '"text":""')


def reason_of(world: World, said: str) -> str:
    """A reason as the bus may have it: one line, without secrets."""
    return texts.fit(world.secrets.redact(" ".join(said.split())))[:SHOWN]


def relieve(live: LiveJob, world: World) -> None:
    """A wait ends with its turn, however that came about."""
    for hold in live.soup.of(Hold):
        if kind_of(hold) != WAIT:
            continue
        run, found = live.soup.get(Run, hold.thread), wait_of(hold.cause)
        if found is not None and (run is None or run.turn != found.turn):
            live.fire("release", hold.thread, choice=hold.cause, who=ORCHESTRATOR, time=world.clock.now())
            surface = live.soup.get(Surface, hold.thread)
            if surface is not None:
                live.ready[surface.agent, hold.thread] = None  # it may have mail by now
