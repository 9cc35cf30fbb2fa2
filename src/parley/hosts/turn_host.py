"""Carries out the turns that this host has claimed: lays their places out, runs them by LocalTurns, tells the board.

Each turn has a thread, which alone speaks with the board about it. One more thread, the pump, alone speaks with
LocalTurns. Temporal only says which turns are to be claimed: a turn that has begun goes on without it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from parley.base.text import cut
from parley.bus.rows import BusError
from parley.hosts import turn_documents as documents
from parley.hosts.board import TurnKey
from parley.hosts.board_link import BoardRefuses, Stopping
from parley.hosts.host_board import HostBoard
from parley.hosts.host_disk import HostDisk, is_full
from parley.hosts.mirror.mirror_errors import MirrorError, PlaceRefused, RemoteTrouble
from parley.hosts.mirror.place_mirror import PlaceMirror, Shipped
from parley.hosts.turn_documents import NotReadable
from parley.hosts.turn_workflow import BUSY, FAILED, HANDED_BACK
from parley.ports.turns import Called, Ended, Order, Progress, TurnEvent, Turns
from parley.ports.workspaces import SetUpFailed, WorkspaceError

PUMP_SECONDS = 1.0  # that the pump waits for an event, where nothing wakes it
PLACE_SECONDS = 0.05  # between two looks whether another turn has left a place
CLOSE_SECONDS = 60.0  # that the pump gets to end every process
TRIES = 3  # of laying a turn's place out, on whichever hosts
PARKED_SECONDS = 30.0  # after which a turn is tried again that no host could begin
FAULT_LENGTH = 2000
LAST_PUSH_SECONDS = 5.0  # for what a turn that is ended has written: the coordinator waits for its end
SHIPMENTS = 1_000_000  # of one attempt, at most: each has a number of its own
ENDED, DEAD = "ended", "dead"
PROGRESS_BYTES = 64 << 20  # of one turn; the signs of life after that are told without their words


class WakingTurns(Turns, Protocol):
    """Turns whose `events` another thread can let return."""

    def wake(self) -> None:
        """Let `events` return at once."""


class _Stop(Enum):
    """Why a turn is ended by its host."""

    CANCELLED = auto()  # or it is this host's no more
    HANDED_BACK = auto()  # the host ends
    ALONE = auto()  # the host could not reach the board for too long


@dataclass(slots=True, eq=False)
class _Running:
    """A turn on this host."""

    key: TurnKey
    over: Future[str] = field(default_factory=Future)  # how it was settled, as a code
    told: queue.SimpleQueue[TurnEvent | _Stop | None] = field(
        default_factory=queue.SimpleQueue
    )  # None: look for replies
    stop: _Stop | None = None
    last: float = 0.0  # until when its files may be pushed, once it is to end
    begun: bool = False
    attempt: int = 0
    places: frozenset[str] = frozenset()  # where it writes
    calls: set[int] = field(default_factory=set)  # that wait for a reply
    number: int = 0  # of the last event that was told
    weight: int = 0  # of all that was told, in characters
    shipments: int = 0  # of its files
    failed: bool = False  # it ended with a fault


class TurnHost:
    """The turns of one worker process."""

    def __init__(self, board: HostBoard, turns: WakingTurns, mirror: PlaceMirror, slots: int) -> None:
        self._board, self._turns, self._mirror, self._slots = board, turns, mirror, slots
        self.disk = HostDisk(mirror.home)
        self._lock = threading.Lock()
        self._running: dict[TurnKey, _Running] = {}
        self._draining = self._alone = False
        self._outcomes: Counter[str] = Counter()
        self.unconfined = False  # whether the boundary did not hold for the last turn
        self.broken = ""  # why the pump has ended: no turn can be begun or ended here any more
        self._sessions: dict[
            tuple[str, str, str], str
        ] = {}  # by instance, the handle that its last turn here ended with
        self._rested: dict[str, int] = {}  # by job, how often it was to rest
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._closed = False
        self.turned = time.monotonic()  # when the pump last went round: it does so every second, unless it hangs
        self._pump = threading.Thread(target=self._run_turns, name="parley-pump", daemon=True)
        self._pump.start()

    @property
    def used(self) -> int:
        """How many slots are in use."""
        return len(self._running)

    @property
    def outcomes(self) -> Mapping[str, int]:
        """What became of the turns that were claimed here and are over."""
        with self._lock:
            return dict(self._outcomes)

    @property
    def room(self) -> int:
        """How many more turns can be taken."""
        free = self._slots - len(self._running)
        closed = self._draining or self._alone or self.broken
        return free if free > 0 and not closed and self.disk.has_room else 0

    def uses(self, job: str) -> bool:
        """Whether a turn of a job is here."""
        with self._lock:
            return any(key.job == job for key in self._running)

    # ---- from other threads ------------------------------------------------------------------------

    def take(self, key: TurnKey) -> Future[str]:
        """Carry a turn out; how it was settled, as a code. The same turn again: the same future."""
        with self._lock:
            if (found := self._running.get(key)) is not None:
                return found.over
            if not self.room:
                return _settled(HANDED_BACK if self._draining else BUSY)
            running = self._running[key] = _Running(key)
        threading.Thread(target=self._carry_out, args=(running,), name=f"parley-turn-{key.turn}", daemon=True).start()
        return running.over

    def heed(self, heard: Sequence[str]) -> None:
        """Something was changed on the board: replies came, or turns were cancelled, or a job rests."""
        for name in heard:
            job, _, turn = name.rpartition("/")
            if not turn:
                self._rest(job)
        with self._lock:
            running = list(self._running.values())
        about = {tuple(name.rsplit("/", 1)) for name in heard}
        for one in running:
            if not heard or (one.key.job, one.key.turn) in about:
                one.told.put(None)

    def _rest(self, job: str) -> None:
        """End what is kept ready of a job, if that was asked: any role of the database may notify."""
        if not any(job == name for name, _, _ in list(self._sessions)):
            return
        with contextlib.suppress(BusError, Stopping):
            if (times := self._board.rested(job)) != self._rested.get(job, 0):
                self._rested[job] = times
                self._do(partial(self._turns.rest, job))

    def look(self, board: HostBoard | None = None) -> None:
        """End the turns that are this host's no more, or cancelled; and give up those that no thread follows.

        Asks by a board of the caller's, if it has one.
        """
        board = board or self._board
        with self._lock:  # before the board is asked: what is claimed meanwhile is not in its answer
            running = [one for one in self._running.values() if one.attempt]
        claimed = board.mine()
        for one in running:
            if not claimed.get(one.key, _NOT_MINE)[0]:
                self._end_one(one, _Stop.CANCELLED)
        with self._lock:
            followed = set(self._running)
        for key, (_, attempt) in claimed.items():
            if key not in followed:  # the board could not be told when its thread ended
                board.end(key, attempt, DEAD)

    def look_soon(self) -> None:
        """The same, from a thread of its own: the caller must not wait for the database."""
        threading.Thread(target=self._look_quietly, name="parley-look", daemon=True).start()

    def _look_quietly(self) -> None:
        with contextlib.suppress(BusError, Stopping):
            self.look()

    def drain(self) -> None:
        """Take no more turns."""
        self._draining = True

    def hand_back(self) -> None:
        """End all turns; they are given back."""
        self._draining = True
        with self._lock:
            running = list(self._running.values())
        for one in running:
            self._end_one(one, _Stop.HANDED_BACK)

    def is_alone(self, alone: bool) -> None:
        """Whether the board is out of reach. Turns that have not begun are left to other hosts then."""
        self._alone = alone
        with self._lock:
            waiting = [one for one in self._running.values() if alone and not one.begun]
        for one in waiting:
            _settle(one, FAILED)

    def abandon(self) -> bool:
        """End all turns' processes though the board can't be told: it is told once it can be. False: none is."""
        with self._lock:
            running = [one for one in self._running.values() if one.stop is None]
        for one in running:
            self._do(partial(self._turns.cancel, one.key.job, one.key.turn))
            self._end_one(one, _Stop.ALONE)
        return bool(running)

    def close(self) -> None:
        """End every process."""
        self._closed = True
        self._do(self._turns.close)
        self._pump.join(CLOSE_SECONDS)
        if self.broken:
            with contextlib.suppress(Exception):
                self._turns.close()

    @staticmethod
    def _end_one(one: _Running, why: _Stop) -> None:
        if one.stop is None:
            one.last = time.monotonic() + LAST_PUSH_SECONDS  # first: its own thread may look at any moment
            one.stop = why
            one.told.put(why)

    # ---- the pump ----------------------------------------------------------------------------------

    def _submit(self, one: _Running, laid: Order) -> None:
        try:
            self._turns.submit(laid)
        except Exception as error:  # noqa: BLE001 - the pump goes on for all other turns
            self._turns.cancel(one.key.job, one.key.turn)  # it keeps no slot
            one.told.put(one.key.ended(f"{self._board.name} could not begin it: {self.disk.explain(error)}"))

    def _run_turns(self) -> None:
        """The pump. Where a command fails, it is not known which processes go on: the worker ends, and all with it."""
        try:
            while not self._closed or not self._commands.empty():
                self._go_round()
        except Exception as error:  # noqa: BLE001 - without the pump no turn here would ever end
            self.broken = f"{type(error).__name__}: {cut(str(error), FAULT_LENGTH)}"

    def _go_round(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self.turned = time.monotonic()
                self._commands.get_nowait()()
        for event in self._turns.events(0.0 if self._closed else PUMP_SECONDS):
            with self._lock:
                found = [one for key, one in self._running.items() if (key.job, key.turn) == (event.job, event.turn)]
            for one in found:
                one.told.put(event)

    def _do(self, command: Callable[[], None]) -> None:
        self._commands.put(command)
        self._turns.wake()

    def _done(self, command: Callable[[], None]) -> None:
        """Have the pump do something, and wait until it is done."""
        done = threading.Event()

        def act() -> None:
            try:
                command()
            finally:
                done.set()

        self._do(act)
        done.wait()

    # ---- a turn, in its own thread -----------------------------------------------------------------

    def _carry_out(self, one: _Running) -> None:
        code = FAILED
        try:
            code = self._run_turn(one)
        except BoardRefuses as refused:
            self._cancel_here(one)
            code = self._spoilt(one, f"what it told can't be taken: {refused}")
        except (BusError, Stopping):
            self._cancel_here(one)  # the board says nothing any more: what it was given is lost
        except Exception as error:  # noqa: BLE001 - whatever it is, no agent goes on that no thread follows
            self._cancel_here(one)
            if is_full(error):
                code = self._spoilt(one, f"{self._board.name}: {self.disk.full}", HANDED_BACK)
            else:
                code = self._spoilt(one, f"a fault of Parley's on {self._board.name}: {type(error).__name__}: {error}")
        finally:
            with self._lock:
                del self._running[one.key]
                if one.attempt:
                    self._outcomes[_outcome(code, failed=one.failed)] += 1
            _settle(one, code)

    def _spoilt(self, one: _Running, fault: str, how: str = ENDED) -> str:
        """The turn can't go on: the coordinator is told, and tries it again."""
        one.failed = how == ENDED
        ended = one.key.ended(cut(fault, FAULT_LENGTH))
        with contextlib.suppress(BusError, Stopping):
            return self._end(one, how, documents.event_text(ended))
        return FAILED

    def _given_back(self, one: _Running, error: Exception) -> Ended:
        """The end of a turn that this host could not bring to its end: it may do better on another."""
        wait = PARKED_SECONDS if isinstance(error, RemoteTrouble) else 0.0  # no host fares better without the remote
        said = f"{self._board.name}: {self.disk.explain(error)}"
        return one.key.ended(said, given_back=True, parked_seconds=wait)

    def _run_turn(self, one: _Running) -> str:
        code, claimed = self._board.claim(one.key)
        if code != "yours":
            return code
        one.attempt = claimed.attempt
        try:
            order, shipped = documents.read_order(claimed.document), documents.read_shipped(claimed.shipped)
            self._enter(one, order)
            laid = self._mirror.lay_out(order, shipped, lambda: one.stop is not None)
            os.utime(self._mirror.home / "jobs" / order.job)  # when it was last used: the worker tidies by that
        except (WorkspaceError, NotReadable, OSError) as error:
            return self._not_begun(one, error)
        if one.stop is not None or not self._board.begin(one.key, one.attempt):
            return self._end(one, _how(one.stop))
        one.begun = True
        self._rest_if_stale(laid)
        self._do(partial(self._submit, one, laid))
        return self._forward(one, order, laid)

    def _enter(self, one: _Running, order: Order) -> None:
        """Wait until no other turn is where this one writes: one that is lost goes on until this host hears of it."""
        places = _written_by(order)
        while one.stop is None:
            with self._lock:
                others = [other for other in self._running.values() if other is not one and other.places & places]
                if not others:
                    one.places = places
                    return
            if any(other.stop is None for other in others):
                self.look()
            time.sleep(PLACE_SECONDS)
        raise MirrorError("it was ended before its place was laid out")

    def _not_begun(self, one: _Running, error: Exception) -> str:
        """The turn's place could not be laid out: another host may fare better; after some tries the engine is told."""
        if one.stop is not None:
            return self._end(one, _how(one.stop))
        set_up = error if isinstance(error, SetUpFailed) else None
        if (set_up is None and one.attempt < TRIES) or not self._board.begin(one.key, one.attempt):
            return self._end(one, HANDED_BACK)
        one.failed = True
        fault = f"{self._board.name} could not begin it: {self.disk.explain(error)}"
        ended = one.key.ended(fault, parked_seconds=PARKED_SECONDS)
        if set_up is not None:
            ended = replace(one.key.ended(str(error)), hard=True, unconfined=set_up.unconfined)
        return self._end(one, ENDED, documents.event_text(ended))

    def _rest_if_stale(self, laid: Order) -> None:
        """A process that was kept ready since a turn here knows nothing of turns elsewhere."""
        if self._sessions.get((laid.job, laid.agent, laid.thread), laid.handle) != laid.handle:
            self._done(partial(self._turns.rest, laid.job))

    def _forward(self, one: _Running, order: Order, laid: Order) -> str:
        """Hand on what the turn tells, and the replies that it gets, until it is over."""
        while True:
            told = [one.told.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    told.append(one.told.get_nowait())
            stop = next((each for each in told if isinstance(each, _Stop)), None)
            events = [each for each in told if each is not None and not isinstance(each, _Stop)]
            end = next((each for each in events if isinstance(each, Ended)), None)
            if stop is not None and (end is None or stop is _Stop.CANCELLED):
                return self._stop(one, order, laid, stop)
            if not self._tell(one, [self._event(one, order, laid, each) for each in events if each is not end]):
                return self._stop(one, order, laid, _Stop.CANCELLED)
            if end is not None:
                return self._finish(one, order, laid, end)
            if one.calls:
                self._hear(one)

    def _event(self, one: _Running, order: Order, laid: Order, event: TurnEvent) -> str:
        shipped: Shipped | None = None
        if isinstance(event, Progress) and one.weight > PROGRESS_BYTES:
            event = replace(event, text="", result="")
        if isinstance(event, Called):
            one.calls.add(event.number)
            if _reads_files(event):
                with contextlib.suppress(WorkspaceError, OSError):  # the coordinator then judges by what it has
                    shipped = self._give_back(one, order, laid, lambda: one.stop is not None)
        return documents.event_text(event, shipped)

    def _tell(self, one: _Running, bodies: Sequence[str]) -> bool:
        if not bodies:
            return True
        if not self._board.tell(one.key, one.attempt, one.number + 1, bodies):
            return False  # none of them was taken: the turn's end has the next number
        one.number += len(bodies)
        one.weight += sum(map(len, bodies))
        return True

    def _hear(self, one: _Running) -> None:
        for number, body in self._board.heard(one.key, one.attempt, sorted(one.calls)):
            one.calls.discard(number)
            reply = documents.read_reply(body)
            job, turn = one.key.job, one.key.turn
            self._do(partial(self._turns.reply, job, turn, number, reply.ok, reply.text, reply.data))

    def _finish(self, one: _Running, order: Order, laid: Order, event: Ended) -> str:
        """The turn has ended by itself: its files are pushed, then the board takes its end or does not.

        Also where its host ends, or it was cancelled, if the remote takes them soon: what was done is not done again.
        """
        self._sessions[laid.job, laid.agent, laid.thread] = event.handle
        shipped: Shipped | None = None
        soonest = time.monotonic() + LAST_PUSH_SECONDS
        try:
            shipped = self._give_back(
                one, order, laid, lambda: one.stop is not None and time.monotonic() > max(one.last, soonest)
            )
        except PlaceRefused as error:  # by what the agent left: it would be refused on any host
            event = replace(event, fault=str(error))
        except (WorkspaceError, OSError) as error:
            event = self._given_back(one, error) if one.stop is None else self._stopped(one, one.stop)
        if event.fault and not event.given_back and not self.disk.has_room:  # then anything may fail, on any agent
            said = cut(f"{self._board.name}: {self.disk.full}: {event.fault}", FAULT_LENGTH)
            event = replace(event, fault=said, given_back=True, hard=False, unconfined=False)
        one.failed = bool(event.fault) and not event.given_back and one.stop is None
        self.unconfined = bool(event.unconfined)
        how = HANDED_BACK if event.given_back else ENDED
        return self._end(one, how, documents.event_text(event, shipped))

    def _stop(self, one: _Running, order: Order, laid: Order, why: _Stop) -> str:
        """End the turn's processes; what it has written goes back all the same, unless the remote does not take it."""
        self._cancel_here(one)
        shipped: Shipped | None = None
        deadline = time.monotonic() + LAST_PUSH_SECONDS
        with contextlib.suppress(WorkspaceError, OSError):
            shipped = self._give_back(one, order, laid, lambda: time.monotonic() > deadline)
        return self._end(one, _how(why), documents.event_text(self._stopped(one, why), shipped))

    def _stopped(self, one: _Running, why: _Stop) -> Ended:
        """The end of a turn that its host has ended."""
        if why is _Stop.CANCELLED:
            return one.key.ended("it was cancelled")
        did = "ended" if why is _Stop.HANDED_BACK else "could not reach PostgreSQL for too long"
        return one.key.ended(f"its host {self._board.name} {did}, and gave the turn back", given_back=True)

    def _give_back(self, one: _Running, order: Order, laid: Order, stop: Callable[[], bool]) -> Shipped:
        """Push the turn's files as they are now: at its end, and where a call is judged by them."""
        one.shipments += 1
        return self._mirror.give_back(order, laid, one.attempt * SHIPMENTS + one.shipments, stop)

    def _cancel_here(self, one: _Running) -> None:
        self._done(partial(self._turns.cancel, one.key.job, one.key.turn))

    def _end(self, one: _Running, how: str, body: str = "") -> str:
        number = one.number + 1
        if self._board.end(one.key, one.attempt, how, number, body):
            return how
        if how != DEAD:
            self._board.end(one.key, one.attempt, DEAD, number, body)  # it was cancelled meanwhile
        return DEAD


_NOT_MINE = (False, 0)


def _how(why: _Stop | None) -> str:
    """How a turn is over that its host has ended."""
    return DEAD if why in (None, _Stop.CANCELLED) else HANDED_BACK


def _written_by(order: Order) -> frozenset[str]:
    """The folders that a turn may write to, in the job's own; its path is each coordinator's."""
    folder = f"{Path(order.home).parent.parent}/"
    written = (order.home, *((order.site.workspace,) if order.site.writable else ()))
    return frozenset(f"{order.job}/{path.removeprefix(folder)}" for path in written)


def _reads_files(event: Called) -> bool:
    """Whether the engine looks at the workspace to judge a call."""
    if event.tool == "AskQuestion":
        return event.arguments.get("kind") == "assert"
    return event.tool == "Send" and bool(event.arguments.get("files"))


def _outcome(code: str, *, failed: bool) -> str:
    """What became of a turn, for the worker's figures."""
    if failed or code not in (ENDED, DEAD, HANDED_BACK):
        return "failed"
    return "cancelled" if code == DEAD else code


def _settle(one: _Running, code: str) -> None:
    """Say how a turn was settled, unless that was said before."""
    with contextlib.suppress(InvalidStateError):
        one.over.set_result(code)


def _settled(code: str) -> Future[str]:
    found: Future[str] = Future()
    found.set_result(code)
    return found
