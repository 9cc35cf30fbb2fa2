"""A server that dies and comes back: nothing is lost, nothing is written twice, and a store goes on."""

import re
import socket
import socketserver
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from parley.bus.postgres import server_connection
from parley.bus.postgres.postgres_queries import QUERIES
from parley.bus.postgres.postgres_schema import schema_of
from parley.bus.postgres.postgres_store import PostgresStore
from parley.bus.postgres.server_address import address_of
from parley.bus.postgres.server_connection import Session
from parley.bus.rows import BusError, Duplicate, LostOwnership, Spent
from tests.postgres_server import Bus, Server, running
from tests.stores.rows import commit, job, message, step

PATIENCE = 30.0


@pytest.fixture(scope="module")
def frail() -> Iterator[Server]:
    """A server of its own, which waits for its disk: it is killed again and again."""
    with running(settings=()) as server:
        yield server


@pytest.fixture
def bus(frail: Server, tmp_path: Path) -> Bus:
    return Bus(frail, tmp_path)


def written(number: int) -> dict[str, object]:
    return {"steps": [step(number, number)], "messages": [message(number, number)]}


@pytest.mark.parametrize("ahead", [False, True])
def test_a_server_that_is_killed_in_mid_commit_loses_nothing_and_doubles_nothing(
    frail: Server, bus: Bus, ahead: bool
) -> None:
    said: list[int] = []
    faults: list[BaseException] = []
    stopped = threading.Event()
    with closing(bus.open(lease_seconds=60.0)) as store:
        store.create(job())
        epoch = store.own("j1")
        write = store.begin_commit if ahead else store.commit

        def go_on() -> None:
            try:
                for number in range(1, 100_000):
                    if stopped.is_set():
                        return
                    write([commit(number, epoch, **written(number))])  # type: ignore[arg-type]  # rows of both kinds
                    said.append(number)
            except BaseException as error:  # noqa: BLE001 - the test shows it
                faults.append(error)

        thread = threading.Thread(target=go_on)
        thread.start()
        for _ in range(3):
            seen = len(said)
            deadline = time.monotonic() + PATIENCE
            while len(said) < seen + 50 and not faults:
                assert time.monotonic() < deadline
                time.sleep(0.001)
            frail.kill()
            frail.start()
        stopped.set()
        thread.join()
        assert faults == []
        store.commit([])
        with closing(bus.open()) as other:
            assert [row.number for row in other.transactions("j1")] == said == list(range(1, len(said) + 1))
            assert [row.number for row in other.steps("j1")] == said
            assert other.unsealed("j1") == 0


@pytest.mark.parametrize("done", [True, False])
def test_a_commit_that_is_begun_waits_for_nothing_and_is_done_once(bus: Bus, done: bool) -> None:
    with closing(bus.open(lease_seconds=600.0)) as store, closing(bus.session()) as other:
        store.create(job())
        epoch = store.own("j1")
        other.execute("BEGIN")
        other.execute("LOCK TABLE writing IN EXCLUSIVE MODE")
        store.begin_commit([commit(1, epoch, **written(1))])  # type: ignore[arg-type]  # rows of both kinds
        if done:
            other.execute("ROLLBACK")
            deadline = time.monotonic() + PATIENCE
            while not other.execute("SELECT 1 FROM commits").fetchall():
                assert time.monotonic() < deadline
        other.execute("SELECT pg_terminate_backend(%s)", (backend(store),))
        if not done:
            other.execute("ROLLBACK")
        store.begin_commit([commit(2, epoch, **written(2))])  # type: ignore[arg-type]  # rows of both kinds
        assert [row.number for row in store.transactions("j1")] == [1, 2]
        assert store.unsealed("j1") == 0


def test_a_store_that_is_closed_leaves_what_it_had_begun_and_no_job(bus: Bus) -> None:
    store = bus.open()
    store.create(job())
    store.begin_commit([commit(1, store.own("j1"))])
    store.close()
    with closing(bus.open()) as other:
        assert [row.number for row in other.transactions("j1")] == [1]
        assert other.own("j1") == 2


def test_what_became_of_a_commit_is_told_to_the_thread_that_began_it(bus: Bus) -> None:
    found: list[object] = []
    with closing(bus.open()) as store:
        store.create(job())
        epoch = store.own("j1")
        store.begin_commit([commit(1, epoch + 1)])
        thread = threading.Thread(target=lambda: found.append(list(store.steps("j1"))))
        thread.start()
        thread.join()
        assert found == [[]]
        with pytest.raises(LostOwnership):
            store.jobs()
        store.commit([commit(1, epoch)])


class Lossy:
    """A session whose connection is lost around one call: before the server has it, or after it was done."""

    def __init__(self, session: Session, statement: str, *, done: bool) -> None:
        self.session = session
        self.statement = statement
        self.done = done

    def __getattr__(self, name: str) -> object:
        return getattr(self.session, name)

    def execute(self, statement: str, *values: Any, **more: Any) -> object:
        if self.statement not in statement.replace("READ COMMITTED", ""):
            return self.session.execute(statement, *values, **more)
        if self.done:
            self.session.execute(statement, *values, **more)
        self.session.close()
        raise psycopg.OperationalError("the connection was lost")


@pytest.mark.parametrize("done", [True, False])
def test_a_call_whose_answer_was_lost_is_done_once(bus: Bus, done: bool) -> None:
    with closing(bus.open()) as store, closing(bus.open()) as other:

        def lose(statement: str) -> None:
            session = store._server._session
            assert session is not None
            store._server._session = Lossy(session, statement, done=done)  # type: ignore[assignment]  # as a session

        lose("create_job")
        store.create(job())
        lose("own_job")
        epoch = store.own("j1")
        lose("commit_jobs")
        store.commit([commit(1, epoch, **written(1))])  # type: ignore[arg-type]  # rows of both kinds
        lose("leave_input")
        assert store.put("j1", "answer", "k", 1.0, "ann", "{}") == 1
        lose("COMMIT")
        if done:
            with store.alone():
                store.commit([commit(2, epoch, **written(2))])  # type: ignore[arg-type]  # rows of both kinds
        else:
            with pytest.raises(BusError, match="nothing was written"), store.alone():
                store.commit([commit(2, epoch, **written(2))])  # type: ignore[arg-type]  # rows of both kinds
        store.commit([commit(3, epoch, **written(3))])  # type: ignore[arg-type]  # rows of both kinds

        assert [row.number for row in other.transactions("j1")] == ([1, 2, 3] if done else [1, 3])
        assert other.load("j1").epoch == epoch
        assert len(other.inputs("j1")) == 1
        with pytest.raises(Duplicate):
            store.commit([commit(1, epoch)])


def test_what_a_lost_connection_had_sent_is_not_done_late(bus: Bus) -> None:
    """The server has it, but had not begun it when the connection was lost: another connection has fenced it off."""
    with closing(bus.open()) as store:
        store.create(job())
        store.own("j1")
        late: list[tuple[Any, ...]] = []
        true = QUERIES["commit_jobs"]

        class Slow(Lossy):
            def execute(self, statement: str, *values: Any, **more: Any) -> object:
                if statement == true:
                    late.append(values[0])
                return super().execute(statement, *values, **more)

        session = store._server._session
        assert session is not None
        store._server._session = Slow(session, "commit_jobs", done=False)  # type: ignore[assignment]  # as a session
        store.commit([commit(1, steps=[step(1)])])
        with closing(bus.session()) as former, pytest.raises(psycopg.Error) as refused:
            former.execute(true, late[0])  # as the server would have begun it
        assert refused.value.sqlstate == "PY001"


def test_a_store_goes_on_after_a_restart_and_hears_again(frail: Server, bus: Bus) -> None:
    with closing(bus.open()) as store, closing(bus.open()) as other:
        store.create(job())
        store.own("j1")
        other.changed()
        frail.stop()
        frail.start()
        assert [row.job for row in other.jobs()] == ["j1"]
        store.commit([commit(steps=[step(1)])])
        deadline = time.monotonic() + PATIENCE
        while not other.changed():
            assert time.monotonic() < deadline
            other.wait(0.1)
        assert store.owner_lives("j1")


def test_an_owner_goes_on_after_its_server_was_away_for_longer_than_its_lease_unless_another_has_its_job(
    bus: Bus,
) -> None:
    with closing(bus.open(lease_seconds=600.0)) as store, closing(bus.session()) as session:
        for name in ("j1", "j2"):
            store.create(job(name))
            store.own(name)
        session.execute("UPDATE leases SET expires = clock_timestamp()")
        session.execute("SELECT pg_terminate_backend(%s)", (backend(store),))
        store.commit([commit(1)])

        session.execute("UPDATE leases SET expires = clock_timestamp()")
        with closing(bus.open()) as other:
            assert other.own("j2") == 2
            session.execute("SELECT pg_terminate_backend(%s)", (backend(store),))
            store.commit([commit(2)])
            with pytest.raises(LostOwnership):
                store.commit([commit(1, name="j2")])
            other.commit([commit(1, 2, "j2")])


def test_a_server_that_stays_down_is_told_in_one_line_and_later_calls_go_on(
    frail: Server, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_connection, "PATIENCE_SECONDS", 0.3)
    with closing(bus.open()) as store:
        store.create(job())
        store.own("j1")
        frail.stop()
        try:
            for act in (
                store.jobs,
                lambda: store.commit([commit(1)]),
                lambda: store.put("j1", "a", "k", 1.0, "ann", ""),
            ):
                with pytest.raises(BusError, match="the PostgreSQL server can't be reached") as refused:
                    act()
                assert "\n" not in str(refused.value)
        finally:
            frail.start()
        store.commit([commit(1)])
        assert len(list(store.transactions("j1"))) == 1


def test_a_crowded_server_is_waited_for_and_told_in_one_line(
    frail: Server, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd: list[Session] = []
    with closing(bus.open()) as store:
        store.create(job())
        try:
            with suppress(psycopg.OperationalError):
                while True:
                    crowd.append(psycopg.connect(frail.url))
            monkeypatch.setattr(server_connection, "PATIENCE_SECONDS", 0.3)
            with pytest.raises(BusError, match="too many clients already") as refused:
                store.own("j1")
            assert "\n" not in str(refused.value)
            monkeypatch.undo()
            later = threading.Timer(0.3, crowd.pop().close)
            later.start()
            assert store.own("j1") == 1
            later.join()
        finally:
            for session in crowd:
                session.close()


def lose_it_while_alone(store: PostgresStore) -> None:
    with store.alone():
        session = store._server._session
        assert session is not None
        session.close()
        with pytest.raises(BusError, match="can't be reached"):
            store.jobs()
        store.jobs()  # nothing more is read or written as if it were still alone


def test_a_store_that_loses_its_connection_while_it_is_alone_lets_others_write(bus: Bus) -> None:
    with closing(bus.open()) as store, closing(bus.open()) as holder:
        store.create(job())
        store.own("j1")
        with pytest.raises(BusError, match="nothing was written"):
            lose_it_while_alone(holder)
        store.commit([commit(1)])
        with holder.alone():
            assert holder.spent("mon") == Spent()


class Pooled(socketserver.BaseRequestHandler):
    """A client of a pooler: it is told a key of its own, as by pgbouncer, since its server process may change."""

    KEY = re.compile(rb"K\0\0\0\x0c.{4}", re.DOTALL)
    behind = ""

    def handle(self) -> None:
        with socket.socket(socket.AF_UNIX) as there:
            there.connect(self.behind)
            threading.Thread(target=pump, args=(self.request, there), daemon=True).start()
            while data := there.recv(1 << 16):
                self.request.sendall(self.KEY.sub(b"K\0\0\0\x0c\0\0\0\x07", data))


def pump(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def test_a_pooler_is_refused_in_one_line_and_nothing_is_set_in_its_sessions(
    frail: Server, bus: Bus, tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        handler = type("Behind", (Pooled,), {"behind": str(frail.folder / ".s.PGSQL.5432")})
        with socketserver.ThreadingUnixStreamServer(f"{folder}/.s.PGSQL.5432", handler) as pooler:
            pooler.daemon_threads = True
            threading.Thread(target=pooler.serve_forever, daemon=True).start()
            address = address_of("office", {"office": f"postgresql://postgres@/postgres?host={folder}"}, {})
            with pytest.raises(BusError, match="'office' is reached through a pooler") as refused:
                PostgresStore(tmp_path, bus.key, address)
            pooler.shutdown()
    assert "\n" not in str(refused.value)


def write_and_fail(store: PostgresStore, epoch: int) -> None:
    with store.alone():
        store.commit([commit(1, epoch)])
        with suppress(BusError):
            store.put("unknown", "answer", "k", 1.0, "ann", "{}")


def test_what_was_written_before_a_statement_failed_is_not_said_to_stand(bus: Bus) -> None:
    with closing(bus.open()) as store:
        store.create(job())
        epoch = store.own("j1")
        with pytest.raises(BusError, match="nothing was written"):
            write_and_fail(store, epoch)
        assert list(store.transactions("j1")) == []
        store.commit([commit(1, epoch)])


def test_an_owner_writes_nothing_more_after_its_server_has_lost_what_it_had_committed(frail: Server, bus: Bus) -> None:
    """As one that waits for no disk and is killed, or a standby that had not received it."""
    with closing(psycopg.connect(frail.url, autocommit=True)) as session:
        session.execute("ALTER SYSTEM SET wal_writer_delay = '10s'")
        session.execute("SELECT pg_reload_conf()")
    try:
        with closing(bus.open()) as store:
            store.create(job())
        with closing(bus.open(durability="normal", lease_seconds=600.0)) as store:
            epoch = store.own("j1")
            for number in range(1, 6):
                store.commit([commit(number, epoch, **written(number))])  # type: ignore[arg-type]  # rows of both kinds
            frail.kill()
            frail.start()
            with closing(bus.open()) as other:
                kept = [row.number for row in other.transactions("j1")]
                assert kept != [1, 2, 3, 4, 5]  # the server did lose some
                for _ in range(2):
                    with pytest.raises(LostOwnership, match="has lost what it had committed of j1"):
                        store.commit([commit(6, epoch, **written(6))])  # type: ignore[arg-type]  # rows of both kinds
                assert [row.number for row in other.transactions("j1")] == kept
    finally:
        with closing(psycopg.connect(frail.url, autocommit=True)) as session:
            session.execute("ALTER SYSTEM RESET wal_writer_delay")
            session.execute("SELECT pg_reload_conf()")


@pytest.mark.parametrize("name", ["idle_session_timeout", "idle_in_transaction_session_timeout"])
def test_an_administrators_limits_end_no_session(frail: Server, bus: Bus, name: str) -> None:
    with closing(psycopg.connect(frail.url, autocommit=True)) as session:
        session.execute(f"ALTER ROLE postgres SET {name} = '20ms'")
        try:
            with closing(bus.open()) as store:
                store.create(job())
                process = backend(store)
                with store.alone():
                    store.put("j1", "answer", "k", 1.0, "ann", "{}")
                    session.execute("SELECT pg_sleep(0.1)")
                session.execute("SELECT pg_sleep(0.1)")
                assert len(store.inputs("j1")) == 1
                assert backend(store) == process
        finally:
            session.execute(f"ALTER ROLE postgres RESET {name}")


def test_a_server_that_an_administrator_has_made_read_only_is_read_and_not_written_to(frail: Server, bus: Bus) -> None:
    with closing(bus.open()) as store:
        store.create(job())
    with closing(psycopg.connect(frail.url, autocommit=True)) as session:
        session.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
        try:
            with closing(bus.open()) as store:
                assert [row.job for row in store.jobs()] == ["j1"]
                with pytest.raises(BusError, match="the server only lets it be read"):
                    store.own("j1")
                with pytest.raises(BusError, match="the server only lets it be read"):
                    store.put("j1", "answer", "k", 1.0, "ann", "{}")
        finally:
            session.execute("SET default_transaction_read_only = off")
            session.execute("ALTER DATABASE postgres RESET default_transaction_read_only")


@pytest.mark.parametrize(
    "granted, said", [("", "may not use the schema parley_"), ("GRANT USAGE ON SCHEMA {} TO guest", "may not do that")]
)
def test_a_role_without_rights_is_told_so_in_one_line(frail: Server, bus: Bus, granted: str, said: str) -> None:
    with closing(psycopg.connect(frail.url, autocommit=True)) as session:
        session.execute("CREATE ROLE guest LOGIN")
        try:
            if granted:
                session.execute(sql.SQL(granted).format(sql.Identifier(schema_of(bus.key.id))))
            address = address_of("office", {"office": frail.url.replace("postgres@", "guest@")}, {})
            with pytest.raises(BusError, match=said) as refused:
                PostgresStore(bus.home, bus.key, address)
            assert "let the database's owner grant it" in str(refused.value)
            assert "\n" not in str(refused.value)
        finally:
            session.execute("DROP OWNED BY guest")
            session.execute("DROP ROLE guest")


def backend(store: PostgresStore) -> int:
    session = store._server._session
    assert session is not None
    return session.info.backend_pid


def test_a_server_that_waits_for_its_disk_says_so(bus: Bus) -> None:
    with closing(bus.open()) as store, closing(bus.open(durability="normal")) as quick:
        assert store.waits_for_disk()
        assert not quick.waits_for_disk()
