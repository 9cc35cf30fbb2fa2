"""`parley serve-engine`: the engine for all jobs of a repository. `parley serve` starts it; it is in no help.

It ends on SIGTERM, and when its standard input closes: so it never outlives the server, however that ends. A thread
sees to that: what does not clean up in time is ended, and the log says where it hung.
"""

from __future__ import annotations

import faulthandler
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import NoReturn

from parley.actions.check_thread import CheckThread, CheckVerdict
from parley.actions.drive_all import Attendant
from parley.base.output import OUTPUT_SECRETS
from parley.bus.attendant import attend
from parley.bus.store import HomeStore, Store
from parley.cli import FAILED, OK, CommandError, home_bus
from parley.cli.common import Workplace, make_home, one_line, place_of, secrets_here
from parley.cli.error_lines import explain
from parley.cli.machine.boundary_trial import preflight
from parley.cli.machine.readiness import require
from parley.cli.machine.trust import layers_of
from parley.cli.open_bus import known_secrets, open_bus
from parley.cli.running.bootstrap import put_as_branch
from parley.cli.running.engines import HomeEngines
from parley.cli.running.job_runners import check
from parley.cli.running.resume import finish_ended_jobs, roles_of, unsound_line
from parley.machine import stop_signals
from parley.machine.stop_signals import stop_like_ctrl_c
from parley.settings.schema import Settings

LONGEST_PROBLEM = 600  # characters
LAST_SECONDS = 12.0  # that are left to clean up once a signal has come, or the server is gone
STUCK_SECONDS = 3.0  # more, after which the process ends even where no Python code can run any more


def run(words: Sequence[str]) -> int:
    """Run the jobs of a repository until the server ends, or says so."""
    match words:
        case []:
            folder = None
        case ["--repo", folder]:
            pass
        case _:
            raise CommandError("serve-engine takes --repo DIR and nothing else; `parley serve` starts it")
    OUTPUT_SECRETS.look(lambda: secrets_here(folder))
    place = place_of(folder)
    make_home(place)
    try:
        with stop_like_ctrl_c(), attend(place.home), _ending_in_time(), _opened(place) as store:
            serving = ServedPlace(place, store)
            serving.finish_all()
            with HomeEngines(place) as engines:
                Attendant(
                    home=place.home,
                    store=store,
                    engines=engines,
                    checks=CheckThread(serving.check),
                    household=serving,
                ).run()
    except KeyboardInterrupt:
        _tell("ended; jobs under way go on with `parley serve` or `parley resume`")
    return OK


@contextmanager
def _ending_in_time() -> Iterator[None]:
    """Have a thread see that this process ends, whatever becomes of the signal's exception and of the clean-up."""
    heard, tells = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    before = signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    threading.Thread(target=_end_in_time, args=(heard,), name="parley-end", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)  # the pipe stays open: the thread goes on until the process is gone


def _end_in_time(signals: int) -> NoReturn:
    """Wait for a signal that ends this process, or until standard input closes, which the server holds open."""
    _wait_for_end(signals)
    faulthandler.dump_traceback_later(LAST_SECONDS + STUCK_SECONDS, exit=True)  # needs no Python thread
    time.sleep(LAST_SECONDS)
    faulthandler.dump_traceback()
    _tell(f"did not clean up within {LAST_SECONDS:.0f} s after it was asked to end, and was ended")
    os._exit(FAILED)  # the jobs' next owner cleans up


def _wait_for_end(signals: int) -> None:
    try:
        while True:
            ready = select.select([0, signals], [], [])[0]
            if signals in ready and set(os.read(signals, 4096)) & {signal.SIGTERM, signal.SIGHUP, signal.SIGINT}:
                return
            if 0 in ready and not os.read(0, 4096):
                break
    except OSError:  # standard input can't be read: there is no server
        pass
    os.kill(os.getpid(), signal.SIGTERM)


@contextmanager
def _opened(place: Workplace) -> Iterator[HomeStore]:
    """The attendant's own store."""
    with closing(home_bus.open_store(place.home)) as store:
        yield store


class ServedPlace:
    """What the attendant needs of the command line at a place."""

    def __init__(self, place: Workplace, store: HomeStore) -> None:
        self._place = place
        self._store = store

    def check(self, jobs: Sequence[str]) -> Iterator[CheckVerdict]:
        """Whether each job can go on here, as `parley resume` would check it."""
        waiting = list(jobs)
        try:
            require(self._place)
            settings = layers_of(self._place).given
            preflight(settings.boundary, self._place)
            with open_bus(self._place, unredacted=True) as store:
                while waiting:
                    verdict = CheckVerdict(waiting[0], self._problem(store, waiting[0], settings), settings)
                    del waiting[0]
                    yield verdict
        except Exception as error:  # noqa: BLE001 - whatever it is, these jobs can't go on, and the reason is shown
            why = self.explain(error)
            yield from (CheckVerdict(job, why) for job in waiting)

    def _problem(self, store: Store, job: str, settings: Settings) -> str:
        """What one job lacks here; empty if nothing."""
        try:
            check(roles_of(store.load(job).row), settings, self._place)
            return self._shown(unsound_line(store, self._place, job, settings))
        except Exception as error:  # noqa: BLE001 - rows that another program changed: this job's problem alone
            return self.explain(error)

    def explain(self, error: Exception) -> str:
        """An error in one line, without secrets."""
        return self._shown(str(error) if isinstance(error, CommandError) else explain(error)[0])

    def _shown(self, text: str) -> str:
        return one_line(known_secrets(self._place).redact(text), LONGEST_PROBLEM) if text else ""

    def ended(self, job: str, state: str) -> None:
        """Put the result of a finished job into the repository as a branch."""
        if state == "DONE":
            put_as_branch(self._place, job)

    def finish(self, job: str) -> None:
        """Finish the effects of a job that ended in a process that died right after."""
        finish_ended_jobs(self._store, self._place, [self._store.load(job).row])

    def finish_all(self) -> None:
        """The same for all jobs: some may have ended while no attendant was here."""
        for row in self._store.jobs():
            stop_signals.raise_if_asked()
            try:
                finish_ended_jobs(self._store, self._place, [row])
            except Exception as error:  # noqa: BLE001 - one job's trouble is no other's
                self.tell(f"{row.job}: {self.explain(error)}")

    def tell(self, line: str) -> None:
        """Write a line into the log."""
        _tell(line)


def _tell(line: str) -> None:
    """Write a line, with the time, into the log; the server may have gone, and the log with it."""
    try:
        print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)
    except OSError:
        return
