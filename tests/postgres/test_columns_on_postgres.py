"""A row's fields are its table's columns, in one order: in the schema, in what is written, read and copied."""

import re
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import asdict, replace

from parley.bus.bus_tables import TABLES
from parley.bus.postgres.bus_text import from_column, to_column, to_json
from parley.bus.postgres.postgres_queries import QUERIES
from parley.bus.postgres.postgres_schema import SCRIPT
from parley.bus.rows import (
    Commit,
    EndedTurn,
    InputRow,
    JobProgress,
    JobRow,
    MessageRow,
    Spent,
    StepRow,
    TakenInput,
    TransactionRow,
    TurnRow,
)
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


def filled(kind: type[Any], **given: Any) -> Any:
    """A row whose every field has a value of its own."""
    values: dict[str, Any] = {}
    for number, field in enumerate(msgspec.structs.fields(kind)):
        values[field.name] = {int: 100 + number, float: number + 0.25}.get(field.type, f"{field.name} {number}")
    return kind(**{**values, **given})


@pytest.mark.parametrize("odd", ["", "\x1f", "a\0b", "\1"])  # by the way that most texts go, and by the other
def test_each_value_of_a_commit_comes_into_its_column(postgres: Server, tmp_path: Path, odd: str) -> None:
    written = []
    with closing(Bus(postgres, tmp_path).open()) as store:
        for name in ("j1", "j2"):
            store.create(filled(JobRow, job=name))
            epoch, taken = store.own(name), store.put(name, "answer", "k", 1.0, "ann", "{}")
            for number in (1, 2):  # two of a job, in two waves
                commit = Commit(
                    job=name,
                    epoch=epoch,
                    transaction=filled(TransactionRow, number=number),
                    steps=[filled(StepRow, number=10 * number + each, choice=f"{odd}{each}") for each in (1, 2)],
                    messages=[
                        filled(MessageRow, number=10 * number + each, seq=10 * number + each, key=f"{number} {each}")
                        for each in (1, 2)
                    ],
                    molecules={f"slot {number}": f"body{odd}", "gone": None if number == 2 else "x"},
                    started=[filled(TurnRow, turn=f"t{number}", status="submitted", epoch=epoch)],
                    ended=[EndedTurn(turn="t1", epoch=epoch, status="lost")] if number == 2 else [],
                    taken=[TakenInput(number=taken, note=f"note{odd}")] if number == 2 else [],
                    progress=filled(JobProgress, visit=number),
                    spent={"monday": filled(Spent)},
                )
                written.append(commit)
        store.commit(written)
        for name in ("j1", "j2"):
            first, second = (each for each in written if each.job == name)
            loaded = store.load(name)
            assert list(store.steps(name)) == [*first.steps, *second.steps]
            assert list(store.messages(name)) == [*first.messages, *second.messages]
            assert list(store.transactions(name)) == [first.transaction, second.transaction]
            assert store.unsealed(name) == 0
            assert list(store.turns(name)) == [replace(first.started[0], status="lost"), *second.started]
            assert loaded.molecules == {"slot 1": f"body{odd}", "slot 2": f"body{odd}"}
            assert loaded.sequences == {(row.agent, row.thread): row.seq for row in second.messages}
            assert loaded.spent == {"monday": filled(Spent).plus(filled(Spent))}
            assert loaded.row == filled(JobRow, job=name, **asdict(filled(JobProgress, visit=2)))
            [given] = store.inputs(name, waiting=False)
            assert (given.taken, given.note) == (2, f"note{odd}")


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
