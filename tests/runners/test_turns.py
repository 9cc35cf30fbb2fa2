"""The clock of a turn: it stands still while the turn waits; at its end the turn is asked, stopped, then cancelled."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from parley.ports.turns import Ended, Order, Site, TurnEvent, Waiting
from parley.runners.local_turns import LocalTurns

LIMIT, GRACE = 0.3, 0.2
ORDER = Order(
    turn="t1",
    job="j1",
    epoch=1,
    token="token",
    agent="coder",
    thread="dispatch:d1",
    message="go",
    sender="lead",
    state="EXECUTE",
    visit=1,
    site=Site("/"),
    home="",
    handle="handle",
    may_ask=False,
    time_limit_seconds=LIMIT,
    tools=(),
)


class Slow:
    """A runner whose turns do not end by themselves."""

    def __init__(self, *can: str) -> None:
        self.can = can
        self.done: list[tuple[str, float]] = []
        self.begun = time.monotonic()  # before it is submitted: its time begins then

    def _do(self, what: str) -> bool:
        self.done.append((what, time.monotonic() - self.begun))
        return what in self.can

    def start(self, order: Order, tell: Callable[[TurnEvent], None]) -> None:
        self.tell = tell

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Nothing is called."""

    def wrap_up(self, job: str, turn: str) -> bool:
        return self._do("wrap up")

    def stop(self, job: str, turn: str) -> bool:
        self.tell(Ended(job, turn, 1, handle="later", fault="it took longer", overtime=True))
        return self._do("stop")

    def cancel(self, job: str, turn: str) -> None:
        self._do("cancel")

    def rest(self, job: str) -> None:
        """Nothing is kept ready."""

    def close(self) -> None:
        """Nothing is open."""


def played(runner: Slow, *told: tuple[float, TurnEvent]) -> Ended:
    turns = LocalTurns({"scripted": runner}, shortest_grace=GRACE)
    turns.submit(ORDER)
    waiting = list(told)
    while True:
        while waiting and time.monotonic() - runner.begun >= waiting[0][0]:
            runner.tell(waiting.pop(0)[1])
        for event in turns.events(0.02):
            if isinstance(event, Ended):
                return event


@pytest.mark.parametrize(
    "can, done, handle",
    [
        ((), ["wrap up", "stop", "cancel"], "handle"),
        (("wrap up",), ["wrap up", "stop", "cancel"], "handle"),
        (("stop",), ["wrap up", "stop"], "later"),
        (("wrap up", "stop"), ["wrap up", "stop"], "later"),
    ],
)
def test_a_turn_beyond_its_time_is_asked_then_stopped_then_cancelled(
    can: tuple[str, ...], done: list[str], handle: str
) -> None:
    runner = Slow(*can)

    ended = played(runner)

    assert [what for what, _ in runner.done] == done
    assert (ended.overtime, ended.handle) == (True, handle)
    when = dict(runner.done)
    assert when["wrap up"] >= LIMIT
    assert when["stop"] >= LIMIT + (GRACE if "wrap up" in can else 0.0)


def test_the_clock_stands_still_while_a_turn_waits_for_its_provider() -> None:
    runner = Slow()

    played(runner, (0.1, Waiting("j1", "t1", "down", 0.0)), (0.9, Waiting("j1", "t1")))

    assert runner.done[0][1] >= LIMIT + 0.75
