"""Silence: agents that show no sign of life, and who hears of it.

An agent that is silent outside a tool for longer than its limit is stalled. That is an observation, and changes
nothing: a Hold of its thread says so on the bus for as long as it is true, its dispatcher gets an Interrupt at its turn
boundary, and of a lead, which only the orchestrator has dispatched, the human is told.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from parley.engine import protocol_messages
from parley.engine.hooks import Feature, Guest
from parley.engine.owned_job import OwnedJob
from parley.engine.turn.running_turn import Turn
from parley.engine.values.hold_causes import Stall, cause_of, stall_of, stalls
from parley.engine.values.message_meta import Stalled
from parley.engine.values.step_extra import StepExtra
from parley.engine.world import World
from parley.ports.turns import Called, Progress, Waiting
from parley.protocol.molecules import ORCHESTRATOR, Hold, Interrupt, MessageKind, Run, thread_kind
from parley.settings.schema import Settings

SHOWN = 200  # characters of the last thing that was done


class SilenceSettings(Struct, frozen=True):
    """What a job's settings say of silence."""

    stall_seconds: float = Settings().stall_seconds  # how long an agent may be silent outside a tool


class Silence(Feature):
    """Sees which agents are silent for too long."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def guests(self, job: OwnedJob) -> Iterable[Guest]:
        """Every job is listened to."""
        return (SilenceGuest(self._world),)


def stall_seconds(job: OwnedJob, turn: Turn) -> float:
    """How long a turn's agent may be silent: by its role, or by the job's settings."""
    own = job.role(turn.agent, turn.thread).limits.stall_seconds
    return own or job.settings_of(SilenceSettings).stall_seconds


class SilenceGuest(Guest):
    """Listens to the turns of one job."""

    def __init__(self, world: World) -> None:
        self._world = world

    def tick(self, job: OwnedJob) -> bool:
        """See which turns have been silent for too long."""
        for turn in list(job.running.values()):
            silent = self._world.pulse.time - turn.pulse
            busy = not turn.out or turn.uses or turn.waiting
            if not busy and silent > stall_seconds(job, turn) and stall_of(job.soup, turn.thread) is None:
                self._stall(job, turn, silent)
        return False

    def turn_heard(self, job: OwnedJob, turn: Turn, event: Called | Progress | Waiting) -> None:
        """A sign of life. If it was missed, that is over."""
        for hold in job.soup.all(Hold, turn.thread):
            if isinstance(cause_of(hold), Stall):
                self._release(job, hold, "it shows life again")

    def release_holds(self, job: OwnedJob) -> None:
        """A stall ends with its turn, however that came about."""
        for hold in stalls(job.soup):
            run, cause = job.soup.get(Run, hold.thread), cause_of(hold)
            if run is None or (isinstance(cause, Stall) and run.turn != cause.turn):
                self._release(job, hold, "its turn is over")

    def _release(self, job: OwnedJob, hold: Hold, why: str) -> None:
        job.release(hold, ORCHESTRATOR, self._world.clock.now(), StepExtra(text=why))

    def _stall(self, job: OwnedJob, turn: Turn, silent: float) -> None:
        now = self._world.clock.now()
        last = protocol_messages.excerpt(self._world.secrets.redact(turn.last), SHOWN)
        extra = StepExtra(agent=turn.agent, silent=round(silent, 1), text=protocol_messages.fit(last))
        job.hold(turn.thread, Stall(turn.turn, turn.heard), now, extra)
        above = job.above(turn.thread)
        if above is None or above.agent == ORCHESTRATOR or thread_kind(turn.thread) != "dispatch":
            return  # only the human could act on it: the Hold counts for the listing
        if MessageKind.INTERVENTION not in above.messages:
            return  # its role lets nothing redirect it: the human acts on the Hold
        name = job.write(
            (ORCHESTRATOR, job.thread),
            (above.agent, above.thread),
            protocol_messages.fit(protocol_messages.stalled(turn.agent, turn.thread, turn.heard, silent, last)),
            kind=MessageKind.INTERVENTION,
            key=f"stalled:{job.counters.step}",
            time=now,
            meta=Stalled(thread=turn.thread, turn=turn.turn, since=turn.heard),
            alone=True,
        )
        job.fire("intervene", above.thread, choice=Interrupt(above.thread, name), who=ORCHESTRATOR, time=now)
