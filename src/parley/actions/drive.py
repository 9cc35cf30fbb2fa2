"""The loop in which a face runs jobs: own them, crank, show, and know when to stop.

A job that another process owns is watched, and taken over within seconds should that process die.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from parley.bus.rows import Owned
from parley.bus.store import Store
from parley.engine.compartments import Broken
from parley.engine.loop import Engine, collect_seldom
from parley.engine.owned_job import OwnedJob
from parley.engine.values.hold_causes import budgets, is_parked
from parley.engine.values.human_inputs import asks
from parley.machine import stop_signals
from parley.protocol.molecules import Hold, Run
from parley.views.job_view import TERMINAL, Present

CRANK_SECONDS = 0.1
WATCH_SECONDS = 0.25  # how soon the death of another owner is seen


class RestReason(StrEnum):
    """Why this process stops running a job."""

    ENDED = "ended"  # it has reached a terminal
    WAITING = "waiting"  # for the human, and there is no terminal to ask on
    PAUSED = "paused"  # by the human
    UNCONFINED = "unconfined"  # an agent could not be confined: the job is interrupted, and asks no one
    BROKEN = "broken"  # Parley itself failed in it: the job is interrupted, and the others went on
    ATTENDED = "attended"  # the engine of `parley serve` owns it, and this process is not needed


class Rest(NamedTuple):
    """How this process leaves a job, and why, where the job's record does not say."""

    how: RestReason
    why: str = ""


class View(Protocol):
    """An observer of a job. What it does must not take long."""

    def show(self) -> None:
        """Something may have changed."""


def drive(
    engine: Engine, jobs: Sequence[str], view: View, *, stay: bool, attended: Callable[[], bool] = lambda: False
) -> dict[str, Rest]:
    """Run jobs until each has ended, or can't go on here; how each stands then.

    `stay`: wait for the human's answers and for the end of a pause, however long that takes. Without it, a job that
    only the human can bring on is not waited for, also where another process owns it.

    `attended`: whether another process takes over every job of the home: to it, a job that is owned elsewhere is left.
    """
    ended: dict[str, Rest] = {}
    collect_seldom()
    while True:
        stop_signals.raise_if_asked()
        ended |= {job: Rest(RestReason.BROKEN, why) for job, why in engine.put_aside().items()}
        watched = [job for job in jobs if job not in engine.jobs and job not in ended]
        for job in watched:
            try:
                goes_on = _take_over(engine, job)
            except Broken as broken:
                ended[job] = Rest(RestReason.BROKEN, str(broken))
                continue
            if not goes_on:
                ended[job] = Rest(RestReason.ENDED)
            elif job not in engine.jobs and (how := _rest_elsewhere(engine.world.store, job, stay, attended)):
                ended[job] = Rest(how)
        happened = engine.crank(CRANK_SECONDS if engine.jobs else 0.0)
        if not engine.jobs and watched:
            engine.world.store.wait(WATCH_SECONDS)
        view.show()
        for job, live in list(engine.jobs.items()):
            if not live.record.live:
                engine.release(job)
                ended[job] = Rest(RestReason.ENDED)
            elif live.agenda.unconfined:
                engine.release(job)
                ended[job] = Rest(RestReason.UNCONFINED, live.agenda.unconfined)
        if len(ended) == len(jobs):
            return ended
        resting = {} if happened or stay else {job: _rest(live) for job, live in engine.jobs.items()}
        if resting and len(resting) + len(ended) == len(jobs) and all(resting.values()):
            for job, how in resting.items():
                if how is not None:
                    engine.release(job)
                    ended[job] = Rest(how)
            return ended


def can_go_on(store: Store, job: str) -> bool:
    """Whether a job without an owner goes on once it has one: it is neither paused nor held by a spent budget."""
    present = Present(store, job)
    return present.row.state not in TERMINAL and not present.paused and not present.spent()


def _take_over(engine: Engine, job: str) -> bool:
    """Become the job's owner, unless it has one. Whether the job goes on, here or in its owner's process."""
    store = engine.world.store
    if store.owner_lives(job):
        return True
    if _is_over(engine, job):
        return False
    try:
        engine.adopt(job)
    except Owned:
        return True  # another process was faster
    return True


def _is_over(engine: Engine, job: str) -> bool:
    return engine.world.store.load(job).row.state in TERMINAL


def _rest(job: OwnedJob) -> RestReason | None:
    """Why the job rests until the human does something; None where it goes on without that."""
    if job.running:
        return None
    if job.standing.held:
        return RestReason.WAITING if budgets(job.soup, job.thread) else RestReason.PAUSED
    if any(is_parked(hold) for hold in job.soup.of(Hold)):
        return None  # it goes on by itself when the provider lets it
    return RestReason.WAITING if job.standing.asking else None


def _rest_elsewhere(store: Store, job: str, stay: bool, attended: Callable[[], bool]) -> RestReason | None:
    """Why this process leaves a job that another owns, as the bus has it; None where it stays to take it over."""
    if attended():
        return RestReason.ATTENDED
    if stay:
        return None
    present = Present(store, job)
    soup = present.soup
    if any(soup.of(Run)) or asks(store.inputs(job)) or any(is_parked(hold) for hold in soup.of(Hold)):
        return None
    if present.row.held:
        return RestReason.WAITING if present.unpaid else RestReason.PAUSED
    return RestReason.WAITING if present.questions() else None
