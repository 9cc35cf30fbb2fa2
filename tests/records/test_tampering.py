"""Whoever changes the bus behind the engine's back is found: in every table, in every column, in every way."""

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.adapters.sqlite import SqliteStore
from parley.engine.audit import Finding, Report, audit, read_anchor, render
from parley.engine.chain import head_after
from parley.engine.export import Exported
from parley.ports import BusError, InputRow, MessageRow, StepRow, Store
from tests.records.conftest import Kept
from tests.records.stage import PLAYS, Theatre

Tamper = Callable[[sqlite3.Connection], object]

TABLES = ("jobs", "charters", "owners", "commits", "steps", "messages", "molecules", "turns", "inputs")
# What names a row, so that a test can point at it.
KEYS = {
    "commits": "number", "steps": "number", "messages": "number", "molecules": "slot", "turns": "turn",
    "inputs": "number",
}  # fmt: skip
# As the report calls them.
NAMES = {"commits": "transactions", "charters": "jobs"}


def tampered(play: Kept, folder: Path, tamper: Tamper, *, anchored: bool = True) -> Report:
    """Audit a copy of the bus after somebody with a database tool was at it."""
    home = folder / "tampered"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    shutil.copy(play.home / "bus.db", home / "bus.db")
    with closing(sqlite3.connect(home / "bus.db")) as raw:
        for (trigger,) in raw.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            raw.execute(f"DROP TRIGGER {trigger}")
        tamper(raw)
        raw.commit()
    with closing(SqliteStore(home, durability="normal")) as store:
        return audit(store, play.job, read_anchor(play.state) if anchored else None)


def columns(play: Kept, table: str) -> list[str]:
    with closing(sqlite3.connect(play.home / "bus.db")) as raw:
        return [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]


def rows(raw: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    cursor = raw.execute(f"SELECT rowid_, * FROM (SELECT *, 0 AS rowid_ FROM {table}) ORDER BY 2, 3")
    names = [column[0] for column in cursor.description][1:-1]
    return [dict(zip(names, row[1:-1], strict=True)) for row in cursor]


def where(row: dict[str, Any]) -> tuple[str, list[Any]]:
    """A condition that only this row meets."""
    return " AND ".join(f"{name} IS ?" for name in row), list(row.values())


def update(raw: sqlite3.Connection, table: str, row: dict[str, Any], **new: Any) -> None:
    condition, values = where(row)
    sets = ", ".join(f"{name} = ?" for name in new)
    done = raw.execute(f"UPDATE {table} SET {sets} WHERE {condition}", [*new.values(), *values])
    assert done.rowcount == 1


def other(table: str, column: str, value: Any, way: int) -> Any:
    """Another value for a column, such that it matters; two ways of it."""
    if (table, column) == ("owners", "epoch"):
        return (0, "none")[way]  # upwards it is what any owner does by taking the job
    if (table, column) == ("turns", "id"):
        return 100_000 + value  # only their order means something
    if isinstance(value, int):
        return (value + 1000, "a text")[way]
    if isinstance(value, float):
        return (value + 1.0, "a text")[way]
    return (f"{value}x", b"\xff\x00")[way]


def some(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first, one in the middle, the last."""
    return [found[index] for index in sorted({0, len(found) // 2, len(found) - 1})]


def names(finding: Finding, table: str, row: dict[str, Any]) -> bool:
    """Whether a finding points at a row: at itself, or at the transaction that wrote it."""
    name = NAMES.get(table, table)
    if finding.table == name and (table not in KEYS or finding.number == row[KEYS[table]]):
        return True
    transaction = row.get("txn", row.get("taken"))
    return finding.table == "transactions" and finding.number == transaction


# ---- every table and every column ----------------------------------------------------------------


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", ["finished", "running"])
def test_a_changed_column_is_found(kept: dict[str, Kept], tmp_path: Path, name: str, table: str) -> None:
    play = kept[name]
    unseen, elsewhere = [], []
    for column in columns(play, table):
        for way in (0, 1):
            with closing(sqlite3.connect(play.home / "bus.db")) as raw:
                chosen = some(rows(raw, table))
            for row in chosen[:1] if (table, column) == ("turns", "id") else chosen:
                value = other(table, column, row[column], way)
                report = tampered(play, tmp_path, lambda raw: update(raw, table, row, **{column: value}))  # noqa: B023
                if report.ok:
                    unseen.append((column, row, value))
                elif column not in ("job", "id") and not names(report.findings[0], table, row):
                    elsewhere.append((column, value, str(report.findings[0]), row))

    assert unseen == []
    assert elsewhere == []
