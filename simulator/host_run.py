"""One run of a seed on several hosts, with several coordinators one after the other, and what must be true of it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar

from parley.assembly import make_engine
from parley.bus.rows import BusError, Commit, LostOwnership
from parley.engine.loop import Engine
from parley.engine.world import World
from parley.hosts.board_link import Stopping
from parley.protocol.molecules import Record
from parley.protocol.soup import Soup
from simulator.disk import SimFiles, SimWorkspace
from simulator.fibers import Fiber, Fibers, Process, Suspended
from simulator.host_faults import HostFaults
from simulator.hosts import Cluster, SimCoordinatorTurns
from simulator.run import JOB, Failed, Result, Simulation
from simulator.world import BEGINNING, Crash, Fuse, SimClock, SimStore

T = TypeVar("T")

LEASE_SECONDS = 10.0  # of a job's owner
STORE_PATIENCE = 8.0  # that a commit waits for a database that is away
STUCK_SECONDS = 600.0  # without a commit, after which a run counts as stuck
MOST_FAULTS = 24
SETTLED_SECONDS = 90.0  # after the end, by which everything must be over
AFTERLIFE = 12  # cranks of a coordinator that was suspended, before it would renew its lease


class OwnClock:
    """A coordinator's wall clock, which may be wrong."""

    def __init__(self, clock: SimClock, fibers: Fibers) -> None:
        self._clock, self._fibers = clock, fibers
        self.process: Process | None = None

    def now(self) -> float:
        """Wall-clock time."""
        return BEGINNING + self._clock.time + (self.process.skew if self.process is not None else 0.0)

    def monotonic(self) -> float:
        """The same without its origin."""
        return self._clock.time


class LeasedStore(SimStore):
    """The bus on a server: a coordinator that does not reach it, or lost its lease, can't write."""

    def __init__(self, simulation: HostSimulation, process: Process, owner: str, fuse: Fuse) -> None:
        super().__init__(simulation.bus, owner, fuse)
        self._simulation, self._process = simulation, process
        self._alone = False

    @contextmanager
    def alone(self) -> Iterator[object]:
        """No other process writes: a transaction, which the server ends where its process is silent."""
        self._alone = True
        try:
            yield None
        finally:
            self._alone = False

    def commit(self, commits: Sequence[Commit]) -> None:
        """All or nothing."""
        cluster = self._simulation.cluster
        if not self._alone:
            cluster.fibers.act("commit")
            if not cluster.network.reaches(self._process):
                cluster.fibers.wait(lambda: cluster.network.reaches(self._process), STORE_PATIENCE)
        if not cluster.network.reaches(self._process):
            raise BusError("the bus can't be reached")
        super().commit(commits)
        if self._process is not cluster.owner:
            cluster.deeds.broken.append(f"{self._process.name} has committed, and another owns the job")


@dataclass
class HostResult:
    """What a run came to, and which faults it played."""

    result: Result
    faults: dict[str, int] = field(default_factory=dict)
    messages: int = 0  # that were lost or doubled


class HostSimulation(Simulation):
    """A run whose turns are on other hosts."""

    cluster: Cluster
    faults: HostFaults
    process: Process

    def prepare(self) -> None:
        """Make the cluster."""
        rng = Random(f"hosts {self.seed}")
        made = self.scenario
        harsh = rng.random() < 0.3
        self.scenario = replace(
            made,
            human="prompt",
            crashes=made.crashes if harsh else made.crashes[:1],
            meddling=made.meddling if harsh else min(made.meddling, 0.05),
            faults={
                **made.faults,
                "lost lock": 0.0,
                "two owners": 0.0,
                "messages": rng.choice((0.0, 0.005, 0.03)),
                "agent dies": made.faults.get("agent dies", 0.0) if harsh else 0.0,
            },
        )
        self.fuses = [200 + 3 * crash for crash in self.scenario.crashes]
        self.cluster = Cluster(self.schedule, rng, self.bus, faults=self.scenario.faults, trace=self.trace)
        self.faults = HostFaults(self.cluster, rng, lambda: self.process, rng.randrange(2, MOST_FAULTS))
        self.resting = False
        self.interrupted: Fiber | None = None  # what a coordinator was at when it was suspended
        self.progress, self.reached = 0.0, 0  # when the job last went on, and its transaction then

    # ---- processes -------------------------------------------------------------------------------

    def boot(self) -> Engine:
        """A new coordinator."""
        self.processes += 1
        fuse = Fuse(self.fuses.pop(0) if self.fuses else None, self.rng)
        self.process, turns = self.cluster.coordinate(self.processes, fuse, self.disk)
        self.placed: SimCoordinatorTurns = turns
        self.cluster.owner = self.process
        clock = OwnClock(self.clock, self.cluster.fibers)
        clock.process = self.process
        world = World(
            store=LeasedStore(self, self.process, self.process.name, fuse),
            turns=turns,
            workspace=SimWorkspace(self.disk, fuse),
            files=SimFiles(self.disk, fuse),
            clock=clock,
            ids=self.ids,
            decisions=self.mind.decisions,
        )
        self.mind.decisions.fuse = fuse
        return make_engine(world, self.rules)

    def within(self, act: Callable[[], T]) -> T:
        """Have the present coordinator do something. Raises Crash where it is gone, or suspended, or gives up."""
        try:
            found: T = self.cluster.fibers.call(self.process, act)
        except Suspended as suspended:
            self.interrupted = suspended.fiber
            raise Crash("suspended") from suspended
        except LostOwnership as lost:
            self.leave()
            raise Crash(f"lost ownership: {lost}") from lost
        except (BusError, Stopping) as error:
            self.leave()
            raise Crash(f"the bus is away: {error}") from error
        return found

    def leave(self) -> None:
        """The coordinator ends in order, as far as it gets."""
        try:
            self.cluster.fibers.call(self.process, self.placed.close)
        except (Crash, Suspended, BusError, Stopping):
            self.trace(f"{self.clock.time:9.2f} {self.process.name} did not end in order")

    def died(self, why: str) -> None:
        """The coordinator is gone, or suspended; another comes once its lease has ended."""
        self.trace(f"{self.clock.time:9.2f} {self.process.name} died: {why}")
        self.crashes += 1
        self.judge_survival()
        old, engine, turns, begun = self.process, self.engine, self.placed, self.interrupted
        if old.frozen:
            self.disk = copy.deepcopy(self.disk)  # the next one is on another machine
            self.schedule.after(LEASE_SECONDS + self.rng.random() * 40.0, lambda: self.awake(old, engine, turns, begun))
        else:
            old.kill(why)
        self.cluster.fibers.pass_time(LEASE_SECONDS)
        self.bus.kill(old.name)
        self.judge_survival()
        self.engine = self.boot()

    def awake(self, process: Process, engine: Engine, turns: SimCoordinatorTurns, begun: Fiber | None) -> None:
        """A coordinator goes on that was suspended while another took its job over."""
        if process.dead:
            return
        self.trace(f"{self.clock.time:9.2f} {process.name} goes on")
        process.thaw()

        def live() -> None:
            if begun is not None:  # what it was at comes first
                self.cluster.fibers.wait(lambda: begun.done)
            try:
                for _ in range(AFTERLIFE if begun is None or begun.error is None else 0):
                    engine.crank(0.5)
            except (LostOwnership, BusError) as stopped:
                self.trace(f"{self.clock.time:9.2f} {process.name} stopped: {stopped}")
            try:
                turns.close()
            except (BusError, Stopping):
                self.trace(f"{self.clock.time:9.2f} {process.name} did not end in order")
            process.kill("it had lost its job")

        self.cluster.fibers.spawn(process, live, "afterlife")

    def disturb(self) -> None:
        """The cluster's faults come by themselves."""
        if self.clock.time - self.progress > STUCK_SECONDS:
            raise Failed(self.seed, f"nothing was committed for {STUCK_SECONDS:g} s", WHICH)
        last = self.outside.load(JOB).transaction
        number = last.number if last is not None else 0
        if number != self.reached or self.clock.time < self.progress:
            self.reached, self.progress = number, self.clock.time

    # ---- the run -----------------------------------------------------------------------------------

    def run(self) -> Result:
        """Run to the end, heal the cluster, and judge."""
        with self.cluster.simulated():
            try:
                self.cluster.keep_up()
                self.cluster.watch()
                return super().run()
            finally:
                self.cluster.close()

    def finish(self) -> None:
        """All that still runs has to come to its end by itself."""
        self.resting = True
        super().finish()
        self.faults.heal()
        self.cluster.fibers.pass_time(SETTLED_SECONDS)

    def human(self) -> None:
        """Nobody comes any more once the run is over."""
        if not self.resting:
            super().human()

    def patron(self) -> None:
        """The same."""
        if not self.resting:
            super().patron()

    def judge_turns(self, soup: Soup, record: Record) -> None:
        """Every effect once, nothing that runs for ever, and no call from beyond a turn."""
        cluster = self.cluster
        if wrong := cluster.deeds.judge(self.outside, JOB):
            raise Failed(self.seed, wrong, WHICH)
        if not record.live:
            if cluster.running:
                raise Failed(self.seed, f"still running after the end: {cluster.running[0]}", WHICH)
            if left := cluster.board.unfinished(JOB):
                raise Failed(self.seed, f"the board still has turn {left[0].turn} out", WHICH)
        unrecorded = [turn for _, turns in cluster.turns for turn in turns.unrecorded]
        if unrecorded:
            raise Failed(self.seed, f"a turn was run before it was committed: {unrecorded[0]}", WHICH)
        self.judge_record_of_turns(record)


WHICH = "--hosts "


def simulate_hosts(seed: int, run: HostSimulation | None = None) -> HostResult:
    """Run a seed and judge it; `run`: it is made already. Raises Failed, with the seed."""
    run = run or HostSimulation(seed)
    try:
        result = run.run()
    except Failed as failed:
        raise Failed(seed, failed.why, WHICH) from failed
    except Exception as error:
        raise Failed(seed, f"{type(error).__name__}: {error}", WHICH) from error
    network = run.cluster.network
    return HostResult(result, dict(run.faults.played), network.lost + network.doubled)
