"""A simulated Temporal: it runs the workflows of turns, offers their activities, and may lose all it knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.exceptions import ActivityError, CancelledError, RetryState

from parley.hosts.turn_workflow import TurnIds, TurnWorkflow
from simulator.fibers import Fibers, Process

TEMPORAL = "temporal"
LATENCY = 0.03


@dataclass(eq=False)
class Task:
    """An activity that is offered, or under way."""

    ids: TurnIds
    beat: float = 0.0  # when its host last showed itself
    started: bool = False
    cancelled: bool = False
    gone: bool = False  # Temporal waits for it no more
    result: list[str] = field(default_factory=list)


@dataclass(eq=False)
class _Run:
    """A workflow."""

    cancelled: bool = False
    task: Task | None = None

    def cancel(self) -> None:
        self.cancelled = True
        if self.task is not None:
            self.task.cancelled = True


class SimTemporal:
    """The server, and the workflows that it carries on."""

    def __init__(self, fibers: Fibers) -> None:
        self._fibers = fibers
        self.down = False
        self.server = Process("temporal")
        self.queues: dict[str, list[Task]] = {}
        self._runs: dict[str, _Run] = {}
        self._here: dict[int, _Run] = {}  # by fiber

    def forget(self) -> None:
        """Its database is deleted: it comes back empty."""
        for tasks in self.queues.values():
            for task in tasks:
                task.gone = True
        for run in self._runs.values():
            if run.task is not None:
                run.task.gone = True
        self.server.kill("forgotten")
        self.server = Process("temporal")
        self.queues, self._runs = {}, {}

    def start(self, ids: TurnIds, *, anew: bool = False) -> None:
        """Start a workflow; one of that name that runs goes on, or is ended."""
        if anew and (run := self._runs.pop(ids.workflow_id, None)) is not None:
            run.cancel()
        if ids.workflow_id not in self._runs:
            run = self._runs[ids.workflow_id] = _Run()
            self._fibers.spawn(self.server, lambda: self._play(ids, run), ids.workflow_id)

    def cancel(self, ids: TurnIds) -> None:
        """Cancel a workflow, if it runs."""
        if (run := self._runs.get(ids.workflow_id)) is not None:
            run.cancel()

    def _play(self, ids: TurnIds, run: _Run) -> None:
        fiber = self._fibers.current
        self._here[id(fiber)] = run
        try:
            TurnWorkflow().run(ids).send(None)  # what it awaits waits in this fiber
        except (StopIteration, ActivityError):
            pass  # it has ended, or was cancelled
        finally:
            self._here.pop(id(fiber), None)
            if self._runs.get(ids.workflow_id) is run:
                del self._runs[ids.workflow_id]

    # ---- what the workflow asks for, in the place of the module temporalio.workflow ----------------

    async def sleep(self, seconds: float) -> None:
        """Wait that long."""
        run = self._here[id(self._fibers.current)]
        self._fibers.wait(lambda: run.cancelled, seconds)
        if run.cancelled:
            raise _failed(CancelledError())

    async def execute_activity(self, name: str, ids: TurnIds, **given: Any) -> str:
        """Offer a turn, and wait for what becomes of it."""
        run = self._here[id(self._fibers.current)]
        if run.cancelled:
            raise _failed(CancelledError())
        task = run.task = Task(ids)
        waiting = self.queues.setdefault(given["task_queue"], [])
        waiting.append(task)
        limit: timedelta | None = given["schedule_to_start_timeout"]
        self._fibers.wait(lambda: task.started or task.cancelled, limit.total_seconds() if limit is not None else None)
        silence = given["heartbeat_timeout"].total_seconds()
        while task.started and not task.result and not task.cancelled and not self._is_silent(task, silence):
            left = task.beat + silence - self._fibers.clock.time
            self._fibers.wait(lambda: bool(task.result) or task.cancelled, left)
        task.gone, run.task = True, None
        if task in waiting:
            waiting.remove(task)
        if task.result:
            return task.result[0]
        raise _failed(CancelledError() if task.cancelled else None)

    def _is_silent(self, task: Task, seconds: float) -> bool:
        return self._fibers.clock.time >= task.beat + seconds

    # ---- what workers do ---------------------------------------------------------------------------

    def reaches(self, process: Process) -> bool:
        """Whether a process and the server reach each other."""
        return not self.down and TEMPORAL not in process.cut

    def offers(self, queues: Sequence[str]) -> bool:
        """Whether a task waits in one of these queues."""
        return any(self.queues.get(queue) for queue in queues)

    def take(self, queues: Sequence[str]) -> Task | None:
        """The first that waits."""
        for queue in queues:
            if self.queues.get(queue):
                task = self.queues[queue].pop(0)
                task.started, task.beat = True, self._fibers.clock.time
                return task
        return None


def _failed(cause: BaseException | None) -> ActivityError:
    error = ActivityError(
        "the activity failed",
        scheduled_event_id=0,
        started_event_id=0,
        identity="",
        activity_type="",
        activity_id="",
        retry_state=RetryState.MAXIMUM_ATTEMPTS_REACHED,
    )
    error.__cause__ = cause
    return error


class SimPlacer:
    """What Placer is: no caller ever waits for Temporal."""

    def __init__(self, fibers: Fibers, temporal: SimTemporal, process: Process) -> None:
        self._fibers, self._temporal, self._process = fibers, temporal, process
        self.trouble = ""

    def place(self, ids: TurnIds, *, anew: bool = False) -> None:
        """Have a turn placed."""
        self._fibers.act("place")
        self._send(lambda: self._temporal.start(ids, anew=anew))

    def cancel(self, ids: TurnIds) -> None:
        """Hint that a turn is cancelled."""
        self._fibers.act("cancel at Temporal")
        self._send(lambda: self._temporal.cancel(ids))

    def close(self) -> None:
        """Nothing is kept open."""

    def _send(self, act: Any) -> None:
        def arrive() -> None:
            reached = self._temporal.reaches(self._process)
            self.trouble = "" if reached else "Temporal does not answer"
            if reached:
                act()

        self._fibers.schedule.after(self._fibers.rng.random() * LATENCY, arrive)
