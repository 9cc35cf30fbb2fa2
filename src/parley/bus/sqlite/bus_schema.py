"""The schema of a bus: what schema.sql makes, and the migrations that came after it.

A new bus is made by schema.sql and every migration; an older one gets the migrations that it lacks. So both have the
same schema to the letter, which is compared before a row is read: triggers and views of another program could answer in
a table's place. A migration is one transaction, while no process owns a job of the bus.

A column that a migration adds to a row's table is the last field of its Struct, with a default, and the hash chain has
to leave it out where it has that default: the digests of earlier rows don't cover it. Light, as `safe_open` is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from itertools import islice
from pathlib import Path

from parley.bus.key_files import KeyRefused

APPLICATION = 0x5061726C  # in the file's header, so that no other program's database is taken for a bus
FIRST = 7  # the schema that schema.sql makes: 0.2.0 began anew, and no earlier bus can be opened
SCRIPT = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
# The script that makes FIRST + 1 of FIRST, the one that makes FIRST + 2 of that, and so on. A script is never changed.
MIGRATIONS: tuple[str, ...] = ()

_Objects = dict[tuple[str, str], str | None]  # the SQL of each table, index and trigger, by its kind and name


def latest(migrations: Sequence[str] = MIGRATIONS) -> int:
    """The schema that this program writes."""
    return FIRST + len(migrations)


def version_of(connection: sqlite3.Connection, path: Path, migrations: Sequence[str] = MIGRATIONS) -> int:
    """The version of the file's schema; 0 if there is none yet. A database that this program can't use is refused."""
    own = not connection.in_transaction
    if own:
        connection.execute("BEGIN")  # all three as of one moment: another process may be making it
    try:
        application, version, tables = (
            int(connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("application_id", "user_version", "schema_version")
        )
    finally:
        if own:
            connection.execute("COMMIT")
    if (application, version, tables) == (0, 0, 0):
        return 0
    if application != APPLICATION:
        raise KeyRefused(f"{path}: this is another program's database; move it away, or name another home")
    if version > latest(migrations):
        raise KeyRefused(
            f"{path}: it was written by a newer Parley (schema {version}, this one knows {latest(migrations)}); "
            "update Parley, or name another home"
        )
    if version < FIRST:
        raise KeyRefused(
            f"{path}: it was written by an older Parley (schema {version}, this one begins with {FIRST}); "
            f"finish its jobs with that one, or move {path.parent} away to begin anew"
        )
    return version


def check_schema(
    connection: sqlite3.Connection, path: Path, version: int, migrations: Sequence[str] = MIGRATIONS
) -> None:
    """Compare the file's tables, indexes and triggers with those of a version, to the letter."""
    due = dict(_objects(version, tuple(migrations)))
    pages: set[int] = set()
    for kind, name, sql, page in connection.execute("SELECT type, name, sql, rootpage FROM sqlite_schema"):
        if (kind, name) not in due or due.pop((kind, name)) != sql:
            raise KeyRefused(_strange(path, f"its {kind!a:.20} {name!a:.60} is not Parley's"))
        if kind != "trigger" and (page in pages or type(page) is not int):
            raise KeyRefused(_strange(path, f"its {kind!a:.20} {name!a:.60} lies where another does"))
        if kind != "trigger":
            pages.add(page)
    if due:
        kind, name = next(iter(due))
        raise KeyRefused(_strange(path, f"its {kind} {name} is missing"))
    encoding = connection.execute("PRAGMA encoding").fetchone()[0]
    if encoding != "UTF-8":
        raise KeyRefused(_strange(path, f"its text is in {encoding!a:.20}"))


def statements(script: str) -> Iterator[str]:
    """The statements of a script, one by one: in a transaction, sqlite3 runs no whole script."""
    statement = ""
    for line in script.splitlines(keepends=True):
        if statement or (line.strip() and not line.startswith("--")):
            statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        raise ValueError(f"this statement does not end: {statement!r:.80}")


@cache
def _objects(version: int, migrations: tuple[str, ...]) -> _Objects:
    """What a bus of a version holds, as SQLite itself keeps it."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        for script in (SCRIPT, *islice(migrations, version - FIRST)):
            for statement in statements(script):
                made.execute(statement)
        return {(kind, name): sql for kind, name, sql in made.execute("SELECT type, name, sql FROM sqlite_schema")}


def _strange(path: Path, what: str) -> str:
    return (
        f"{path}: {what}: another hand has changed this bus, and nothing in it is read; "
        "put back a copy and take it in with `parley bus adopt`, or name another home with PARLEY_HOME"
    )
