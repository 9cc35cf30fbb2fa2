"""The loop of the attendant: it takes over every job of a home that no living process owns, and runs them all.

What keeps one job from going on here is kept as its problem, and no other job waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from parley.actions.check_thread import CheckThread, CheckVerdict
from parley.actions.drive import CRANK_SECONDS, WATCH_SECONDS, can_go_on
from parley.bus.attendant import forget_request, is_asked, write_problems
from parley.bus.rows import JOB_ID, Owned
from parley.bus.store import HomeStore
from parley.engine.compartments import is_contained
from parley.engine.loop import Engine, collect_seldom
from parley.machine import stop_signals
from parley.settings.schema import Settings
from parley.views.job_view import begins

RETRY_SECONDS = 60.0  # after which a job with a problem is tried again; twice as long each time after that
LONGEST_RETRY_SECONDS = 480.0


class Engines(Protocol):
    """The engines of a home: one for each version of the settings with which jobs were taken over."""

    def of(self, settings: Settings) -> Engine:
        """The engine with these settings, made if there is none."""

    def in_use(self) -> Sequence[Engine]:
        """All engines."""

    def close_idle(self) -> None:
        """Close the engines that run no job."""


class Household(Protocol):
    """What the attendant leaves to the command that it runs in."""

    def explain(self, error: Exception) -> str:
        """An error in one line, without secrets."""

    def ended(self, job: str, state: str) -> None:
        """A job that was run here has ended."""

    def finish(self, job: str) -> None:
        """Finish the effects of a job that ended elsewhere, where its owner died before it had."""

    def tell(self, line: str) -> None:
        """Write a line into the log."""


class _Later(NamedTuple):
    """A job that can't go on here for now."""

    why: str  # empty: it is held, which is no problem
    until: float  # when it is tried again, by the monotonic clock
    tries: int
    newest: int  # its newest input then: another one is a reason to try again


class Attendant:
    """Runs all jobs of a home. `store` is the attendant's own: the engines have others."""

    def __init__(
        self, home: Path, store: HomeStore, engines: Engines, checks: CheckThread, household: Household
    ) -> None:
        self._home = home
        self._store = store
        self._engines = engines
        self._checks = checks
        self._household = household
        self._unfinished = store.unfinished()
        self._elsewhere: set[str] = set()  # jobs that another process was seen to own
        self._later: dict[str, _Later] = {}
        self._told: dict[str, str] = {}  # the problems as they were last written
        self._looked: float | None = None

    def run(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Run jobs until it is stopped: by what is given, or by a signal."""
        collect_seldom()
        while not stopped():
            stop_signals.raise_if_asked()
            self._round()

    def _round(self) -> None:
        engines = self._engines.in_use()
        for engine in engines:
            engine.crank(CRANK_SECONDS / len(engines))
            self._let_go(engine)
        self._engines.close_idle()
        now = time.monotonic()
        if self._looked is None or now - self._looked >= WATCH_SECONDS:
            self._looked = now
            self._look()
        for verdict in self._checks.verdicts(0.0 if engines else WATCH_SECONDS):
            self._take_over(verdict)
        self._publish()

    # ---- finding jobs ----------------------------------------------------------------------------

    def _look(self) -> None:
        """Look for jobs that no process works on."""
        changed = self._store.changed()
        if changed:
            self._unfinished = self._store.unfinished()
        here = {job for engine in self._engines.in_use() for job in engine.jobs} | self._checks.asked
        idle = [job for job in self._unfinished if job not in here and JOB_ID.fullmatch(job) is not None]
        asked = [job for job in idle if is_asked(self._home, job)]
        for job in asked:
            self._later.pop(job, None)
        living = self._store.living([*idle, *(self._elsewhere - self._unfinished.keys())])
        for job in living.intersection(idle):
            self._elsewhere.add(job)
            self._later.pop(job, None)
        wanted = [job for job in idle if job not in living and self._is_wanted(job, changed, asked=job in asked)]
        self._finish_elsewhere(living)
        for job in self._later.keys() - self._unfinished.keys():
            del self._later[job]
        if asked:
            self._publish()  # before the requests are gone: who asked takes a problem that is there then for a new one
        for job in asked:
            forget_request(self._home, job)
        self._checks.ask(wanted)

    def _is_wanted(self, job: str, changed: bool, *, asked: bool) -> bool:
        """Whether a job without an owner is to be taken over now."""
        try:
            return asked or self._is_due(job, changed)
        except Exception as error:  # noqa: BLE001 - a lock or rows that another program changed: one job's problem
            self._put_off(job, self._household.explain(error))
            return False

    def _is_due(self, job: str, changed: bool) -> bool:
        """Whether a job can go on, as far as its rows say, and is not put off. `changed`: there may be new inputs."""
        later = self._later.get(job)
        put_off = later is not None and time.monotonic() < later.until
        if put_off and not changed:
            return False
        newest = self._newest_input(job)
        if later is not None and put_off and newest <= later.newest:
            return False
        if self._unfinished[job] and not newest and not can_go_on(self._store, job):
            self._put_off(job, "")
            return False
        return not begins(self._store.load(job))

    def _newest_input(self, job: str) -> int:
        """The number of the newest input that waits for an owner of the job; 0 if none does."""
        waiting = [row.number for row in self._store.inputs(job) if self._store.authentic(row)]
        return max(waiting, default=0)

    def _finish_elsewhere(self, living: Collection[str]) -> None:
        """See to jobs that another process has ended, once that process is gone."""
        for job in self._elsewhere - self._unfinished.keys():
            if job not in living:
                self._elsewhere.discard(job)
                self._try(job, lambda job=job: self._household.finish(job))  # type: ignore[misc]  # a default

    # ---- taking over and letting go --------------------------------------------------------------

    def _take_over(self, verdict: CheckVerdict) -> None:
        """Become a job's owner, unless something speaks against it."""
        job = verdict.job
        if verdict.problem:
            self._put_off(job, verdict.problem)
            return
        try:
            if self._store.owner_lives(job):
                return
            self._engines.of(verdict.settings).adopt(job)
        except Owned:
            return  # another process was faster
        except Exception as error:
            if any(job in engine.jobs for engine in self._engines.in_use()):
                raise  # it was taken over: this is about all jobs
            self._put_off(job, self._household.explain(error))
            return
        self._later.pop(job, None)
        self._household.tell(f"{job} goes on here")

    def _let_go(self, engine: Engine) -> None:
        """Let go of jobs that have ended, that can't be confined, or in which Parley itself failed."""
        for job, why in engine.put_aside().items():
            self._put_off(job, why)
        for job, live in list(engine.jobs.items()):
            if not live.record.live:
                self._release(engine, job)
                state = str(live.record.state)
                self._household.tell(f"{job} has ended: {state}")
                self._try(job, lambda job=job, state=state: self._household.ended(job, state))  # type: ignore[misc]  # defaults
            elif live.agenda.unconfined:
                why = live.agenda.unconfined
                self._release(engine, job)
                self._put_off(job, why)

    def _release(self, engine: Engine, job: str) -> None:
        """Release a job, whatever goes wrong in what its release does."""
        self._try(job, lambda: engine.release(job))
        if job not in engine.jobs:
            engine.world.store.disown(job)

    def _try(self, job: str, act: Callable[[], object]) -> None:
        """Do something for one job. What goes wrong goes into the log, unless all jobs have that trouble."""
        try:
            act()
        except Exception as error:
            if not is_contained(error) and not isinstance(error, Owned):
                raise
            self._household.tell(f"{job}: {self._household.explain(error)}")

    # ---- problems --------------------------------------------------------------------------------

    def _put_off(self, job: str, why: str) -> None:
        """Leave a job alone for a while."""
        before = self._later.get(job)
        tries = before.tries + 1 if before is not None and before.why == why else 0
        seconds = min(RETRY_SECONDS * 2 ** min(tries, 8), LONGEST_RETRY_SECONDS) if why else RETRY_SECONDS
        try:
            newest = self._newest_input(job)
        except Exception:  # noqa: BLE001 - as in _is_wanted
            newest = 0
        self._later[job] = _Later(why, time.monotonic() + seconds, tries, newest)
        if why and (before is None or before.why != why):
            self._household.tell(f"{job} can't go on here: {why}")

    def _publish(self) -> None:
        """Write the problems for the page, where they have changed."""
        problems = {job: later.why for job, later in self._later.items() if later.why}
        if problems != self._told:
            with suppress(OSError):  # a full disk is the engine's to report; it is tried again
                write_problems(self._home, problems)
                self._told = problems
