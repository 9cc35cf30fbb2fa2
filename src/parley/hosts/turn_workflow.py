"""The workflow that places one turn on a host.

Everything here passes through Temporal's database, so it holds ids, codes and numbers, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

WORKFLOW, ACTIVITY = "turn", "run_turn"
PREFERRED_SECONDS = 5.0  # that a turn waits for the host where its instance's last turn ran
AGAIN_SECONDS = 0.5  # before a turn that a host did not take is offered again
ROUNDS = 50  # of offering; then the coordinator, which sweeps the board, starts another run
LONGEST = timedelta(days=3650)  # a turn's own time limit is kept by its host

BUSY, FAILED, HANDED_BACK = "busy", "failed", "handed back"
_TRY_AGAIN = (BUSY, FAILED, HANDED_BACK)


@dataclass(frozen=True)
class TurnIds:
    """Which turn, and on which task queues it is offered."""

    bus: str
    job: str
    turn: str
    epoch: int
    wanted: str  # the queue of the preferred host; empty: none is
    pool: str  # the queue of all hosts that may run it
    lost_seconds: float  # without a heartbeat, after which its host counts as lost

    @property
    def workflow_id(self) -> str:
        """The workflow's id: the turn's own."""
        return f"{self.bus}/{self.job}/{self.turn}/{self.epoch}"


def host_queue(bus: str, host: str) -> str:
    """The task queue of one host."""
    return f"{bus}/host-{host}"


def pool_queue(bus: str, label: str = "") -> str:
    """The task queue of all hosts, or of those with a label."""
    return f"{bus}/label-{label}" if label else f"{bus}/any"


def placing_queue(bus: str) -> str:
    """The task queue of the workflows themselves."""
    return f"{bus}/placing"


@workflow.defn(name=WORKFLOW)
class TurnWorkflow:
    """Offers a turn to its preferred host, then to all; and again where a host is lost before the turn has begun."""

    @workflow.run
    async def run(self, ids: TurnIds) -> str:
        """Offer the turn until a host has settled it; returns how, as a code."""
        code = await self._offer(ids, ids.wanted, waits=False) if ids.wanted else FAILED
        for number in range(ROUNDS if code in _TRY_AGAIN else 0):
            if number:
                await workflow.sleep(AGAIN_SECONDS)
            code = await self._offer(ids, ids.pool, waits=True)
            if code not in _TRY_AGAIN:
                break
        return code

    @staticmethod
    async def _offer(ids: TurnIds, queue: str, *, waits: bool) -> str:
        try:
            found = await workflow.execute_activity(
                ACTIVITY,
                ids,
                task_queue=queue,
                result_type=str,
                schedule_to_start_timeout=None if waits else timedelta(seconds=PREFERRED_SECONDS),
                start_to_close_timeout=LONGEST,
                heartbeat_timeout=timedelta(seconds=ids.lost_seconds),
                retry_policy=RetryPolicy(maximum_attempts=1),  # how it goes on is decided here
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            return FAILED
        return str(found)
