"""Carries turns out on other hosts: an order goes onto the board, Temporal places it, its host tells by the board."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from msgspec.structs import replace

from parley.bus.rows import BusError
from parley.hosts import turn_documents as documents
from parley.hosts.board import COORDINATORS, OVER, READ_BYTES, Board, BoardEvent, HostRow, TurnKey, TurnStanding, bus_of
from parley.hosts.board_link import Bell, BoardLink, Connect, Stopping
from parley.hosts.mirror.mirror_errors import PlaceRefused, RemoteTrouble
from parley.hosts.mirror.place_mirror import PlaceMirror, Shipped
from parley.hosts.over_turns import OverTurns
from parley.hosts.placer import Placer
from parley.hosts.turn_documents import BoardReply, NotReadable
from parley.hosts.turn_workflow import TurnIds, host_queue, pool_queue
from parley.ports.turns import Called, Ended, Order, Progress, Sign, TurnEvent
from parley.ports.workspaces import WorkspaceError
from parley.runners.local_turns import queued

PATIENCE_SECONDS = 10.0  # that a call waits for a database that is away, as one of the bus does
ANYWHERE = "any host"  # where a turn is to run, as its row says before it is placed
LOST_SECONDS = 10.0  # without a sign of life, after which a host counts as lost
SILENT_SHARE = 0.5  # of that time, after which people are told that a host is silent
AGAIN_SECONDS = 5.0  # after which a turn that no host has claimed is offered again
AGAIN_AT_ONCE = 10  # of these at most, each second: a turn costs no more where many wait
STUCK_SECONDS = 120.0  # after which one that waits while a host has room is offered as if it never was
CLAIMED_SECONDS = 1800.0  # after which a turn is taken from a host that lives and does not begin it
LOOK_SECONDS = 0.25  # between two looks at a turn that is being cancelled
SEEN_SECONDS = 1.0  # that what is known of the hosts is good for
LOCKED_SECONDS = 0.05  # the same, where a session has it locked
ENDING_SECONDS = 120.0  # after which a host that lives and does not end a cancelled turn counts as lost
MOST_GIVEN_BACK = 10  # times in a row; from then on it counts against the turn's agent: no job goes round for ever
CARRY_AGAIN_SECONDS = 30.0  # after which a turn is tried again whose files could not be carried
KEEP_SECONDS = 5.0  # for fetching what a turn that was cancelled had written
HURRIED_SECONDS = 1.0  # the same, where another's could not be fetched a moment ago
MOMENT_SECONDS = 30.0
CARRIERS = 4  # threads that carry files at once

Key = tuple[str, str]  # a job, and a turn of it


@dataclass(slots=True, eq=False)
class _Out:
    """A turn that is out."""

    order: Order
    key: TurnKey
    inbox: queue.SimpleQueue[BoardEvent | Ended | None] = field(default_factory=queue.SimpleQueue)  # None: cancelled
    read: int = 0  # the last event that was read from the board
    ids: TurnIds | None = None  # once it was put out
    placed: float = 0.0  # when it was last offered
    anew: float = 0.0  # when it was last offered as if it never was
    stood: tuple[str, bool, float] = ("", True, 0.0)  # its state, whether its host lives, and since when
    host: str = ""
    begun: bool = False  # its host has begun it, and that was told
    silent: bool = False  # its host shows no sign of life
    said: str = ""  # what it waits for, as was told
    settled: bool = False  # its end was read
    cancelled: bool = False
    thread: threading.Thread | None = None


class LostTurn(NamedTuple):
    """A turn that was to be ended, and whose host was lost before it was."""

    key: TurnKey
    agent: str
    thread: str
    host: str
    why: str  # it counts as lost


class PlacedTurns:
    """An adapter of the port Turns. `label_of`: the label of the hosts that may run an order; empty: all may.

    `lost` is told of turns whose hosts are lost while they are cancelled, before the cancelling ends; `report` is given
    other lines for the user.
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
        lost: Callable[[LostTurn], None] = lambda turn: None,
        label_of: Callable[[Order], str] = lambda order: "",
    ) -> None:
        self._link = BoardLink(connect, PATIENCE_SECONDS)
        self._board = Board(self._link, schema, bus_of(schema))
        self._board.install(lost_seconds, roles)
        self._placer, self._mirror, self._label_of = placer, mirror, label_of
        self._lost_seconds, self._report, self._lost = lost_seconds, report, lost
        self._lock = threading.Lock()
        self._out: dict[Key, _Out] = {}
        self._seen: tuple[float, list[HostRow]] = (float("-inf"), [])
        self._given_back: dict[tuple[str, str, str], int] = {}  # by instance, how often in a row
        self._told: queue.SimpleQueue[tuple[_Out | None, TurnEvent | BusError | None]] = queue.SimpleQueue()
        self._carrying = threading.Semaphore(CARRIERS)
        self._over = OverTurns(mirror, self._carrying)
        self._hurried = float("-inf")  # until when what cancelled turns had written gets less time
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
        out.cancelled = True  # git is stopped: it may wait for a remote that is gone
        out.inbox.put(None)
        cancelled = self._cancel(out.key)
        if out.ids is not None:
            self._placer.cancel(out.ids)
        if out.thread is not None:
            out.thread.join()  # it may be putting files where they belong
        if cancelled:
            self._settle({out.key: out.order})
        else:
            self._over.add([out.order])

    def _cancel(self, key: TurnKey) -> bool:
        """End a turn on the board. False, and reported: its host is lost, since its session keeps the turn locked."""
        begun = time.monotonic()
        while not self._board.cancel(key):
            if (waited := time.monotonic() - begun) > 2 * self._lost_seconds:
                standing = self._board.standings([key]).get(key, _NOWHERE)
                why = f"its session on the database has kept the turn locked for {waited:.0f} s"
                self._tell_lost(key, standing, why)
                return False
            if waited > self._lost_seconds:
                self._board.end_sessions(self._lost_seconds)
            time.sleep(LOCKED_SECONDS)
        return True

    def _tell_lost(self, key: TurnKey, standing: TurnStanding, why: str) -> None:
        self._lost(LostTurn(key, standing.agent, standing.thread, host=standing.host, why=why))

    def reclaim(self, job: str) -> None:
        """End the turns of a job that an owner which died has put out."""
        orders: dict[TurnKey, Order | None] = {}
        for key in self._board.left_out(job):
            if not self._cancel(key):
                continue
            with contextlib.suppress(NotReadable):
                orders[key] = documents.read_order(self._board.document(key))
            orders.setdefault(key, None)
        self._settle(orders)

    def _settle(self, orders: Mapping[TurnKey, Order | None]) -> None:
        """Wait until turns that were cancelled are over; what they have written is kept as on one machine."""
        self._await_over(orders)
        self._over.add([order for order in orders.values() if order is not None])

    def _await_over(self, orders: Mapping[TurnKey, Order | None]) -> None:
        waiting, begun = dict(orders), time.monotonic()
        while waiting:
            self._let_go(list(waiting))
            standings = self._board.standings(waiting)
            if time.monotonic() - begun > ENDING_SECONDS + 2 * self._lost_seconds:
                for key in waiting:
                    standing = standings.get(key, _NOWHERE)
                    self._tell_lost(key, standing, f"it has not ended the turn for {time.monotonic() - begun:.0f} s")
                return
            for key in [key for key in waiting if standings.get(key, _NOWHERE).state == OVER]:
                standing, order = standings.get(key, _NOWHERE), waiting.pop(key)
                if standing.how == "lost":
                    self._tell_lost(key, standing, f"no sign of life for {self._lost_seconds:g} s")
                elif order is not None:
                    self._take_files(key, order)
                self._board.strip(key)
            if waiting:
                time.sleep(LOOK_SECONDS)

    def _take_files(self, key: TurnKey, order: Order) -> None:
        """Take back what a turn had written when it was cancelled."""
        last: BoardEvent | None = None
        while told := self._board.events([(key, last.number if last is not None else 0)]):
            last = told[-1]
        try:
            shipped = documents.read_event(last.body, key.job, key.turn)[1] if last is not None else None
            if shipped is not None:
                self._take_in_time(order, shipped)
        except (WorkspaceError, NotReadable) as error:
            self._report(f"{key.job}: what turn {key.turn} had written is not kept: {error}")

    def _take_in_time(self, order: Order, shipped: Shipped) -> None:
        """Take files back, if the remote gives them soon: the engine waits, and may cancel many turns."""
        begun = time.monotonic()
        seconds = HURRIED_SECONDS if begun < self._hurried else KEEP_SECONDS
        try:
            with self._carrying:
                self._mirror.take_back(order, shipped, lambda: time.monotonic() > begun + seconds)
        except WorkspaceError as error:
            if time.monotonic() < begun + seconds:
                raise
            self._hurried = time.monotonic() + MOMENT_SECONDS
            raise RemoteTrouble(f"the git remote did not give it within {seconds:g} s") from error

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
        """End every turn. Where the database stays away, the coordinator that takes the jobs over ends them."""
        self._link.end_soon()
        with self._lock:
            out = list(self._out)
        try:
            for job, turn in out:
                self.cancel(job, turn)
        finally:
            self._closed = True
            self._over.close()
            self._bell.stop()
            self._link.stop()
            self._bell.join()
            self._placer.close()
            self._link.close()

    # ---- in the bell's thread ----------------------------------------------------------------------

    def _ring(self, heard: Sequence[str]) -> None:
        """Something has changed on the board, or a second has passed."""
        about = set(heard)
        with self._lock:
            out = {
                one.key: one
                for (job, turn), one in self._out.items()
                if not one.settled and (not about or f"{job}/{turn}" in about)
            }
        known = {key for key, one in out.items() if one.ids is not None}  # they are on the board
        if not out or self._closed:
            return
        try:
            if not heard:
                self._let_go(list(out))
            standings = self._board.standings(out)  # first: what ended a turn is told before it is over
            self._read(out)
            for key, one in out.items():
                self._heed(one, standings.get(key, _NOWHERE) if key in known else standings.get(key))
            if not heard:
                self._offer_again([one for key, one in out.items() if _is_open(standings.get(key))])
        except BusError as error:
            self._told.put((None, error))  # the engine's to raise: without its database it can do nothing either
        except Stopping:
            return
        except Exception as error:  # noqa: BLE001 - without the bell no turn would ever end, and the lease goes on
            fault = f"a fault of Parley's: {type(error).__name__}: {error}; go on with the job"
            self._told.put((None, BusError(fault)))

    def _read(self, out: Mapping[TurnKey, _Out]) -> None:
        """Hand on all that was told of turns, to their threads."""
        more = True
        while more:
            told = self._board.events([(key, one.read) for key, one in out.items()])
            for event in told:
                one = out[event.key]
                one.read = event.number
                one.inbox.put(event)
            more = 4 * sum(len(event.body) for event in told) >= READ_BYTES  # a character has four bytes at most

    def _let_go(self, keys: Sequence[TurnKey]) -> None:
        """Give up the claims of lost hosts; not while the database has just come back: no host could show itself."""
        if self._are_signs_due():
            self._board.let_go(keys)

    def _are_signs_due(self) -> bool:
        return time.monotonic() - self._link.since > self._lost_seconds

    def _heed(self, out: _Out, standing: TurnStanding | None) -> None:
        if standing is None:
            return  # it is not out yet
        if standing.state == "begun" and not out.begun:
            out.begun, out.host = True, standing.host
            begun = queued(out.order, f"begins on {standing.host}", over=True)
            self._told.put((out, replace(begun, host=standing.host)))
        if standing.state == "begun":
            self._heed_silence(out, standing)
        if standing.state == OVER:
            self._settled(out, standing.how, standing.host)
        elif standing.state != "open":
            self._watch(out, standing)

    def _offer_again(self, waiting: Iterable[_Out]) -> None:
        """Offer the turns that no host has claimed, those first that were offered longest ago: Temporal may forget."""
        now = time.monotonic()
        due = sorted((one for one in waiting if now - one.placed > AGAIN_SECONDS), key=lambda one: one.placed)
        for one in due[:AGAIN_AT_ONCE]:
            self._place(one)
        for one in due[AGAIN_AT_ONCE:]:
            self._say_what_it_waits_for(one)

    @staticmethod
    def _settled(out: _Out, how: str, host: str) -> None:
        """It is over. Where its host has told its end, that was put into its inbox before, and this is never read."""
        out.host, out.settled = host, True
        fault = _UNTOLD[how].format(host=host or "its host")
        out.inbox.put(out.key.ended(fault, host=host, given_back=how != "ended"))

    def _watch(self, out: _Out, standing: TurnStanding) -> None:
        """See that a turn which a host has does not stay there for ever, whatever the host does."""
        state, lives, since = out.stood
        now = time.monotonic()
        if (state, lives) != (standing.state, standing.lives):
            out.stood = (standing.state, standing.lives, now)
        elif not lives and now - max(since, self._link.since) > 2 * self._lost_seconds:
            self._settled(out, "lost", standing.host)  # a session of it keeps the turn locked
        elif not lives and now - max(since, self._link.since) > self._lost_seconds:
            self._board.end_sessions(self._lost_seconds)
        elif state == "claimed" and now - since > CLAIMED_SECONDS:
            self._board.cancel(out.key)
            self._settled(out, "claimed", standing.host)

    def _heed_silence(self, out: _Out, standing: TurnStanding) -> None:
        """Tell of a host that shows no sign of life: its turn's silence is no stall of the agent's."""
        silent = self._are_signs_due() and standing.silent > self._lost_seconds * SILENT_SHARE
        if silent is not out.silent:
            out.silent = silent
            said = "shows no sign of life" if silent else "shows life again"
            self._told.put((out, queued(out.order, f"its host {standing.host} {said}", over=not silent)))

    # ---- in the turn's own thread ------------------------------------------------------------------

    def _follow(self, out: _Out) -> None:
        """Carry a turn's files, put it out, and hand on what is told of it until its end."""
        try:
            self._put_out(out)
            while (told := out.inbox.get()) is not None:
                event = self._carried(out, told)
                if isinstance(event, Ended):
                    self._finish(out, self._counted(out.order, event))
                    break
                self._told.put((out, event))
        except WorkspaceError as error:
            self._give_up(out, error)
        except BusError as error:
            self._told.put((None, error))
        except Stopping:
            return
        except Exception as error:  # noqa: BLE001 - the engine waits for this turn's end
            with contextlib.suppress(BusError, Stopping):
                self._told.put((out, self._spoilt(out, f"a fault of Parley's: {type(error).__name__}: {error}")))

    def _finish(self, out: _Out, event: Ended) -> None:
        """Tell a turn's end, then delete what was kept of it."""
        self._over.add([out.order])  # first: once the end is told, the process may end at any moment
        self._told.put((out, event))
        self._board.strip(out.key, warm=not event.fault)

    def _put_out(self, out: _Out) -> None:
        order = out.order
        with self._carrying:
            shipped = self._mirror.send(order, lambda: out.cancelled)
        document = documents.order_text(order)
        label = self._label_of(order)
        text = documents.shipped_text(shipped)
        if not self._board.put(out.key, order.agent, order.thread, document, text, label):
            out.inbox.put(out.key.ended("its coordinator does not own the job any more", given_back=True))
            return
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
            return  # it is about to be placed for the first time
        out.placed = now = time.monotonic()
        out.anew = out.anew or now
        if anew := now - out.anew > STUCK_SECONDS and self._has_room(out):
            out.anew = now
        self._placer.place(out.ids, anew=anew)
        self._say_what_it_waits_for(out)

    def _say_what_it_waits_for(self, out: _Out) -> None:
        if not out.host and (said := self._waits_for(out)) != out.said:
            out.said = said
            self._told.put((out, queued(out.order, said)))

    def _waits_for(self, out: _Out) -> str:
        """What a turn that no host has claimed waits for, for people."""
        if self._placer.trouble:
            return f"waits for a host: {self._placer.trouble}"
        label = self._label_of(out.order)
        alive = [host for host in self._seen_hosts() if host.lives and not host.draining]
        if label and not any(label in host.labels for host in alive):
            return f"waits for a host with the label {label}: none is alive; on one, run parley worker --label {label}"
        return "waits for a host" if alive else "waits for a host: none is alive; on each, run parley worker"

    def _seen_hosts(self) -> list[HostRow]:
        """The hosts, as they were seen a moment ago: every turn that waits asks."""
        if time.monotonic() - self._seen[0] > SEEN_SECONDS:
            self._seen = (time.monotonic(), self._board.hosts())
        return self._seen[1]

    def _has_room(self, out: _Out) -> bool:
        """Whether a host could take a turn: that it waits all the same shows that Temporal's task went astray."""
        label = self._label_of(out.order)
        return any(
            host.lives and not host.draining and host.used < host.slots and (not label or label in host.labels)
            for host in self._seen_hosts()
        )

    def _counted(self, order: Order, event: Ended) -> Ended:
        """An end that counts against no agent, unless hosts have given the turn back too often."""
        name = (order.job, order.agent, order.thread)
        if not event.given_back:
            self._given_back.pop(name, None)
            return event
        times = self._given_back[name] = self._given_back.get(name, 0) + 1
        if times < MOST_GIVEN_BACK:
            return event
        return replace(event, given_back=False, fault=f"{event.fault}; hosts have given it back {times} times in a row")

    def _carried(self, out: _Out, told: BoardEvent | Ended) -> TurnEvent:
        """An event of a turn, once the files that go along with it are here."""
        if isinstance(told, Ended):
            return told
        out.host = told.host
        try:
            event, shipped = documents.read_event(told.body, out.key.job, out.key.turn)
        except NotReadable as error:
            return self._spoilt(out, f"its host {out.host} told what can't be read: {error}")
        if isinstance(event, Ended) is not bool(told.how):
            return self._spoilt(out, f"its host {out.host} told an end that is none")
        if isinstance(event, Ended):
            event = replace(event, epoch=out.key.epoch, host=out.host, given_back=told.how != "ended")
        elif isinstance(event, Progress):
            sign = Sign.PAUSE if event.sign is Sign.QUEUE else event.sign
            event = replace(event, host="", sign=sign)  # where it runs, and for which host it waits, the board says
        if shipped is not None and isinstance(event, Called | Ended):
            with self._carrying:
                self._mirror.take_back(out.order, shipped, lambda: out.cancelled)
        return event

    def _spoilt(self, out: _Out, fault: str) -> Ended:
        """Give a turn up: its end is told when no process of it is left."""
        if self._cancel(out.key):
            self._settle({out.key: None})
        return out.key.ended(fault, host=out.host)

    def _give_up(self, out: _Out, error: WorkspaceError) -> None:
        """The turn's files could not be carried: it is given back, and tried again after a while."""
        if out.cancelled:
            return
        with contextlib.suppress(BusError, Stopping):
            if self._cancel(out.key):
                self._settle({out.key: None})
        wait = 0.0 if isinstance(error, PlaceRefused) else CARRY_AGAIN_SECONDS  # what is refused is the agent's fault
        event = out.key.ended(str(error), parked_seconds=wait, host=out.host)
        self._told.put((out, event))
        self._over.add([out.order])


def _is_open(standing: TurnStanding | None) -> bool:
    return standing is not None and standing.state == "open"


_NOWHERE = TurnStanding(OVER, "dead", "")
_UNTOLD = {
    "ended": "its host {host} ended it, and told nothing of its end that can be read",
    "claimed": "its host {host} took it, and did not begin it for half an hour",
    "lost": "its host {host} was lost: no sign of life",
    "handed back": "its host {host} ended, and gave the turn back",
    "dead": "its host {host} ended it",
}
