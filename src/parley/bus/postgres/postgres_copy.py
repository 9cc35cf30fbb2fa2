"""Makes a bus on a server out of another store's tables, whole or not at all; and puts one aside that was moved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import psycopg
from psycopg import sql

from parley.bus import key_files
from parley.bus.bus_tables import KEY_COLUMNS, TABLES, Copied, Values, all_tables
from parley.bus.key_files import Key
from parley.bus.postgres import postgres_schema
from parley.bus.postgres.bus_text import from_column, to_column
from parley.bus.postgres.postgres_errors import explain, unreachable
from parley.bus.postgres.postgres_schema import schema_of
from parley.bus.postgres.server_address import Address
from parley.bus.postgres.server_connection import Session, connect
from parley.bus.rows import PROTOCOL, BusError

_OWNED_BY_NONE = ("",)
_PAGE_ROWS = 500  # that are in memory at once


def make_bus(address: Address, key: Key, source: Copied | None = None) -> None:
    """Make the bus of a key on a server, with the tables of another bus where one is given, in one transaction."""
    schema = schema_of(key.id)
    try:
        with closing(connect(address, schema)) as session, session.transaction():
            postgres_schema.make(session, schema, key, PROTOCOL)
            if source is not None:
                for name, rows in all_tables(source):
                    _write(session, name, rows)
    except (psycopg.Error, ValueError, TypeError) as error:
        key_files.forget(key.id)
        raise explain(error, f"the PostgreSQL server {address.server!r}") from error
    except BusError:
        key_files.forget(key.id)
        raise


def drop_bus(address: Address, key: Key) -> None:
    """Delete a copy that is not sound, with its key."""
    schema = schema_of(key.id)
    with suppress(psycopg.Error), closing(connect(address, schema)) as session:
        session.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))
    key_files.forget(key.id)


def _write(session: Session, name: str, rows: Iterator[Values]) -> None:
    columns: tuple[str, ...] = TABLES[name]
    more: tuple[str, ...] = ()
    if name == "owners":
        columns, more = (*columns, "owner"), _OWNED_BY_NONE
    target = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(name), sql.SQL(", ").join(map(sql.Identifier, columns))
    )
    with session.cursor() as cursor, cursor.copy(target) as copy:
        for row in rows:
            copy.write_row([_column(value) for value in (*row, *more)])


def read_page(session: Session, name: str, after: Values | None) -> list[Values]:
    """Some rows of a table, those after a row."""
    columns = TABLES[name]
    key = sql.SQL(", ").join(map(sql.Identifier, columns[: KEY_COLUMNS[name]]))
    values = [] if after is None else [_column(value) for value in after[: KEY_COLUMNS[name]]]
    beyond = sql.SQL("({}) > ({})").format(key, sql.SQL(", ").join([sql.Placeholder()] * len(values)))
    query = sql.SQL("SELECT {} FROM {} WHERE {} ORDER BY {} LIMIT {}").format(
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.Identifier(name),
        beyond if values else sql.SQL("true"),
        key,
        sql.Literal(_PAGE_ROWS),
    )
    return [tuple(map(from_column, row)) for row in session.execute(query, values)]


def _column(value: Any) -> Any:
    return to_column(value) if isinstance(value, str) else value


def aside(key: Key) -> str:
    """What the schema of a bus that was moved away is called: no store opens it, and the user deletes it."""
    return f"parley_old_{key.id}"


def put_aside(session: Session, key: Key) -> None:
    """Rename the schema of a bus that was moved away; inside the transaction that is open."""
    session.execute(
        sql.SQL("ALTER SCHEMA {} RENAME TO {}").format(sql.Identifier(schema_of(key.id)), sql.Identifier(aside(key)))
    )


def was_put_aside(address: Address, key: Key) -> bool:
    """Whether a bus of a server was put aside."""
    try:
        with closing(connect(address, schema_of(key.id))) as session:
            return is_aside(session, key)
    except psycopg.Error as error:
        raise unreachable(error, f"the PostgreSQL server {address.server!r}") from error


def is_aside(session: Session, key: Key) -> bool:
    """Whether a bus was put aside."""
    return postgres_schema.exists(session, aside(key))
