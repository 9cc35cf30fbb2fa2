"""Before a memory of decisions is opened: its files are the user's own, and nothing in its schema acts by itself.

The memory decides when the proxy may answer for the user. So, as with a bus: no file of it is a link, a pipe, another
user's, or known elsewhere by a second name; no other user may read it; and before a row is read each table and index is
compared with what Parley makes, so that no trigger or view of another hand answers.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from functools import cache
from pathlib import Path

from parley.ports.decisions import MemoryTrouble

VARIABLE = "PARLEY_MEMORY"
_ENDS = ("", "-wal", "-shm", "-journal")
_PRIVATE = 0o077  # the rights of the group and of other users
_DEFENSIVE, _ENABLE_VIEW = 1010, 1015  # as sqlite3.h has them: Python names them since 3.12
_REMEDY = f"move it away and a new one begins, or name another with {VARIABLE}"
_ROWS = "SELECT type, name, sql, rootpage FROM sqlite_schema"


def admit(path: Path) -> None:
    """Refuse a memory whose files are not the user's alone; keep other users out of one that is."""
    for end in _ENDS:
        _check_file(Path(f"{path}{end}"))


def _check_file(path: Path) -> None:
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISREG(found.st_mode):
        what = "a link" if stat.S_ISLNK(found.st_mode) else "no ordinary file"
        raise MemoryTrouble(f"{path}: this is {what}, and a memory is never read through one; {_REMEDY}")
    if found.st_uid != os.geteuid():
        whose = f"it belongs to user {found.st_uid}, and you are user {os.geteuid()}"
        raise MemoryTrouble(f"{path}: {whose}; {_REMEDY}")
    if found.st_nlink > 1:
        why = "this file has another name elsewhere, by which it could be changed"
        raise MemoryTrouble(f"{path}: {why}; put a copy in its place, or {_REMEDY}")
    if found.st_mode & _PRIVATE:
        path.chmod(stat.S_IMODE(found.st_mode) & 0o600)


def restrain(connection: sqlite3.Connection) -> None:
    """Let nothing in a schema do anything by itself."""
    if hasattr(connection, "setconfig"):  # since Python 3.12
        connection.setconfig(_DEFENSIVE, True)
        connection.setconfig(_ENABLE_VIEW, False)
    connection.execute("PRAGMA trusted_schema = OFF").close()
    connection.execute("PRAGMA cell_size_check = ON").close()


def check_schema(connection: sqlite3.Connection, path: Path, script: str) -> None:
    """See that the file holds what the script makes, to the letter, and nothing else."""
    due = dict(_made_by(script))
    pages: set[int] = set()
    for kind, name, sql, page in connection.execute(_ROWS).fetchall():
        if (kind, name) not in due or due.pop((kind, name)) != sql:
            raise _strange(path, f"its {kind!a:.20} {name!a:.60} is not Parley's")
        if page and page in pages:
            raise _strange(path, f"its {kind!a:.20} {name!a:.60} lies where another does")
        pages.add(page)
    if due:
        kind, name = next(iter(due))
        raise _strange(path, f"its {kind} {name} is missing")


def _strange(path: Path, what: str) -> MemoryTrouble:
    return MemoryTrouble(f"{path}: {what}: another hand has changed this memory, and nothing in it is read; {_REMEDY}")


@cache
def _made_by(script: str) -> dict[tuple[str, str], str | None]:
    """What a script makes here, by kind and name; also what SQLite makes by itself, as for an index of words."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(script)
        return {(kind, name): sql for kind, name, sql, _ in connection.execute(_ROWS)}
    finally:
        connection.close()
