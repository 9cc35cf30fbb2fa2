"""A job that has come to rest in a live state: what wakes its lead."""

from __future__ import annotations

from parley.engine.owned_job import OwnedJob
from parley.engine.turn.merge import tell_clean
from parley.engine.values.message_meta import Rested
from parley.engine.world import World
from parley.protocol.molecules import ORCHESTRATOR, MessageKind


def judge(job: OwnedJob, world: World) -> bool:
    """Where nothing is under way and the state has not ended, wake the lead; whether anything was done.

    A message about clean merges that it has not heard of wakes it. Without those its state is PENDING.
    """
    if job.soup.stirring or job.standing.held or job.standing.parked or job.agenda.asleep or not job.record.live:
        return False
    if any(hook(job) for hook in job.guests.at_rest):
        return True  # no agent could be woken for it, so none is blamed
    if tell_clean(job, world):
        return True
    now = world.clock.now()
    seen = job.write(
        (ORCHESTRATOR, job.thread),
        (ORCHESTRATOR, job.thread),
        "PENDING",
        kind=MessageKind.NOTICE,
        key=f"pending:{job.counters.step}",
        time=now,
        meta=Rested(),
    )
    job.fire("pending", job.id, choice=seen, who=ORCHESTRATOR, time=now)
    return True
