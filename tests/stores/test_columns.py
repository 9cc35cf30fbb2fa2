"""A row's fields are its table's columns, in one order: in the schema, in what is written and in what is read."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import msgspec
import pytest

from parley.bus.rows import InputRow, JobProgress, JobRow, MessageRow, Spent, StepRow, TransactionRow, TurnRow
from parley.bus.signatures import LeftInput
from parley.bus.sqlite.bus_schema import MIGRATIONS, SCRIPT
from parley.bus.sqlite.queries import QUERIES

Kind = type[msgspec.Struct]
# What else a table has: a key in the place of the number, and what only the store knows of.
NAMES = {"txn": "transaction"}
STORED: dict[str, tuple[Kind, list[str], list[str]]] = {
    "steps": (StepRow, ["id"], []),
    "messages": (MessageRow, ["id"], []),
    "commits": (TransactionRow, ["id"], ["seal"]),
    "turns": (TurnRow, ["id"], []),
    "inputs": (InputRow, ["number"], []),
    "spending": (Spent, ["job", "day", "turns"], []),
}
WRITTEN = {
    "add_step": "steps",
    "add_message": "messages",
    "add_commit": "commits",
    "add_turn": "turns",
    "spend": "spending",
}
READ: dict[str, Kind] = {
    "list_jobs": JobRow,
    "get_job": JobRow,
    "list_steps": StepRow,
    "list_messages": MessageRow,
    "get_message": MessageRow,
    "list_commits": TransactionRow,
    "last_commit": TransactionRow,
    "list_turns": TurnRow,
    "list_submitted": TurnRow,
    "list_inputs": InputRow,
    "list_waiting": InputRow,
    "get_spent": Spent,
}


@pytest.fixture
def bus() -> Iterator[sqlite3.Connection]:
    """An empty bus."""
    with closing(sqlite3.connect(":memory:")) as made:
        for script in (SCRIPT, *MIGRATIONS):
            made.executescript(script)
        yield made


def columns_of(table: str) -> list[str]:
    kind, first, last = STORED[table]
    return [*first, *kind.__struct_fields__[1:], *last]


def named(columns: list[str]) -> list[str]:
    return [NAMES.get(name, name) for name in columns]


@pytest.mark.parametrize("table", STORED)
def test_a_table_has_its_rows_fields(bus: sqlite3.Connection, table: str) -> None:
    found = bus.execute(f"PRAGMA table_info({table})").fetchall()  # without those that are computed

    assert named([name for _, name, *_ in found]) == columns_of(table)


@pytest.mark.parametrize("statement", WRITTEN)
def test_a_row_is_written_in_the_order_of_its_fields(statement: str) -> None:
    table = WRITTEN[statement]
    found = re.match(rf"INSERT INTO {table} \(([^)]*)\)", QUERIES[statement])

    assert found is not None
    assert named(re.split(r",\s*", found[1])) == columns_of(table)


def test_an_input_is_left_in_the_order_of_its_fields() -> None:
    found = re.match(r"INSERT INTO inputs \(([^)]*)\)", QUERIES["add_input"])

    assert found is not None
    assert tuple(found[1].split(", ")) == LeftInput._fields
    assert set(LeftInput._fields) < set(InputRow.__struct_fields__)


def test_a_jobs_progress_is_written_in_the_order_of_its_fields() -> None:
    assert tuple(re.findall(r"(\w+) = \?", QUERIES["set_progress"])) == (*JobProgress.__struct_fields__, "serial")
    assert set(JobProgress.__struct_fields__) < set(JobRow.__struct_fields__)


def test_a_job_is_created_with_all_its_fields() -> None:
    names = [name for statement in ("add_job", "add_charter") for name in re.findall(r":(\w+)", QUERIES[statement])]

    assert set(names) == set(JobRow.__struct_fields__)


@pytest.mark.parametrize("statement", READ)
def test_a_row_is_read_by_the_names_of_its_fields(bus: sqlite3.Connection, statement: str) -> None:
    sql = QUERIES[statement]
    found = bus.execute(sql, [1] * sql.count("?"))

    assert [name for name, *_ in found.description] == list(READ[statement].__struct_fields__)
