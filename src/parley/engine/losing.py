"""A turn that was lost: its agent died, took too long, or its provider lets nothing through for now."""

from __future__ import annotations

from typing import Any

from parley.core.errors import Disabled
from parley.core.job import HOPELESS
from parley.core.terms import ORCHESTRATOR, Crashed, Hold, Mailbox, MessageKind, Surface, thread_kind
from parley.engine import spending, texts, waits
from parley.engine.holds import LIMIT, Wait, kind_of, wait_of
from parley.engine.live import LiveJob
from parley.engine.names import advice_slot
from parley.engine.records import dumps
from parley.engine.reduce import fall_back
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.ports import Ended, SetUpFailed

LONGEST_PARKING_SECONDS = 24 * 3600.0


def confined(turn: Turn, event: Ended) -> dict[str, Any]:
    """How the turn's agent was confined and what it was refused, for the step that ends it."""
    found: dict[str, Any] = {"boundary": dict(event.boundary)} if event.boundary else {}
    if not turn.refused and not event.refusals:
        return found
    told = (texts.fit(text) for text in event.refusals if not any(text in known for known in turn.refused))
    if refused := [*turn.refused, *told]:
        found["refused"] = refused
    return found


def stillborn(live: LiveJob, turn: Turn, failed: SetUpFailed) -> Ended:
    """The end of a turn whose workspace could not be set up."""
    fault, unconfined = str(failed), failed.unconfined
    return Ended(live.job, turn.turn, live.epoch, fault=fault, hard=True, unconfined=unconfined)


def lose(
    live: LiveJob,
    world: World,
    turn: Turn,
    fault: str,
    more: dict[str, Any] | None = None,
    *,
    hopeless: bool = False,
    kept: bool = False,
) -> None:
    """The agent died, or took too long: give its message back, or tell its dispatcher. `kept`: its files stay."""
    now = world.clock.now()
    live.lost[turn.agent, turn.thread] = turn.calls
    if not kept:
        live.put_back(turn)
    extra = dumps({"turn": turn.turn, "fault": texts.fit(fault), **(more or {})})
    if not hopeless:
        try:
            live.fire("recover", turn.agent, turn.thread, choice="agent", who=ORCHESTRATOR, time=now, extra=extra)
        except Disabled:
            pass
        else:
            return
    _give_up(live, world, turn, fault, extra, (HOPELESS,) if hopeless else ())


def interrupt(live: LiveJob, world: World, turn: Turn, event: Ended) -> None:
    """The agent could not be confined: give the message back, wake no agent, and let the owner stop.

    It is a hard error (000 §10) and no question: no dispatcher and no human decides in mid-job to do without one.
    What the settings accept is decided before a job begins.
    """
    live.lost[turn.agent, turn.thread] = turn.calls
    live.put_back(turn)
    left = {**confined(turn, event), **spending.left_by(turn)}
    extra = dumps({"turn": turn.turn, "fault": texts.fit(event.fault), **left})
    live.fire(
        "recover", turn.agent, turn.thread, choice="engine", who=ORCHESTRATOR, time=world.clock.now(), extra=extra
    )
    live.asleep = True
    live.unconfined = event.fault


def park(live: LiveJob, world: World, turn: Turn, event: Ended) -> None:
    """The provider lets nothing through for now: give the message back, and hold the instance until it may go on."""
    now = world.clock.now()
    live.lost[turn.agent, turn.thread] = turn.calls
    live.put_back(turn)
    seconds = min(event.parked_seconds, LONGEST_PARKING_SECONDS)
    until = now + seconds
    live.unparking[turn.thread] = world.clock.monotonic() + seconds
    left = {**confined(turn, event), **spending.left_by(turn)}
    extra = dumps({"turn": turn.turn, "fault": texts.fit(event.fault), **left})
    live.fire("recover", turn.agent, turn.thread, choice="engine", who=ORCHESTRATOR, time=now, extra=extra)
    wait = Wait(until, turn.agent, "", waits.reason_of(world, event.fault))
    live.fire("hold", turn.thread, choice=wait.cause, who=ORCHESTRATOR, time=now)


def is_parked(hold: Hold) -> bool:
    """Whether a hold waits for a provider, and ends by itself."""
    return kind_of(hold) == LIMIT


def unpark(live: LiveJob, world: World) -> None:
    """Release the instances whose time has come.

    Whoever parked them knows by a clock that nobody sets. Another owner goes by the time that the bus names; should
    that lie further off than anybody may be parked, the clock was set back since.
    """
    now, passed = world.clock.now(), world.clock.monotonic()
    for hold in live.soup.of(Hold):
        if not is_parked(hold):
            continue
        found = wait_of(hold.cause)
        due, left = live.unparking.get(hold.thread), (found.until if found else now) - now
        if due <= passed if due is not None else not 0 < left <= LONGEST_PARKING_SECONDS:
            live.unparking.pop(hold.thread, None)
            live.fire("release", hold.thread, choice=hold.cause, who=ORCHESTRATOR, time=now)
            live.ready[live.soup.need(Surface, hold.thread).agent, hold.thread] = None


def _give_up(live: LiveJob, world: World, turn: Turn, fault: str, extra: str, why: tuple[str, ...]) -> None:
    now = world.clock.now()
    crashed = live.soup.get(Crashed, turn.thread, turn.agent)
    parent = live.soup.parent(turn.thread)
    above = live.soup.need(Mailbox, parent) if parent else None
    notice = ""
    if above is not None and thread_kind(turn.thread) != "escalation":
        tries = (crashed.count if crashed else 0) + 1
        notice = live.write(
            (ORCHESTRATOR, live.thread),
            (above.agent, above.thread),
            texts.failed(turn.agent, turn.thread, fault, tries),
            kind=MessageKind.NOTICE,
            key=f"{turn.turn}/failed",
            time=now,
            meta={
                "failed": turn.thread,
                "message": turn.message,
                "fault": fault,
                "hopeless": bool(why),
                "tries": tries,
            },
        )
    live.drop(advice_slot(turn.agent, turn.thread))
    live.fire("give-up", turn.agent, turn.thread, *why, choice=notice, who=ORCHESTRATOR, time=now, extra=extra)
    if thread_kind(turn.thread) == "escalation":
        fall_back(live, world, turn.thread.partition(":")[2], key=f"{turn.turn}/fallback")
