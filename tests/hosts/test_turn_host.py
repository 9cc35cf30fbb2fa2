"""The turns of one worker, on the real board: what it does while another of its threads asks the board."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import cast

import pytest

from parley.hosts import turn_documents as documents
from parley.hosts.board import TurnKey
from parley.hosts.host_board import Claimed, HostBoard
from parley.hosts.mirror.mirror_errors import MirrorError
from parley.hosts.mirror.place_mirror import PlaceMirror, Shipped
from parley.hosts.turn_host import TurnHost, WakingTurns
from parley.hosts.turn_workflow import HANDED_BACK
from parley.ports.turns import Order, Site, TurnEvent
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
