"""The simulator's board does as PostgreSQL's: what a run under faults finds holds for the real one."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import psycopg
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from psycopg import sql

from parley import __version__
from parley.bus.rows import BusError
from parley.hosts.board import PROTOCOL, Board, TurnKey
from parley.hosts.board_link import BoardLink
from parley.hosts.host_board import HostBoard
from simulator.board_model import BoardModel
from simulator.network import CoordinatorBoard
from tests.postgres_server import Server

LOST_SECONDS = 600.0  # no host is lost by the time that a test takes
SILENCE = 3600.0
KEYS = [TurnKey("job", "t1", 1), TurnKey("job", "t1", 2), TurnKey("job", "t2", 1), TurnKey("other", "t10", 1)]
WORKERS = [("a", "w1"), ("a", "w2"), ("b", "w3"), ("bad name!", "w4")]
ENDS = ("ended", "dead", "handed back", "odd")
_numbers = itertools.count(1)

STEPS = 150


def calls(seed: int) -> Iterator[tuple[Any, ...]]:
    """What is said to a board: turns come up, are claimed, begun and ended, and much else happens meanwhile."""
    rng = Random(seed)
    yield from (("hello", who, 0, __version__) for who in (WORKERS[0], WORKERS[2]))
    for _ in range(STEPS):
        key, who = rng.choice(KEYS), rng.choice(WORKERS)
        whose = rng.choice((None, None, None, None, who))  # None: the process that has the turn
        later = rng.choice((0, 0, 0, 0, 0, 1, -1))  # attempts from the present one
        common: list[tuple[Any, ...]] = [
            ("put", key, rng.choice(("coder", "tester")), rng.choice(("", "", "", "gpu"))),
            ("claim", key, WORKERS[0]),
            ("claim", key, who),
            ("begin", key, whose, later),
            ("tell", key, whose, later, rng.choice((1, 1, 1, 0, 2)), rng.randrange(4)),
            ("end", key, whose, later, rng.choice(ENDS), rng.choice((1, 1, 0)), rng.choice(("", "the end"))),
        ]
        rare: list[tuple[Any, ...]] = [
            ("reply", key, rng.randrange(1, 4)),
            ("heard", key, whose, later),
            ("cancel", key),
            ("strip", key, rng.choice((True, False))),
            ("rest", rng.choice(("job", "other"))),
            ("rested", who, "job"),
            ("let_go", key),
            ("events",),
            ("last_host",),
            ("hosts",),
            ("forget_all_but", rng.choice(("job", "other"))),
            ("silence", rng.choice(("a", "b"))),
            ("hello", who, rng.choice((0, 0, 0, 1)), rng.choice((__version__, __version__, __version__, "0"))),
            ("hello", who, 0, __version__),
            ("alive", who, rng.choice((True, False))),
            ("alive", WORKERS[0], False),
            ("bye", rng.choice((who, WORKERS[2]))),
            ("mine", who),
        ]
        yield rng.choice(rng.choice((common, common, rare)))


class ModelLink:
    """A link straight to the model."""

    def __init__(self, model: BoardModel, role: str) -> None:
        self._model, self._role = model, role

    def rows(self, statement: str, given: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._model.call(statement, given, self._role)


class Boards:
    """The same said to both boards."""

    def __init__(self, server: Server) -> None:
        schema = f"parley_f{next(_numbers):015x}_board"
        self.roles = tuple(f"{schema}_{number}" for number in (1, 2))
        with psycopg.connect(server.url, autocommit=True) as connection:
            for role in self.roles:
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))

        def connect(role: str) -> psycopg.Connection[Any]:
            url = server.url.replace("postgres@", f"{role}@")
            return psycopg.connect(url, autocommit=True, options=f"-csearch_path={schema},pg_temp")

        self.links = [BoardLink(partial(connect, role), 5.0) for role in ("postgres", *self.roles)]
        self.board = Board(self.links[0], schema)
        self.board.install(LOST_SECONDS, self.roles)

    def begin(self) -> None:
        """Both are empty."""
        self.links[0].rows("TRUNCATE board_orders, board_hosts, board_rests CASCADE")
        self.time = 0.0
        self.model = BoardModel(lambda: self.time)
        self.model.lost_seconds = LOST_SECONDS
        self.told = 0
        self.used: dict[tuple[str, str], int] = {}  # which role each worker came with

    def hosts(self, who: tuple[str, str], role: int) -> tuple[HostBoard, HostBoard]:
        name, worker = who
        model = ModelLink(self.model, self.roles[role])
        return HostBoard(self.links[role + 1], name, worker), HostBoard(model, name, worker)  # type: ignore[arg-type]

    def same(self, *asked: Callable[[], Any]) -> None:
        one, other = (_answer(each) for each in asked)
        assert one == other

    def say(self, what: str, *given: Any) -> None:
        match what, given:
            case "silence", (name,):
                self.links[0].rows("UPDATE board_hosts SET seen = seen - interval '1 hour' WHERE name = %s", (name,))
                if name in self.model.hosts:
                    self.model.hosts[name].seen -= SILENCE
            case "hello", ((name, worker), role, version):
                self.used.setdefault((name, worker), role)
                real, model = self.hosts((name, worker), role)
                self.same(*(partial(one.hello, 2, ("gpu",), version, PROTOCOL, "held") for one in (real, model)))
            case "alive", (who, draining):
                real, model = self.hosts(who, self.used.get(who, 0))
                self.same(*(partial(one.alive, 1, draining=draining) for one in (real, model)))
            case "bye" | "mine" | "rested", (who, *rest):
                real, model = self.hosts(who, self.used.get(who, 0))
                self.same(*(partial(getattr(one, what), *rest) for one in (real, model)))
            case "claim" | "begin" | "tell" | "heard" | "end", (key, who, *rest):
                self.of_turn(what, key, who, rest)
            case _:
                self.of_coordinator(what, given)

    def of_turn(self, what: str, key: TurnKey, who: tuple[str, str] | None, rest: list[Any]) -> None:
        put = self.model.orders.get(key)
        name, worker = who or ((put.host, put.worker) if put is not None else WORKERS[0])
        real, model = self.hosts((name, worker), self.used.get((name, worker), 0))
        if what != "claim":
            rest[0] += put.attempt if put is not None else 0
        if what == "tell":
            self.told += 1
            rest[1] += put.told if put is not None else 0
            rest[2:] = [[f"told {self.told}, {number}" for number in range(rest[2])]]
        if what == "end":
            rest[2] += put.told if put is not None else 0
        if what == "heard":
            rest.append([1, 3])
        self.same(lambda: getattr(real, what)(key, *rest), lambda: getattr(model, what)(key, *rest))

    def of_coordinator(self, what: str, given: Sequence[Any]) -> None:
        board, model = self.board, CoordinatorBoard(_Straight(self.model), "")  # type: ignore[arg-type]
        words: tuple[Any, ...] = tuple(given)
        if what == "put":
            words = (given[0], given[1], "dispatch:1", "the order", "the files", given[2])
        elif what == "reply":
            words = (*given, "the answer")
        elif what == "events":
            words = ([(key, number % 3) for number, key in enumerate(KEYS)],)
        elif what == "last_host":
            words = ("job", "coder", "dispatch:1")
        elif what in ("let_go", "forget_all_but"):
            words = ([given[0]],)
        named = {"warm": given[1]} if what == "strip" else {}
        words = words[:1] if named else words
        self.same(*(partial(getattr(one, what), *words, **named) for one in (board, model)))

    def compare(self) -> None:
        """All that is there."""
        found = self.links[0].rows(
            "SELECT job, turn, epoch, agent, thread, document, shipped, state, how, host, worker, attempt, cancelled, "
            "label, told, weight "
            "FROM board_orders ORDER BY job, turn, epoch"
        )
        held = self.model.orders
        assert found == [
            (*key, one.agent, one.thread, one.document, one.shipped, one.state, one.how, one.host, one.worker,
             one.attempt, one.cancelled, one.label, one.told, one.weight)
            for key, one in sorted(held.items())
        ]  # fmt: skip
        for table in ("events", "replies"):
            rows = self.links[0].rows(f"SELECT job, turn, epoch, number, body FROM board_{table}")  # noqa: S608
            assert sorted(rows) == sorted(
                (*key, number, body) for key, one in held.items() for number, body in getattr(one, table).items()
            )
        for job in ("job", "other"):
            assert sorted(self.board.left_out(job)) == sorted(self.model.unfinished(job))
        one, other = (
            {key: found._replace(silent=0.0) for key, found in board.standings(KEYS).items()}
            for board in (self.board, self.model)
        )
        assert one == other


class _Straight:
    """A coordinator's link straight to the model."""

    def __init__(self, model: BoardModel) -> None:
        self.board = model

    def ask(self, act: Callable[[], Any], what: str) -> Any:
        return act()


def _answer(ask: Callable[[], Any]) -> Any:
    try:
        found = ask()
    except BusError:
        return BusError
    if isinstance(found, list):  # rows come in any order where none was asked for
        found = sorted(tuple(-1 if isinstance(one, float) else one for one in row) for row in found)
    return found


@pytest.fixture(scope="module")
def boards(server: Server) -> Iterator[Boards]:
    made = Boards(server)
    yield made
    for link in made.links:
        link.close()


@settings(max_examples=25, deadline=None, derandomize=True, phases=[Phase.generate])
@given(st.integers(0, 2**32))
def test_the_model_and_the_board_answer_alike_whatever_is_said(boards: Boards, seed: int) -> None:
    boards.begin()
    for call in calls(seed):
        boards.say(*call)
    boards.compare()
