"""The table of jobs' readable files on the server of their bus: written by a job's owner, read by every coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from hashlib import blake2b
from hmac import compare_digest
from pathlib import Path
from typing import NamedTuple

from psycopg import sql

from parley.bus.key_files import Key
from parley.bus.named_queries import read_queries
from parley.bus.postgres.postgres_schema import make_beside, schema_of
from parley.bus.postgres.server_address import Address
from parley.bus.postgres.server_connection import ServerConnection, Session, connect, run

_SQL = read_queries(Path(__file__).with_name("file_table.sql"))
_PAGE_ROWS = 50  # a row is at most a stream: read few at a time


class FileWrite(NamedTuple):
    """One write: to the end of a stream, or of a whole file."""

    number: int
    name: str
    appended: bool
    body: bytes


class FileTable:
    """The table of one bus. `owner` is the store that owns the jobs that are written for."""

    def __init__(self, key: Key, address: Address, where: str, owner: str = "") -> None:
        self._key = key
        self._owner = owner
        self._schema = f"{schema_of(key.id)}_files"
        self._server = ServerConnection(partial(connect, address, self._schema), where)
        try:
            self._server.call(self._prepare)
        except BaseException:
            self._server.close()
            raise

    def _prepare(self, session: Session) -> None:
        """Make the table where there is none."""
        bus = sql.Identifier(schema_of(self._key.id)).as_string(session)
        make_beside(session, self._schema, _SQL["schema"].replace("{bus}", bus))

    def keep(self, job: str, write: FileWrite) -> None:
        """Write something for a job. LostOwnership where this store does not own it any more."""
        values = (self._owner, job, *write, self._signed(job, write))
        self._server.call(lambda session: run(session, _SQL["keep"], values))

    def keep_all(self, job: str, writes: Iterable[FileWrite]) -> None:
        """Write several things for a job: all of them or none."""
        with self._server.transaction(_SQL["together"], lambda session: _last(session, job) > 0):
            for write in writes:
                self.keep(job, write)

    def last(self, job: str) -> int:
        """The number of a job's last write; 0: there is none."""
        return self._server.call(lambda session: _last(session, job))

    def after(self, job: str, number: int) -> Iterator[FileWrite]:
        """What was written after a number, in order. What another program has put there is passed over."""
        while True:
            values = (job, number, _PAGE_ROWS)
            rows = self._server.call(lambda session, values=values: session.execute(_SQL["list"], values).fetchall())  # type: ignore[misc]  # a default
            for found, name, appended, body, signature in rows:
                write = FileWrite(found, name, appended, bytes(body))
                if compare_digest(self._signed(job, write), signature):
                    yield write
            if len(rows) < _PAGE_ROWS:
                return
            number = rows[-1][0]

    def publish(self, job: str, commit: str) -> None:
        """Say which state of a job the git remote has: those who look at the job then need not ask the remote."""
        self._server.call(lambda session: run(session, _SQL["publish"], (job, commit)))

    def published(self, job: str) -> str:
        """The state of a job that was last said to be on the git remote; empty: none."""
        found = self._server.call(lambda session: session.execute(_SQL["published"], (job,)).fetchone())
        return str(found[0]) if found is not None else ""

    def forget(self, job: str) -> None:
        """Delete what is kept of a job."""
        self._server.call(lambda session: run(session, _SQL["forget"], (job, job)))

    def close(self) -> None:
        """Close the connection."""
        self._server.close()

    def _signed(self, job: str, write: FileWrite) -> str:
        """The signature of a write: no other program than one with the bus's key can make it."""
        digest = blake2b(key=self._key.secret, digest_size=32, person=b"parley file")
        for part in (job, str(write.number), write.name, "+" if write.appended else "="):
            digest.update(f"{len(part)}:{part}".encode("utf-8", "surrogatepass"))
        digest.update(write.body)
        return digest.hexdigest()


def _last(session: Session, job: str) -> int:
    found = session.execute(_SQL["last"], (job,)).fetchone()
    return int(found[0]) if found is not None else 0
