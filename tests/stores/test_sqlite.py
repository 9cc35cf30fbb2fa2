"""What only the SQLite bus has: a file, its schema, and all that can be wrong with it."""

import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parley.bus import key_files
from parley.bus.rows import PROTOCOL, BusError
from parley.bus.sqlite import safe_open
from parley.bus.sqlite.bus_schema import latest
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.protocol.states import Action, State
from tests.copied_homes import copy_bus
from tests.stores.rows import commit, end, everything, job, message, step, turn


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(tmp_path)
    yield store
    store.close()


def fill(store: SqliteStore, first: int = 1, last: int = 3) -> None:
    """Commit some turns of j1, made and owned at the first."""
    if first == 1:
        store.create(job())
        store.own("j1")
    for number in range(first, last + 1):
        store.commit(
            [
                commit(
                    number,
                    steps=[step(number, number)],
                    messages=[message(number, number)],
                    molecules={"a": "1"},
                )
            ]
        )


def numbers(store: SqliteStore) -> list[int]:
    return [row.number for row in store.steps("j1")]


def refusal(act: Callable[[], object]) -> str:
    """Show the one line that refuses it."""
    with pytest.raises(BusError) as refused:
        act()
    assert "\n" not in str(refused.value)
    return str(refused.value)


def raw(home: Path, sql: str) -> None:
    """Write past the store, as another program could."""
    with closing(sqlite3.connect(home / "bus.db")) as connection:
        connection.executescript(sql)


def copy_of(home: Path, to: Path) -> Path:
    """Take the files as a crash would leave them: the log is not in the database yet."""
    return copy_bus(home, to, "bus.db-wal")


# ---- files


def test_looking_makes_nothing(tmp_path: Path) -> None:
    assert not SqliteStore.exists(tmp_path)
    assert not SqliteStore.exists(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
    SqliteStore(tmp_path).close()
    assert SqliteStore.exists(tmp_path)


def test_no_other_user_may_read_the_bus(tmp_path: Path, store: SqliteStore) -> None:
    before = os.umask(0)
    try:
        fill(store)
    finally:
        os.umask(before)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert modes.pop("locks") == 0o700
    assert {"bus.db", "bus.db-wal", "bus.db-shm", "j1.lock"} <= set(modes)
    assert set(modes.values()) == {0o600}


def test_settings_of_the_file(tmp_path: Path, store: SqliteStore) -> None:
    assert store._get("synchronous") == 2
    with closing(sqlite3.connect(tmp_path / "bus.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("PRAGMA user_version").fetchone() == (latest(),)
    with closing(SqliteStore(tmp_path, durability="normal")) as other:
        assert other._get("synchronous") == 1


def test_opening_and_listing_is_quick(tmp_path: Path, store: SqliteStore) -> None:
    fill(store)
    store.close()
    spent = []
    for _ in range(10):
        before = time.perf_counter()
        with closing(SqliteStore(tmp_path)) as again:
            assert len(again.jobs()) == 1
        spent.append(time.perf_counter() - before)
    assert min(spent) < 0.005


def test_steps_messages_and_commits_are_only_ever_added(tmp_path: Path, store: SqliteStore) -> None:
    fill(store)
    for sql in (
        "UPDATE steps SET produced = ''", "UPDATE messages SET body = ''", "UPDATE commits SET head = ''",
        "DELETE FROM steps", "DELETE FROM messages", "DELETE FROM commits",
    ):  # fmt: skip
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw(tmp_path, sql)
    assert numbers(store) == [1, 2, 3]


def test_loading_reads_no_more_of_a_long_conversation(store: SqliteStore) -> None:
    """Told by SQLite's own instructions: their number does not depend on the machine's load."""
    fill(store, 1, 1)
    counts = []
    for last in (10, 500):
        first = list(store.transactions("j1"))[-1].number + 1
        for number in range(first, last + 1):
            old = [end(f"t{number - 1}", 1, "ended")] if number > first else []
            new = [] if number == last else [turn(f"t{number}")]
            rows = [message(number, 1, thread=f"dispatch:{number % 2}")]
            store.commit([commit(number, messages=rows, steps=[step(number)], started=new, ended=old)])
        counts.append(instructions(store, lambda: store.load("j1")))

    assert counts[0] == counts[1]


def instructions(store: SqliteStore, act: Callable[[], object]) -> int:
    """How many instructions of its machine SQLite needs for this."""
    count = 0

    def tick() -> int:
        nonlocal count
        count += 1
        return 0

    store._connection.set_progress_handler(tick, 1)
    act()
    store._connection.set_progress_handler(None, 1)
    return count


def test_the_sequences_of_many_recipients(store: SqliteStore) -> None:
    fill(store, 1, 1)
    places = [(f"a{n % 7}", f"t{n % 5}", n) for n in range(2, 200)]
    rows = [message(n, 2, agent=agent, thread=thread, seq=n) for agent, thread, n in places]
    store.commit([commit(2, messages=rows)])

    last = {(agent, thread): n for agent, thread, n in places}
    assert store.load("j1").sequences == {**last, ("coder", "dispatch:1"): 1}


# ---- what can be wrong


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert "there is no such folder" in refusal(lambda: SqliteStore(tmp_path / "none"))
    (tmp_path / "file").touch()
    assert "there is no such folder" in refusal(lambda: SqliteStore(tmp_path / "file"))


def test_a_durability_that_is_not_known(tmp_path: Path) -> None:
    assert "it is one of: full, normal" in refusal(lambda: SqliteStore(tmp_path, durability="none"))


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    safe_open.make(tmp_path)
    (tmp_path / "bus.db").write_bytes(b"no database at all" * 1000)
    assert "it is not a database" in refusal(lambda: SqliteStore(tmp_path))


def test_the_database_of_another_program(tmp_path: Path) -> None:
    safe_open.make(tmp_path)
    raw(tmp_path, "CREATE TABLE t (x)")
    assert "another program's database" in refusal(lambda: SqliteStore(tmp_path))
    raw(tmp_path, "PRAGMA application_id = 1; PRAGMA user_version = 1")
    assert "another program's database" in refusal(lambda: SqliteStore(tmp_path))


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "bus.db").mkdir()
    assert "this is no ordinary file" in refusal(lambda: SqliteStore(tmp_path))


def test_a_damaged_file(tmp_path: Path, store: SqliteStore) -> None:
    fill(store)
    store.close()
    with (tmp_path / "bus.db").open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (os.fstat(file.fileno()).st_size - 4096))

    def read() -> None:
        with closing(SqliteStore(tmp_path)) as damaged:  # some versions of SQLite find it here
            damaged.jobs()

    assert "it is damaged" in refusal(read)


def test_a_newer_schema(tmp_path: Path, store: SqliteStore) -> None:
    store.close()
    raw(tmp_path, f"PRAGMA user_version = {latest() + 1}")

    line = refusal(lambda: SqliteStore(tmp_path))
    assert f"newer Parley (schema {latest() + 1}, this one knows {latest()})" in line
    assert "update Parley" in line


def test_another_version_of_the_protocol(tmp_path: Path, store: SqliteStore) -> None:
    store.close()

    line = refusal(lambda: SqliteStore(tmp_path, protocol="ids 2"))
    assert f"another version of the protocol ({PROTOCOL}) than this Parley (ids 2)" in line
    assert "finish them with the Parley that began them" in line


def test_the_protocols_version_names_the_states_and_actions() -> None:
    assert f"states {' '.join(State)}; actions {' '.join(Action)}" in PROTOCOL


def test_a_bus_that_another_holds(tmp_path: Path, store: SqliteStore) -> None:
    fill(store)
    holder = sqlite3.connect(tmp_path / "bus.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with closing(SqliteStore(tmp_path, busy_seconds=0.05)) as other:
        line = refusal(lambda: other.put("j1", "answer", "k", 1.0, "ann", "{}"))
        assert "another process holds the bus" in line
        # Reading waits for no writer.
        assert numbers(other) == [1, 2, 3]
        holder.execute("ROLLBACK")
        holder.close()
        assert other.put("j1", "answer", "k", 1.0, "ann", "{}") == 1


def test_a_full_disk_leaves_what_was_committed(tmp_path: Path, store: SqliteStore) -> None:
    fill(store)
    before = everything(store)
    pages = store._get("page_count")
    store._set("max_page_count", str(pages + 2))

    line = refusal(lambda: store.commit([commit(4, steps=[step(4, 4, produced="x" * 100_000)])]))

    assert "the disk is full" in line
    assert everything(store) == before
    store._set("max_page_count", "1000000")
    fill(store, 4, 4)
    with closing(SqliteStore(tmp_path)) as other:
        assert numbers(other) == [1, 2, 3, 4]


@pytest.mark.parametrize("value", ["\ud800", 2**64, float("nan"), None, object()])
def test_a_value_that_a_row_can_not_hold(store: SqliteStore, value: object) -> None:
    fill(store)
    before = everything(store)

    assert "nothing of it was written" in refusal(
        lambda: store.commit([commit(4, steps=[step(4), step(5, time=value)])])
    )
    assert everything(store) == before
    fill(store, 4, 4)


def test_a_log_that_was_cut_loses_the_last_commits_only(tmp_path: Path, store: SqliteStore) -> None:
    fill(store)
    length = (tmp_path / "bus.db-wal").stat().st_size
    fill(store, 4, 4)
    grown = (tmp_path / "bus.db-wal").stat().st_size
    for number, size in enumerate((length, length + 1, (length + grown) // 2, grown - 1, grown)):
        copy = copy_of(tmp_path, tmp_path / f"copy{number}")
        os.truncate(copy / "bus.db-wal", size)
        with closing(SqliteStore(copy)) as other:
            assert numbers(other) == ([1, 2, 3, 4] if size == grown else [1, 2, 3])
            assert other.load("j1").transaction is not None


def test_a_log_with_a_damaged_frame_loses_what_follows_only(tmp_path: Path, store: SqliteStore) -> None:
    fill(store)
    length = (tmp_path / "bus.db-wal").stat().st_size
    fill(store, 4, 5)
    copy = copy_of(tmp_path, tmp_path / "copy")
    with (copy / "bus.db-wal").open("r+b") as file:
        file.seek(length + 100)
        file.write(b"\xff" * 100)

    with closing(SqliteStore(copy)) as other:
        assert numbers(other) == [1, 2, 3]


def test_a_bus_whose_making_was_cut_short_is_made(tmp_path: Path) -> None:
    """A crash may come before the key, before the identity, and before the schema."""
    (tmp_path / "bus.db").touch()
    SqliteStore(tmp_path).close()
    keyless = tmp_path / "keyless"
    keyless.mkdir()
    (keyless / "bus.db").touch()
    key_files.make(str(keyless), (keyless / "bus.db").stat().st_ino)
    SqliteStore(keyless).close()
    empty = tmp_path / "empty"
    empty.mkdir()
    safe_open.make(empty)
    raw(empty, "PRAGMA journal_mode = WAL")
    with closing(SqliteStore(empty)) as store:
        fill(store)
        assert [row.job for row in store.jobs()] == ["j1"]
