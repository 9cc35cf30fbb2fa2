"""A database tool in the wrong hands."""

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from parley.audit.audit import AuditReport, audit, read_anchor
from parley.audit.row_checks import AuditFinding
from parley.bus.sqlite.sqlite_store import SqliteStore
from tests.audit.conftest import Kept
from tests.copied_homes import copy_bus

Row = dict[str, Any]
Tamper = Callable[[sqlite3.Connection], object]

TABLES = ("jobs", "charters", "owners", "commits", "steps", "messages", "recipients", "molecules", "turns", "inputs",
          "spending")  # fmt: skip
# Their key is a job's serial and a number in one integer; `job` and `number` are read from it and not stored.
NUMBERED = ("commits", "steps", "messages", "turns")
SERIAL = 1 << 40
# As a report calls them.
NAMES = {"commits": "transactions", "charters": "jobs"}


def name_of(table: str, row: Row) -> Any:
    """What a report calls a row; None where the table has one row for the job."""
    match table:
        case "turns":
            return f"t{row['number']}"
        case "recipients":
            return f"{row['agent']} {row['thread']}"
        case "molecules":
            return row["slot"]
        case "spending":
            return row["day"]
        case "commits" | "steps" | "messages" | "inputs":
            return row["number"]
        case _:
            return None


def tampered(play: Kept, folder: Path, tamper: Tamper, *, anchored: bool = True) -> AuditReport:
    """Audit a copy of the bus after another program has changed it."""
    home = folder / "tampered"
    shutil.rmtree(home, ignore_errors=True)
    copy_bus(play.home, home)
    with closing(sqlite3.connect(home / "bus.db")) as raw:
        raw.execute("PRAGMA synchronous = OFF")
        unguarded(raw, tamper)
        raw.commit()
    with closing(SqliteStore(home, durability="normal")) as store:
        return audit(store, play.job, read_anchor(play.state) if anchored else None)


def unguarded(raw: sqlite3.Connection, tamper: Tamper) -> None:
    """Tamper without the triggers, which stand there again afterwards: without them the bus would not be opened."""
    triggers = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
    for name, _ in triggers:
        raw.execute(f"DROP TRIGGER {name}")
    tamper(raw)
    for _, sql in triggers:
        raw.execute(sql)


def rows(source: Kept | sqlite3.Connection, table: str) -> list[Row]:
    """The rows of a table in their order, with the `job` and the `number` that their keys say."""
    if isinstance(source, Kept):
        with closing(sqlite3.connect(source.home / "bus.db")) as raw:
            return rows(raw, table)
    order = {"molecules": "slot", "inputs": "number"}.get(table, "id" if table in NUMBERED else "job")
    cursor = source.execute(f"SELECT * FROM {table} ORDER BY {order}")  # noqa: S608 - names of this module
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def stored(table: str, row: Row) -> Row:
    """The columns that a row is kept in: who changes its number changes its key."""
    if table not in NUMBERED:
        return row
    kept = {name: value for name, value in row.items() if name not in ("id", "job", "number")}
    return {"id": SERIAL * row["job"] + row["number"], **kept} if "number" in row else row


def keyed(table: str, row: Row) -> Row:
    """A row whose key was changed, with the `job` and the `number` that the key says now."""
    if table not in NUMBERED:
        return row
    job = (row["id"] + SERIAL // 2) // SERIAL
    return {**row, "job": job, "number": row["id"] - SERIAL * job}


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
    kept = stored(table, row)
    marks = ", ".join("?" for _ in kept)
    raw.execute(f"INSERT INTO {table} ({', '.join(kept)}) VALUES ({marks})", [*kept.values()])  # noqa: S608 - our own tables


def swap(raw: sqlite3.Connection, table: str, one: Row, other: Row, *key: str) -> None:
    """Let two rows change their places."""
    for row in (one, other):
        delete(raw, table, row)
    insert(raw, table, {**one, **{name: other[name] for name in key}})
    insert(raw, table, {**other, **{name: one[name] for name in key}})


def points_at(finding: AuditFinding, table: str, *touched: Row) -> bool:
    """Whether a finding names one of the rows. Of an input that is gone only the transaction that took it is known."""
    if table == "inputs" and finding.table == "transactions" and "an input that it took is missing" in finding.what:
        return finding.number in [row["taken"] for row in touched]
    names = [name_of(table, row) for row in touched]
    return finding.table == NAMES.get(table, table) and (
        None in names or str(finding.number) in [str(name) for name in names]
    )
