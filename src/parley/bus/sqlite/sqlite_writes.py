"""How the SQLite bus is written: one transaction, and the commits in it. Here alone do rows become columns.

Commits of different jobs are written together, with one statement for each kind of row. A row's key is its job's serial
and its number in one integer, as schema.sql has it. The columns of a statement that adds rows are the fields of their
Struct, in this order: tests/stores/test_columns.py compares them.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from msgspec.structs import astuple

from parley.bus.commit_waves import some
from parley.bus.hash_chain import seal_head
from parley.bus.rows import (
    REACH,
    BusError,
    Commit,
    Duplicate,
    LostOwnership,
    MessageRow,
    StepRow,
    TransactionRow,
    TurnRow,
)
from parley.bus.slots import turn_number
from parley.bus.sqlite.queries import QUERIES
from parley.bus.sqlite.sqlite_errors import REFUSED, explain

KEYED = ("commits", "steps", "messages", "turns")  # tables whose key is the job's serial and the row's number
SERIAL_BITS = 40
BEFORE_ALL = -REACH - 1  # a number before every row's


# ---- a transaction -------------------------------------------------------------------------------


class WriteTransaction:
    """One transaction: all that is written inside is kept, or none of it. One inside another is part of it."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        lock: threading.RLock,
        path: Path,
        relieve: Callable[[], None] | None = None,
    ) -> None:
        """`relieve` makes room before each: SQLite has rolled back already when it says that the disk is full."""
        self._connection = connection
        self._lock = lock
        self._path = path
        self._relieve = relieve
        self._cursor = connection.cursor()
        self._depth = 0

    def __enter__(self) -> sqlite3.Cursor:
        self._lock.acquire()
        try:
            if not self._depth:
                if self._relieve is not None:
                    self._relieve()
                self._cursor.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            self._lock.release()
            if isinstance(error, sqlite3.Error):
                raise explain(error, self._path) from error
            raise
        self._depth += 1
        return self._cursor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        try:
            if kind is None and not self._depth:
                self._cursor.execute("COMMIT")
            elif isinstance(error, REFUSED):
                raise explain(error, self._path) from error
        except sqlite3.Error as failure:
            raise explain(failure, self._path) from failure
        finally:
            if not self._depth and self._connection.in_transaction:  # some errors have rolled back by themselves
                with suppress(sqlite3.Error):
                    self._cursor.execute("ROLLBACK")
            self._lock.release()


# ---- commits -------------------------------------------------------------------------------------


class Placed(msgspec.Struct, frozen=True):
    """A commit, and where its job's rows lie."""

    commit: Commit
    serial: int
    base: int  # the key that the job's numbers are added to


def place(commit: Commit, serial: int) -> Placed:
    """Say where a commit's rows lie."""
    return Placed(commit, serial, serial << SERIAL_BITS)


def key(serial: int, number: int) -> int:
    """The key of a job's row."""
    return (serial << SERIAL_BITS) + number


def span(serial: int, after: int = BEFORE_ALL) -> tuple[int, int]:
    """The keys between which a job's rows lie, those after a number."""
    return key(serial, min(max(after, BEFORE_ALL), REACH)), key(serial, REACH)


def write(cursor: sqlite3.Cursor, placed: Sequence[Placed], secret: bytes) -> None:
    """Write commits of different jobs. An error leaves the transaction around it to be rolled back."""
    _write_transactions(cursor, placed, secret)
    if steps := [_keyed(each.base, row) for each in placed for row in each.commit.steps]:
        cursor.executemany(_ADD_STEP, steps)
    _write_messages(cursor, placed)
    _write_molecules(cursor, placed)
    _write_turns(cursor, placed)
    if spent := [(each.serial, day, *astuple(more)) for each in placed for day, more in each.commit.spent.items()]:
        cursor.executemany(_SPEND, spent)
    _write_taken(cursor, placed)
    if progress := [(*astuple(row), each.serial) for each in placed if (row := each.commit.progress) is not None]:
        cursor.executemany(_SET_PROGRESS, progress)


def _write_transactions(cursor: sqlite3.Cursor, placed: Sequence[Placed], secret: bytes) -> None:
    """Add the transactions; where an epoch is no longer the job's, the statement adds no row."""
    rows = []
    for each in placed:
        commit, transaction = each.commit, each.commit.transaction
        sealed = seal_head(secret, commit.job, transaction.number, transaction.head)
        rows.append((*_keyed(each.base, transaction), sealed, each.serial, commit.epoch))
    cursor.executemany(_ADD_COMMIT, rows)
    if cursor.rowcount != len(rows):
        lost = [
            each.commit.job
            for each in placed
            if cursor.execute(_GET_EPOCH, (each.serial,)).fetchone() != (each.commit.epoch,)
        ]
        raise LostOwnership(f"another owner has taken the job ({some(lost)}); nothing was written")


def _write_messages(cursor: sqlite3.Cursor, placed: Sequence[Placed]) -> None:
    messages, delivered = [], []
    for each in placed:
        for row in each.commit.messages:
            messages.append(_keyed(each.base, row))
            delivered.append((each.serial, row.agent, row.thread, row.seq))
    if not messages:
        return
    cursor.executemany(_ADD_MESSAGE, messages)
    cursor.executemany(_DELIVER, delivered)
    if cursor.rowcount != len(delivered):
        raise Duplicate(
            "a message of the commit is not numbered after the last of its recipient; nothing of it was "
            f"written ({some(f'{agent} on {thread}: {seq}' for _, agent, thread, seq in delivered)})"
        )


def _write_molecules(cursor: sqlite3.Cursor, placed: Sequence[Placed]) -> None:
    kept, gone = [], []
    for each in placed:
        for slot, body in each.commit.molecules.items():
            if body is None:
                gone.append((each.serial, slot))
            else:
                kept.append((each.serial, slot, body))
    if gone:
        cursor.executemany(_DROP_MOLECULE, gone)
    if kept:
        cursor.executemany(_SET_MOLECULE, kept)


def _write_turns(cursor: sqlite3.Cursor, placed: Sequence[Placed]) -> None:
    if started := [_keyed_turn(each.base, row) for each in placed for row in each.commit.started]:
        cursor.executemany(_ADD_TURN, started)
    if ended := [
        (end.status, each.base + turn_number(end.turn), end.epoch) for each in placed for end in each.commit.ended
    ]:
        cursor.executemany(_END_TURN, ended)
        if cursor.rowcount != len(ended):
            names = (f"{each.commit.job} {end.turn}" for each in placed for end in each.commit.ended)
            raise BusError(
                "a turn that the commit ends is not out, or not in that epoch; nothing was written: "
                f"load the job anew ({some(names)})"
            )


def _write_taken(cursor: sqlite3.Cursor, placed: Sequence[Placed]) -> None:
    if taken := [
        (each.commit.transaction.number, row.note, row.number, each.commit.job)
        for each in placed
        for row in each.commit.taken
    ]:
        cursor.executemany(_TAKE_INPUT, taken)
        if cursor.rowcount != len(taken):
            raise BusError(
                "an input that the commit takes is not the job's, or was taken; nothing was written: "
                f"read the inputs anew ({some(f'{job} {number}' for _, _, number, job in taken)})"
            )


def _keyed(base: int, row: StepRow | MessageRow | TransactionRow) -> tuple[Any, ...]:
    """A row's columns, with its key in the place of its number."""
    return (base + row.number,) + astuple(row)[1:]  # noqa: RUF005 - each turn writes several: this makes no list


def _keyed_turn(base: int, row: TurnRow) -> tuple[Any, ...]:
    return (base + turn_number(row.turn),) + astuple(row)[1:]  # noqa: RUF005 - as above


_ADD_COMMIT = QUERIES["add_commit"]
_GET_EPOCH = QUERIES["get_epoch"]
_ADD_STEP = QUERIES["add_step"]
_ADD_MESSAGE = QUERIES["add_message"]
_DELIVER = QUERIES["deliver"]
_SET_MOLECULE = QUERIES["set_molecule"]
_DROP_MOLECULE = QUERIES["drop_molecule"]
_ADD_TURN = QUERIES["add_turn"]
_END_TURN = QUERIES["end_turn"]
_SPEND = QUERIES["spend"]
_TAKE_INPUT = QUERIES["take_input"]
_SET_PROGRESS = QUERIES["set_progress"]
