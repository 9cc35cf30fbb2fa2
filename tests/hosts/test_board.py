"""The board, as the coordinator and as hosts have it: real PostgreSQL, and a role a host."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from parley import __version__
from parley.bus.postgres.postgres_schema import schema_of
from parley.bus.rows import BusError
from parley.hosts.board import HOST_FUNCTIONS, PROTOCOL, Board, TurnKey
from parley.hosts.board_link import BELL_SECONDS, Bell, BoardLink
from parley.hosts.host_board import HostBoard
from tests.postgres_server import Bus, Server
from tests.stores.rows import job as job_row

LOST_SECONDS = 0.4
KEY = TurnKey("job", "t1", 1)
_numbers = itertools.count(1)


class BoardScene:
    """A board of its own, its coordinator, and hosts with roles of their own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.schema = f"parley_{next(_numbers):016x}_board"
        self.roles = tuple(f"{self.schema}_{name}" for name in ("one", "two"))
        with psycopg.connect(server.url, autocommit=True) as connection:
            for role in self.roles:
                connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        self._links: list[BoardLink] = []
        self.link = self._linked("postgres")
        self.board = Board(self.link, self.schema)
        self.board.install(LOST_SECONDS, self.roles)

    def connect(self, role: str) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(
            self._server.url.replace("postgres@", f"{role}@"), autocommit=True,
            options=f"-csearch_path={self.schema},pg_temp",
        )  # fmt: skip

    def _linked(self, role: str) -> BoardLink:
        self._links.append(BoardLink(partial(self.connect, role), 5.0))
        return self._links[-1]

    def host(self, name: str, worker: str, role: int = 0, *, version: str = __version__) -> HostBoard:
        found = HostBoard(self._linked(self.roles[role]), name, worker)
        assert found.hello(2, ("gpu",), version, PROTOCOL, "49 of 49 escapes held")[0] == ""
        return found

    def close(self) -> None:
        for link in self._links:
            link.close()


@pytest.fixture
def scene(server: Server) -> Iterator[BoardScene]:
    with closing(BoardScene(server)) as found:
        yield found


def put(scene: BoardScene, key: TurnKey = KEY) -> None:
    scene.board.put(key, "coder", "dispatch:1", "the order", "the files")


def claim(host: HostBoard, key: TurnKey = KEY) -> int:
    code, claimed = host.claim(key)
    assert (code, claimed.document, claimed.shipped) == ("yours", "the order", "the files")
    return claimed.attempt


def begin(host: HostBoard, key: TurnKey = KEY) -> int:
    attempt = claim(host, key)
    assert host.begin(key, attempt)
    return attempt


def state(scene: BoardScene, key: TurnKey = KEY) -> tuple[str, str, str]:
    found = scene.board.standings([key])[key]
    return found.state, found.how, found.host


def silence() -> None:
    """Let every host be silent for longer than it may."""
    time.sleep(LOST_SECONDS * 1.5)


# ---- what a coordinator may do ---------------------------------------------------------------------


def test_a_coordinator_puts_no_turn_out_of_a_job_that_another_has_taken_or_whose_lease_has_ended(
    scene: BoardScene, server: Server, tmp_path: Path
) -> None:
    bus = Bus(server, tmp_path)
    board = Board(scene.link, scene.schema, schema_of(bus.key.id))
    with closing(bus.open(lease_seconds=60.0)) as first, closing(bus.open(lease_seconds=60.0)) as second:
        first.create(job_row("job"))
        former = TurnKey("job", "t1", first.own("job"))
        assert board.put(former, "coder", "dispatch:1", "the order", "the files")
        first.disown("job")
        taken = TurnKey("job", "t1", second.own("job"))

        assert not board.put(former._replace(turn="t2"), "coder", "dispatch:1", "the order", "the files")
        assert board.put(taken, "coder", "dispatch:1", "the order", "the files")
        assert not board.put(taken._replace(job="other"), "coder", "dispatch:1", "the order", "the files")
        with closing(bus.session()) as session:
            session.execute("UPDATE leases SET expires = clock_timestamp()")
        assert not board.put(taken._replace(turn="t3"), "coder", "dispatch:1", "the order", "the files")

        assert set(board.standings([former, taken])) == {former, taken}
        assert board.left_out("job") == [former], "a former owner that wakes would end the turns of the one after it"


def test_an_order_waits_for_an_owner_that_is_just_taking_the_job(server: Server, tmp_path: Path) -> None:
    bus = Bus(server, tmp_path)
    with closing(bus.open()) as store, closing(bus.session()) as taking:
        store.create(job_row("job"))
        key = TurnKey("job", "t1", store.own("job"))
        link = BoardLink(partial(psycopg.connect, server.url, autocommit=True,
                                 options=f"-csearch_path={schema_of(bus.key.id)}_board,pg_temp"))  # fmt: skip
        board = Board(link, f"{schema_of(bus.key.id)}_board", schema_of(bus.key.id))
        board.install(LOST_SECONDS)
        answers: list[bool] = []
        putting = threading.Thread(
            target=lambda: answers.append(board.put(key, "coder", "dispatch:1", "the order", "the files"))
        )
        with taking.transaction():
            taking.execute("UPDATE owners SET epoch = epoch + 1")
            putting.start()
            putting.join(0.5)
            assert putting.is_alive(), "it can't be known yet whose the job is"
        putting.join()
        assert answers == [False]
        assert board.left_out("job") == []
        link.close()


def test_a_former_owner_that_wakes_deletes_no_turn_of_the_owner_after_it(scene: BoardScene) -> None:
    host = scene.host("a", "w1")
    later = KEY._replace(turn="t2", epoch=2)
    for key in (KEY, later):
        put(scene, key)
        assert host.end(key, begin(host, key), "ended", 1, "the end")

    scene.board.strip(KEY)
    assert [event.key for event in scene.board.events([(KEY, 0), (later, 0)])] == [later]
    scene.board.strip(later)
    assert list(scene.board.standings([KEY, later])) == [later]


def test_a_bell_rings_for_all_that_may_have_been_missed_also_where_notifications_never_cease(
    scene: BoardScene,
) -> None:
    heard: list[Sequence[str]] = []
    bell = Bell(partial(scene.connect, "postgres"), "a_channel", heard.append)
    bell.start()
    try:
        with closing(scene.connect("postgres")) as connection:
            for number in range(1000):
                connection.execute("SELECT pg_notify('a_channel', %s)", (f"job/t{number}",))
                if [] in heard[1:]:
                    break
                time.sleep(BELL_SECONDS / 20)
        assert [] in heard, "it looked though it was never silent"
    finally:
        bell.stop()
        bell.join()


# ---- what a host may do ----------------------------------------------------------------------------


def test_a_hosts_role_reads_and_writes_no_table_and_calls_no_function_but_its_own(
    scene: BoardScene, server: Server, tmp_path: Path
) -> None:
    put(scene)
    bus = schema_of(Bus(server, tmp_path).key.id)
    with psycopg.connect(scene._server.url, autocommit=True) as owner:
        tables = [str(row[0]) for row in owner.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'v', 'S')",
            (scene.schema,),
        )]  # fmt: skip
        functions = owner.execute(
            "SELECT proname, oid::regprocedure::text, pronargs FROM pg_proc WHERE pronamespace = %s::regnamespace",
            (scene.schema,),
        ).fetchall()
    assert len(tables) >= 5
    attempts = [f"{what} {table}" for table in tables for what in ("SELECT * FROM", "DELETE FROM", "TABLE")]
    attempts += ["UPDATE board_orders SET job = 'x'", "UPDATE board_replies SET body = 'x'"]
    attempts += ["INSERT INTO board_meta VALUES (true, 9, 'x', '', 1)", "CREATE TABLE mine ()", "DROP TABLE board_meta"]
    attempts += [
        f"SELECT {name}({', '.join(['NULL'] * count)})" for name, _, count in functions if name not in HOST_FUNCTIONS
    ]
    attempts += [f"{what} {bus}.{table}" for table in ("jobs", "steps", "inputs") for what in ("TABLE", "DELETE FROM")]
    attempts += [f"SET ROLE {scene.roles[1]}", "SET SESSION AUTHORIZATION postgres", "CREATE SCHEMA other"]
    assert len(functions) > len(HOST_FUNCTIONS)

    with scene.connect(scene.roles[0]) as host:
        for attempt in attempts:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                host.execute(attempt)

    assert state(scene) == ("open", "", "")


def test_a_host_writes_to_no_turn_that_it_has_not_claimed(scene: BoardScene) -> None:
    put(scene)
    attempt = begin(scene.host("a", "w1"))
    other = scene.host("b", "w2")

    assert not other.tell(KEY, attempt, 1, ["an event"])
    assert not other.end(KEY, attempt, "ended", 1, "an end")
    assert not other.begin(KEY, attempt)
    assert other.heard(KEY, attempt, [1]) == []
    assert scene.board.events([(KEY, 0)]) == []


def test_a_role_speaks_for_no_host_of_another_role(scene: BoardScene) -> None:
    put(scene)
    attempt = begin(scene.host("a", "w1", 0))
    stranger = HostBoard(scene._linked(scene.roles[1]), "a", "w1")

    for act in _all_that_a_worker_says(stranger, attempt):
        with pytest.raises(BusError, match="no such worker"):
            act()
    assert not stranger.alive(1, draining=False)
    late = HostBoard(scene._linked(scene.roles[1]), "a", "w9")
    silence()
    assert late.hello(1, (), __version__, PROTOCOL, "")[0] == "role"


def _all_that_a_worker_says(board: HostBoard, attempt: int) -> list[Callable[[], object]]:
    return [
        board.bye,
        lambda: board.claim(KEY),
        lambda: board.begin(KEY, attempt),
        lambda: board.tell(KEY, attempt, 1, ["x"]),
        lambda: board.heard(KEY, attempt, [1]),
        board.mine,
        lambda: board.end(KEY, attempt, "ended", 1, "x"),
    ]


def test_a_worker_of_another_version_or_under_a_living_workers_name_is_not_taken(scene: BoardScene) -> None:
    scene.host("a", "w1")
    again = HostBoard(scene._linked(scene.roles[0]), "a", "w2")

    assert again.hello(1, (), "0.0.0", PROTOCOL, "")[0] == f"version {__version__} {PROTOCOL}"
    assert again.hello(1, (), __version__, PROTOCOL + 1, "")[0] == f"version {__version__} {PROTOCOL}"
    assert again.hello(1, (), __version__, PROTOCOL, "") == ("lives", LOST_SECONDS)
    silence()
    assert again.hello(1, (), __version__, PROTOCOL, "")[0] == ""


def test_a_worker_has_to_end_when_the_coordinator_has_another_version(scene: BoardScene) -> None:
    host = scene.host("a", "w1")
    assert host.alive(0, draining=False)

    scene.link.rows("UPDATE board_meta SET version = '9.9.9'")

    assert not host.alive(0, draining=False)


# ---- claims ----------------------------------------------------------------------------------------


def test_a_turn_is_claimed_once_and_a_claim_whose_answer_was_lost_is_answered_again(scene: BoardScene) -> None:
    put(scene)
    put(scene)  # again: nothing happens
    first, second = scene.host("a", "w1"), scene.host("b", "w2", 1)

    assert claim(first) == 1
    assert claim(first) == 1
    assert second.claim(KEY)[0] == "held"
    assert first.begin(KEY, 1)
    assert first.begin(KEY, 1)
    assert state(scene) == ("begun", "", "a")


def test_a_turn_that_had_not_begun_is_open_again_when_its_host_is_lost(scene: BoardScene) -> None:
    put(scene)
    frozen = scene.host("a", "w1")
    assert claim(frozen) == 1
    silence()

    other = scene.host("b", "w2", 1)
    assert claim(other) == 2
    assert not frozen.begin(KEY, 1), "the one that comes back must not start it too"
    assert other.begin(KEY, 2)


def test_a_turn_that_had_begun_is_lost_with_its_host_and_what_comes_late_matches_nothing(scene: BoardScene) -> None:
    put(scene)
    frozen = scene.host("a", "w1")
    attempt = begin(frozen)
    assert frozen.tell(KEY, attempt, 1, ["said in time"])
    silence()

    other = scene.host("b", "w2", 1)
    assert other.claim(KEY)[0] == "held", "the server may just have come back: then no host could show itself"
    assert state(scene) == ("begun", "", "a")
    scene.board.let_go([KEY])
    assert other.claim(KEY)[0] == "lost"
    assert state(scene) == ("over", "lost", "a")
    assert frozen.alive(1, draining=False), "it is back"
    assert frozen.mine() == {}
    assert not frozen.tell(KEY, attempt, 2, ["said late"])
    assert not frozen.end(KEY, attempt, "ended", 2, "ended late")
    assert [event.body for event in scene.board.events([(KEY, 0)])] == ["said in time"]


def test_the_coordinator_gives_up_the_claims_of_lost_hosts_and_of_no_others(scene: BoardScene) -> None:
    keys = [TurnKey("job", f"t{number}", 1) for number in range(1, 4)]
    for key in keys:
        put(scene, key)
    frozen, living = scene.host("a", "w1"), scene.host("b", "w2", 1)
    begin(frozen, keys[0])
    claim(frozen, keys[1])
    begin(living, keys[2])
    silence()
    living.alive(1, draining=False)

    scene.board.let_go(keys)

    assert [state(scene, key)[:2] for key in keys] == [("over", "lost"), ("open", ""), ("begun", "")]


def test_a_worker_that_starts_anew_under_its_name_loses_what_its_dead_process_had(scene: BoardScene) -> None:
    put(scene)
    begin(scene.host("a", "w1"))
    silence()

    scene.host("a", "w2")

    assert state(scene) == ("over", "lost", "a")


# ---- events, replies, ends -------------------------------------------------------------------------


def test_events_and_replies_count_once_however_often_they_are_sent(scene: BoardScene) -> None:
    put(scene)
    host = scene.host("a", "w1")
    attempt = begin(host)
    for _ in range(2):
        assert host.tell(KEY, attempt, 1, ["one", "two"])
        scene.board.reply(KEY, 7, "the answer")
    scene.board.reply(KEY, 7, "another answer")

    assert [(event.number, event.body) for event in scene.board.events([(KEY, 0)])] == [(1, "one"), (2, "two")]
    assert [event.body for event in scene.board.events([(KEY, 1)])] == ["two"]
    assert host.heard(KEY, attempt, [7, 8]) == [(7, "the answer")]
    assert host.heard(KEY, attempt, [8]) == []


def test_a_turn_ends_once_and_then_nothing_of_it_stays_but_where_it_ran(scene: BoardScene) -> None:
    put(scene)
    host = scene.host("a", "w1")
    attempt = begin(host)
    scene.board.reply(KEY, 1, "the answer")

    assert host.end(KEY, attempt, "ended", 1, "the end")
    assert host.end(KEY, attempt, "ended", 1, "the end"), "the answer to the first call may be lost"
    assert not host.end(KEY, attempt, "handed back")
    assert state(scene) == ("over", "ended", "a")
    assert [event.body for event in scene.board.events([(KEY, 0)])] == ["the end"]

    scene.board.strip(KEY)
    assert scene.board.events([(KEY, 0)]) == []
    assert scene.board.document(KEY) == ""
    assert scene.board.last_host("job", "coder", "dispatch:1") == "a"
    scene.board.forget_all_but(["job"])
    assert scene.board.standings([KEY])
    scene.board.forget_all_but(["another"])
    assert scene.board.standings([KEY]) == {}


def test_a_turn_that_is_stripped_late_leaves_the_end_of_the_next_one_to_be_read(scene: BoardScene) -> None:
    host = scene.host("a", "w1")
    earlier, later = KEY._replace(turn="t9"), KEY._replace(turn="t10")
    for key in (earlier, later):
        put(scene, key)
        assert host.end(key, begin(host, key), "ended", 1, "the end")

    scene.board.strip(earlier)
    assert [event.body for event in scene.board.events([(later, 0)])] == ["the end"]
    scene.board.strip(later)
    assert set(scene.board.standings([earlier, later])) == {later}


def test_where_a_turn_was_lost_stays_known_though_no_other_of_its_instance_goes_there(scene: BoardScene) -> None:
    put(scene)
    begin(scene.host("a", "w1"))
    silence()
    scene.board.let_go([KEY])
    scene.board.strip(KEY, warm=False)
    assert state(scene) == ("over", "lost", "a")
    assert scene.board.last_host("job", "coder", "dispatch:1") == ""


def test_a_cancelled_turn_ends_at_once_where_no_host_has_it_and_is_never_begun_then(scene: BoardScene) -> None:
    host = scene.host("a", "w1")
    scene.board.cancel(KEY)  # before its order was put out
    put(scene)
    other = TurnKey("job", "t2", 1)
    put(scene, other)
    scene.board.cancel(other)

    for key in (KEY, other):
        assert state(scene, key)[:2] == ("over", "dead")
        assert host.claim(key)[0] == "over"


def test_a_cancelled_turn_ends_when_its_host_says_that_every_process_is_gone(scene: BoardScene) -> None:
    put(scene)
    host = scene.host("a", "w1")
    attempt = begin(host)

    scene.board.cancel(KEY)
    assert state(scene)[0] == "begun"
    assert host.mine() == {KEY: (False, attempt)}
    assert not host.end(KEY, attempt, "ended", 1, "the end came too late")
    assert host.end(KEY, attempt, "dead", 1, "what it had written")

    assert state(scene) == ("over", "dead", "a")


def test_a_host_that_ends_hands_back_what_it_has_and_says_goodbye(scene: BoardScene) -> None:
    begun, claimed = KEY, TurnKey("job", "t2", 1)
    put(scene, begun)
    put(scene, claimed)
    host = scene.host("a", "w1")
    assert host.end(begun, begin(host, begun), "handed back", 1, "what it had written")
    assert host.end(claimed, claim(host, claimed), "handed back")
    host.bye()

    assert state(scene, begun) == ("over", "handed back", "a")
    assert state(scene, claimed)[0] == "open"
    (row,) = scene.board.hosts()
    assert (row.name, row.labels, row.gone, row.lives) == ("a", ("gpu",), True, False)
