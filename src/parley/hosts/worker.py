"""A worker: this process offers its slots to Temporal, runs turns, shows signs of life, and ends when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import timedelta
from typing import NamedTuple

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import FixedSizeSlotSupplier, UnsandboxedWorkflowRunner, Worker, WorkerTuner

from parley import __version__
from parley.bus.rows import BusError
from parley.hosts.board import HOSTS, OVER, PROTOCOL, TurnKey
from parley.hosts.board_link import Bell, BoardLink, Connect, Stopping
from parley.hosts.free_slots import HELD_SECONDS, ROOM_SECONDS, FreeSlots
from parley.hosts.host_board import HostBoard, HostRefused
from parley.hosts.mirror.place_mirror import PlaceMirror
from parley.hosts.temporal_link import IDENTITY, NoTemporal, TemporalAddress, connect
from parley.hosts.turn_host import TurnHost, WakingTurns
from parley.hosts.turn_workflow import ACTIVITY, BUSY, TurnIds, TurnWorkflow, host_queue, placing_queue, pool_queue
from parley.hosts.worker_health import WorkerState
from parley.machine import service_manager

PATIENCE_SECONDS = 86_400.0  # that what a turn tells waits for a database that is down
TEMPORAL_AGAIN_SECONDS = 1.0
GOES_ON = "goes on"  # the code of a turn that this host no longer tells Temporal about
ASK_SECONDS = 2.0  # between two looks whether Temporal is there
SILENT_SECONDS = 5.0  # without an answer of the board, after which it can't be reached
TEMPORAL_END_SECONDS = 5.0  # for taking leave of Temporal, after the drain: it may be gone, and its library waits long
LAST_SECONDS = 10.0  # that handing back may take, after the limit of a drain
SOONEST_SECONDS = 0.05  # between two heartbeats
SIGNS = 5  # of life, in the time after which a host counts as lost
TIDY_SECONDS = 3600.0
HUNG_SECONDS = 120.0  # of the worker's own life without its pump going round, after which it counts as hung
KEPT_SECONDS = 7 * 86_400.0  # that a host keeps the files of a job that has no turn there


class WorkerOptions(NamedTuple):
    """How a worker offers itself."""

    name: str
    slots: int
    labels: tuple[str, ...]
    boundary: str  # what was found when it was tried here
    drain_seconds: float
    alone_seconds: float  # that agents go on while the board can't be reached


class WorkerPlace(NamedTuple):
    """Whom a worker works for: the board of a bus, and Temporal."""

    schema: str
    connect: Callable[..., Connect]  # with nothing, or with the seconds after which a silent server is noticed
    temporal: TemporalAddress


class HostWorker:
    """One worker process. `tell` is given lines for its log."""

    def __init__(
        self,
        place: WorkerPlace,
        options: WorkerOptions,
        turns: WakingTurns,
        mirror: PlaceMirror,
        tell: Callable[[str], None],
    ) -> None:
        self._place, self._options, self._tell = place, options, tell
        self._link = BoardLink(place.connect())
        self._board = HostBoard(self._link, options.name, secrets.token_hex(8))
        self._turns, self._mirror = turns, mirror
        self._ending = threading.Event()
        self._hurried = threading.Event()
        self._lost_seconds = 0.0
        self._host: TurnHost | None = None
        self._seen, self._seen_at = (
            0.0,
            0.0,
        )  # the last sign of life that the board took: by the process's clock, by the day's
        self._temporal_answers = False
        self._failed = ""  # why it can't go on

    def state(self) -> WorkerState:
        """How this worker stands. Any thread may call it."""
        host, silent = self._host, time.monotonic() - self._seen
        known = {
            "it has not come to the board yet": host is None,
            "the board can't be reached": host is not None and silent > max(self._lost_seconds, SILENT_SECONDS),
            "Temporal can't be reached": not self._temporal_answers,
            "the boundary did not hold for its last turn": host is not None and host.unconfined,
            "its disk is full": host is not None and not host.disk.has_room,
            "it can't end its turns": bool(self._failed),
            "it ends": self._ending.is_set(),
        }
        return WorkerState(
            troubles=tuple(words for words, so in known.items() if so),
            draining=self._ending.is_set(),
            slots=self._options.slots,
            used=host.used if host is not None else 0,
            outcomes=host.outcomes if host is not None else {},
            last_sign=self._seen_at,
        )

    def stop(self) -> None:
        """End: take no more turns, finish those under way. Called again: hand them back at once."""
        if self._ending.is_set():
            self._hurried.set()
        self._ending.set()

    def run(self) -> None:
        """Offer this host's slots until told to stop. HostRefused where the board does not take this worker."""
        self._lost_seconds = self._hello()
        self._link.patience_seconds = PATIENCE_SECONDS
        self._see()
        host = self._host = TurnHost(self._board, self._turns, self._mirror, self._options.slots)
        bell = Bell(self._place.connect(), f"{self._place.schema}{HOSTS}", host.heed)
        pause = self._lost_seconds / SIGNS
        life = BoardLink(self._place.connect(pause), pause)  # of its own: a long call must not delay a sign of life
        living = threading.Thread(target=self._live, args=(host, life), name="parley-life", daemon=True)
        bell.start()
        living.start()
        threading.Thread(target=self._show_systemd, args=(host,), name="parley-systemd", daemon=True).start()
        offering = threading.Thread(target=self._offer_turns, args=(host,), name="parley-temporal", daemon=True)
        offering.start()
        try:
            self._ending.wait()
            self._drain(host)  # at once: taking leave of a Temporal that is out of reach takes a minute
            offering.join(TEMPORAL_END_SECONDS)
        finally:
            self._link.stop()
            life.stop()
            bell.stop()
            host.close()
            bell.join()
            self._link.close()
            life.close()

        if self._failed:
            raise HostRefused(self._failed)

    def _give_out(self, why: str) -> None:
        """No turn can be begun or ended here any more: end, and all agents with this process."""
        if not self._failed:
            self._failed = f"{why}: this worker ends, and its turns are given back; start it again"
            self._end_now()

    def _end_now(self) -> None:
        self._hurried.set()
        self._ending.set()

    def _see(self) -> None:
        self._seen, self._seen_at = time.monotonic(), time.time()

    def _show_systemd(self, host: TurnHost) -> None:
        """Tell systemd that this worker is ready, that it lives while its pump goes round, and that it ends."""
        limit = service_manager.watchdog_seconds()
        service_manager.notify(service_manager.READY)
        while not self._ending.wait(limit / SIGNS if limit else None):
            if time.monotonic() - host.turned < limit:
                service_manager.notify(service_manager.ALIVE)
        service_manager.notify(service_manager.STOPPING)
        while limit and not self._link.stopped.wait(limit / SIGNS):
            service_manager.notify(service_manager.ALIVE)  # it drains: its own limits end it

    # ---- the board ---------------------------------------------------------------------------------

    def _hello(self) -> float:
        """Come to the board; waits for an earlier process of this name that may just have died."""
        own, deadline = self._options, 0.0
        while True:
            problem, seconds = self._board.hello(own.slots, own.labels, __version__, PROTOCOL, own.boundary)
            if problem != "lives":
                break
            if not deadline:
                self._tell(f"another worker is called {own.name}: waiting {seconds:g} s for it to end or show itself")
                deadline = time.monotonic() + 1.5 * seconds
            elif time.monotonic() > deadline:
                raise HostRefused(f"a worker called {own.name} is at work; choose another name with --name")
            if self._ending.wait(seconds / SIGNS):
                raise HostRefused("stopped before it began")
        if problem.startswith("version"):
            theirs = problem.split()[1]
            raise HostRefused(
                f"this worker is Parley {__version__}, the coordinator is {theirs} (board {problem.split()[2]}, here "
                f"{PROTOCOL}): install the same version on both"
            )
        if problem == "role":
            raise HostRefused(f"the name {own.name} is another database role's; choose another with --name")
        if problem == "many":
            raise HostRefused("this worker's database role has a thousand names of hosts; use those again with --name")
        if problem:
            raise HostRefused("--name takes letters, digits, dots, dashes and underscores, 63 at most")
        return seconds

    def _live(self, host: TurnHost, life: BoardLink) -> None:
        try:
            self._show_life(host, life)
        except Stopping:
            return
        except Exception as error:  # noqa: BLE001 - a host without signs of life is lost, and has to end
            self._give_out(f"a fault of Parley's: {type(error).__name__}: {error}")

    def _show_life(self, host: TurnHost, life: BoardLink) -> None:
        """Show signs of life, and end the turns that are this host's no more: all, where the board is away for long."""
        signs = HostBoard(life, self._options.name, self._board.worker)
        tidied, room = 0.0, True
        alone_since: float | None = None
        pump = _PumpWatch(host)
        while True:
            if why := pump.look(life.patience_seconds):
                self._give_out(why)
            if time.monotonic() - tidied > TIDY_SECONDS or not tidied:
                tidied = time.monotonic()
                threading.Thread(target=self._tidy, args=(host,), name="parley-tidy", daemon=True).start()
            if host.disk.has_room is not room:
                room = not room
                self._tell("there is room on its disk again" if room else host.disk.full)
            try:
                if signs.alive(host.used, draining=self._ending.is_set()):
                    self._see()
                elif not self._ending.is_set():
                    self._tell("the board does not know this worker any more: it ends")
                    self._end_now()
                host.look(signs)
                if alone_since is not None:
                    self._tell("the board's database is back")
                alone_since = None
                host.is_alone(False)
            except BusError as error:
                host.is_alone(True)
                if alone_since is None:
                    alone_since = time.monotonic()
                    self._tell(f"{error}; agents go on for {self._options.alone_seconds:g} s")
                elif time.monotonic() - alone_since > self._options.alone_seconds and host.abandon():
                    self._tell("the board's database is still away: this host's turns are ended, and given back later")
            if life.stopped.wait(life.patience_seconds):
                return

    def _tidy(self, host: TurnHost) -> None:
        """Delete the files of jobs that have had no turn here for long: what a later turn needs is fetched again."""
        unused = time.time() - KEPT_SECONDS
        with contextlib.suppress(OSError):
            for folder in (self._mirror.home / "jobs").iterdir():
                if folder.stat().st_mtime < unused and not host.uses(folder.name):
                    self._mirror.forget(folder.name)
            self._mirror.forget_bases(unused)

    # ---- Temporal ----------------------------------------------------------------------------------

    def _offer_turns(self, host: TurnHost) -> None:
        """In a thread of its own: offer slots until told to stop."""
        try:
            asyncio.run(self._offer(host))
        except Exception as error:  # noqa: BLE001 - a host that takes no turns any more has to end
            self._give_out(f"a fault of Parley's: {type(error).__name__}: {error}")

    async def _offer(self, host: TurnHost) -> None:
        """Poll Temporal for turns until told to stop; begin again where Temporal goes away."""
        trouble = ""
        while not self._ending.is_set():
            try:
                await self._poll(await connect(self._place.temporal), host)
                trouble = ""
            except (NoTemporal, RPCError, RuntimeError) as error:
                if (said := str(error)) != trouble:
                    self._tell(f"{said}; trying again")
                trouble = said
                await self._until_ending(TEMPORAL_AGAIN_SECONDS)

    async def _poll(self, client: Client, host: TurnHost) -> None:
        bus, options = self._place.schema, self._options
        queues = [host_queue(bus, options.name), pool_queue(bus), *(pool_queue(bus, name) for name in options.labels)]
        slots = FreeSlots(host, queues[0])
        carrying_out = _Activities(host, slots, bus, self._lost_seconds)
        free = WorkerTuner.create_composite(
            workflow_supplier=FixedSizeSlotSupplier(1),
            activity_supplier=slots,
            local_activity_supplier=FixedSizeSlotSupplier(1),
            nexus_supplier=FixedSizeSlotSupplier(1),
        )
        workers = [
            Worker(
                client,
                task_queue=queue,
                activities=[carrying_out.run_turn],
                tuner=free,
                identity=IDENTITY,
                graceful_shutdown_timeout=timedelta(0),
                disable_eager_activity_execution=True,
                max_concurrent_activity_task_polls=1,  # one turn after the other comes, each in milliseconds
            )
            for queue in queues
        ]
        placing = Worker(
            client,
            task_queue=placing_queue(bus),
            workflows=[TurnWorkflow],
            workflow_runner=UnsandboxedWorkflowRunner(),  # Temporal's sandbox would import modules for each step
            identity=IDENTITY,
            max_cached_workflows=0,  # none waits for the host that began it: that one may be lost
        )
        running = [asyncio.create_task(worker.run()) for worker in (*workers, placing)]
        ending = asyncio.create_task(self._until_ending())
        asking = asyncio.create_task(self._ask(client))
        try:
            await asyncio.wait([*running, ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
            asking.cancel()
            self._temporal_answers = False
            await asyncio.gather(*(worker.shutdown() for worker in (*workers, placing)), return_exceptions=True)
            ended = await asyncio.gather(*running, return_exceptions=True)
        for one in ended:
            if isinstance(one, Exception):
                raise one

    async def _ask(self, client: Client) -> None:
        """Ask Temporal now and then whether it is there: who polls it is not told when it goes away."""
        while True:
            limit = timedelta(seconds=ASK_SECONDS)
            try:
                self._temporal_answers = await client.service_client.check_health(timeout=limit)
            except RPCError:
                self._temporal_answers = False
            await asyncio.sleep(ASK_SECONDS)

    async def _until_ending(self, seconds: float | None = None) -> None:
        deadline = time.monotonic() + seconds if seconds is not None else None
        while not self._ending.is_set() and (deadline is None or time.monotonic() < deadline):  # noqa: ASYNC110 - a signal sets it
            await asyncio.sleep(ROOM_SECONDS)

    # ---- the end -----------------------------------------------------------------------------------

    def _drain(self, host: TurnHost) -> None:
        """Finish the turns under way, or hand them back after the limit; say goodbye once no process is left."""
        host.drain()
        deadline = time.monotonic() + self._options.drain_seconds
        if host.used:
            self._tell(f"ends once its turns have ended, or hands them back after {self._options.drain_seconds:g} s")
        while host.used and time.monotonic() < deadline and not self._hurried.wait(ROOM_SECONDS):
            pass
        host.hand_back()
        deadline = time.monotonic() + LAST_SECONDS
        while host.used and time.monotonic() < deadline:
            time.sleep(ROOM_SECONDS)
        host.close()
        with contextlib.suppress(BusError, Stopping):
            self._link.patience_seconds = 1.0
            self._board.bye()


class _PumpWatch:
    """Whether a host's pump goes round. Time counts in which this process ran too: it may have been suspended."""

    def __init__(self, host: TurnHost) -> None:
        self._host = host
        self._turned, self._waited = host.turned, 0.0

    def look(self, pause: float) -> str:
        """What is wrong with it, if anything; `pause`: since the last look."""
        if broken := self._host.broken:
            return f"its turns can't be ended any more ({broken})"
        self._waited = self._waited + pause if self._host.turned == self._turned else 0.0
        self._turned = self._host.turned
        return f"a turn could not be begun or ended for {HUNG_SECONDS:g} s" if self._waited > HUNG_SECONDS else ""


class _Activities:
    """What Temporal asks of this host."""

    def __init__(self, host: TurnHost, slots: FreeSlots, bus: str, lost_seconds: float) -> None:
        self._host, self._slots, self._bus, self._lost_seconds = host, slots, bus, lost_seconds

    @activity.defn(name=ACTIVITY)
    async def run_turn(self, ids: TurnIds) -> str:
        """Carry a turn out, and say all the while that this host lives. What Temporal cancels is looked up first."""
        if ids.bus != self._bus:
            return OVER
        pause = max(SOONEST_SECONDS, min(ids.lost_seconds, self._lost_seconds) / SIGNS)  # a host may have started it
        taken = asyncio.wrap_future(await self._take(ids))
        counter = 0
        try:
            while not taken.done():
                counter += 1
                activity.heartbeat(counter)
                await asyncio.wait({taken}, timeout=pause)
        except asyncio.CancelledError:
            self._host.look_soon()  # the board decides: Temporal may have lost its memory, or this worker drains
            return GOES_ON
        return taken.result()

    async def _take(self, ids: TurnIds) -> Future[str]:
        """Have the host take a turn. One that prefers this host waits a moment for a slot, and others do not."""
        key = TurnKey(ids.job, ids.turn, ids.epoch)
        deadline = time.monotonic() + HELD_SECONDS
        async with self._slots.held():
            while (taken := self._host.take(key)).done() and taken.result() == BUSY:
                if activity.info().task_queue != ids.wanted or time.monotonic() > deadline:
                    break
                activity.heartbeat(0)
                await asyncio.sleep(ROOM_SECONDS)
        return taken
