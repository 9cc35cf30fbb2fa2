"""The simulator finds bugs of the layer of many hosts: each of these, planted one at a time, makes some seed fail."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import pytest

from parley.hosts.board import TurnKey
from parley.hosts.host_board import HostBoard
from parley.hosts.placed_turns import PlacedTurns
from parley.hosts.turn_documents import event_text
from parley.hosts.turn_host import DEAD, TurnHost
from parley.hosts.turn_workflow import HANDED_BACK
from parley.ports.workspaces import WorkspaceError
from simulator.board_model import BoardModel, Put, Rows
from simulator.host_run import simulate_hosts
from simulator.run import Failed

SEEDS = range(120)


def found(first: int) -> str:
    """What the first failing seed says; `first` is tried before the others, since it has failed before."""
    why = next(filter(None, map(failure, chain((first,), SEEDS))), "")
    assert not why.startswith(("AttributeError", "TypeError", "NameError", "ValueError")), why
    return why


def failure(seed: int) -> str:
    try:
        simulate_hosts(seed)
    except Failed as failed:
        return failed.why
    return ""


# ---- the board, which hands its functions a planted one in the place of its own ------------------------


def begun_again(real: Callable[..., Any], model: BoardModel, key: TurnKey) -> None:
    put = model.orders.get(key)
    if put is not None and put.state == "begun" and not put.cancelled:
        put.state = "claimed"
    real(model, key)
    if put is not None and put.state == "claimed":
        put.state = "begun"


def taken_from_another(real: Callable[..., Any], model: BoardModel, key: TurnKey, name: str, worker: str) -> Any:
    put = model.orders.get(key)
    if put is not None and put.state in ("claimed", "begun"):
        put.state = "open"
    return real(model, key, name, worker)


def all_replies(model: BoardModel, key: TurnKey, attempt: int, name: str, worker: str, waiting: Sequence[int]) -> Rows:
    put = model.own(key, attempt, name, worker)
    return list(put.replies.items()) if put is not None else []


def put_by_anyone(model: BoardModel, key: TurnKey, *order: Any) -> bool:
    model.orders.setdefault(key, Put(*order))
    return True


def numbered_anew(model: BoardModel, key: TurnKey, attempt: int, name: str, worker: str, *told: Any) -> bool:
    put = model.own(key, attempt, name, worker)
    if put is None or put.state != "begun":
        return False
    model.take(put, put.told + 1, told[1], is_end=False)
    model.ring("_told", key)
    return True


def gone_at_once(model: BoardModel, key: TurnKey) -> bool:
    put = model.orders.setdefault(key, Put("", "", "", ""))
    put.state, put.how = "over", "dead"
    return True


def dropped(real: Callable[..., Any], model: BoardModel, key: TurnKey, *who: Any) -> Any:
    *whose, how, number, body = who
    return real(model, key, *whose, DEAD if how == HANDED_BACK else how, number, body)


def told_again(real: Callable[..., Any], model: BoardModel, read: Sequence[tuple[TurnKey, int]]) -> Any:
    return real(model, [(key, max(0, number - 1)) for key, number in read])


BOARD: dict[str, tuple[str, int, Callable[..., Any]]] = {
    "a living host's claim given up": ("lives", 0, lambda real, model, host, worker: False),
    "a lost host's claim never given up": ("let_go", 6, lambda real, model, key: None),
    "a begun turn offered again": ("let_go", 6, begun_again),
    "a turn taken that another host has": ("claim", 1, taken_from_another),
    "what a process says of a turn that it has lost": ("own", 79, lambda real, model, key, *who: model.orders.get(key)),
    "an order put out by a former owner": ("put", 153, lambda real, *order: put_by_anyone(*order)),
    "a reply given to an earlier call": ("heard", 0, lambda real, *asked: all_replies(*asked)),
    "a call counted twice": ("tell", 6, lambda real, *told: numbered_anew(*told)),
    "a cancelled turn that goes on": ("cancel", 0, lambda real, model, key: gone_at_once(model, key)),
    "a turn dropped that was handed back": ("end", 3, dropped),
    "events read again": ("events", 1, told_again),
}


def replace(monkeypatch: pytest.MonkeyPatch, of: type, name: str, change: Callable[..., Any]) -> None:
    real = getattr(of, name)
    monkeypatch.setattr(of, name, lambda *given, **named: change(real, *given, **named))


@pytest.mark.parametrize("bug", BOARD)
def test_a_bug_of_the_board_is_found(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    name, first, change = BOARD[bug]
    replace(monkeypatch, BoardModel, name, change)
    assert found(first)


# ---- both sides of it ----------------------------------------------------------------------------------


def counts_without_files(real: Callable[..., Any], host: TurnHost, *given: Any) -> Any:
    with contextlib.suppress(WorkspaceError):
        return real(host, *given)


def left_running(real: Callable[..., Any], host: TurnHost, one: Any, *given: Any) -> str:
    return host._end(one, DEAD, event_text(one.key.ended("it was cancelled")))


def label_forgotten(real: Callable[..., Any], turns: PlacedTurns, *given: Any, **named: Any) -> None:
    real(turns, *given, **{**named, "label_of": lambda order: ""})


def by_its_own_clock(real: Callable[..., Any], board: HostBoard, used: int, **named: Any) -> Any:
    alive = real(board, used, **named)
    link: Any = board._link
    link.board.hosts[board.name].seen += link._line.process.skew
    return alive


SIDES: dict[str, tuple[type, str, int, Callable[..., Any]]] = {
    "no wait for a cancelled turn": (PlacedTurns, "_settle", 16, lambda real, turns, orders: None),
    "a former owner's turns go on": (PlacedTurns, "reclaim", 6, lambda real, turns, job: None),
    "a label that is forgotten": (PlacedTurns, "__init__", 20, label_forgotten),
    "an end that counts though its push was lost": (TurnHost, "_give_back", 20, counts_without_files),
    "an agent that outlives its turn": (TurnHost, "_stop", 0, left_running),
    "a lease by the host's own clock": (HostBoard, "alive", 1, by_its_own_clock),
}


@pytest.mark.parametrize("bug", SIDES)
def test_a_bug_of_a_host_or_a_coordinator_is_found(monkeypatch: pytest.MonkeyPatch, bug: str) -> None:
    of, name, first, change = SIDES[bug]
    replace(monkeypatch, of, name, change)
    assert found(first)
