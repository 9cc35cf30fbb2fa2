"""A row's fields are its table's columns, in one order: in the schema, in what is written, read and copied."""

import re
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from parley.bus.bus_tables import TABLES
from parley.bus.postgres.bus_text import from_column, to_column, to_json
from parley.bus.postgres.postgres_queries import QUERIES
from parley.bus.postgres.postgres_schema import SCRIPT
from parley.bus.rows import InputRow, JobProgress, JobRow, MessageRow, Spent, StepRow, TransactionRow, TurnRow
from tests.postgres_server import Bus, Server

NAMES = {"transaction": "txn"}
KINDS: dict[str, tuple[type[msgspec.Struct], tuple[str, ...], tuple[str, ...]]] = {
    "steps": (StepRow, ("job", "number"), ()),
    "messages": (MessageRow, ("job", "number"), ()),
    "commits": (TransactionRow, ("job", "number"), ("seal",)),
    "turns": (TurnRow, ("job", "number"), ()),
    "inputs": (InputRow, ("number",), ()),
    "spending": (Spent, ("job", "day", "turns"), ()),
}
READ = {
    "list_jobs": JobRow, "get_job": JobRow, "list_steps": StepRow, "list_messages": MessageRow,
    "get_message": MessageRow, "list_commits": TransactionRow, "last_commit": TransactionRow, "list_turns": TurnRow,
    "list_submitted": TurnRow, "list_inputs": InputRow, "list_waiting": InputRow, "get_spent": Spent,
}  # fmt: skip


def columns_of(table: str) -> tuple[str, ...]:
    kind, first, last = KINDS[table]
    return (*first, *(NAMES.get(name, name) for name in kind.__struct_fields__[1:]), *last)


@pytest.mark.parametrize("table", KINDS)
def test_a_table_is_written_and_copied_in_the_order_of_its_rows_fields(table: str) -> None:
    assert TABLES[table] == columns_of(table)
    written = re.search(rf"INSERT INTO {table}(?: AS s)? \(([^)]*)\)", SCRIPT)
    assert written is not None
    found = re.split(r",\s*", written[1].strip())
    assert tuple(found) == tuple(name for name in columns_of(table) if name in found)
    assert table == "inputs" or len(found) == len(columns_of(table))


def test_a_jobs_progress_is_written_in_the_order_of_its_fields() -> None:
    found = re.search(r"UPDATE jobs j SET (.*?)FROM", SCRIPT, re.DOTALL)
    assert found is not None
    assert tuple(re.findall(r"(\w+) = \(?r->>", found[1])) == JobProgress.__struct_fields__


def test_tables_and_reads_have_the_columns_that_they_are_said_to(postgres: Server, tmp_path: Path) -> None:
    with closing(Bus(postgres, tmp_path).session()) as session:
        for table, columns in TABLES.items():
            found = [column.name for column in session.execute(f"TABLE {table}").description or ()]
            assert tuple(found) == (*columns, "owner") if table == "owners" else tuple(found) == columns
        for name, kind in READ.items():
            values = ["1" if "day" in QUERIES[name] else 1] * QUERIES[name].count("%s")
            text = name in ("get_job", "list_inputs", "list_waiting", "get_spent")
            read = session.execute(QUERIES[name], [str(value) for value in values] if text else values)
            assert [column.name for column in read.description or ()] == list(kind.__struct_fields__)


@pytest.mark.parametrize(
    "text", ["", "plain", "\0", "\1", "\0\1\0", "a\0b\1c", "\\u0000", '"\\\0"', "\0010", "é\U0001f600"]
)
def test_text_comes_back_as_it_was(text: str) -> None:
    assert "\0" not in to_column(text)
    assert from_column(to_column(text)) == text
    [sent] = msgspec.json.decode(to_json([text]))
    assert sent == to_column(text)
