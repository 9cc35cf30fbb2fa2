"""A turn that was lost: its agent died, took too long or could not be confined, or its provider is out of reach."""

from __future__ import annotations

from parley.base.text import fit
from parley.bus.slots import advice_slot
from parley.engine import protocol_messages
from parley.engine.files.streams import about_call, deed
from parley.engine.owned_job import OwnedJob
from parley.engine.protocol_messages import TEXT_LIMIT
from parley.engine.reduction import fall_back
from parley.engine.turn.running_turn import Turn
from parley.engine.values.hold_causes import Wait
from parley.engine.values.message_meta import Failed
from parley.engine.values.step_extra import StepExtra
from parley.engine.world import World
from parley.ports.turns import Ended
from parley.ports.workspaces import SetUpFailed
from parley.protocol.errors import Disabled
from parley.protocol.lifecycle import HOPELESS
from parley.protocol.molecules import ORCHESTRATOR, Crashed, Mailbox, MessageKind, thread_kind, thread_name

LONGEST_PARKING_SECONDS = 24 * 3600.0
REASON_SHOWN = 300  # characters of why a provider lets nothing through


# ---- what is known of it ---------------------------------------------------------------------------


def left_by(turn: Turn, event: Ended, *, fault: str = "", handle: str = "") -> StepExtra:
    """What the step that gives a lost turn up says of it."""
    return StepExtra(
        turn=turn.turn,
        fault=fit(fault or event.fault, TEXT_LIMIT),
        handle=handle,
        usage={name: value for name, value in turn.usage.items() if name != "turns"},
        worked=turn.worked,
        boundary=event.boundary,
        refused=refusals(turn, event),
        host=event.host,
    )


def refusals(turn: Turn, event: Ended) -> tuple[str, ...]:
    """What a turn's agent was refused: by the engine, and by its runner where the engine does not know of it."""
    if not turn.refused and not event.refusals:
        return ()
    told = (fit(text, TEXT_LIMIT) for text in event.refusals if not any(text in known for known in turn.refused))
    return (*turn.refused, *told)


def stillborn(job: OwnedJob, turn: Turn, failed: SetUpFailed) -> Ended:
    """The end of a turn whose workspace could not be set up."""
    return Ended(job.id, turn.turn, job.epoch, fault=str(failed), hard=True, unconfined=failed.unconfined)


def reason_of(world: World, said: str) -> str:
    """Why a provider lets nothing through, as the bus may have it: one line, without secrets."""
    return fit(world.secrets.redact(" ".join(said.split())), TEXT_LIMIT)[:REASON_SHOWN]


# ---- what becomes of it ----------------------------------------------------------------------------


def lose(
    job: OwnedJob, world: World, turn: Turn, left: StepExtra, *, hopeless: bool = False, kept: bool = False
) -> None:
    """Give the message back, or give the turn up and tell its dispatcher. `kept`: the turn's files stay."""
    _void(job, world, turn, kept=kept)
    if not hopeless:
        try:
            _recover(job, world, turn, "agent", left)
        except Disabled:
            pass  # it was lost too often
        else:
            return
    _give_up(job, world, turn, left, (HOPELESS,) if hopeless else ())


def interrupt(job: OwnedJob, world: World, turn: Turn, event: Ended) -> None:
    """The agent could not be confined: give the message back, wake no agent, and let the owner stop.

    It is a hard error and no question: no dispatcher and no human decides in mid-job to do without a boundary. What
    the settings accept is decided before a job begins.
    """
    _void(job, world, turn)
    _recover(job, world, turn, "engine", left_by(turn, event))
    job.fall_asleep(event.fault)


def give_back(job: OwnedJob, world: World, turn: Turn, event: Ended) -> None:
    """The turn's host was lost, or had to end: give the message back, and count it against no agent."""
    _void(job, world, turn)
    _recover(job, world, turn, "engine", left_by(turn, event))


def park(job: OwnedJob, world: World, turn: Turn, event: Ended) -> None:
    """The provider lets nothing through for now: give the message back, and hold the instance until it may go on."""
    _void(job, world, turn)
    _recover(job, world, turn, "engine", left_by(turn, event))
    now, seconds = world.clock.now(), min(event.parked_seconds, LONGEST_PARKING_SECONDS)
    wait = Wait(
        until=round(now + seconds, 1),
        agent=turn.agent,
        turn="",
        reason=reason_of(world, event.fault),
        seconds=round(seconds + 0.1, 1),
    )
    job.park(turn.thread, wait, now, world.clock.monotonic() + seconds)


def _void(job: OwnedJob, world: World, turn: Turn, *, kept: bool = False) -> None:
    """None of the turn's calls has happened, and its files are put back."""
    job.after(turn.agent, turn.thread).calls = [deed(call.tool, about_call(world, call)) for call in turn.calls]
    if not kept:
        job.put_back(turn)


def _recover(job: OwnedJob, world: World, turn: Turn, whose: str, left: StepExtra) -> None:
    now = world.clock.now()
    job.fire("recover", turn.agent, turn.thread, choice=whose, who=ORCHESTRATOR, time=now, extra=left)


def _give_up(job: OwnedJob, world: World, turn: Turn, left: StepExtra, why: tuple[str, ...]) -> None:
    now, soup = world.clock.now(), job.soup
    is_question = thread_kind(turn.thread) == "escalation"
    parent = soup.parent(turn.thread)
    notice = ""
    if parent is not None and not is_question:
        above, crashed = soup.need(Mailbox, parent), soup.get(Crashed, turn.thread, turn.agent)
        tries = (crashed.count if crashed is not None else 0) + 1
        notice = job.write(
            (ORCHESTRATOR, job.thread),
            (above.agent, above.thread),
            protocol_messages.failed(turn.agent, turn.thread, left.fault, tries),
            kind=MessageKind.NOTICE,
            key=f"{turn.turn}/failed",
            time=now,
            meta=Failed(thread=turn.thread, message=turn.message, fault=left.fault, hopeless=bool(why), tries=tries),
        )
    job.drop(advice_slot(turn.agent, turn.thread))
    job.fire("give-up", turn.agent, turn.thread, *why, choice=notice, who=ORCHESTRATOR, time=now, extra=left)
    if is_question:
        fall_back(job, world, thread_name(turn.thread), key=f"{turn.turn}/fallback")
