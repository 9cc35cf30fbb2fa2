"""Rules that fire together are one round trip to the server, one notice, and plans that stay right as tables grow."""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from parley.bus.postgres.postgres_store import PostgresStore
from parley.bus.rows import Commit
from tests.postgres_server import Bus, Server
from tests.stores.rows import change, commit, end, job, message, step, turn

GROUP = 40  # rows of each kind in a commit


@pytest.fixture
def bus(postgres: Server, tmp_path: Path) -> Bus:
    return Bus(postgres, tmp_path)


@pytest.fixture
def store(bus: Bus) -> Iterator[PostgresStore]:
    with closing(bus.open()) as store:
        for name in ("j1", "j2", "j3"):
            store.create(job(name))
            store.own(name)
        yield store


def full(name: str, number: int) -> Commit:
    """A commit with rows for every table, which ends the turns of the one before."""
    numbers = range(number * GROUP, (number + 1) * GROUP)
    return commit(
        number,
        name=name,
        steps=[step(each, number) for each in numbers],
        messages=[message(each, number, thread=f"dispatch:{each % GROUP}") for each in numbers],
        molecules={f"life {each}": "x" for each in numbers} | {f"life {each - GROUP}": None for each in numbers},
        started=[turn(f"t{each}") for each in numbers],
        ended=[end(f"t{each - GROUP}", 1, "ended") for each in numbers if number > 1],
        progress=change(visit=number),
    )


def waits(store: PostgresStore, traced: Path, *commits: Commit) -> int:
    """How often a commit waits for the server."""
    return waits_of(store, traced, lambda: store.commit(commits))


def waits_of(store: PostgresStore, traced: Path, call: Callable[[], object]) -> int:
    """How often a call waits for the server: each Sync that libpq sends asks it for an answer."""
    session = store._server._session
    assert session is not None
    with traced.open("wb") as file:
        session.pgconn.trace(file.fileno())
        call()
        session.pgconn.untrace()
    return len(re.findall(r"\bF\s+\d+\s+(?:Sync|Query)\b", traced.read_text(errors="replace")))


def test_all_rules_of_all_jobs_are_one_round_trip(store: PostgresStore, tmp_path: Path) -> None:
    store.commit([full("j1", 1)])  # the statement is prepared once
    traced = tmp_path / "traced"

    assert waits(store, traced, full("j1", 2), full("j2", 1), full("j3", 1)) == 1
    assert waits(store, traced, full("j1", 3), full("j1", 4), full("j2", 2)) == 1  # one job twice
    assert waits(store, traced, commit(5)) == 1


def test_what_is_asked_again_and_again_of_many_jobs_is_one_round_trip(store: PostgresStore, tmp_path: Path) -> None:
    traced, names = tmp_path / "traced", ["j1", "j2", "j3"]
    for name in names:
        store.put(name, "answer", "k", 1.0, "ann", "{}")

    assert waits_of(store, traced, lambda: store.waiting(names)) == 1
    assert waits_of(store, traced, lambda: store.living(names)) == 1
    assert [row.job for row in store.waiting(names)] == names


def test_a_group_of_commits_is_one_notice(bus: Bus, store: PostgresStore) -> None:
    with closing(bus.session()) as listener:
        listener.execute(f'LISTEN "{store.schema}"')
        store.commit([full("j1", 1), full("j2", 1), full("j1", 2), full("j3", 1)])
        heard = list(listener.notifies(timeout=30.0, stop_after=1))
        store.put("j1", "answer", "k", 1.0, "ann", "{}")
        heard += listener.notifies(timeout=30.0, stop_after=1)
    assert [notice.payload for notice in heard] == [store.owner, store.owner]


def test_plans_that_are_made_while_tables_are_empty_look_rows_up_by_their_keys(store: PostgresStore) -> None:
    """A join that is filtered takes GROUP times GROUP comparisons, and the plan that makes it would be kept."""
    session, plans = store._server._session, list[str]()
    assert session is not None
    session.add_notice_handler(lambda notice: plans.append(notice.message_primary or ""))
    session.execute(
        "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_nested_statements = on; "
        "SET client_min_messages = log"
    )
    for number in range(1, 4):
        store.commit([full("j1", number), full("j2", number)])

    assert len([plan for plan in plans if "UPDATE turns" in plan]) == 2
    for plan in plans:
        assert not re.search(r"Join Filter|Seq Scan|Materialize|Rows Removed", plan), plan
