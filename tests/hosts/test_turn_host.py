"""The turns of one worker, on the real board: what it does while another of its threads asks it, or hangs."""

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace

from parley.hosts import host_disk, turn_host, worker
from parley.hosts import turn_documents as documents
from parley.hosts.board import TurnKey
from parley.hosts.host_board import Claimed, HostBoard, HostRefused
from parley.hosts.mirror.mirror_errors import MirrorError
from parley.hosts.mirror.place_mirror import PlaceMirror, Shipped
from parley.hosts.temporal_link import TemporalAddress
from parley.hosts.turn_host import DEAD, ENDED, TurnHost, WakingTurns
from parley.hosts.turn_workflow import HANDED_BACK
from parley.hosts.worker import HostWorker, WorkerOptions, WorkerPlace
from parley.ports.turns import Ended, Order, Progress, Site, TurnEvent
from parley.workspaces.safe_git import JobGivenUp
from tests.hosts.test_board import BoardScene
from tests.postgres_server import Server

KEY = TurnKey("job", "t1", 1)


class NoTurns:
    """None of them ever begins."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        self._woken.wait(timeout_seconds)
        self._woken.clear()
        return []

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self.wake()


class SlowMirror:
    """A turn's place takes its time, and then can't be laid out."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.laying, self.may_fail = threading.Event(), threading.Event()

    def lay_out(self, order: Order, shipped: Shipped, stop: Callable[[], bool]) -> Order:
        self.laying.set()
        assert self.may_fail.wait(60)
        raise MirrorError("it can't be laid out")


class LateAnswer(HostBoard):
    """The board has said which turns are this host's; before that arrives, one more is claimed."""

    def __init__(self, host: HostBoard, mirror: SlowMirror) -> None:
        super().__init__(host._link, host.name, host.worker)
        self._mirror, self._asked = mirror, threading.Event()

    def claim(self, key: TurnKey) -> tuple[str, Claimed]:
        assert self._asked.wait(60)
        return super().claim(key)

    def mine(self) -> dict[TurnKey, tuple[bool, int]]:
        found = super().mine()
        self._asked.set()
        assert self._mirror.laying.wait(60)
        return found


class SlowTurns(NoTurns):
    """A turn begins at once, and takes its time to end."""

    def __init__(self) -> None:
        super().__init__()
        self.did: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.may_end = threading.Event()

    def submit(self, order: Order) -> None:
        self.did.put(f"begin {order.turn}")

    def cancel(self, job: str, turn: str) -> None:
        self.did.put(f"end {turn}")
        assert self.may_end.wait(60)
        self.did.put(f"ended {turn}")


class QuickTurns(NoTurns):
    """What begins ends at once, or is lost by a fault; `before`: what happens first, and what the turn tells."""

    def __init__(self, before: Callable[[], None], fault: str = "", *told: TurnEvent) -> None:
        super().__init__()
        self._before, self._fault = before, fault
        self._ended: list[TurnEvent] = []
        self._told = told

    def submit(self, order: Order) -> None:
        self._before()
        ended = Ended(order.job, order.turn, order.epoch, fault=self._fault, hard=bool(self._fault))
        self._ended += [*self._told, ended]

    def cancel(self, job: str, turn: str) -> None:
        """It has ended."""

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        if not self._ended:
            super().events(timeout_seconds)
        ended, self._ended = self._ended, []
        return ended


class QuickMirror:
    """A turn's place is laid out at once, and what it leaves is carried."""

    def __init__(self, home: Path, did: "queue.SimpleQueue[str]") -> None:
        self.home, self._did = home, did
        (home / "jobs" / KEY.job).mkdir(parents=True)

    def lay_out(self, order: Order, shipped: Shipped, stop: Callable[[], bool]) -> Order:
        self._did.put(f"lay out {order.turn}")
        return order

    def give_back(self, *given: object) -> Shipped:
        return Shipped("0" * 40, "refs/parley/back")

    def forget_bases(self, unused_since: float) -> None:
        """None is old."""


class HeldMirror(QuickMirror):
    """What a turn leaves is being carried, until the remote takes it."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, queue.SimpleQueue())
        self.carrying, self.may_go = threading.Event(), threading.Event()

    def give_back(self, *given: object) -> Shipped:
        stop = cast("Callable[[], bool]", given[-1])
        self.carrying.set()
        while True:
            goes = self.may_go.wait(0.02)
            if stop():
                raise JobGivenUp("git push was stopped: the job is given up")
            if goes:
                return Shipped("0" * 40, "refs/parley/back")


class AwayBoard(HostBoard):
    """The database is away, and a turn tells something."""

    def __init__(self, host: HostBoard) -> None:
        super().__init__(host._link, host.name, host.worker)
        self.telling, self.is_back = threading.Event(), threading.Event()

    def tell(self, key: TurnKey, attempt: int, first: int, bodies: Sequence[str]) -> bool:
        self.telling.set()
        assert self.is_back.wait(60)
        return super().tell(key, attempt, first, bodies)


@pytest.fixture
def scene(server: Server) -> Iterator[BoardScene]:
    with closing(BoardScene(server)) as found:
        yield found


def order(folder: Path) -> Order:
    return Order(
        turn=KEY.turn, job=KEY.job, epoch=KEY.epoch, token="token", agent="coder", thread="dispatch:1", message="do it",
        sender="human", state="EXECUTE", visit=1, site=Site(workspace=str(folder)), home=str(folder), handle="",
        may_ask=False, time_limit_seconds=60.0, tools=(),
    )  # fmt: skip


def test_a_turn_that_is_claimed_while_its_host_looks_which_are_its_own_goes_on(
    scene: BoardScene, tmp_path: Path
) -> None:
    mirror = SlowMirror(tmp_path)
    board = LateAnswer(scene.host("one", "w1"), mirror)
    shipped = documents.shipped_text(Shipped("0" * 40, "refs/parley/sent"))
    scene.board.put(KEY, "coder", "dispatch:1", documents.order_text(order(tmp_path)), shipped)
    with closing(TurnHost(board, cast("WakingTurns", NoTurns()), cast("PlaceMirror", mirror), 2)) as turns:
        taken = turns.take(KEY)
        turns.look()
        mirror.may_fail.set()
        assert taken.result(60) == HANDED_BACK  # and it was not ended as one that is another's
    assert scene.board.standings([KEY])[KEY].state == "open"


def test_a_turn_is_laid_out_once_a_lost_one_has_left_its_place(scene: BoardScene, tmp_path: Path) -> None:
    slow = SlowTurns()
    board = scene.host("one", "w1")
    mirror = QuickMirror(tmp_path, slow.did)
    first, second = order(tmp_path), replace(order(tmp_path), turn="t2")
    shipped = documents.shipped_text(Shipped("0" * 40, "refs/parley/sent"))
    with closing(TurnHost(board, cast("WakingTurns", slow), cast("PlaceMirror", mirror), 2)) as turns:
        scene.board.put(KEY, "coder", "dispatch:1", documents.order_text(first), shipped)
        turns.take(KEY)
        assert [slow.did.get(timeout=60) for _ in range(2)] == ["lay out t1", "begin t1"]
        scene.link.rows("UPDATE board_hosts SET seen = seen - interval '1 hour'")  # it was suspended
        scene.board.let_go([KEY])
        assert scene.board.standings([KEY])[KEY].how == "lost"
        board.alive(1, draining=False)
        again = KEY._replace(turn="t2")
        scene.board.put(again, "coder", "dispatch:1", documents.order_text(second), shipped)

        taken = turns.take(again)

        assert slow.did.get(timeout=60) == "end t1"
        slow.may_end.set()
        assert [slow.did.get(timeout=60) for _ in range(3)] == ["ended t1", "lay out t2", "begin t2"]
        turns.hand_back()
        assert taken.result(60) == HANDED_BACK


@pytest.mark.parametrize("full", [True, False])
def test_an_agent_that_fails_on_a_full_disk_is_not_to_blame(
    scene: BoardScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    def fill() -> None:
        if full:
            monkeypatch.setattr(host_disk, "LEAST_BYTES", 1 << 62)
            monkeypatch.setattr(host_disk, "SHARE", 1)

    board = scene.host("one", "w1")
    mirror = QuickMirror(tmp_path, queue.SimpleQueue())
    shipped = documents.shipped_text(Shipped("0" * 40, "refs/parley/sent"))
    scene.board.put(KEY, "coder", "dispatch:1", documents.order_text(order(tmp_path)), shipped)
    with closing(
        TurnHost(board, cast("WakingTurns", QuickTurns(fill, "it could not be run")), cast("PlaceMirror", mirror), 2)
    ) as turns:
        assert turns.take(KEY).result(60) == (HANDED_BACK if full else ENDED)

    (event,) = scene.board.events([(KEY, 0)])
    ended, _ = documents.read_event(event.body, KEY.job, KEY.turn)
    assert isinstance(ended, Ended)
    assert (event.how, ended.hard) == (("handed back", False) if full else ("ended", True))
    assert ("is full" in ended.fault) is full


# ---- a turn that has ended, and is to be ended -----------------------------------------------------


def put_out(scene: BoardScene, folder: Path) -> None:
    shipped = documents.shipped_text(Shipped("0" * 40, "refs/parley/sent"))
    scene.board.put(KEY, "coder", "dispatch:1", documents.order_text(order(folder)), shipped)


def last_told(scene: BoardScene) -> tuple[str, Ended, Shipped | None]:
    """How the turn is over, its end, and the files that came along."""
    event = scene.board.events([(KEY, 0)])[-1]
    ended, shipped = documents.read_event(event.body, KEY.job, KEY.turn)
    assert isinstance(ended, Ended)
    return event.how, ended, shipped


@contextmanager
def pushing(scene: BoardScene, folder: Path) -> Iterator[tuple[TurnHost, HeldMirror, Future[str]]]:
    """A host whose agent has just ended, while its files are pushed."""
    mirror, board = HeldMirror(folder), scene.host("one", "w1")
    put_out(scene, folder)
    turns = cast("WakingTurns", QuickTurns(lambda: None))
    with closing(TurnHost(board, turns, cast("PlaceMirror", mirror), 2)) as host:
        taken = host.take(KEY)
        assert mirror.carrying.wait(60)
        yield host, mirror, taken


@pytest.mark.parametrize("takes", [True, False])
def test_a_turn_that_has_ended_counts_though_its_host_ends_if_the_remote_takes_its_files_soon(
    scene: BoardScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: bool
) -> None:
    monkeypatch.setattr(turn_host, "LAST_PUSH_SECONDS", 60.0 if takes else 0.2)
    with pushing(scene, tmp_path) as (host, mirror, taken):
        host.hand_back()
        if takes:
            mirror.may_go.set()
        assert taken.result(60) == (ENDED if takes else HANDED_BACK)

    how, ended, shipped = last_told(scene)
    assert (how, bool(shipped)) == (("ended", True) if takes else ("handed back", False))
    assert ended.fault == ("" if takes else "its host one ended, and gave the turn back")


def test_what_a_turn_has_written_goes_back_though_it_is_cancelled_when_it_has_just_ended(
    scene: BoardScene, tmp_path: Path
) -> None:
    with pushing(scene, tmp_path) as (host, mirror, taken):
        scene.board.cancel(KEY)
        host.look()
        mirror.may_go.set()
        assert taken.result(60) == DEAD

    how, _, shipped = last_told(scene)
    assert how == "dead"
    assert shipped is not None


def test_a_turn_that_has_ended_while_its_host_was_alone_counts(scene: BoardScene, tmp_path: Path) -> None:
    board = AwayBoard(scene.host("one", "w1"))
    put_out(scene, tmp_path)
    progress = Progress(KEY.job, KEY.turn, "it is all but done")
    turns = QuickTurns(lambda: None, "", progress)
    mirror = QuickMirror(tmp_path, queue.SimpleQueue())
    with closing(TurnHost(board, cast("WakingTurns", turns), cast("PlaceMirror", mirror), 2)) as host:
        taken = host.take(KEY)
        assert board.telling.wait(60)
        host._done(lambda: None)  # the pump has handed its end on
        assert host.abandon()
        board.is_back.set()
        assert taken.result(60) == ENDED

    assert last_told(scene)[0] == "ended"


# ---- a worker whose pump is gone ---------------------------------------------------------------------


class BrokenTurns(NoTurns):
    """They can't be ended any more."""

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        raise OSError("no more processes")


class HungTurns(NoTurns):
    """They hang."""

    def __init__(self) -> None:
        super().__init__()
        self.over = threading.Event()

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        self.over.wait()
        return []


@pytest.mark.parametrize(
    "turns, why", [(BrokenTurns(), "no more processes"), (HungTurns(), "could not be begun or ended")]
)
def test_a_worker_that_can_begin_and_end_no_turn_any_more_ends(
    scene: BoardScene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: NoTurns, why: str
) -> None:
    monkeypatch.setattr(worker, "HUNG_SECONDS", 1.0)
    monkeypatch.setattr(turn_host, "CLOSE_SECONDS", 0.1)
    place = WorkerPlace(
        scene.schema, lambda *given: partial(scene.connect, scene.roles[0]), TemporalAddress("127.0.0.1:1")
    )
    options = WorkerOptions("one", 2, (), "49 of 49 escapes held", 3600.0, 3600.0)
    said: list[str] = []
    mirror = QuickMirror(tmp_path, queue.SimpleQueue())
    one = HostWorker(place, options, cast("WakingTurns", turns), cast("PlaceMirror", mirror), said.append)
    refused: list[str] = []

    def run() -> None:
        try:
            one.run()
        except HostRefused as problem:
            refused.append(str(problem))

    running = threading.Thread(target=run, daemon=True)
    running.start()
    running.join(60)

    assert [why in words for words in refused] == [True], (refused, said)
    assert scene.board.hosts()[0].gone
    if isinstance(turns, HungTurns):
        turns.over.set()
