"""A compartment for each job: what goes wrong in one stops neither the run nor another job.

What agents may do wrong is refused where it is read. What is left is what was not foreseen, a fault of Parley's own. It
is taken for the fault of the turns that the engine was dealing with: nothing of them was committed yet, so the job is
loaded again from the bus as after a crash, and these turns are lost, which counts as their agents' failure. Where no
turn is to blame, the job is put aside: the others go on, and `parley resume` takes it up.
"""

from __future__ import annotations

import errno
import traceback
from collections.abc import Callable, Collection

from msgspec.structs import replace

from parley.base.text import fit, printable, safe_lines
from parley.bus.rows import BusError
from parley.engine import recovery
from parley.engine.owned_job import OwnedJob
from parley.engine.turn.lost import lose
from parley.engine.turn.running_turn import Turn
from parley.engine.values.step_extra import StepExtra
from parley.engine.world import World
from parley.ports.workspaces import NoRoom, WorkspaceError
from parley.protocol.conversation import Admission
from parley.protocol.molecules import ORCHESTRATOR

LONGEST = 2000  # characters of a reported fault
SHOWN = 200  # characters of an error that the record tells
# The machine's troubles: every job has them, and the run ends with the one line that says so.
_MACHINES = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class Broken(WorkspaceError):
    """A job that could not be taken over: the text says why, and where the rest is written."""


class Compartments:
    """Which jobs are broken for now. `own` loads a job as the bus has it, with this process as its owner."""

    def __init__(self, world: World, own: Callable[[str, int], OwnedJob]) -> None:
        self._world = world
        self._own = own
        self.broken: dict[str, str] = {}  # by job, what went wrong since the last commit
        self.aside: dict[str, str] = {}  # the jobs that were put aside, and why

    def write_down(self, job: str, error: Exception) -> str:
        """Keep a fault for engineers; what the record and the user are told of it."""
        if isinstance(error, WorkspaceError):
            return fit(str(error), LONGEST)  # it says itself what is wrong and what to do
        redact = self._world.secrets.redact  # an exception may quote what an agent made
        told = safe_lines(redact("".join(traceback.format_exception(error))))
        where = self._world.faults.tell(job, told) if self._world.faults is not None else ""
        said = fit(printable(redact(str(error))), SHOWN)
        return f"Parley itself failed here ({type(error).__name__}{f': {said}' if said else ''}); see {where}"

    def reload(self, job: OwnedJob, blamed: Collection[str], why: str) -> OwnedJob | None:
        """The broken job as the bus has it, its turns lost; None where no turn is to blame, or it breaks again."""
        for turn in job.running:
            self._world.turns.cancel(job.id, turn)
        if not blamed:
            return None
        try:
            return self._again(job, blamed, why)
        except Exception as error:
            if not is_contained(error):
                raise
            self.write_down(job.id, error)
            return None

    def _again(self, broken: OwnedJob, blamed: Collection[str], why: str) -> OwnedJob:
        """Load the job as after a crash; the blamed turns are lost by their agents, the others by the engine."""
        world, now = self._world, self._world.clock.now()
        job = self._own(broken.id, broken.epoch)
        if broken.agenda.asleep:
            job.fall_asleep(broken.agenda.unconfined)
        recovery.ask_again(job, world)
        for row in world.store.load(job.id).turns:
            job.forget(row)
        hosts = world.store.hosts_of(job.id)
        for run in recovery.orphans(job):
            ran = StepExtra(turn=run.turn, host=hosts.get(run.turn, ""))
            if run.turn in blamed:
                admission = Admission(run.agent, run.thread)
                turn = Turn(
                    turn=run.turn,
                    agent=run.agent,
                    thread=run.thread,
                    message=run.message,
                    token="",
                    admission=admission,
                )
                lose(job, world, turn, replace(ran, fault=why))
            else:
                extra = ran if ran.host else None
                job.fire("recover", run.agent, run.thread, choice="engine", who=ORCHESTRATOR, time=now, extra=extra)
        return job


def is_contained(error: Exception) -> bool:
    """Whether an exception is one job's. Trouble of the bus or of the machine is not."""
    return not isinstance(error, BusError | NoRoom) and not (isinstance(error, OSError) and error.errno in _MACHINES)
