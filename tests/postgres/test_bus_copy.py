"""What a move of a bus carries, whatever the rows and the database, and in how much memory."""

import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from parley.bus import key_files
from parley.bus.bus_tables import same_rows
from parley.bus.postgres import postgres_copy
from parley.bus.postgres.postgres_store import PostgresStore
from parley.bus.postgres.server_address import Address, address_of
from parley.bus.sqlite.sqlite_copy import make_copy
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.bus.store import Store
from tests.cli.home import LEADS, Home
from tests.postgres_server import Server
from tests.stores.rows import change, commit, end, everything, job, message, step, turn

ROWS = 20_000
MOST_BYTES = 12_000_000
ICU = "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'"
NASTY = ("\0", "\1\0\x1f", "a\tb\\N\n", "ä\U0001f600", "B", "a", "A", "-b", "_a", "é", "z" * 300_000)


@pytest.fixture
def source(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "home")) as store:
        yield store


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def database(server: Server, name: str, options: str) -> str:
    """The address of a database that is made with some options."""
    with closing(psycopg.connect(server.url, autocommit=True)) as session:
        session.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        session.execute(f"CREATE DATABASE {name} TEMPLATE template0 {options}")
    return server.url.replace("/postgres?", f"/{name}?")


def move(source: SqliteStore, address: Address) -> PostgresStore:
    """Copy a bus to a server."""
    assert source.key is not None
    made = key_files.like(source.key, server="tests")
    with source.alone():
        postgres_copy.make_bus(address, made, source)
    return PostgresStore(source.home, made, address)


def fill(store: Store) -> None:
    """A bus with odd texts wherever one can stand."""
    for name in ("j1", "J2", "j-1", "j_1", "b.c"):
        store.create(job(name, request=f"{name} \0", created=1.0))
        epoch = store.own(name)
        store.put(name, "answer", "k\1", 1.0, "ann\x1f", "\0")
        store.commit(
            [
                commit(
                    epoch=epoch,
                    name=name,
                    steps=[step(number + 1, choice=text) for number, text in enumerate(NASTY)],
                    messages=[
                        message(number + 1, thread=f"t {text[:9]}", key=f"{number}{text[:9]}", body=text)
                        for number, text in enumerate(NASTY)
                    ],
                    molecules={f"hold {text[:9]}": text for text in NASTY},
                    started=[turn("t1"), turn("t2")],
                    ended=[end("t1", 1, "ended")],
                    progress=change(updated=1.5),
                )
            ]
        )
        store.disown(name)


@pytest.mark.parametrize("options", ["", ICU])
def test_every_row_goes_there_and_back_whatever_the_order_of_the_database(
    here: Path, source: SqliteStore, postgres: Server, tmp_path: Path, options: str
) -> None:
    fill(source)
    there = database(postgres, "ordered", options)
    with closing(move(source, address_of("tests", {"tests": there}, {}))) as moved:
        assert same_rows(source, moved) == ""
        assert everything(moved) == everything(source)
        (tmp_path / "back").mkdir()
        with moved.alone():
            assert moved.key is not None
            make_copy(tmp_path / "back", moved, moved.key)
        with closing(SqliteStore(tmp_path / "back", stranger=True)) as back:
            assert same_rows(source, back) == ""
            assert everything(back) == everything(source)


@pytest.mark.parametrize("table", ["steps", "recipients", "molecules", "inputs"])
def test_a_copy_with_another_row_or_one_row_less_is_told(
    here: Path, source: SqliteStore, postgres: Server, table: str
) -> None:
    fill(source)
    with closing(move(source, address_of("tests", {"tests": postgres.url}, {}))) as moved:
        session = moved._server._session
        assert session is not None
        session.execute("SET session_replication_role = replica")
        with session.transaction(force_rollback=True):
            column = {"steps": "who", "recipients": "seq", "molecules": "body", "inputs": "by"}[table]
            session.execute(f"UPDATE {table} SET {column} = '9' WHERE ctid = (SELECT max(ctid) FROM {table})")  # noqa: S608 - a test's own words
            assert same_rows(source, moved) == table
        with session.transaction(force_rollback=True):
            session.execute(f"DELETE FROM {table} WHERE ctid = (SELECT max(ctid) FROM {table})")  # noqa: S608 - a test's own words
            assert same_rows(source, moved) == table
        assert same_rows(source, moved) == ""


def test_a_large_bus_is_moved_in_little_memory(
    here: Path, source: SqliteStore, postgres: Server, tmp_path: Path
) -> None:
    source.create(job())
    source.own("j1")
    for number in range(1, 21):
        rows = range(ROWS // 20 * (number - 1) + 1, ROWS // 20 * number + 1)
        source.commit([commit(number, steps=[step(row, number, choice=f"{row:01000}") for row in rows])])
    source.disown("j1")
    (tmp_path / "back").mkdir()

    tracemalloc.start()
    try:
        with closing(move(source, address_of("tests", {"tests": postgres.url}, {}))) as moved, moved.alone():
            assert same_rows(source, moved) == ""
            assert moved.key is not None
            make_copy(tmp_path / "back", moved, moved.key)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < MOST_BYTES  # of more than twenty million in the rows
    with closing(SqliteStore(tmp_path / "back", stranger=True)) as back:
        assert same_rows(source, back) == ""


@pytest.mark.parametrize(
    "options, setting, said",
    [
        ("ENCODING 'LATIN1' LOCALE 'C'", "", "is encoded in 'LATIN1'"),
        ("ENCODING 'SQL_ASCII' LOCALE 'C'", "", "is encoded in 'SQL_ASCII'"),
        ("", "CREATE ROLE guest LOGIN", "this user may not do that; let the database's owner grant it"),
    ],
)
def test_a_database_that_can_not_take_the_bus_is_refused_in_one_line_and_the_home_stays(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch, options: str, setting: str, said: str
) -> None:
    url = database(postgres, "unfit", options)
    if setting:
        with closing(psycopg.connect(postgres.url, autocommit=True)) as session:
            session.execute("DROP ROLE IF EXISTS guest")
            session.execute(setting)
        url = url.replace("//postgres@", "//guest@")
    (tmp_path / "work").mkdir()
    monkeypatch.setenv("PARLEY_BUS_URL", url)
    home = Home(tmp_path / "work", {"PARLEY_BUS_URL": url})
    waiting = home.start(LEADS)
    assert said in home.refuses("bus", "copy", "office", code=1)

    assert home.here("bus", "--json").document["kind"] == "sqlite"
    assert home.here("audit", waiting).code == 0


def test_a_key_that_can_not_be_kept_is_told_in_one_line(
    tmp_path: Path, postgres: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "state").write_text("a file, where a folder has to be")
    for name, value in (("PARLEY_BUS_URL", postgres.url), ("XDG_STATE_HOME", str(tmp_path / "state"))):
        monkeypatch.setenv(name, value)
    home = Home(tmp_path / "work", {})
    assert "the key of a bus is kept there: mend that" in home.refuses("bus", "copy", "office", code=1)
