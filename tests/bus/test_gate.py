"""A bus is opened where this user made it, as Parley made it, and nowhere else."""

import json
import os
import pwd
import shutil
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from parley.bus import key_files
from parley.bus.rows import BusError
from parley.bus.sqlite import bus_schema
from parley.bus.sqlite.quick_read import glance
from parley.bus.sqlite.sqlite_store import SqliteStore
from tests.copied_homes import bind, copy_bus
from tests.stores.rows import commit, job, step


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a job on its bus."""
    folder = tmp_path / ".parley"
    folder.mkdir()
    with closing(SqliteStore(folder)) as store:
        store.create(job())
        store.own("j1")
        store.commit([commit(1, steps=[step(1)])])
    return folder


def refused(home: Path) -> str:
    """The one line by which the store refuses a home; a quick look refuses it too."""
    with pytest.raises(BusError) as error:
        SqliteStore(home).close()
    line = str(error.value)
    assert "\n" not in line
    with pytest.raises((ValueError, sqlite3.Error, OSError)):
        glance(home)
    return line


def change(home: Path, *statements: str) -> None:
    with closing(sqlite3.connect(home / "bus.db", isolation_level=None)) as raw:
        for statement in statements:
            raw.execute(statement)


# ---- where it was made ---------------------------------------------------------------------------


def test_a_bus_whose_key_is_not_here_came_with_a_clone(home: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    clone.mkdir()
    shutil.copy(home / "bus.db", clone)  # as one that was committed by an older Parley, or by a stranger
    assert "it came with a clone" in refused(clone)
    (clone / "bus.id").write_text("0" * 32)
    assert "it came with a clone" in refused(clone)
    (clone / "bus.id").write_text("../../../etc/passwd\n")
    assert "it came with a clone" in refused(clone)
    assert (clone / "bus.db").read_bytes() == (home / "bus.db").read_bytes()


def test_a_bus_that_was_copied_moved_or_put_back_is_not_the_one_that_was_made(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(home, copy)
    assert f"moved, copied or restored (it was made in {home})" in refused(copy)
    shutil.copy(home / "bus.db", home / "draft")
    (home / "draft").rename(home / "bus.db")
    assert "its file is another than was made" in refused(home)
    SqliteStore(bind(home)).close()


def test_another_bus_in_the_same_file_is_not_the_one_that_was_made(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    SqliteStore(other).close()
    (home / "bus.db").write_bytes((other / "bus.db").read_bytes())  # the same inode
    assert "moved, copied or restored" in refused(home)


def test_a_key_that_is_not_the_users_alone_or_damaged_opens_nothing(home: Path) -> None:
    path = key_files.folder() / (home / "bus.id").read_text().strip()
    whole = path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    assert "yours alone" in refused(home)
    path.chmod(0o600)
    for text in ("", "[]", "{}", whole[:-5], json.dumps({**json.loads(whole), "inode": "1"}), "[" * 9999):
        path.write_text(text)
        assert "damaged" in refused(home)
    path.write_text(whole)
    SqliteStore(home).close()


def test_an_account_without_a_home_is_told_what_to_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "")
    monkeypatch.setattr(pwd, "getpwuid", lambda number: {}[number])
    with pytest.raises(BusError, match="set XDG_STATE_HOME to a folder of yours"):
        SqliteStore(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/none")
    with pytest.raises(BusError, match="set XDG_STATE_HOME to a folder of yours"):
        SqliteStore(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    SqliteStore(tmp_path).close()  # what the failed ones left is no hindrance


# ---- folders and files ---------------------------------------------------------------------------


@pytest.mark.parametrize("whole", [True, False])
def test_a_link_named_like_the_home_is_refused(home: Path, tmp_path: Path, whole: bool) -> None:
    link = tmp_path / "repository" / ".parley"
    link.parent.mkdir()
    link.symlink_to(home if whole else tmp_path / "nowhere")
    if whole:
        assert "can't be a link" in refused(link)
    with pytest.raises(BusError, match="can't be a link"):
        SqliteStore.exists(link)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["bus.db", "bus.db-wal", "bus.db-shm", "bus.db-journal", "bus.id", "locks", "jobs",
                                  "reserve", ".gitignore", "anything"])  # fmt: skip
def test_nothing_of_a_bus_is_reached_through_a_link(home: Path, tmp_path: Path, name: str) -> None:
    away = tmp_path / "away"
    path = home / name
    if path.exists():
        path.rename(away)
    else:
        away.write_bytes(b"")
    path.symlink_to(away)
    assert "link" in refused(home)


@pytest.mark.parametrize("name", ["bus.db", "bus.db-wal", "bus.id"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(home: Path, name: str) -> None:
    (home / name).unlink(missing_ok=True)
    os.mkfifo(home / name)
    assert "no ordinary file" in refused(home)


def test_a_link_or_a_pipe_that_came_along_is_refused_before_a_bus_is_made(tmp_path: Path) -> None:
    (tmp_path / "later").symlink_to("/")
    with pytest.raises(BusError, match="this is a link, and a home has none"):
        SqliteStore(tmp_path)
    (tmp_path / "later").unlink()
    os.mkfifo(tmp_path / "later")
    with pytest.raises(BusError, match="neither a file nor a folder"):
        SqliteStore(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["later"]


def test_a_bus_that_was_cut_off_is_not_begun_anew(home: Path) -> None:
    (home / "jobs" / "j1").mkdir(parents=True)
    os.truncate(home / "bus.db", 0)
    for path in (home / "bus.db-wal", home / "bus.db-shm"):
        path.unlink(missing_ok=True)
    assert "it is empty, and jobs/ is not" in refused(home)
    assert (home / "bus.db").stat().st_size == 0


def test_a_bus_that_has_another_name_elsewhere_is_refused(home: Path, tmp_path: Path) -> None:
    (tmp_path / "other").hardlink_to(home / "bus.db")
    assert "another name elsewhere" in refused(home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_bus_of_another_user_is_refused(home: Path) -> None:
    os.chown(home / "bus.db", 65534, 65534)
    assert "belongs to" in refused(home)
    os.chown(home / "bus.db", 0, 0)
    os.chown(home, 65534, 65534)
    assert "work as that user, or name a home of your own with PARLEY_HOME" in refused(home)


def test_a_home_that_others_could_read_becomes_private(home: Path) -> None:
    home.chmod(0o777)
    (home / "bus.db").chmod(0o666)
    SqliteStore(home).close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert stat.S_IMODE((home / "bus.db").stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["jobs/x/snapshots.git/hooks", "locks", "bases", ".git/hooks"])
def test_no_bus_is_made_among_files_that_came_along(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir(parents=True)
    with pytest.raises(BusError, match="there is no bus of yours, but"):
        SqliteStore(tmp_path)
    assert not (tmp_path / "bus.db").exists()


def test_a_bus_that_the_user_has_deleted_is_made_anew(home: Path) -> None:
    for path in home.glob("bus.db*"):
        path.unlink()
    (home / "jobs").mkdir()
    with closing(SqliteStore(home)) as store:
        assert store.jobs() == []


# ---- the schema ----------------------------------------------------------------------------------

FORGE = "INSERT INTO inputs (job, kind, key, time, by, body) VALUES ('j1', 'answer', 'k', 1.0, 'ann', '{}')"
CHANGES: dict[str, list[str]] = {
    "a trigger": [f"CREATE TRIGGER helper AFTER INSERT ON messages BEGIN {FORGE}; END"],
    "another trigger of a known name": [
        "DROP TRIGGER steps_are_not_updated",
        f"CREATE TRIGGER steps_are_not_updated BEFORE UPDATE ON steps BEGIN {FORGE}; END",
    ],
    "a trigger that is gone": ["DROP TRIGGER commits_are_not_deleted"],
    "a view": ["CREATE VIEW answers AS SELECT * FROM inputs"],
    "a view in a table's place": [
        "ALTER TABLE spending RENAME TO spent",
        "CREATE VIEW spending AS SELECT * FROM spent",
    ],
    "a table": ["CREATE TABLE more (x)"],
    "a virtual table": ["CREATE VIRTUAL TABLE words USING fts5(x)"],
    "a column": ["ALTER TABLE inputs ADD COLUMN trusted INTEGER DEFAULT 1"],
    "a generated column": ["ALTER TABLE inputs ADD COLUMN way TEXT GENERATED ALWAYS AS (upper(body)) VIRTUAL"],
    "an index": ["CREATE INDEX inputs_by ON inputs (by)"],
    "an index over an expression": ["CREATE INDEX inputs_by ON inputs (upper(body))"],
    "statistics": ["ANALYZE"],
    "a check": [
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'taken INTEGER', 'taken INTEGER CHECK (1)') WHERE name = 'inputs'",
    ],
    "a collation": [
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_schema SET sql = replace(sql, 'by TEXT', 'by TEXT COLLATE NOCASE') WHERE name = 'inputs'",
    ],
    "two tables in one place": [
        "PRAGMA writable_schema = ON",
        (
            "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'steps')"
            " WHERE name = 'messages'"
        ),
    ],
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_schema_that_is_not_parleys_is_refused_before_a_row_is_read(home: Path, what: str) -> None:
    change(home, *CHANGES[what])
    line = refused(home)
    assert "another hand has changed this bus" in line or "it is damaged" in line


def test_a_new_bus_holds_what_is_compared_and_nothing_else(home: Path) -> None:
    with closing(sqlite3.connect(home / "bus.db")) as raw:
        bus_schema.check_schema(raw, home, bus_schema.latest())
        made = raw.execute("SELECT count(*) FROM sqlite_schema WHERE sql IS NOT NULL").fetchone()[0]
    assert made == sum(
        1 for script in (bus_schema.SCRIPT, *bus_schema.MIGRATIONS) for _ in bus_schema.statements(script)
    )


def test_a_log_that_came_along_is_compared_too(home: Path, tmp_path: Path) -> None:
    """What a write-ahead log adds to the schema counts as what is in the file."""
    raw = sqlite3.connect(home / "bus.db", isolation_level=None)
    raw.execute(f"CREATE TRIGGER helper AFTER INSERT ON messages BEGIN {FORGE}; END")
    copy = copy_bus(home, tmp_path / "copy", "bus.db-wal")
    raw.close()
    assert "'helper' is not Parley's" in refused(copy)


# ---- signatures ----------------------------------------------------------------------------------


def test_an_input_is_authentic_only_as_it_was_left(home: Path) -> None:
    with closing(SqliteStore(home)) as store:
        store.put("j1", "answer", "k", 1.0, "ann", '{"a": 1}')
        (row,) = store.inputs("j1")
        assert store.authentic(row) is True
        changed: list[Callable[[], object]] = []
        for column, value in (
            ("job", "j2"), ("kind", "withdraw"), ("key", "k2"), ("time", 2.0), ("by", "eve"), ("body", "{}"),
            ("signature", ""), ("signature", row.signature[::-1]), ("body", b"x"), ("signature", None),
        ):  # fmt: skip
            changed.append(lambda column=column, value=value: store.authentic(replace(row, **{column: value})))  # type: ignore[misc]  # a lambda with defaults
        assert [each() for each in changed] == [False] * len(changed)
        assert store.authentic(replace(row, kind="answerk", key="")) is False  # nothing moves to the next column


def test_a_transaction_that_another_program_wrote_has_no_seal(home: Path) -> None:
    with closing(SqliteStore(home)) as store:
        assert store.unsealed("j1") == 0
    change(
        home,
        "INSERT INTO commits (id, time, epoch, steps, messages, head, digests, seal) SELECT id + 1, time, epoch,"
        " steps, messages, head, digests, seal FROM commits",
    )
    with closing(SqliteStore(home)) as store:
        assert store.unsealed("j1") == 2


LOOKS = """
import sys
from pathlib import Path
from parley.bus.sqlite.safe_open import admit
from parley.bus.sqlite.sqlite_store import SqliteStore
print("ready", flush=True)
for name in sys.stdin:
    home, key = Path(name.strip()), None
    while key is None:
        key = admit(home)
    SqliteStore(home).close()
    print("seen", flush=True)
"""


def test_a_home_that_is_being_made_is_refused_by_no_other_process(tmp_path: Path) -> None:
    looking = subprocess.Popen(
        [sys.executable, "-c", LOOKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert looking.stdin is not None
    assert looking.stdout is not None
    assert looking.stdout.readline() == "ready\n"
    for number in range(30):
        home = tmp_path / f"home{number}"
        home.mkdir(mode=0o700)
        print(home, file=looking.stdin, flush=True)
        SqliteStore(home).close()
        assert looking.stdout.readline() == "seen\n", looking.communicate()[1]
    looking.communicate()
    assert looking.returncode == 0


def test_a_bus_that_changes_while_it_is_looked_at_is_not_taken_in(home: Path) -> None:
    with closing(SqliteStore(home, stranger=True)) as store:
        change(home, "UPDATE jobs SET decider = 'another'")  # after the audit, before the user's word
        with pytest.raises(BusError, match="another process wrote to it while it was looked at"):
            store.adopt()
    with closing(SqliteStore(home, stranger=True)) as store:
        store.adopt()
        assert store.unsealed("j1") == 0
