"""The audit of a bus on a server: the same record as in memory, and changes of another hand are found."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from parley.audit.audit import audit, read_anchor
from parley.bus.postgres.postgres_store import PostgresStore
from parley.bus.store import Store
from tests.audit.played_jobs import PLAYS, RecordedHome
from tests.postgres_server import Bus, Server

HEARD_SECONDS = 10.0


@dataclass
class HomeOnServer(RecordedHome):
    """A home whose bus is on a server."""

    server: Server | None = None

    def __post_init__(self) -> None:
        assert self.server is not None
        self.home.mkdir(parents=True, exist_ok=True)
        self.there = Bus(self.server, self.home)
        super().__post_init__()

    def open(self) -> tuple[Store, Store]:
        store = self.there.open()
        store.changed()  # from now on it hears of others
        return store, self.there.open()

    def ask(self, job: str, kind: str, by: str = "ada", **body: Any) -> None:
        """Leave an input, and wait until its owner has heard of it: a notice takes a moment to come."""
        super().ask(job, kind, by, **body)
        assert isinstance(self.store, PostgresStore)
        assert self.store._lease is not None
        assert self.store._lease._written.wait(HEARD_SECONDS)


@pytest.fixture(scope="module")
def played(postgres: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HomeOnServer, str]]:
    home = HomeOnServer(tmp_path_factory.mktemp("played") / "home", "postgres", server=postgres)
    yield home, PLAYS["running"](home)
    home.close()


def test_a_played_job_has_the_same_record_as_in_memory(played: tuple[HomeOnServer, str], tmp_path: Path) -> None:
    home, name = played
    memory = RecordedHome(tmp_path / "home", "memory")
    assert PLAYS["running"](memory) == name

    for read in ("steps", "messages"):
        # but for the times: how often the clock is read depends on when a notice comes
        here, there = (
            [replace(row, time=0.0) for row in getattr(store, read)(name)] for store in (home.store, memory.store)
        )
        assert here == there
    report = audit(home.store, name, read_anchor(home.state(name)))
    assert (report.ok, report.steps > 0, report.unknown) == (True, True, 0)
    memory.close()


CHANGES = {
    "steps": (
        "UPDATE steps SET produced = produced || ' ' WHERE number = 3",
        "DELETE FROM steps WHERE number = (SELECT max(number) FROM steps)",
    ),
    "messages": ("UPDATE messages SET body = body || '!' WHERE number = 1",),
    "commits": (
        "UPDATE commits SET head = reverse(head) WHERE number = 2",
        "UPDATE commits SET seal = reverse(seal) WHERE number = 2",
    ),
    "molecules": ("DELETE FROM molecules WHERE slot = (SELECT min(slot) FROM molecules)",),
    "turns": ("UPDATE turns SET agent = 'other' WHERE number = (SELECT min(number) FROM turns)",),
    "jobs": ("UPDATE jobs SET decider = 'eve'",),
    "charters": ("UPDATE charters SET request = 'another'",),
    "recipients": ("UPDATE recipients SET seq = seq + 1",),
    "owners": ("UPDATE owners SET epoch = 0",),
}


def test_a_change_of_another_hand_is_found(played: tuple[HomeOnServer, str]) -> None:
    home, name = played
    anchor = read_anchor(home.state(name))
    with closing(home.there.session()) as session:
        for table, changes in CHANGES.items():
            session.execute(f"CREATE TEMP TABLE kept AS TABLE {table}")
            session.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            for change in changes:
                session.execute(change)
                assert not audit(home.outside, name, anchor).ok, change
                session.execute(f"TRUNCATE {table}")
                session.execute(f"INSERT INTO {table} TABLE pg_temp.kept")
            session.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
            session.execute("DROP TABLE pg_temp.kept")
    assert audit(home.outside, name, anchor).ok
