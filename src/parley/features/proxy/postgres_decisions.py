"""What one human has decided, on the PostgreSQL server of a bus that several hosts share: one memory for all of them.

Each user of the database has a memory of their own there, in a PostgreSQL schema of its own, for all their buses.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from parley.bus.named_queries import read_queries
from parley.bus.postgres.bus_text import from_column, to_column
from parley.bus.postgres.postgres_errors import explain, unreachable
from parley.bus.postgres.postgres_schema import exists, make_beside
from parley.bus.postgres.server_address import Address
from parley.bus.postgres.server_connection import Session, connect
from parley.bus.rows import BusError
from parley.features.proxy.decision_recall import Ask, RecalledDecisions, Row, vocabulary, words_of
from parley.ports.decisions import Decided, MemoryTrouble

VERSION = 1
_TABLES = ("decisions", "corrected", "postings", "terms")
_SQL = read_queries(Path(__file__).with_suffix(".sql"))


class PostgresDecisions(RecalledDecisions):
    """The memory on a server. It is made when something is first remembered, and opened when it is first used."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._session: Session | None = None
        self._made = False  # whether it is known to be there

    @property
    def where(self) -> str:
        """Where the memory lies, for people."""
        return f"the PostgreSQL server {self._address.server}"

    @property
    def exists(self) -> bool:
        """Whether anything was ever remembered here."""
        if not self._made:
            with self._trouble():
                session = self._opened()
                self._made = exists(session, self._schema(session))
        return self._made

    def close(self) -> None:
        """Let go of the connection. It is opened again where it is used again."""
        if self._session is not None:
            self._session.close()
            self._session = None

    # ---- opening -------------------------------------------------------------------------------

    def _opened(self) -> Session:
        if self._session is not None and not self._session.closed:
            return self._session
        session = connect(self._address, "pg_temp")
        try:
            session.execute("SELECT set_config('search_path', %s, false)", (f"{self._schema(session)}, pg_temp",))
            if exists(session, self._schema(session)):
                self._check(session)
        except BaseException:
            session.close()
            raise
        self._session = session
        return session

    def _check(self, session: Session) -> None:
        found = session.execute(_SQL["version"]).fetchone()
        if found != (VERSION,):
            raise MemoryTrouble(
                f"{self.where}: another version of Parley wrote this memory (schema {found[0] if found else 'none'}, "
                f"this one knows {VERSION}); use the same Parley on all hosts"
            )

    @staticmethod
    def _schema(session: Session) -> str:
        """The memory's schema: of this user of the database, whose name may be too long to be part of it."""
        user = str(session.info.user)
        return f"parley_memory_{hashlib.sha256(user.encode()).hexdigest()[:32]}"

    @contextmanager
    def _trouble(self) -> Iterator[None]:
        """Tell what goes wrong as trouble of the memory: a job goes on without it."""
        try:
            yield
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self.close()
            raise MemoryTrouble(f"the memory: {unreachable(error, self.where)}") from error
        except (psycopg.Error, ValueError) as error:
            self.close()
            raise MemoryTrouble(f"the memory: {explain(error, self.where)}") from error
        except BusError as error:
            raise MemoryTrouble(f"the memory: {error}") from error

    @contextmanager
    def _reading(self) -> Iterator[Ask]:
        with self._trouble():
            session = self._opened()
            yield partial(_ask, session)

    @contextmanager
    def _writing(self) -> Iterator[Ask]:
        with self._trouble():
            session = self._opened()
            with session.transaction():
                session.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
                if not self._made:
                    make_beside(session, self._schema(session), _SQL["schema"])
                session.execute(_SQL["lock"])
                yield partial(_ask, session)
            self._made = True

    # ---- words ---------------------------------------------------------------------------------

    def _term(self, word: str) -> str:
        return _folded(word)

    def _index(self, ask: Ask, number: int, one: Decided) -> None:
        words = [_folded(word) for text in (one.asked, one.excerpt, one.said) for word in words_of(text)]
        ask("add_words", (number, len(words), json.dumps(Counter(words))))
        ask("count_terms", (json.dumps(vocabulary(one)),))

    def _unindex(self, ask: Ask, number: int, one: Decided) -> None:
        ask("drop_words", (number,))
        ask("discount_terms", (json.dumps(vocabulary(one)),))
        ask("drop_terms", ())

    def search(self, text: str, limit: int) -> list[Decided]:
        """The decisions that hold all words of a text, best first."""
        wanted = json.dumps(list(dict.fromkeys(_folded(word) for word in words_of(text))))
        return self._rows("search", (wanted, wanted, limit)) if wanted != "[]" else []

    def _purge(self, ask: Ask) -> None:
        """The index holds no words of what was deleted."""

    def _wipe(self) -> None:
        """Rewrite the tables without the forgotten rows; the server's log and its backups are its keeper's."""
        with self._trouble():
            session = self._opened()
            for table in _TABLES:
                session.execute(sql.SQL("VACUUM FULL {}").format(sql.Identifier(table)))


def _folded(word: str) -> str:
    """A word without its accents, as the SQLite memory's index has it."""
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
    return plain.lower() or word


def _ask(session: Session, name: str, values: Sequence[Any]) -> list[Row]:
    given = [to_column(value) if isinstance(value, str) else value for value in values]
    with session.cursor(row_factory=dict_row) as cursor:
        cursor.execute(_SQL[name].encode(), given)
        rows = cursor.fetchall() if cursor.description is not None else []
    return [{column: from_column(value) for column, value in row.items()} for row in rows]
