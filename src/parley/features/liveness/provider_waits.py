"""Waiting for a provider: within a turn that goes on by itself, or after a turn that was lost to the provider's limit.

A Hold of the instance's thread says so on the bus for as long as it is true: which instance waits, for what, and until
when. Within a turn it holds nothing up, for the instance is at work.
"""

from __future__ import annotations

from collections.abc import Iterable

from parley.engine.hooks import Feature, Guest
from parley.engine.owned_job import OwnedJob
from parley.engine.turn.lost import LONGEST_PARKING_SECONDS
from parley.engine.turn.running_turn import Turn
from parley.engine.values.hold_causes import Wait, cause_of
from parley.engine.values.step_extra import StepExtra
from parley.engine.world import World
from parley.ports.turns import Called, Progress, Waiting
from parley.protocol.molecules import ORCHESTRATOR, Hold, Run

GOES_ON = "it goes on"


class ProviderWaits(Feature):
    """Tells which agents wait for their provider, and lets them go on."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def guests(self, job: OwnedJob) -> Iterable[Guest]:
        """Every job may have to wait."""
        return (ProviderGuest(self._world),)


class ProviderGuest(Guest):
    """The waits of one job."""

    def __init__(self, world: World) -> None:
        self._world = world

    def turn_heard(self, job: OwnedJob, turn: Turn, event: Called | Progress | Waiting) -> None:
        """A turn waits for its provider, waits on, or goes on."""
        if not isinstance(event, Waiting):
            return
        now = self._world.clock.now()
        for hold, wait in _waits(job, turn.thread):
            if wait.turn:
                job.release(hold, ORCHESTRATOR, now, None if event.reason else StepExtra(text=GOES_ON))
        if event.reason:
            job.hold(turn.thread, Wait(round(event.until, 1), turn.agent, turn.turn, event.reason), now)

    def release_holds(self, job: OwnedJob) -> None:
        """A wait within a turn ends with the turn, however that came about."""
        for hold, wait in _waits(job):
            run = job.soup.get(Run, hold.thread)
            if wait.turn and (run is None or run.turn != wait.turn):
                job.release(hold, ORCHESTRATOR, self._world.clock.now())

    def tick(self, job: OwnedJob) -> bool:
        """Release the parked instances whose time has come.

        The owner that parked one goes by a clock that is never set. Another owner goes by the time that the bus names;
        should that lie further off than the instance was parked for, its clock is behind the former owner's.
        """
        now, passed = self._world.clock.now(), self._world.clock.monotonic()
        for hold, wait in _waits(job):
            due, left = job.agenda.parked.get(hold.thread), wait.until - now
            over = due <= passed if due is not None else not 0 < left <= (wait.seconds or LONGEST_PARKING_SECONDS)
            if not wait.turn and over:
                job.unpark(hold, now)
        return False


def _waits(job: OwnedJob, thread: str = "") -> list[tuple[Hold, Wait]]:
    holds = job.soup.all(Hold, thread) if thread else job.soup.of(Hold)
    found = ((hold, cause_of(hold)) for hold in holds)
    return [(hold, cause) for hold, cause in found if isinstance(cause, Wait)]
