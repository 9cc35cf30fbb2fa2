"""A bus of an earlier version: refused where it is from before the first schema, else migrated, whole or not at all.

No migration exists yet: these are made up.
"""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from parley.audit.audit import audit, read_anchor
from parley.bus import key_files
from parley.bus.rows import BusError, Owned
from parley.bus.sqlite.bus_schema import FIRST, MIGRATIONS, latest
from parley.bus.sqlite.quick_read import glance
from parley.bus.sqlite.sqlite_store import SqliteStore
from tests.audit.played_jobs import PLAYS, RecordedHome
from tests.copied_homes import copy_bus
from tests.stores.rows import commit, everything, job, message, step

MOOD = "-- how it went\nALTER TABLE steps ADD COLUMN mood TEXT NOT NULL DEFAULT '';\n"
PACE = """
CREATE TABLE paces (job INTEGER PRIMARY KEY, pace REAL NOT NULL);
INSERT INTO paces SELECT serial, 1.5 FROM jobs;
"""
TWICE = "INSERT INTO meta VALUES ('protocol', '');\n"
ENDLESS = (
    "INSERT INTO meta SELECT 'x', count(*) FROM "
    "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n);\n"
)
OPEN = """
import pathlib, sys
from parley.bus.sqlite.sqlite_store import SqliteStore
SqliteStore(pathlib.Path(sys.argv[1]), migrations=sys.argv[2:])
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A bus with some rows, which no process has open."""
    home = tmp_path / "home"
    home.mkdir()
    with closing(SqliteStore(home)) as store:
        store.create(job())
        store.own("j1")
        for number in (1, 2, 3):
            rows = {"a": str(number)}
            store.commit([commit(number, steps=[step(number)], messages=[message(number)], molecules=rows)])
        store.put("j1", "answer", "k", 1.0, "ann", "{}")
    return home


def seen(home: Path, *migrations: str) -> object:
    with closing(SqliteStore(home, migrations=migrations)) as store:
        return everything(store)


def version(home: Path) -> int:
    with closing(sqlite3.connect(home / "bus.db")) as raw:
        return int(raw.execute("PRAGMA user_version").fetchone()[0])


def refusal(home: Path, *migrations: str) -> str:
    with pytest.raises(BusError) as refused:
        SqliteStore(home, migrations=migrations)
    assert "\n" not in str(refused.value)
    return str(refused.value)


# ---- a bus of before, and one of later


@pytest.mark.parametrize("earlier", [1, FIRST - 1])
def test_a_bus_from_before_the_first_schema_is_refused(home: Path, earlier: int) -> None:
    with closing(sqlite3.connect(home / "bus.db")) as raw:
        raw.execute(f"PRAGMA user_version = {earlier}")

    line = refusal(home)

    assert f"written by an older Parley (schema {earlier}, this one begins with {FIRST})" in line
    assert f"finish its jobs with that one, or move {home} away to begin anew" in line
    with pytest.raises(key_files.KeyRefused, match="finish its jobs with that one"):
        glance(home)


def test_a_newer_bus_is_refused(home: Path) -> None:
    seen(home, MOOD)

    assert f"written by a newer Parley (schema {FIRST + 1}, this one knows {FIRST})" in refusal(home)


def test_there_is_no_migration_yet() -> None:
    """With the first, these tests should try a bus of 0.2.0 too."""
    assert MIGRATIONS == ()
    assert latest() == FIRST


# ---- migrations


def test_rows_survive_a_migration(home: Path) -> None:
    before = seen(home)

    assert seen(home, MOOD) == before
    assert version(home) == FIRST + 1
    assert seen(home, MOOD, PACE) == before
    assert version(home) == FIRST + 2
    with closing(sqlite3.connect(home / "bus.db")) as raw:
        assert raw.execute("SELECT DISTINCT mood FROM steps").fetchall() == [("",)]
        assert raw.execute("SELECT pace FROM paces").fetchall() == [(1.5,)]


def test_a_migrated_bus_and_a_new_one_have_the_same_schema(home: Path, tmp_path: Path) -> None:
    seen(home, MOOD, PACE)
    (tmp_path / "new").mkdir()
    seen(tmp_path / "new", MOOD, PACE)
    found = []
    for each in (home, tmp_path / "new"):
        with closing(sqlite3.connect(each / "bus.db")) as raw:
            found.append(set(raw.execute("SELECT type, name, sql FROM sqlite_schema")))

    assert found[0] == found[1]


def test_the_record_of_a_migrated_bus_holds_and_goes_on(tmp_path: Path) -> None:
    theatre = RecordedHome(tmp_path / "home", "sqlite")
    name = PLAYS["running"](theatre)
    anchor = read_anchor(theatre.state(name))
    theatre.close()

    with closing(SqliteStore(tmp_path / "home", migrations=(MOOD, PACE))) as store:
        report = audit(store, name, anchor)
        assert (report.ok, report.steps > 0) == (True, True)
        epoch = store.own(name)
        last = store.load(name).transaction
        assert last is not None
        store.commit([commit(last.number + 1, epoch, name, steps=[step(last.steps + 1, last.number + 1)])])
        assert len(list(store.transactions(name))) == last.number + 1


def test_a_migration_that_fails_leaves_the_bus_as_it_was(home: Path) -> None:
    before = seen(home)

    assert "nothing of it was written" in refusal(home, MOOD, PACE + TWICE)

    assert version(home) == FIRST + 1  # the one before it stands
    assert seen(home, MOOD) == before
    with closing(sqlite3.connect(home / "bus.db")) as raw:
        assert raw.execute("SELECT name FROM sqlite_schema WHERE name = 'paces'").fetchall() == []


def test_a_process_that_is_killed_in_a_migration_leaves_the_bus_as_it_was(home: Path) -> None:
    before = seen(home)
    child = subprocess.Popen([sys.executable, "-c", OPEN, home, MOOD + ENDLESS])
    try:
        deadline = time.monotonic() + 30
        while not is_held(home):
            assert child.poll() is None
            assert time.monotonic() < deadline
    finally:
        child.kill()
        child.wait()

    assert version(home) == FIRST
    assert seen(home) == before
    assert seen(home, MOOD) == before


def is_held(home: Path) -> bool:
    """Whether a process is in the middle of a transaction."""
    with closing(sqlite3.connect(home / "bus.db", timeout=0, isolation_level=None)) as raw:
        try:
            raw.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        return False


def test_no_bus_is_migrated_while_a_process_owns_one_of_its_jobs(home: Path) -> None:
    with closing(SqliteStore(home)) as owner:
        owner.own("j1")
        with pytest.raises(Owned, match="works on job j1; end that one first"):
            SqliteStore(home, migrations=(MOOD,))
        owner.commit([commit(4, 2, steps=[step(4)])])
    assert version(home) == FIRST
    SqliteStore(home, migrations=(MOOD,)).close()
    assert version(home) == FIRST + 1


def test_a_process_of_an_older_version_writes_nothing_after_a_migration(home: Path) -> None:
    with closing(SqliteStore(home)) as older:
        SqliteStore(home, migrations=(MOOD,)).close()
        for act in (
            lambda: older.own("j1"),
            lambda: older.create(job("j2")),
            lambda: older.put("j1", "answer", "k2", 1.0, "ann", "{}"),
        ):
            with pytest.raises(BusError, match=f"a newer Parley has brought it to schema {FIRST + 1} meanwhile"):
                act()
        assert not older.owner_lives("j1")


def test_what_is_not_parleys_is_refused_before_a_migration(home: Path) -> None:
    with closing(sqlite3.connect(home / "bus.db")) as raw:
        raw.execute("CREATE TRIGGER helper AFTER INSERT ON steps BEGIN DELETE FROM inputs; END")

    assert "'helper' is not Parley's" in refusal(home, MOOD)
    assert version(home) == FIRST


def test_a_bus_that_is_to_be_adopted_is_not_migrated(home: Path, tmp_path: Path) -> None:
    copy = copy_bus(home, tmp_path / "copy")
    (copy / "bus.id").unlink()

    with pytest.raises(BusError, match="take it in with that one, then open it with this one"):
        SqliteStore(copy, stranger=True, migrations=(MOOD,))
    assert version(copy) == FIRST
