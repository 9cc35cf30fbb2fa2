"""A database tool in the wrong hands."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from parley.adapters.sqlite import SqliteStore
from parley.engine.audit import Report, audit, read_anchor
from parley.engine.evidence import Finding
from tests.records.conftest import Kept

Row = dict[str, Any]
Tamper = Callable[[sqlite3.Connection], object]

TABLES = ("jobs", "charters", "owners", "commits", "steps", "messages", "molecules", "turns", "inputs")
# What names a row, so that a test can see whether a finding points at it.
KEYS = {
    "commits": "number", "steps": "number", "messages": "number", "molecules": "slot", "turns": "turn",
    "inputs": "number",
}  # fmt: skip
# As a report calls them.
NAMES = {"commits": "transactions", "charters": "jobs"}


def tampered(play: Kept, folder: Path, tamper: Tamper, *, anchored: bool = True) -> Report:
    """Audit a copy of the bus after somebody was at it."""
    home = folder / "tampered"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    shutil.copy(play.home / "bus.db", home / "bus.db")
    with closing(sqlite3.connect(home / "bus.db")) as raw:
        raw.execute("PRAGMA synchronous = OFF")
        for (trigger,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {trigger}")
        tamper(raw)
        raw.commit()
    with closing(SqliteStore(home, durability="normal")) as store:
        return audit(store, play.job, read_anchor(play.state) if anchored else None)


def rows(source: Kept | sqlite3.Connection, table: str) -> list[Row]:
    """The rows of a table in their order."""
    if isinstance(source, Kept):
        with closing(sqlite3.connect(source.home / "bus.db")) as raw:
            return rows(raw, table)
    order = {"turns": "id"}.get(table, KEYS.get(table, "job"))
    cursor = source.execute(f"SELECT * FROM {table} ORDER BY {order}")  # noqa: S608 - names of this module
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _where(row: Row) -> str:
    """A condition that only this row meets."""
    return " AND ".join(f"{name} IS ?" for name in row)


def update(raw: sqlite3.Connection, table: str, row: Row, **new: Any) -> None:
    sets = ", ".join(f"{name} = ?" for name in new)
    done = raw.execute(f"UPDATE {table} SET {sets} WHERE {_where(row)}", [*new.values(), *row.values()])  # noqa: S608 - our own tables
    assert done.rowcount == 1


def delete(raw: sqlite3.Connection, table: str, row: Row) -> None:
    assert raw.execute(f"DELETE FROM {table} WHERE {_where(row)}", [*row.values()]).rowcount == 1  # noqa: S608 - our own tables


def insert(raw: sqlite3.Connection, table: str, row: Row) -> None:
    marks = ", ".join("?" for _ in row)
    raw.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", [*row.values()])  # noqa: S608 - our own tables


def swap(raw: sqlite3.Connection, table: str, one: Row, other: Row, key: str) -> None:
    """Let two rows change their places."""
    for row in (one, other):
        delete(raw, table, row)
    insert(raw, table, {**one, key: other[key]})
    insert(raw, table, {**other, key: one[key]})


def points_at(finding: Finding, table: str, *touched: Row) -> bool:
    """Whether a finding names one of the rows, or the transaction that wrote it."""
    for row in touched:
        if finding.table == NAMES.get(table, table) and (
            table not in KEYS or finding.number in (row[KEYS[table]], str(row[KEYS[table]]))
        ):
            return True
        if finding.table == "transactions" and finding.number == row.get("txn", row.get("taken")):
            return True
        if finding.table == "inputs" and table == "messages" and f"message {row['number']} " in finding.what:
            return True  # the two say different things, and who can tell which of them was changed
    return False
