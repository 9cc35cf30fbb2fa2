"""Who owns a job on a server: a lease by the server's clock, and an epoch; and how a store hears of others."""

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from parley.bus.postgres.postgres_store import PostgresStore
from parley.bus.rows import BusError, Duplicate, LostOwnership, Owned
from tests.postgres_server import Bus, Server
from tests.stores.child import Process
from tests.stores.rows import commit, job, message, step

LEASE = 1.0  # seconds
PATIENCE = 30.0
Start = Callable[[], Process]


@pytest.fixture
def bus(postgres: Server, tmp_path: Path) -> Bus:
    return Bus(postgres, tmp_path)


@pytest.fixture
def store(bus: Bus) -> Iterator[PostgresStore]:
    with closing(bus.open(lease_seconds=LEASE)) as store:
        store.create(job())
        yield store


@pytest.fixture
def start(bus: Bus, postgres: Server) -> Iterator[Start]:
    """Start processes with a store of their own."""
    begun: list[Process] = []

    def start() -> Process:
        begun.append(Process(bus.home, f"url={postgres.url}", f"key={bus.key.id}", f"lease={LEASE}"))
        assert begun[-1].opened == "open"
        return begun[-1]

    yield start
    for process in begun:
        process.end()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_lease_is_renewed_for_as_long_as_its_owner_lives(bus: Bus, store: PostgresStore) -> None:
    store.own("j1")
    before = expiry(bus)
    until(lambda: expiry(bus) > before + LEASE)  # by the server's clock it would have ended
    with closing(bus.open()) as other, pytest.raises(Owned, match="j1 has a living owner"):
        other.own("j1")
    store.commit([commit()])


def test_a_lease_is_renewed_by_a_process_that_has_more_files_open_than_select_knows(
    bus: Bus, store: PostgresStore
) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], 4096), limits[1]))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        store.own("j1")
        before = expiry(bus)
        until(lambda: expiry(bus) > before + LEASE)
    finally:
        for file in files:
            os.close(file)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def expiry(bus: Bus) -> float:
    with closing(bus.session()) as session:
        found = session.execute("SELECT extract(epoch FROM max(expires))::float8 FROM leases").fetchone()
    assert found is not None
    return float(found[0])


def test_an_owner_that_is_killed_loses_its_job_within_seconds(store: PostgresStore, start: Start) -> None:
    owner = start()
    assert owner.ask("own", "j1") == "1"
    assert owner.ask("commit", "j1", 1, 1, 3) == "done"
    owner.signal(signal.SIGKILL)

    until(lambda: not store.owner_lives("j1"))

    assert store.own("j1") == 2
    store.commit([commit(4, 2)])
    assert [row.number for row in store.transactions("j1")] == [1, 2, 3, 4]


def test_an_owner_that_was_suspended_can_commit_nothing_after_it_was_taken_over(
    store: PostgresStore, start: Start
) -> None:
    owner = start()
    assert owner.ask("own", "j1") == "1"
    owner.signal(signal.SIGSTOP)
    until(lambda: not store.owner_lives("j1"))
    assert store.own("j1") == 2
    owner.signal(signal.SIGCONT)

    said = owner.ask("commit", "j1", 1, 1, 1)

    assert said.startswith("LostOwnership: another owner has taken the job (j1)")
    assert list(store.transactions("j1")) == []
    store.commit([commit(1, 2)])
    assert owner.ask("own", "j1").startswith("Owned: job j1 has a living owner")


def test_a_lease_that_has_ended_lets_nothing_be_committed_though_no_other_took_the_job(
    bus: Bus, store: PostgresStore
) -> None:
    with closing(bus.open()) as owner:
        owner.own("j1")
        with closing(bus.session()) as session:
            session.execute("UPDATE leases SET expires = clock_timestamp()")
        with pytest.raises(LostOwnership, match="lease has ended; nothing was written"):
            owner.commit([commit(steps=[step(1)])])
    assert list(store.steps("j1")) == []


def test_a_commit_that_was_on_its_way_when_the_lease_ended_writes_nothing(bus: Bus, store: PostgresStore) -> None:
    faults: list[BusError] = []
    with closing(bus.open(lease_seconds=600.0)) as owner, closing(bus.session()) as session:
        owner.own("j1")

        def go_on() -> None:
            try:
                owner.commit([commit(steps=[step(1)])])
            except BusError as fault:
                faults.append(fault)

        def waits() -> bool:
            return bool(
                session.execute("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'relation'").fetchall()
            )

        late = threading.Thread(target=go_on)
        with store.alone():
            late.start()
            until(waits)  # the server has the statement, and holds it back
            session.execute("UPDATE leases SET expires = clock_timestamp()")
        late.join()

        assert [type(fault) for fault in faults] == [LostOwnership]
        assert list(store.steps("j1")) == []
        assert store.own("j1") == 2


def test_owners_whose_leases_have_ended_take_each_others_jobs_over_and_none_waits_for_ever(
    bus: Bus, store: PostgresStore
) -> None:
    """As after a server was down for longer than a lease."""
    said: list[object] = []
    with (
        closing(bus.open(lease_seconds=600.0)) as one,
        closing(bus.open(lease_seconds=600.0)) as other,
        closing(bus.session()) as session,
    ):
        store.create(job("j2"))
        one.own("j1")
        other.own("j2")

        def take(owner: PostgresStore, name: str) -> None:
            try:
                said.append(owner.own(name))
            except BusError as refused:
                said.append(type(refused))

        def waiting() -> int:
            found = session.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
            return int(found[0]) if found is not None else 0

        threads = [threading.Thread(target=take, args=given) for given in ((other, "j1"), (one, "j2"))]
        session.execute("UPDATE leases SET expires = clock_timestamp()")
        with session.transaction():
            session.execute("SELECT 1 FROM leases WHERE owner = %s FOR UPDATE", (one.owner,))
            for number, thread in enumerate(threads, 1):
                thread.start()
                until(lambda number=number: waiting() == number)  # type: ignore[misc]  # a default
        for thread in threads:
            thread.join()
    assert sorted(map(str, said)) in (["2", "2"], ["2", str(Owned)])


def test_a_job_that_is_given_up_is_free_at_once(bus: Bus, store: PostgresStore) -> None:
    with closing(bus.open(lease_seconds=600.0)) as owner:
        owner.own("j1")
        owner.disown("j1")
        assert store.own("j1") == 2
        store.disown("j1")
        assert owner.own("j1") == 3
    assert store.own("j1") == 4


def test_a_clients_clock_makes_no_difference(bus: Bus, store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    true = time.time
    monkeypatch.setattr(time, "time", lambda: true() + 600.0)
    store.own("j1")
    monkeypatch.setattr(time, "time", lambda: true() - 600.0)
    with closing(bus.open()) as other:
        assert other.owner_lives("j1")
        with pytest.raises(Owned):
            other.own("j1")
    store.commit([commit()])


def test_one_of_many_stores_that_race_for_a_job_gets_it(bus: Bus, store: PostgresStore) -> None:
    stores = [bus.open() for _ in range(6)]
    epochs: list[int] = []
    gate = threading.Barrier(len(stores))

    def race(one: PostgresStore) -> None:
        gate.wait()
        with suppress(Owned):
            epochs.append(one.own("j1"))

    threads = [threading.Thread(target=race, args=(one,)) for one in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert epochs == [1]
    for one in stores:
        one.close()


def test_a_forked_child_does_not_own(store: PostgresStore, start: Start) -> None:
    owner = start()
    assert owner.ask("own", "j1") == "1"
    assert owner.ask("fork-commit", "j1", 1) == "7"
    assert owner.ask("commit", "j1", 1, 1, 1) == "done"  # its connection is as it was


def test_a_waiting_store_is_woken_by_what_another_writes(bus: Bus, store: PostgresStore) -> None:
    heard = threading.Event()
    with closing(bus.open()) as waiting:
        waiting.call_on_notice(heard.set)
        waiting.changed()
        store.put("j1", "answer", "k", 1.0, "ann", "{}")
        assert heard.wait(PATIENCE)
        assert waiting.changed()
        assert not waiting.changed()
        heard.clear()
        waiting.put("j1", "answer", "k2", 1.0, "ann", "{}")  # what it writes itself is no news
        store.put("j1", "answer", "k3", 1.0, "ann", "{}")
        assert heard.wait(PATIENCE)


def test_asking_whether_something_changed_asks_nothing_of_the_server(bus: Bus, store: PostgresStore) -> None:
    store.changed()
    with store._server.lock:  # no other call of the store can go on
        done = threading.Thread(target=lambda: [store.changed() for _ in range(1000)])
        done.start()
        done.join(PATIENCE)
        assert not done.is_alive()


# ---- what another hand does


def test_rows_of_the_record_are_only_ever_added(bus: Bus, store: PostgresStore) -> None:
    store.own("j1")
    number = store.put("j1", "answer", "k", 1.0, "ann", "{}")
    store.commit([commit(steps=[step(1)], messages=[message(1)])])
    store.commit([commit(2, taken=[])])
    with closing(bus.session()) as session:
        session.execute("UPDATE inputs SET taken = 1 WHERE number = %s", (number,))
        for statement in (
            "UPDATE steps SET produced = ''", "UPDATE messages SET body = ''", "UPDATE commits SET head = ''",
            "DELETE FROM steps", "DELETE FROM messages", "DELETE FROM commits", "TRUNCATE steps",
            "UPDATE inputs SET note = 'x'",
        ):  # fmt: skip
            with pytest.raises(Exception, match=r"append-only|taken once"):
                session.execute(statement)
    assert [row.number for row in store.steps("j1")] == [1]


@pytest.mark.parametrize(
    "change, named",
    [
        ("CREATE TRIGGER helper AFTER INSERT ON steps EXECUTE FUNCTION refuse_change()",
         "'steps.helper' is not Parley's"),
        ("ALTER TABLE steps DISABLE TRIGGER steps_are_not_changed", "'steps.steps_are_not_changed' is not Parley's"),
        ("DROP TRIGGER steps_are_not_changed ON steps", "trigger steps.steps_are_not_changed is missing"),
        ("CREATE RULE quiet AS ON INSERT TO inputs DO INSTEAD NOTHING", "'inputs.quiet' is not Parley's"),
        ("CREATE VIEW more AS SELECT 1 AS x", "'more.x' is not Parley's"),
        ("CREATE OR REPLACE FUNCTION begin_write(p_version integer) RETURNS void LANGUAGE sql AS 'SELECT'",
         "'begin_write' is not Parley's"),
        ("ALTER TABLE steps ADD COLUMN x text", "'steps.x' is not Parley's"),
        ("DROP INDEX inputs_waiting", "index inputs_waiting is missing"),
    ],
)  # fmt: skip
def test_a_bus_that_another_hand_has_changed_is_not_read(bus: Bus, change: str, named: str) -> None:
    with closing(bus.session()) as session:
        session.execute(change)
    with pytest.raises(BusError, match="another hand has changed this bus") as refused:
        bus.open()
    assert named in str(refused.value)


# ---- versions


MOOD = "ALTER TABLE steps ADD COLUMN mood text NOT NULL DEFAULT '';"


def test_a_bus_is_migrated_while_no_process_owns_a_job(bus: Bus, store: PostgresStore) -> None:
    store.own("j1")
    store.commit([commit(steps=[step(1)])])
    with pytest.raises(Owned, match="works on job j1; end that one first"):
        bus.open(migrations=(MOOD,))
    store.disown("j1")
    with closing(bus.open(migrations=(MOOD,))) as newer:
        assert [row.number for row in newer.steps("j1")] == [1]
    for act in (
        lambda: store.own("j1"),
        lambda: store.create(job("j2")),
        lambda: store.put("j1", "answer", "k2", 1.0, "ann", "{}"),
    ):
        with pytest.raises(BusError, match="another Parley has brought it to schema 2 meanwhile"):
            act()
    with pytest.raises(BusError, match=r"written by a newer Parley \(schema 2, this one knows 1\)"):
        bus.open()


def test_processes_that_come_first_at_once_migrate_a_bus_once(bus: Bus, store: PostgresStore) -> None:
    made: list[PostgresStore] = []
    faults: list[BusError] = []
    gate = threading.Barrier(4)

    def come() -> None:
        gate.wait()
        try:
            made.append(bus.open(migrations=(MOOD,)))
        except BusError as fault:
            faults.append(fault)

    threads = [threading.Thread(target=come) for _ in range(gate.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert [newer.schema_version for newer in made] == [2] * gate.parties
    assert made[0].own("j1") == 1
    for newer in made:
        newer.close()


def test_a_migration_that_fails_leaves_the_bus_as_it_was(bus: Bus, store: PostgresStore) -> None:
    with pytest.raises(BusError, match="nothing of it was written"):
        bus.open(migrations=(MOOD + "SELECT 1 / 0;",))
    store.own("j1")
    bus.open().close()


def test_another_version_of_the_protocol_is_refused(bus: Bus) -> None:
    with pytest.raises(BusError, match="another version of the protocol"):
        bus.open(protocol="ids 2")


@pytest.mark.parametrize("value", ["\ud800", 2**64, float("nan"), None, object()])
def test_a_value_that_a_row_can_not_hold(store: PostgresStore, value: object) -> None:
    store.own("j1")
    with pytest.raises(BusError, match="nothing of it was written"):
        store.commit([commit(steps=[step(4), step(5, txn=value)])])  # type: ignore[arg-type]  # as another program would
    store.commit([commit(steps=[step(1)])])
    with pytest.raises(BusError):
        store.put("j1", "answer", "\ud800", 1.0, "ann", "{}")
    with pytest.raises(Duplicate):
        store.create(job())
