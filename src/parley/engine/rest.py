"""A job that has come to rest in a live state: what wakes its lead."""

from __future__ import annotations

from parley.core.terms import ORCHESTRATOR, MessageKind
from parley.engine import spending
from parley.engine.live import LiveJob
from parley.engine.merging import tell_clean
from parley.engine.world import World


def judge(live: LiveJob, world: World, today: spending.Today) -> bool:
    """Where nothing is under way and the state has not ended, wake the lead; whether anything was done.

    It is woken by clean merges that it is yet to be told. Without those its state is PENDING.
    """
    if live.soup.stirring or live.held or live.parked or live.asleep or not live.record.live:
        return False
    if live.purse.capped and not spending.allows(live, world, today):
        return True  # no agent could be woken for it, so none is blamed
    if tell_clean(live, world):
        return True
    now = world.clock.now()
    seen = live.write(
        (ORCHESTRATOR, live.thread),
        (ORCHESTRATOR, live.thread),
        "PENDING",
        kind=MessageKind.NOTICE,
        key=f"pending:{live.step}",
        time=now,
        meta={"pending": True},
    )
    live.fire("pending", live.job, choice=seen, who=ORCHESTRATOR, time=now)
    return True
