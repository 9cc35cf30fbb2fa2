"""A simulated cluster: hosts on which the real worker's code runs, the board, Temporal, a remote, and coordinators.

What runs is HostWorker, TurnHost, HostBoard, PlacedTurns and TurnWorkflow as they are, with fibers in the place of
threads. Of the simulator's own are PostgreSQL (the board's model), Temporal's server, git, and the agents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import BusError
from parley.hosts import over_turns, placed_turns, turn_host, turn_workflow, worker
from parley.hosts.board import TurnKey
from parley.hosts.host_board import HostRefused
from parley.hosts.placed_turns import PlacedTurns
from parley.hosts.temporal_link import TemporalAddress
from parley.hosts.turn_host import TurnHost
from parley.hosts.turn_workflow import host_queue, pool_queue
from parley.hosts.worker import GOES_ON, SIGNS, HostWorker, WorkerOptions, WorkerPlace
from parley.ports.turns import Ended, Order, TurnEvent
from simulator.board_model import BoardModel
from simulator.deeds import Deeds
from simulator.disk import SimDisk
from simulator.fibers import Fibers, Process, SimQueues, SimThreading, SimTime
from simulator.host_agents import HostTurns
from simulator.network import CoordinatorBoard, Line, Network, SimBell, SimLink
from simulator.places import SimMirror, SimRemote
from simulator.temporal import SimPlacer, SimTemporal, Task
from simulator.world import Fuse, Schedule

SCHEMA = "sim_board"
LOST_SECONDS = 10.0
HOSTS = ("a", "b", "c")
LABEL, NEED_IT = "big", ("project-lead", "tester")  # of host a; in some runs these agents need it
DRAIN_SECONDS = 5.0
ALONE_SECONDS = 20.0


@dataclass
class SimHost:
    """A machine for turns: its disk outlives its processes."""

    name: str
    slots: int
    labels: tuple[str, ...]
    disk: SimDisk = field(default_factory=SimDisk)
    process: Process = field(default_factory=lambda: Process("none"))
    worker: HostWorker | None = None
    turns: HostTurns | None = None

    @property
    def up(self) -> bool:
        """Whether a process of its runs."""
        return self.worker is not None and not self.process.dead


class SimWorker(HostWorker):
    """The worker; Temporal's own worker is simulated."""

    def __init__(self, cluster: Cluster, host: SimHost, **given: Any) -> None:
        super().__init__(**given)
        self._cluster, self._machine = cluster, host

    def _offer(self, host: TurnHost) -> None:  # type: ignore[override] # no coroutine: its fiber waits
        fibers, temporal, process = self._cluster.fibers, self._cluster.temporal, self._machine.process
        bus, labels = self._place.schema, self._options.labels
        queues = [host_queue(bus, self._options.name), pool_queue(bus), *(pool_queue(bus, name) for name in labels)]

        def offered() -> bool:
            return host.room > 0 and temporal.reaches(process) and temporal.offers(queues)

        while not self._ending.is_set():
            fibers.wait(lambda: self._ending.is_set() or offered())
            task = temporal.take(queues) if not self._ending.is_set() and offered() else None
            if task is not None and fibers.rng.random() >= self._cluster.wrong:  # or it is lost on its way
                fibers.act("take a turn")
                fibers.spawn(process, partial(self._run_turn, host, task), "activity")
                fibers.sleep(0.0)

    def _run_turn(self, host: TurnHost, task: Task) -> None:
        """What the activity does."""
        fibers, temporal, process = self._cluster.fibers, self._cluster.temporal, self._machine.process
        taken: Future[str] = host.take(TurnKey(task.ids.job, task.ids.turn, task.ids.epoch))
        while not taken.done():
            if temporal.reaches(process):
                task.beat = fibers.clock.time
                if task.gone or task.cancelled:
                    host.look_soon()
                    task.result.append(GOES_ON)
                    return
            fibers.wait(taken.done, task.ids.lost_seconds / SIGNS)
        fibers.wait(lambda: temporal.reaches(process), 60.0)
        if temporal.reaches(process) and not task.gone:
            task.result.append(taken.result())


class SimCoordinatorTurns(PlacedTurns):
    """The adapter, with an eye on what it tells the engine."""

    def __init__(self, cluster: Cluster, process: Process, disk: SimDisk, **named: Any) -> None:
        super().__init__(**named)
        self._cluster, self._process, self._disk = cluster, process, disk
        self._orders: dict[TurnKey, Order] = {}

    def submit(self, order: Order) -> None:
        """Put the order out."""
        self._cluster.fibers.act("submit")
        self._orders[TurnKey(order.job, order.turn, order.epoch)] = order
        super().submit(order)

    def cancel(self, job: str, turn: str) -> None:
        """End a turn: no process of it is left afterwards."""
        mine = [key for key in self._orders if (key.job, key.turn) == (job, turn) and (job, turn) in self._out]
        super().cancel(job, turn)
        for key in mine:
            self._cluster.deeds.ended(key, self._cluster.fibers.clock.time)

    def reclaim(self, job: str) -> None:
        """The same of all turns of former owners."""
        super().reclaim(job)
        self._cluster.deeds.reclaimed(job, self._cluster.bus.find(job).epoch, self._cluster.fibers.clock.time)

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """What has happened; each end is held against what was done."""
        found = super().events(timeout_seconds)
        for event in found:
            if isinstance(event, Ended) and self._process is self._cluster.owner:
                order = self._orders[TurnKey(event.job, event.turn, event.epoch)]
                job, _, name = order.site.workspace.partition("|")
                files = self._disk.work.get((job, name), {})
                self._cluster.deeds.told(order, event, files, self._cluster.fibers.clock.time)
        return found


class Cluster:
    """All but the engine."""

    def __init__(
        self, schedule: Schedule, rng: Random, bus: MemoryBus, faults: Mapping[str, float], trace: Callable[[str], None]
    ) -> None:
        self.fibers = Fibers(schedule, rng)
        self.deeds = Deeds(lambda order, host: self.label_of(order) in ("", *self.hosts[host].labels))
        self.bus, self.outside, self.trace = bus, MemoryStore(bus, "outside"), trace
        self.wrong = faults.get("messages", 0.0)
        self.board = BoardModel(lambda: schedule.clock.time, self._owns)
        self.network = Network(self.fibers, self.board, self.wrong)
        self.temporal = SimTemporal(self.fibers)
        self.remote = SimRemote(self.fibers)
        self.processes: list[Process] = []
        self.turns: list[tuple[Process, HostTurns]] = []  # of all workers that ever were
        self.owner: Process | None = None  # the coordinator that may write
        self.label = LABEL if rng.random() < 0.3 else ""
        self._faults = faults
        self._hears: dict[Process, float] = {}  # since when each process is awake and reaches the board
        self._workers = 0
        self.hosts = {name: SimHost(name, rng.choice((1, 2, 4)), (LABEL,) if name == "a" else ()) for name in HOSTS}

    def _owns(self, job: str, epoch: int) -> bool:
        return job in self.bus.jobs and self.bus.find(job).epoch == epoch and self.bus.find(job).owner is not None

    # ---- hosts -------------------------------------------------------------------------------------

    def start(self, host: SimHost) -> None:
        """Start a worker's process."""
        self._workers += 1
        skew, full = host.process.skew, host.process.full
        process = host.process = Process(f"{host.name}{self._workers}")
        process.skew, process.full = skew, full
        self.processes.append(process)
        line = Line(self.network, process, f"role_{host.name}")
        host.turns = HostTurns(
            self.fibers,
            process,
            host.disk,
            faults=self._faults,
            outside=self.outside,
            deeds=self.deeds,
            host=host.name,
        )
        self.turns.append((process, host.turns))
        host.worker = SimWorker(
            self,
            host,
            place=WorkerPlace(SCHEMA, lambda seconds=0.0: line, TemporalAddress("")),  # type: ignore[arg-type, return-value] # what SimLink connects by
            options=WorkerOptions(
                name=host.name,
                slots=host.slots,
                labels=host.labels,
                boundary="held",
                drain_seconds=DRAIN_SECONDS,
                alone_seconds=ALONE_SECONDS,
            ),
            turns=host.turns,
            mirror=SimMirror(self.remote, process, host.disk, host.turns.laid_out),
            tell=lambda line: self.trace(f"{self.fibers.clock.time:9.2f} {process.name}: {line}"),
        )
        self.fibers.spawn(process, partial(self._work, host.worker, process), "worker")

    def _work(self, one: HostWorker, process: Process) -> None:
        try:
            one.run()
        except (HostRefused, BusError) as refused:  # the command says so in one line, and is started again
            self.trace(f"{self.fibers.clock.time:9.2f} {process.name}: {refused}")
        process.kill("ended")

    def label_of(self, order: Order) -> str:
        """The label of the hosts that may run an order."""
        return self.label if order.agent in NEED_IT else ""

    def watch(self) -> None:
        """Look again and again at what runs on hosts that reach the board."""
        now = self.fibers.clock.time
        for process, turns in self.turns:
            if process.frozen or not self.network.reaches(process):
                self._hears[process] = now
            for actor in turns.running.values() if not process.dead else ():
                key = TurnKey(actor.order.job, actor.order.turn, actor.order.epoch)
                self.deeds.runs(key, self._hears.get(process, 0.0), now)
        self.fibers.schedule.after(1.0, self.watch)

    def keep_up(self) -> None:
        """Start a worker on each host that has none, now and then, as a service manager does."""
        for host in self.hosts.values():
            if not host.up:
                self.start(host)
        self.fibers.schedule.after(7.0, self.keep_up)

    # ---- coordinators ------------------------------------------------------------------------------

    def coordinate(self, number: int, fuse: Fuse, disk: SimDisk) -> tuple[Process, SimCoordinatorTurns]:
        """A coordinator's process, and its turns."""
        process = Process(f"coordinator{number}", fuse)
        self.processes.append(process)
        turns = SimCoordinatorTurns(
            self,
            process,
            disk,
            connect=Line(self.network, process, "owner"),
            schema=SCHEMA,
            placer=SimPlacer(self.fibers, self.temporal, process),
            mirror=SimMirror(self.remote, process, disk),
            lost_seconds=LOST_SECONDS,
            report=lambda line: self.trace(f"{self.fibers.clock.time:9.2f} {process.name}: {line}"),
            lost=lambda turn: self.deeds.lost(turn, self.fibers.clock.time),
            label_of=self.label_of,
        )
        return process, turns

    @property
    def running(self) -> list[str]:
        """The turns that run on hosts."""
        return [
            f"{turn} on {process.name}"
            for process, turns in self.turns
            if not process.dead
            for _, turn in turns.running
        ]

    def close(self) -> None:
        """End every thread."""
        self.fibers.close([*self.processes, self.temporal.server])

    @contextmanager
    def simulated(self) -> Iterator[None]:
        """Within it, the layer's code runs on fibers."""
        fibers = self.fibers
        threads, queues, time = SimThreading(fibers), SimQueues(fibers), SimTime(fibers)
        names = iter(range(1, 1_000_000))
        out, running = placed_turns._Out, turn_host._Running  # noqa: SLF001 - they make queues of their own
        changes: list[tuple[object, Mapping[str, object]]] = [
            (
                placed_turns,
                {
                    "threading": threads,
                    "queue": queues,
                    "time": time,
                    "BoardLink": SimLink,
                    "Board": CoordinatorBoard,
                    "Bell": SimBell,
                    "_Out": lambda order, key: out(order, key, inbox=queues.SimpleQueue()),  # type: ignore[arg-type]
                },
            ),
            (
                turn_host,
                {
                    "threading": threads,
                    "time": time,
                    "queue": queues,
                    "os": SimpleNamespace(utime=lambda path: None),
                    "_Running": lambda key: running(key, told=queues.SimpleQueue()),  # type: ignore[arg-type]
                },
            ),
            (
                worker,
                {
                    "threading": threads,
                    "time": time,
                    "BoardLink": SimLink,
                    "Bell": SimBell,
                    "secrets": SimpleNamespace(token_hex=lambda length: f"w{next(names)}"),
                    "asyncio": SimpleNamespace(run=lambda done: done),
                },
            ),
            (over_turns, {"threading": threads, "time": time}),
            (turn_workflow, {"workflow": self.temporal}),
        ]
        with ExitStack() as stack:
            for module, named in changes:
                for name, value in named.items():
                    stack.enter_context(patch.object(module, name, value))
            yield
