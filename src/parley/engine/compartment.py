"""A compartment for each job: what goes wrong in one stops neither the run nor another job.

What agents may do wrong is refused where it is read. What is left is what nobody foresaw, a fault of Parley's own. It
is taken for the fault of the turns that the engine was dealing with: nothing of them was committed yet, so the job is
loaded again from the bus as after a crash, and these turns are lost, which counts as their agents' failure. Where no
turn is to blame, the job is put aside: the others go on, and `parley resume` takes it up.
"""

from __future__ import annotations

import errno
import traceback
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from parley.core.terms import ORCHESTRATOR
from parley.engine import orchestration, records, recovery
from parley.engine.live import LiveJob
from parley.engine.losing import lose
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.ports import BusError, InputRow, NoRoom, Store, WorkspaceError
from parley.text import fit, printable, safe_lines

LONGEST = 2000  # characters of what is told
SHOWN = 200  # characters of an error that the record tells
# The machine's troubles: every job has them, and the run ends with the one line that says so.
_MACHINES = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class Broken(WorkspaceError):
    """A job that could not be taken over: the text says why, and where the rest is told."""


class Compartments:
    """Which jobs are broken for now, and what is known of it. Without a log of faults nothing is contained: loud."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._blamed: defaultdict[str, set[str]] = defaultdict(set)
        self.broken: dict[str, str] = {}  # by job, what went wrong since the last commit
        self.aside: dict[str, str] = {}  # the jobs that were put aside, and why

    def enter(self, job: str, turn: str, act: Callable[..., object], *given: Any) -> None:
        """Do something for a job, and for a turn of it where one is named, which is to blame until the next commit."""
        if self._world.faults is None:
            act(*given)
            return
        if job in self.broken:
            return
        if turn:
            self._blamed[job].add(turn)
        try:
            act(*given)
        except Exception as error:
            if not is_contained(error):
                raise
            self.broken[job] = self.write_down(job, error)

    def committed(self) -> None:
        """What was dealt with is on the bus: no turn is to blame for what comes."""
        self._blamed.clear()

    def write_down(self, job: str, error: Exception) -> str:
        """Keep a fault for engineers; what the record and the user are told of it."""
        if isinstance(error, WorkspaceError):
            return fit(str(error), LONGEST)  # it says itself what is wrong and what to do
        redact = self._world.secrets.redact  # an exception may quote what an agent made
        told = safe_lines(redact("".join(traceback.format_exception(error))))
        where = self._world.faults.tell(job, told) if self._world.faults is not None else ""
        said = fit(printable(redact(str(error))), SHOWN)
        return f"Parley itself failed here ({type(error).__name__}{f': {said}' if said else ''}); see {where}"

    def reload(self, live: LiveJob, why: str) -> LiveJob | None:
        """The broken job as the bus has it, its turns lost; None where no turn is to blame, or it breaks again."""
        job, world = live.job, self._world
        blamed = self._blamed.pop(job, set())
        for turn in live.running:
            world.turns.cancel(job, turn)
        if not blamed:
            return None
        try:
            return _again(live, world, blamed, why)
        except Exception as error:
            if not is_contained(error):
                raise
            self.write_down(job, error)
            return None


def is_contained(error: Exception) -> bool:
    """Whether an exception is one job's. Trouble of the bus or of the machine is not."""
    return not isinstance(error, BusError | NoRoom) and not (isinstance(error, OSError) and error.errno in _MACHINES)


def answers_of(store: Store, job: str) -> list[InputRow]:
    """What the human has answered so far: no row that another program wrote counts."""
    return [row for row in records.answered(store.inputs(job, waiting=False)) if store.authentic(row) is not False]


def _again(live: LiveJob, world: World, blamed: set[str], why: str) -> LiveJob:
    """Load the job as after a crash; the turns that are to blame are lost by their agents, the others by the engine."""
    job, now = live.job, world.clock.now()
    loaded = world.store.load(job)
    again = LiveJob.resume(loaded, live.epoch, live.rules)
    again.answers = answers_of(world.store, job)
    again.asleep = live.asleep
    recovery.restore(again, world)
    orchestration.all_again(again)
    for row in loaded.turns:
        again.forget(row)
    for run in recovery.orphans(again):
        if run.turn in blamed:
            lose(again, world, Turn(run.turn, run.agent, run.thread, run.message, ""), why)
        else:
            again.fire("recover", run.agent, run.thread, choice="engine", who=ORCHESTRATOR, time=now)
    return again
