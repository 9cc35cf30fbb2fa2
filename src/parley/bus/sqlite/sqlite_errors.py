"""What is said of a SQLite bus that fails: one line, with what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from parley.bus.rows import BusError, Duplicate

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
# What SQLite says of a row that is there already.
TAKEN = ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_CONSTRAINT_ROWID")
# What is raised for a row that the bus can't hold: text that is no Unicode, a number out of reach.
REFUSED = (sqlite3.Error, ValueError, OverflowError)
_NO_TEXT = "Could not decode to UTF-8"  # what sqlite3 says of it; it has no code


def explain(error: Exception, path: Path) -> BusError:
    """Say in one line what is wrong with the bus and what to do."""
    name = getattr(error, "sqlite_errorname", "")
    if name in TAKEN:
        return Duplicate(f"{path}: the bus has this already; nothing of it was written ({error})")
    for code, cause in _CAUSES:
        if name.startswith(code):
            return BusError(f"{path}: {cause} ({name}: {error})")
    if _NO_TEXT in str(error):
        return BusError(f"{path}: a row is no text: another program changed it; `parley audit JOB` names it")
    if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
        return BusError(f"{path}: this store was closed; open another")
    return BusError(f"{path}: the bus refused it; nothing of it was written ({name or type(error).__name__}: {error})")


def explain_os(error: OSError, path: Path) -> BusError:
    """Say the same of what the system refused."""
    return BusError(f"{path}: {error.strerror}; see to the permissions of the folder and the room on its disk")
