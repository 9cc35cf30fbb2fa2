"""One transaction of the SQLite bus, and what is said of one that failed."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from parley.ports import BusError, Duplicate

_CAUSES = (
    ("SQLITE_NOTADB", "it is not a database; put it back from a copy, or move it away to begin anew"),
    ("SQLITE_CORRUPT", "it is damaged; put back a copy, or save what `sqlite3 FILE .recover` still reads"),
    ("SQLITE_BUSY", "another process holds the bus too long; see who has it open (fuser) and try again"),
    ("SQLITE_FULL", "the disk is full; nothing of this was written: free some space and go on with the job"),
    ("SQLITE_IOERR", "the disk failed; what was committed before stands: mend it and go on with the job"),
    ("SQLITE_READONLY", "it can't be written; see to the permissions of the file and its folder"),
    ("SQLITE_PERM", "it can't be written; see to the permissions of the file and its folder"),
    ("SQLITE_CANTOPEN", "it can't be opened; see to the permissions of the file and its folder"),
)  # fmt: skip
TAKEN = ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_ROWID")


def explain(error: Exception, path: Path) -> BusError:
    """Say in one line what is wrong with the bus and what to do."""
    name = getattr(error, "sqlite_errorname", "")
    if name in TAKEN:
        return Duplicate(f"{path}: the bus has this already; nothing of it was written ({error})")
    for code, cause in _CAUSES:
        if name.startswith(code):
            return BusError(f"{path}: {cause} ({name}: {error})")
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return BusError(f"{path}: this store was closed; open another")
    return BusError(f"{path}: the bus refused it; nothing of it was written ({name or type(error).__name__}: {error})")


def explain_os(error: OSError, path: Path) -> BusError:
    """Say the same of what the system refused."""
    return BusError(f"{path}: {error.strerror}; see to the permissions of the folder and the room on its disk")


def identity(path: Path) -> tuple[int, int] | None:
    """Which file a path names now; None: none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def refuse_gone(path: Path, opened: tuple[int, int] | None) -> None:
    """Refuse to go on where the bus is not the file that was opened: no other process reads what is written."""
    now = identity(path)
    if now == opened:
        return
    folder = "" if path.parent.is_dir() else " with its folder"
    what = "was replaced" if now is not None else f"is gone: it was deleted or moved{folder}"
    remedy = "put it back and go on with `parley resume`, or start another job"
    raise BusError(f"{path} {what} while it was in use; {remedy}")


# What a row can hold that the bus can't: text that is no Unicode, numbers out of reach, a turn without a number.
REFUSED = (sqlite3.Error, ValueError, OverflowError)


class Writing:
    """One transaction: all that is written inside is kept, or none of it. One inside another is part of it."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        lock: threading.RLock,
        path: Path,
        relieve: Callable[[], None] = lambda: None,
    ) -> None:
        """`relieve` makes room before each: SQLite has rolled back already when it says that the disk is full."""
        self._relieve = relieve
        self.connection = connection
        self.lock = lock
        self.path = path
        self.cursor = connection.cursor()
        self.depth = 0

    def __enter__(self) -> sqlite3.Cursor:
        self.lock.acquire()
        try:
            if not self.depth:
                self._relieve()
                self.cursor.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            self.lock.release()
            if isinstance(error, sqlite3.Error):
                raise explain(error, self.path) from error
            raise
        self.depth += 1
        return self.cursor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.depth -= 1
        try:
            if kind is None and not self.depth:
                self.cursor.execute("COMMIT")
            elif isinstance(error, REFUSED):
                raise explain(error, self.path) from error
        except sqlite3.Error as failure:
            raise explain(failure, self.path) from failure
        finally:
            if not self.depth and self.connection.in_transaction:  # some errors have rolled back by themselves
                with suppress(sqlite3.Error):
                    self.cursor.execute("ROLLBACK")
            self.lock.release()
