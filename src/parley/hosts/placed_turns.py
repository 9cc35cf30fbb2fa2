"""Carries turns out on other hosts: an order goes onto the board, Temporal places it, its host tells by the board."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from parley.bus.rows import BusError
from parley.hosts import turn_documents as documents
from parley.hosts.board import COORDINATORS, OVER, Board, TurnKey, TurnStanding
from parley.hosts.board_link import Bell, BoardLink, Connect, Stopping
from parley.hosts.mirror.mirror_errors import PlaceRefused
from parley.hosts.mirror.place_mirror import PlaceMirror
from parley.hosts.placer import Placer
from parley.hosts.turn_documents import BoardReply, NotReadable
from parley.hosts.turn_workflow import TurnIds, host_queue, pool_queue
from parley.ports.turns import Called, Ended, Order, TurnEvent
from parley.ports.workspaces import WorkspaceError
from parley.runners.local_turns import queued

ANYWHERE = "any host"  # where a turn is to run, as its row says before it is placed
LOST_SECONDS = 10.0  # without a sign of life, after which a host counts as lost
AGAIN_SECONDS = 5.0  # after which a turn that no host has claimed is offered again
LOOK_SECONDS = 0.25  # between two looks at a turn that is being cancelled
CARRY_AGAIN_SECONDS = 30.0  # after which a turn is tried again whose files could not be carried
CARRIERS = 4  # threads that carry files at once

Key = tuple[str, str]  # a job, and a turn of it


@dataclass(slots=True, eq=False)
class _Out:
    """A turn that is out."""

    order: Order
    key: TurnKey
    inbox: queue.SimpleQueue[str | Ended | None] = field(default_factory=queue.SimpleQueue)  # None: it was cancelled
    read: int = 0  # the last event that was read from the board
    ids: TurnIds | None = None  # once it was put out
    placed: float = 0.0  # when it was last offered
    host: str = ""
    settled: bool = False  # its end was read
    thread: threading.Thread | None = None


class PlacedTurns:
    """An adapter of the port Turns. `label_of`: the label of the hosts that may run an order; empty: all may.

    `report` is given lines for the user: about turns whose hosts are lost while they are cancelled.
    """

    def __init__(
        self,
        connect: Connect,
        schema: str,
        placer: Placer,
        mirror: PlaceMirror,
        *,
        roles: Sequence[str] = (),
        lost_seconds: float = LOST_SECONDS,
        report: Callable[[str], None] = lambda line: None,
        label_of: Callable[[Order], str] = lambda order: "",
    ) -> None:
        self._link = BoardLink(connect)
        self._board = Board(self._link, schema)
        self._board.install(lost_seconds, roles)
        self._placer, self._mirror, self._label_of = placer, mirror, label_of
        self._lost_seconds, self._report = lost_seconds, report
        self._lock = threading.Lock()
        self._out: dict[Key, _Out] = {}
        self._told: queue.SimpleQueue[tuple[_Out | None, TurnEvent | BusError | None]] = queue.SimpleQueue()
        self._carrying = threading.Semaphore(CARRIERS)
        self._closed = False
        self._bell = Bell(connect, f"{schema}{COORDINATORS}", self._ring)
        self._bell.start()

    # ---- the port ----------------------------------------------------------------------------------

    def hosts(self) -> tuple[str, ...]:
        """Which one is decided after the turn's row is committed: the step that ends the turn names it."""
        return (ANYWHERE,)

    def submit(self, order: Order) -> None:
        """Put the order out, from a thread of its own: files are pushed first."""
        name = (order.job, order.turn)
        out = _Out(order, TurnKey(order.job, order.turn, order.epoch))
        with self._lock:
            if (found := self._out.get(name)) is not None and found.key == out.key:
                return
            self._out[name] = out
        self._told.put((out, queued(order, "waits for a host")))
        out.thread = threading.Thread(target=self._follow, args=(out,), name=f"parley-placed-{order.turn}", daemon=True)
        out.thread.start()

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""
        with self._lock:
            out = self._out.get((job, turn))
        if out is not None:
            self._board.reply(out.key, number, documents.reply_text(BoardReply(ok, text, data)))

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """What has happened, in order."""
        found: list[TurnEvent] = []
        wait = timeout_seconds
        with contextlib.suppress(queue.Empty):
            while True:
                out, event = self._told.get(timeout=wait) if wait > 0 else self._told.get_nowait()
                wait = 0.0
                if isinstance(event, BusError):
                    raise event
                with self._lock:
                    if out is None or event is None or self._out.get((event.job, event.turn)) is not out:
                        continue  # it was cancelled
                    if isinstance(event, Ended):
                        del self._out[event.job, event.turn]
                found.append(event)
        return found

    def cancel(self, job: str, turn: str) -> None:
        """End a turn; returns when no process of it is left, or its host is lost, which is reported."""
        with self._lock:
            out = self._out.pop((job, turn), None)
        if out is None:
            return
        out.inbox.put(None)
        self._board.cancel(out.key)
        if out.ids is not None:
            self._placer.cancel(out.ids)
        if out.thread is not None:
            out.thread.join()  # it may be putting files where they belong
        self._settle({out.key: out.order})

    def reclaim(self, job: str) -> None:
        """End the turns of a job that an owner which died has put out."""
        orders: dict[TurnKey, Order | None] = {}
        for key in self._board.unfinished(job):
            self._board.cancel(key)
            with contextlib.suppress(NotReadable):
                orders[key] = documents.read_order(self._board.document(key))
            orders.setdefault(key, None)
        self._settle(orders)

    def _settle(self, orders: Mapping[TurnKey, Order | None]) -> None:
        """Wait until turns that were cancelled are over; what they have written is kept as on one machine."""
        waiting = dict(orders)
        while waiting:
            self._let_go(list(waiting))
            standings = self._board.standings(waiting)
            for key in [key for key in waiting if standings.get(key, _NOWHERE).state == OVER]:
                standing, order = standings.get(key, _NOWHERE), waiting.pop(key)
                if standing.how == "lost":
                    said = f"no sign of life of {standing.host} for {self._lost_seconds:g} s"
                    self._report(
                        f"{key.job}: the host of turn {key.turn} is lost ({said}): its processes may go on there"
                    )
                elif order is not None:
                    self._take_files(key, order)
                self._board.strip(key)
            if waiting:
                time.sleep(LOOK_SECONDS)

    def _take_files(self, key: TurnKey, order: Order) -> None:
        """Take back what a turn had written when it was cancelled."""
        told = self._board.events([(key, 0)])
        try:
            shipped = documents.read_event(told[-1].body, key.job, key.turn)[1] if told else None
            if shipped is not None:
                with self._carrying:
                    self._mirror.take_back(order, shipped)
        except (WorkspaceError, NotReadable) as error:
            self._report(f"{key.job}: what turn {key.turn} had written is not kept: {error}")

    def wake(self) -> None:
        """Let `events` return at once. Any thread may call it."""
        self._told.put((None, None))

    def rest(self, job: str) -> None:
        """Have the hosts end what they keep ready of a job between its turns."""
        self._board.rest(job)

    def forget_all_but(self, unfinished: Collection[str]) -> None:
        """Jobs but these have ended: the board keeps nothing of them."""
        self._board.forget_all_but(unfinished)

    def close(self) -> None:
        """End every turn."""
        with self._lock:
            out = list(self._out)
        for job, turn in out:
            self.cancel(job, turn)
        self._closed = True
        self._bell.stop()
        self._link.stop()
        self._bell.join()
        self._placer.close()
        self._link.close()

    # ---- in the bell's thread ----------------------------------------------------------------------

    def _ring(self, heard: Sequence[str]) -> None:
        """Something has changed on the board, or a second has passed."""
        with self._lock:
            out = {one.key: one for one in self._out.values() if not one.settled}
        if not out or self._closed:
            return
        try:
            if not heard:
                self._let_go(list(out))
            standings = self._board.standings(out)  # first: what ended a turn is told before it is over
            for event in self._board.events([(key, one.read) for key, one in out.items()]):
                one = out[event.key]
                one.read = event.number
                one.inbox.put(event.body)
            for key, standing in standings.items():
                self._heed(out[key], standing)
        except BusError as error:
            self._told.put((None, error))  # the engine's to raise: without its database it can do nothing either
        except Stopping:
            return

    def _let_go(self, keys: Sequence[TurnKey]) -> None:
        """Give up the claims of lost hosts; not while the database has just come back: no host could show itself."""
        if time.monotonic() - self._link.since > self._lost_seconds:
            self._board.let_go(keys)

    def _heed(self, out: _Out, standing: TurnStanding) -> None:
        if standing.host and standing.state == "begun" and not out.host:
            out.host = standing.host
            self._told.put((out, queued(out.order, f"begins on {standing.host}", over=True)))
        if standing.state == OVER:
            out.host, out.settled = standing.host, True
            if standing.how in _GIVEN_BACK:
                fault = _GIVEN_BACK[standing.how].format(host=standing.host or "its host")
                out.inbox.put(out.key.ended(fault, given_back=True))
        elif standing.state == "open" and out.ids is not None and time.monotonic() - out.placed > AGAIN_SECONDS:
            self._place(out)

    # ---- in the turn's own thread ------------------------------------------------------------------

    def _follow(self, out: _Out) -> None:
        """Carry a turn's files, put it out, and hand on what is told of it until its end."""
        try:
            self._put_out(out)
            while (told := out.inbox.get()) is not None:
                event = self._carried(out, told)
                self._told.put((out, event))
                if isinstance(event, Ended):
                    self._board.strip(out.key)
                    break
            with contextlib.suppress(WorkspaceError), self._carrying:
                self._mirror.drop(out.order)
        except WorkspaceError as error:
            self._give_up(out, error)
        except BusError as error:
            self._told.put((None, error))
        except Stopping:
            return

    def _put_out(self, out: _Out) -> None:
        order = out.order
        with self._carrying:
            shipped = self._mirror.send(order)
        document = documents.order_text(order)
        self._board.put(out.key, order.agent, order.thread, document, documents.shipped_text(shipped))
        label = self._label_of(order)
        wanted = self._preferred(order, label)
        bus = self._board.schema
        pool = pool_queue(bus, label)
        out.ids = TurnIds(
            bus=bus,
            job=out.key.job,
            turn=out.key.turn,
            epoch=out.key.epoch,
            wanted=host_queue(bus, wanted) if wanted else "",
            pool=pool,
            lost_seconds=self._lost_seconds,
        )
        self._place(out)

    def _preferred(self, order: Order, label: str) -> str:
        """The host where the instance's last turn ran, if it lives and takes turns."""
        last = self._board.last_host(order.job, order.agent, order.thread)
        hosts = {host.name: host for host in self._board.hosts()} if last else {}
        found = hosts.get(last)
        fits = found is not None and found.lives and not found.draining and (not label or label in found.labels)
        return last if fits else ""

    def _place(self, out: _Out) -> None:
        if out.ids is None:
            return
        out.placed = time.monotonic()
        self._placer.place(out.ids)
        if self._placer.trouble and not out.host:
            self._told.put((out, queued(out.order, f"waits for a host: {self._placer.trouble}")))

    def _carried(self, out: _Out, told: str | Ended) -> TurnEvent:
        """An event of a turn, once the files that go along with it are here."""
        if isinstance(told, Ended):
            return replace(told, host=out.host)
        try:
            event, shipped = documents.read_event(told, out.key.job, out.key.turn)
        except NotReadable as error:
            return self._spoilt(out, f"its host {out.host} told what can't be read: {error}")
        if isinstance(event, Ended):
            event = replace(event, epoch=out.key.epoch, host=out.host, given_back=False)
        if shipped is not None and isinstance(event, Called | Ended):
            with self._carrying:
                self._mirror.take_back(out.order, shipped)
        return event

    def _spoilt(self, out: _Out, fault: str) -> Ended:
        self._board.cancel(out.key)
        return out.key.ended(fault, host=out.host)

    def _give_up(self, out: _Out, error: WorkspaceError) -> None:
        """The turn's files could not be carried: it is given back, and tried again after a while."""
        with contextlib.suppress(BusError, Stopping):
            self._board.cancel(out.key)
        wait = 0.0 if isinstance(error, PlaceRefused) else CARRY_AGAIN_SECONDS  # what is refused is the agent's fault
        event = out.key.ended(str(error), parked_seconds=wait, host=out.host)
        self._told.put((out, event))


_NOWHERE = TurnStanding(OVER, "dead", "")
_GIVEN_BACK = {
    "lost": "its host {host} was lost: no sign of life",
    "handed back": "its host {host} ended, and gave the turn back",
    "dead": "its host {host} ended it",
}
