"""Makes a SQLite bus out of another store's tables: a file with a key of its own, beside the home's own files."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from parley.bus import key_files
from parley.bus.bus_tables import TABLES, Copied, Values, all_tables
from parley.bus.key_files import Key
from parley.bus.rows import PROTOCOL
from parley.bus.sqlite import bus_schema, safe_open
from parley.bus.sqlite.queries import QUERIES
from parley.bus.sqlite.safe_open import FILE, META
from parley.bus.sqlite.sqlite_writes import KEYED
from parley.bus.sqlite.sqlite_writes import key as row_key


def make_copy(folder: Path, source: Copied, key: Key) -> Key:
    """Write the tables of a bus into a new file in an empty folder; the copy's key. `key` is the source's."""
    handle = os.open(folder / FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    inode = os.fstat(handle).st_ino
    os.close(handle)
    made = key_files.like(key, inode=inode)
    with closing(safe_open.connect(folder, 1.0)) as connection:
        connection.execute("PRAGMA synchronous = FULL").close()
        connection.execute("PRAGMA journal_mode = WAL").close()
        connection.execute("BEGIN IMMEDIATE")
        for script in (bus_schema.SCRIPT, *bus_schema.MIGRATIONS):
            for statement in bus_schema.statements(script):
                connection.execute(statement)
        connection.executemany(QUERIES["set_meta"], [("protocol", PROTOCOL), (META, made.id)])
        for name, rows in all_tables(source):
            keyed = name in KEYED
            columns = ("id", *TABLES[name][2:]) if keyed else TABLES[name]
            marks = ", ".join("?" * len(columns))
            statement = f"INSERT INTO {name} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608 - TABLES' own names
            connection.executemany(statement, map(_keyed, rows) if keyed else rows)
        connection.execute(f"PRAGMA application_id = {bus_schema.APPLICATION}")
        connection.execute(f"PRAGMA user_version = {bus_schema.latest()}")
        connection.execute("COMMIT")
    key_files.sync(folder)
    return made


def _keyed(row: Values) -> Values:
    return (row_key(row[0], row[1]), *row[2:])
