"""What the tests of PostgreSQL share: a server of their own, and buses on it."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from parley.bus import key_files
from parley.bus.bus_tables import TABLES
from parley.bus.postgres import postgres_schema
from parley.bus.postgres.postgres_schema import schema_of
from parley.bus.postgres.postgres_store import PostgresStore
from parley.bus.postgres.server_address import address_of
from parley.bus.postgres.server_connection import Session, connect
from parley.bus.rows import PROTOCOL
from tools.postgres_server import Server, programs

__all__ = ["Bus", "Server", "running"]

CI = os.environ.get("CI") == "true"


@contextmanager
def running(settings: Sequence[str] = ("fsync=off",), inside: Sequence[str] = ()) -> Iterator[Server]:
    """A server for as long as it is needed; `inside`: what goes before the words of its command."""
    found = programs()
    if found is None:
        line = "PostgreSQL is missing, and its tests with it: `make system` installs it"
        if CI:
            pytest.fail(line)
        pytest.skip(line)
    with tempfile.TemporaryDirectory(prefix="parley-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder), found, settings, inside)
        server.start()
        try:
            yield server
        finally:
            server.kill()


class Bus:
    """An empty bus of its own on a server; each call of `open` is another process's store."""

    def __init__(self, server: Server, home: Path) -> None:
        self.home = home
        self.key = key_files.like(key_files.make(str(home), 0), server="tests")
        self.address = address_of("tests", {"tests": server.url}, {})
        with closing(connect(self.address, schema_of(self.key.id))) as session:
            postgres_schema.make(session, schema_of(self.key.id), self.key, PROTOCOL)

    def empty(self) -> None:
        """Delete all rows, past the triggers: faster than to make another bus."""
        with closing(self.session()) as session:
            session.execute("SET session_replication_role = replica")
            for table in (*TABLES, "leases"):
                session.execute(f"DELETE FROM {table}")  # noqa: S608 - TABLES' own names

    def open(self, **options: Any) -> PostgresStore:
        """Open it once more."""
        return PostgresStore(self.home, self.key, self.address, **options)

    def session(self) -> Session:
        """A session past the store, as another program could have."""
        return connect(self.address, schema_of(self.key.id))
