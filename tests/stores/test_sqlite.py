"""What only the SQLite bus has: a file, its schema, and all that can be wrong with it."""

import json
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parley.adapters.sqlite import PROTOCOL, SCHEMA, SqliteStore
from parley.core.states import Action, State
from parley.ports import BusError, Duplicate, Spent, TransactionRow
from tests.stores.rows import commit, everything, job, message, step, turn

ROWS = Path(__file__).with_name("schema_1.sql")
# What a bus of the second schema has besides, and a second job on it.
SECOND = """
ALTER TABLE steps ADD COLUMN extra TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN meta TEXT NOT NULL DEFAULT '';
CREATE INDEX turns_submitted ON turns (job) WHERE status = 'submitted';
INSERT INTO jobs VALUES ('j0', 'ann', 0.5, 1.0, 'INTENT', 1, 0, 0, 0, 'scripted');
INSERT INTO charters VALUES ('j0', 'it is done', '[]');
INSERT INTO owners VALUES ('j0', 2);
INSERT INTO commits VALUES ('j0', 1, 2.5, 2, 2, 1, 'head1'), ('j0', 2, 2.5, 2, 4, 2, 'head2');
INSERT INTO steps VALUES
    ('j0', 2, 2, 'wake', 'engine', 2.5, '{"a": "lead"}', '{}', '["Idle"]', '["Run"]', '{}'),
    ('j0', 1, 2, 'wake', 'engine', 2.5, '{"a": "lead"}', '{}', '["Idle"]', '["Run"]', '{}');
INSERT INTO messages VALUES
    ('j0', 1, 1, 'lead', 'state:j1/1', 'coder', 'dispatch:1', 1, 'key1', 2.5, 'text 1', '{}'),
    ('j0', 2, 1, 'lead', 'state:j1/1', 'coder', 'dispatch:2', 1, 'key2', 2.5, 'text 2', ''),
    ('j0', 3, 1, 'lead', 'state:j1/1', 'coder', 'dispatch:1', 2, 'key4', 2.5, 'text 3', '');
INSERT INTO molecules VALUES ('j0', 'a', '2'), ('j0', 'b', '3');
INSERT INTO turns VALUES (3, 'j0', 't9', 'coder', 'dispatch:1', 'text', 2, 'here', 'submitted', 3.5);
INSERT INTO turns VALUES (4, 'j0', 't10', 'coder', 'dispatch:1', 'text', 2, 'here', 'submitted', 3.5);
INSERT INTO inputs VALUES (2, 'j0', 'answer', 'k', 1.0, 'ann', '{}', 1, '');
PRAGMA user_version = 2;
"""


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
    to.mkdir()
    for name in ("bus.db", "bus.db-wal"):
        shutil.copy(home / name, to / name)
    return to


# ---- files


def test_looking_makes_nothing(tmp_path: Path) -> None:
    assert not SqliteStore.exists(tmp_path)
    assert not SqliteStore.exists(tmp_path / "none")
    assert list(tmp_path.iterdir()) == []
    SqliteStore(tmp_path).close()
    assert SqliteStore.exists(tmp_path)


def test_nobody_else_may_read_the_bus(tmp_path: Path, store: SqliteStore) -> None:
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
        assert connection.execute("PRAGMA user_version").fetchone() == (SCHEMA,)
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
            old = [(f"t{number - 1}", 1, "ended")] if number > first else []
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
    (tmp_path / "bus.db").write_bytes(b"no database at all" * 1000)
    assert "it is not a database" in refusal(lambda: SqliteStore(tmp_path))


def test_the_database_of_another_program(tmp_path: Path) -> None:
    raw(tmp_path, "CREATE TABLE t (x)")
    assert "another program's database" in refusal(lambda: SqliteStore(tmp_path))
    raw(tmp_path, "PRAGMA application_id = 1; PRAGMA user_version = 1")
    assert "another program's database" in refusal(lambda: SqliteStore(tmp_path))


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "bus.db").mkdir()
    assert "it can't be opened" in refusal(lambda: SqliteStore(tmp_path))


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
    raw(tmp_path, f"PRAGMA user_version = {SCHEMA + 1}")

    line = refusal(lambda: SqliteStore(tmp_path))
    assert f"newer Parley (schema {SCHEMA + 1}, this one knows {SCHEMA})" in line
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
        # Reading waits for nobody.
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


# ---- schemas


def shape(home: Path) -> list[tuple[object, ...]]:
    """Tables, columns and indexes, however they came about."""
    with closing(sqlite3.connect(home / "bus.db")) as connection:
        return connection.execute(
            'SELECT m.type, m.name, m.tbl_name, c.name, c.type, c."notnull", c.dflt_value, c.pk, c.hidden '
            "FROM sqlite_master m LEFT JOIN pragma_table_xinfo(m.name) c ORDER BY m.name, c.cid"
        ).fetchall()


def test_a_bus_of_the_first_schema_is_brought_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    raw(tmp_path / "old", ROWS.read_text())

    with (
        closing(SqliteStore(tmp_path / "old", protocol="p1")) as old,
        closing(SqliteStore(tmp_path / "new")) as new,
    ):
        loaded = old.load("j1")
        assert loaded.row == job()
        assert loaded.molecules == {"a": "1"}
        assert loaded.turns == (turn("t1", 4),)
        assert loaded.sequences == {("coder", "dispatch:1"): 1}
        assert list(old.steps("j1")) == [step(1)]
        assert list(old.messages("j1")) == [message(1)]
        assert [row.key for row in old.inputs("j1")] == ["k"]
        assert old.own("j1") == 5
        old.commit([commit(2, 5, steps=[step(2, extra="{}")], ended=[("t1", 4, "lost")])])
        assert new.jobs() == []
    assert shape(tmp_path / "old") == shape(tmp_path / "new")


def test_a_bus_of_the_second_schema_is_brought_up_to_date_with_all_its_rows(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    raw(tmp_path / "old", ROWS.read_text() + SECOND)

    with (
        closing(SqliteStore(tmp_path / "old", protocol="p1")) as old,
        closing(SqliteStore(tmp_path / "new")) as new,
    ):
        assert [row.job for row in old.jobs()] == ["j0", "j1"]
        assert list(old.steps("j0")) == [step(number, 2, extra="{}") for number in (1, 2)]
        assert list(old.steps("j1")) == [step(1)]
        assert list(old.messages("j0")) == [
            message(1, meta="{}"), message(2, thread="dispatch:2", seq=1), message(3, seq=2, key="key4"),
        ]  # fmt: skip
        assert list(old.turns("j0")) == [turn("t9", 2), turn("t10", 2)]
        assert list(old.transactions("j0")) == [TransactionRow(n, 2.5, 2, n * 2, n, f"head{n}") for n in (1, 2)]
        loaded = old.load("j0")
        assert loaded.row == job("j0", created=0.5, request="it is done", settings="[]")
        assert loaded.epoch == 2
        assert loaded.molecules == {"a": "2", "b": "3"}
        assert loaded.turns == (turn("t9", 2), turn("t10", 2))
        assert loaded.sequences == {("coder", "dispatch:1"): 2, ("coder", "dispatch:2"): 1}
        assert [row.taken for row in old.inputs("j0", waiting=False)] == [1]
        assert old.own("j0") == 3
        with pytest.raises(Duplicate):
            old.commit([commit(3, 3, "j0", messages=[message(4)])])
        old.commit([commit(3, 3, "j0", messages=[message(4, seq=3, key="k")], ended=[("t9", 2, "lost")])])
        assert old.load("j0").turns == (turn("t10", 2),)
        assert new.jobs() == []
    assert shape(tmp_path / "old") == shape(tmp_path / "new")


def test_what_jobs_of_the_third_schema_have_used_is_counted_when_it_is_brought_up_to_date(tmp_path: Path) -> None:
    usage = {"turns": 1.0, "input_tokens": 100.0, "output_tokens": 20.0, "cache_creation_tokens": 3.0, "cost_usd": 0.25}
    with closing(SqliteStore(tmp_path)) as store:
        for name, count in (("j1", 3), ("j2", 1)):
            store.create(job(name))
            store.own(name)
            steps = [
                step(number, rule="send-step", extra=json.dumps({"turn": f"t{number}", "usage": usage}))
                for number in range(1, count + 1)
            ]
            odd = [step(8, rule="nosend-step", extra='{"turn":"t1","usage":{"input_tokens":NaN}}'), step(9, extra="{}")]
            turns = [turn(f"t{number}") for number in range(1, count + 1)]
            store.commit([commit(1, name=name, steps=[*steps, *odd], started=turns)])
        store.create(job("j3"))
    raw(tmp_path, "DROP TABLE spending; ALTER TABLE messages DROP COLUMN kind; PRAGMA user_version = 3")

    with closing(SqliteStore(tmp_path)) as store:
        assert store.load("j1").spent == {"": Spent(3, 369, 750_000)}
        assert store.load("j2").spent == {"": Spent(1, 123, 250_000)}
        assert store.load("j3").spent == {}
        assert store.spent("") == Spent(4, 492, 1_000_000)
        store.own("j1")
        store.commit([commit(2, 2)._replace(spent=[("", Spent(0, 1)), ("mon", Spent(1))])])
        assert store.load("j1").spent == {"": Spent(3, 370, 750_000), "mon": Spent(1)}


def test_a_migration_that_fails_changes_nothing(tmp_path: Path) -> None:
    raw(tmp_path, ROWS.read_text())
    raw(tmp_path, "CREATE INDEX turns_submitted ON turns (turn)")
    before = shape(tmp_path)

    assert "turns_submitted already exists" in refusal(lambda: SqliteStore(tmp_path, protocol="p1"))

    assert shape(tmp_path) == before
    raw(tmp_path, "DROP INDEX turns_submitted")
    SqliteStore(tmp_path, protocol="p1").close()


def test_a_bus_whose_making_was_cut_short_is_made(tmp_path: Path) -> None:
    (tmp_path / "bus.db").touch()
    raw(tmp_path, "PRAGMA journal_mode = WAL")
    with closing(SqliteStore(tmp_path)) as store:
        fill(store)
        assert [row.job for row in store.jobs()] == ["j1"]
