"""The schema of a bus on PostgreSQL: what schema.sql makes, the migrations after it, and what else may not be there.

Each bus has a PostgreSQL schema of its own, named after the bus's id, so that many buses share a database. A bus is
made, and migrated, in one transaction. What the server holds is compared with `objects.txt` before a row is read: a
trigger or a function of another hand could answer in a table's place.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psycopg
from psycopg import sql

from parley.bus.key_files import ID, Key
from parley.bus.postgres.postgres_queries import QUERIES
from parley.bus.postgres.server_connection import Session
from parley.bus.rows import BusError, Owned

FIRST = 1
SCRIPT = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8")
OBJECTS = Path(__file__).with_name("objects.txt")
# The script that makes FIRST + 1 of FIRST, the one that makes FIRST + 2 of that, and so on. A script is never changed.
MIGRATIONS: tuple[str, ...] = ()
VERSION, IDENTITY, PROTOCOL = "version", "identity", "protocol"
PREFIX, BOARD = "parley_", "_board"  # what a bus's schema has before its id, and a board's after its bus's


def schema_of(identity: str) -> str:
    """The PostgreSQL schema of a bus."""
    if ID.fullmatch(identity) is None:
        raise BusError(f"{identity!a:.60} is no bus's id")
    return f"{PREFIX}{identity}"


def board_of(schema: str) -> str:
    """The schema of the board beside a bus, where turns of other hosts are: one of its own, which hosts may use."""
    return f"{schema}{BOARD}"


def id_of(board: str) -> str:
    """The id of the bus that a board is beside."""
    return board.removeprefix(PREFIX).removesuffix(BOARD)


def latest(migrations: Sequence[str] = MIGRATIONS) -> int:
    """The schema that this program writes."""
    return FIRST + len(migrations)


def exists(session: Session, schema: str) -> bool:
    """Whether the server has the bus."""
    return session.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is not None


def is_open_to(session: Session, schema: str) -> bool:
    """Whether this user may look into the schema of a bus that is there. To any other it seems to be empty."""
    return session.execute("SELECT has_schema_privilege(%s, 'USAGE')", (schema,)).fetchone() == (True,)


def make_beside(session: Session, schema: str, script: str) -> None:
    """Make what is kept beside a bus, in a PostgreSQL schema of its own, unless it is there.

    Where another process makes it meanwhile, that is waited for. No advisory lock is taken, for this or for anything:
    any role of the database could hold it.
    """
    if exists(session, schema):
        return
    with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateSchema), session.transaction():
        session.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        session.execute(script.encode())


def make(session: Session, schema: str, key: Key, protocol: str, migrations: Sequence[str] = MIGRATIONS) -> None:
    """Make an empty bus, whole or not at all; inside a transaction if one is open."""
    _refuse_encoding(session)
    with session.transaction():
        session.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        for script in (SCRIPT, *migrations):
            session.execute(_script(script))
        for name, value in ((VERSION, str(latest(migrations))), (IDENTITY, key.id), (PROTOCOL, protocol)):
            session.execute(QUERIES["set_meta"], (name, value))


def _refuse_encoding(session: Session) -> None:
    encoding = session.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise BusError(
            f"the database {session.info.dbname!a:.80} is encoded in {encoding!a:.40}, which can't hold every text; "
            "name one that was made with ENCODING 'UTF8'"
        )


def prepare(session: Session, where: str, key: Key, protocol: str, migrations: Sequence[str] = MIGRATIONS) -> None:
    """See that the bus is one that this program can use; migrate an older one while no process owns a job."""
    version = _version(session, where, migrations)
    if version < latest(migrations):
        try:
            check_objects(session, where, version)
        except BusError:
            if _version(session, where, migrations) == version:  # else another process has just migrated it
                raise
        _migrate(session, where, version, migrations)
    check_objects(session, where, latest(migrations))
    if _meta(session, IDENTITY) != key.id:
        raise BusError(f"{where}: it is another bus than this home's; name the database that has it")
    there = _meta(session, PROTOCOL) or "not said"
    if there != protocol:
        raise BusError(
            f"{where}: its jobs follow another version of the protocol ({there!s:.200}) than this Parley "
            f"({protocol}); finish them with the Parley that began them, or name another home"
        )


def check_objects(session: Session, where: str, version: int) -> None:
    """Compare the server's tables, indexes, triggers and functions with Parley's own."""
    if version != latest():
        return  # what a migration begins with is known to the program that wrote it
    due = {tuple(line.split("\t")[:2]): line for line in OBJECTS.read_text(encoding="utf-8").splitlines()}
    for line in objects(session):
        kind, name, _ = line.split("\t")
        if due.pop((kind, name), None) != line:
            raise BusError(_strange(where, f"its {kind!a:.20} {name!a:.80} is not Parley's"))
    if due:
        kind, name = next(iter(due))
        raise BusError(_strange(where, f"its {kind} {name} is missing"))


def objects(session: Session) -> list[str]:
    """All that is in the bus's PostgreSQL schema, a line each."""
    return ["\t".join(map(str, row)) for row in session.execute(QUERIES["list_objects"]).fetchall()]


def _version(session: Session, where: str, migrations: Sequence[str]) -> int:
    found = _meta(session, VERSION)
    if found is None or not found.isdecimal():
        raise BusError(_strange(where, "it does not say which schema it has"))
    version = int(found)
    if version > latest(migrations):
        raise BusError(
            f"{where}: it was written by a newer Parley (schema {version}, this one knows {latest(migrations)}); "
            "update Parley, or name another home"
        )
    if version < FIRST:
        raise BusError(_strange(where, f"there is no schema {version}"))
    return version


def _migrate(session: Session, where: str, version: int, migrations: Sequence[str]) -> None:
    """Bring an older bus to the latest schema, a transaction for each migration."""
    for number in range(version, latest(migrations)):
        with session.transaction():
            session.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            session.execute(QUERIES["alone"])  # an owner that comes now waits, and is refused then
            if _meta(session, VERSION) != str(number):
                continue  # another process has done it meanwhile
            owned = session.execute(QUERIES["list_owned"]).fetchone()
            if owned is not None:
                raise Owned(
                    f"{where}: it has to be brought to schema {number + 1}, and a process of an older Parley works on "
                    f"job {owned[0]}; end that one first"
                )
            session.execute(_script(migrations[number - FIRST]))
            session.execute(QUERIES["set_meta"], (VERSION, str(number + 1)))


def _meta(session: Session, name: str) -> str | None:
    found = session.execute(QUERIES["get_meta"], (name,)).fetchone()
    return None if found is None else str(found[0])


def _script(script: str) -> sql.SQL:
    return sql.SQL(script.replace("{", "{{").replace("}", "}}"))


def _strange(where: str, what: str) -> str:
    return (
        f"{where}: {what}: another hand has changed this bus, and nothing in it is read; restore it from a backup, "
        "or name another home with PARLEY_HOME"
    )
