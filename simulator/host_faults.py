"""What goes wrong in a simulated cluster, drawn by chance: one thing after another, or several at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

from simulator.fibers import Process
from simulator.hosts import LOST_SECONDS, Cluster, SimHost
from simulator.network import BUS
from simulator.places import REMOTE
from simulator.temporal import TEMPORAL

OF_HOSTS = (
    "killed", "frozen", "blinks", "cut off the bus", "cut off Temporal", "cut off the remote", "wrong clock",
    "full disk", "drains", "drains at once",
)  # fmt: skip
OF_COORDINATORS = (
    "coordinator killed", "coordinator suspended", "coordinator blinks", "coordinator cut off the bus",
    "coordinator cut off Temporal", "coordinator cut off the remote", "coordinator's clock",
)  # fmt: skip
MOMENTS_OF_HOSTS = ("board_begin", "board_tell", "board_end", "fetch", "push")
MOMENTS_OF_COORDINATORS = ("put", "reply", "cancel", "commit", "strip")
RACE = "push loses its race"
OF_SERVICES = (RACE, "Temporal down", "Temporal forgets", "bus down", "remote down")
KINDS = (*OF_HOSTS, *OF_COORDINATORS, *OF_SERVICES)
CALM = 0.4  # how often a host is struck whether or not an agent runs there
MOST_ACTS = 25  # from now on, among which one is chosen at which a process is struck


class HostFaults:
    """The faults of one run. `coordinator`: the process that owns the job now."""

    def __init__(self, cluster: Cluster, rng: Random, coordinator: Callable[[], Process], most: int) -> None:
        self.played: Counter[str] = Counter()
        self._cluster, self._rng, self._coordinator = cluster, rng, coordinator
        self._left = most
        self._after = cluster.fibers.schedule.after
        self._pause = rng.choice((2.0, 6.0, 15.0))
        self._open: list[Callable[[], None]] = []  # what ends a fault that lasts
        self._after(rng.random() * 4.0, self._next)

    def _next(self) -> None:
        if self._left < 1:
            return
        for _ in range(self._rng.choice((1, 1, 1, 2, 3))):  # several at once
            self._left -= 1
            self._strike(self._rng.choice(KINDS))
        self._after(self._rng.random() * 2 * self._pause, self._next)

    def heal(self) -> None:
        """Nothing goes wrong any more."""
        self._left = 0
        for process in self._cluster.processes:
            process.aim = None
        for end in list(self._open):
            end()

    def _strike(self, kind: str) -> None:
        if kind in OF_HOSTS:
            host = self._rng.choice(self._busy() or list(self._cluster.hosts.values()))
            if host.up and not host.process.frozen:
                self._hit(host.process, MOMENTS_OF_HOSTS, lambda process: self._on_host(kind, host, process))
        elif kind in OF_COORDINATORS:
            process = self._coordinator()
            self._hit(process, MOMENTS_OF_COORDINATORS, lambda process: self._on_coordinator(kind, process))
        else:
            self._on_service(kind)

    def _busy(self) -> list[SimHost]:
        """Mostly those where an agent runs: with them there is the most to lose."""
        if self._rng.random() < CALM:
            return []
        return [host for host in self._cluster.hosts.values() if host.turns is not None and host.turns.running]

    def _hit(self, process: Process, moments: Sequence[str], act: Callable[[Process], None]) -> None:
        """Strike a process now, or at one of its next acts, or the next time that it is about to do a certain thing."""
        when = self._rng.choice(("now", "soon", "moment"))
        if when == "now" or process.aim is not None:
            act(process)
        elif when == "soon":
            process.aim = process.acts + self._rng.randrange(1, MOST_ACTS), "", act
        else:
            process.aim = process.acts, self._rng.choice(moments), act

    def _plays(self, kind: str, process: Process) -> bool:
        """Count a fault that strikes now; none does where its process is gone, or frozen."""
        if process.dead or process.frozen:
            return False
        self.played[kind] += 1
        self._cluster.trace(f"{self._cluster.fibers.clock.time:9.2f} fault: {process.name} {kind}")
        return True

    # ---- what is done ------------------------------------------------------------------------------

    def _on_host(self, kind: str, host: SimHost, process: Process) -> None:
        if not self._plays(kind, process):
            return
        long = LOST_SECONDS * (1.1 + 2 * self._rng.random())
        if kind == "killed":
            self._trouble(host, 3 * LOST_SECONDS)
            process.kill(kind)
        elif kind in ("frozen", "blinks"):
            seconds = long if kind == "frozen" else self._rng.random() * LOST_SECONDS
            self._trouble(host, seconds)
            process.frozen = True
            self._later(seconds, process.thaw)
            if kind == "frozen" and self._rng.random() < 0.4:
                self._cluster.start(host)  # another takes its name, and its former process comes back later
        elif kind.startswith("cut off"):
            service = {"the bus": BUS, "Temporal": TEMPORAL, "the remote": REMOTE}[kind.removeprefix("cut off ")]
            seconds = self._rng.choice((long, 3.0))
            if service == BUS:
                self._trouble(host, seconds)
            self._cut(process, service, seconds)
        elif kind == "wrong clock":
            process.skew = self._rng.choice((-600.0, 600.0, -90.0, 7200.0))
        elif kind == "full disk":
            process.full = True
            self._later(self._rng.random() * 20, lambda: setattr(host.process, "full", False))
        elif host.worker is not None:
            self._trouble(host, 2 * LOST_SECONDS, drains=True)
            host.worker.stop()
            if kind == "drains at once":
                host.worker.stop()

    def _on_coordinator(self, kind: str, process: Process) -> None:
        if not self._plays(kind, process):
            return
        seconds = self._rng.choice((2.0, 5.0, 30.0))
        if kind == "coordinator killed":
            process.kill(kind)
        elif kind == "coordinator suspended":
            process.frozen = True
        elif kind == "coordinator blinks":
            process.frozen = process.blinks = True
            self._later(self._rng.random() * 4, process.thaw)
        elif kind == "coordinator's clock":
            process.skew = self._rng.choice((-600.0, 600.0, -90.0))
        else:
            service = {"bus": BUS, "Temporal": TEMPORAL, "remote": REMOTE}[kind.rpartition(" ")[2]]
            self._cut(process, service, seconds)

    def _on_service(self, kind: str) -> None:
        cluster = self._cluster
        cluster.trace(f"{cluster.fibers.clock.time:9.2f} fault: {kind}")
        if kind != RACE:  # which strikes when there is a push
            self.played[kind] += 1
        seconds = self._rng.choice((1.0, 5.0, 25.0))
        if kind == RACE:
            cluster.remote.races.append(lambda: self.played.update((RACE,)))
        elif kind == "Temporal forgets":
            cluster.temporal.forget()
        elif kind == "Temporal down":
            cluster.temporal.down = True
            self._later(seconds, lambda: setattr(cluster.temporal, "down", False))
        elif kind == "remote down":
            cluster.remote.down = True
            self._later(seconds, lambda: setattr(cluster.remote, "down", False))
        else:
            for host in cluster.hosts.values():
                self._trouble(host, min(seconds, 15.0))
            cluster.network.down = True
            self._later(min(seconds, 15.0), lambda: setattr(cluster.network, "down", False))

    def _cut(self, process: Process, service: str, seconds: float) -> None:
        process.cut.add(service)
        self._later(seconds, lambda: process.cut.discard(service))

    def _trouble(self, host: SimHost, seconds: float, *, drains: bool = False) -> None:
        now = self._cluster.fibers.clock.time
        self._cluster.deeds.trouble(host.name, now, now + seconds, drains=drains)

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        """End something after a while, or when all is healed."""

        def end() -> None:
            if end in self._open:
                self._open.remove(end)
                act()

        self._open.append(end)
        self._after(seconds, end)
