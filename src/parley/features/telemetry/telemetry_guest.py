"""Where telemetry hangs on a job: it says how far the bus has come, and what happens within turns.

All else is read from the bus, by a thread that no job waits for. What happens within a turn has no row: the uses of
tools and the waits for a free slot are told from here, when they are over.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from parley.engine.hooks import Feature, Guest
from parley.engine.owned_job import Instance, OwnedJob
from parley.engine.turn.finish import NAME_LIMIT, text_in
from parley.engine.turn.running_turn import Turn
from parley.engine.world import World
from parley.ports.machine import Clock
from parley.ports.telemetry import SLOT, TOOL, MidTurn, Telemetry
from parley.ports.turns import Called, Ended, Progress, Sign, Waiting

MOST_EVENTS = 1000  # of one turn that are told
MOST_OPEN = 100  # of one turn that are remembered as under way


class _Use(Struct, frozen=True):
    """What a turn is in."""

    kind: str
    tool: str
    began: float


class _TurnEvents(Struct):
    """What was told of a turn."""

    told: int = 0
    uses: dict[str, _Use] = {}


class TelemetryFeature(Feature):
    """Tells operators of jobs, where the user asks for it."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def guests(self, job: OwnedJob) -> Iterable[Guest]:
        """No job has one where the user asks for no telemetry."""
        telemetry = self._world.telemetry
        if telemetry is None:
            return ()
        telemetry.took(job.id, job.epoch, job.counters.step)
        return (TelemetryGuest(telemetry, self._world.clock),)


class TelemetryGuest(Guest):
    """Tells of one job."""

    def __init__(self, telemetry: Telemetry, clock: Clock) -> None:
        self._telemetry, self._clock = telemetry, clock
        self._told = -1
        self._queued: dict[Instance, float] = {}  # since when instances wait for others to end a turn

    def tick(self, job: OwnedJob) -> bool:
        """All that the soup holds is committed."""
        if job.counters.step != self._told:
            self._told = job.counters.step
            self._telemetry.committed(job.id, self._told)
        return False

    def job_released(self, job: OwnedJob) -> None:
        """The last transaction is committed."""
        self.tick(job)
        self._telemetry.released(job.id)

    # ---- around a turn and within it -----------------------------------------------------------

    def before_commit(self, job: OwnedJob) -> None:
        """See who waits because enough agents are at work."""
        if job.agenda.queued or self._queued:
            now = self._clock.now()
            self._queued = {who: self._queued.get(who, now) for who in job.agenda.queued}

    def turn_started(self, job: OwnedJob, turn: Turn) -> None:
        """Who has waited goes on."""
        since = self._queued.pop((turn.agent, turn.thread), None)
        if since is not None:
            self._tell(job, turn, _Use(SLOT, "", since), "ok")

    def call_answered(self, job: OwnedJob, turn: Turn, event: Called, taken: bool) -> None:
        """A tool of the protocol's: it takes effect with the turn's end, and its call takes no time."""
        use = _Use(TOOL, text_in(event.tool, NAME_LIMIT), turn.heard)
        self._tell(job, turn, use, "ok" if taken else "refused", own=True)

    def turn_heard(self, job: OwnedJob, turn: Turn, event: Called | Progress | Waiting) -> None:
        """A tool of the agent's own, or the wait for a free slot, begins or is over."""
        tool = text_in(event.tool, NAME_LIMIT) if isinstance(event, Progress) else ""
        if not tool or not isinstance(event, Progress):
            return
        uses, name = turn.part(_TurnEvents).uses, text_in(event.use, NAME_LIMIT)
        if event.over:
            use = uses.pop(name, None)
            if use is not None:
                self._tell(job, turn, use, "failed" if event.failed else "ok")
        elif len(uses) < MOST_OPEN:
            kind = SLOT if event.sign is Sign.QUEUE else TOOL
            uses[name] = _Use(kind, tool, self._clock.now())

    def turn_over(self, job: OwnedJob, turn: Turn, event: Ended) -> None:
        """What the turn was in when it ended."""
        uses = turn.part(_TurnEvents).uses
        for use in uses.values():
            self._tell(job, turn, use, "cut")
        uses.clear()

    def _tell(self, job: OwnedJob, turn: Turn, use: _Use, outcome: str, *, own: bool = False) -> None:
        events = turn.part(_TurnEvents)
        events.told += 1
        if events.told > MOST_EVENTS:
            return
        self._telemetry.passed(
            MidTurn(
                job=job.id,
                epoch=job.epoch,
                turn=turn.turn,
                agent=turn.agent,
                number=events.told,
                kind=use.kind,
                name=use.tool,
                own=own,
                outcome=outcome,
                began=use.began,
                ended=self._clock.now(),
            )
        )
