"""What one human has decided, as one SQLite file of their own, outside every repository and workspace."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from parley.bus.named_queries import read_queries
from parley.features.proxy.decision_recall import Ask, RecalledDecisions, Row, vocabulary, words_of
from parley.features.proxy.decision_store_check import VARIABLE, admit, check_schema, restrain
from parley.ports.decisions import Decided, MemoryTrouble

SCHEMA = 1
BUSY_SECONDS = 5.0
PAUSE_SECONDS = 0.01
_APPLICATION = 0x5061726D  # in the file's header: no other program's database is taken for a memory
_SQL = read_queries(Path(__file__).with_suffix(".sql"))


def place(environment: Mapping[str, str]) -> Path:
    """Where a human's memory lies."""
    named = environment.get(VARIABLE)
    if named:
        return Path(os.path.realpath(named))  # a link that the user names is followed once, here
    base = environment.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser()
    return Path(base) / "parley" / "memory.db"


class SqliteDecisions(RecalledDecisions):
    """The memory in a file. It is made when something is first remembered, and opened when it is first used."""

    def __init__(self, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> None:
        self.path = path
        self._busy_seconds = busy_seconds
        self._connection: sqlite3.Connection | None = None

    @property
    def where(self) -> str:
        """Where the memory lies, for people."""
        return str(self.path)

    @property
    def exists(self) -> bool:
        """Whether anything was ever remembered here."""
        return self.path.is_file()

    def close(self) -> None:
        """Let go of the file. It is opened again where it is used again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # ---- opening -------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[Ask]:
        with self._connected() as connection:
            yield partial(_ask, connection)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            yield self._opened()
        except sqlite3.Error as error:
            self.close()
            raise self._trouble(error) from error
        except OSError as error:
            raise MemoryTrouble(
                f"{self.path}: {error.strerror}; see to its permissions, or name another with {VARIABLE}"
            ) from error

    @contextmanager
    def _writing(self) -> Iterator[Ask]:
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield partial(_ask, connection)
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            admit(self.path)
            if not self.path.exists():
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with suppress(FileExistsError):  # another process was faster
                    os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            connection = sqlite3.connect(
                f"file:{quote(str(self.path))}?mode=rw",
                uri=True,
                timeout=self._busy_seconds,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                restrain(connection)
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.row_factory = sqlite3.Row
        if self._schema(connection) < SCHEMA:
            self._go_over_to_wal(connection)
            connection.execute("BEGIN IMMEDIATE")
            if self._schema(connection) < SCHEMA:  # another process may have been faster
                for statement in _SQL["schema-1"].split(";\n"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                connection.execute(f"PRAGMA user_version = {SCHEMA}")
            connection.execute("COMMIT")
        check_schema(connection, self.path, _SQL["schema-1"])
        connection.execute("PRAGMA secure_delete = ON")  # what is forgotten leaves no trace in a free page

    def _go_over_to_wal(self, connection: sqlite3.Connection) -> None:
        """SQLite itself does not wait for another process here: two may make the file at the same time."""
        deadline = time.monotonic() + self._busy_seconds
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(PAUSE_SECONDS)
            else:
                return

    def _schema(self, connection: sqlite3.Connection) -> int:
        application, version, tables = (
            int(connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("application_id", "user_version", "schema_version")
        )
        if (application, version, tables) != (0, 0, 0) and application != _APPLICATION:
            raise MemoryTrouble(f"{self.path}: this is another program's database; name another with {VARIABLE}")
        if version > SCHEMA:
            raise MemoryTrouble(
                f"{self.path}: a newer Parley wrote this memory (schema {version}, this one knows {SCHEMA}); "
                f"update Parley, or name another with {VARIABLE}"
            )
        return version

    def _trouble(self, error: sqlite3.Error) -> MemoryTrouble:
        said = str(error)
        if "locked" in said or "busy" in said:
            return MemoryTrouble(f"{self.path}: another process keeps the memory busy; try again when it is done")
        if isinstance(error, sqlite3.OperationalError) and ("readonly" in said or "unable to open" in said):
            return MemoryTrouble(
                f"{self.path}: {said}; see to its permissions and the disk, or name another with {VARIABLE}"
            )
        return MemoryTrouble(
            f"{self.path}: the memory is damaged ({said}) and was left as it is; put a copy back, or move it away "
            "and a new one begins"
        )

    # ---- words ---------------------------------------------------------------------------------

    def _term(self, word: str) -> str:
        """A word as the index takes it: quoted, so that nothing in it is a command."""
        return '"' + word.replace('"', '""') + '"'

    def _index(self, ask: Ask, number: int, one: Decided) -> None:
        ask("add_words", (number, one.asked, one.excerpt, one.said))
        for word in vocabulary(one):
            ask("count_term", (word,))

    def _unindex(self, ask: Ask, number: int, one: Decided) -> None:
        ask("drop_words", (number, one.asked, one.excerpt, one.said))
        for word in vocabulary(one):
            ask("discount_term", (word,))
        ask("drop_terms", ())

    def search(self, text: str, limit: int) -> list[Decided]:
        """The decisions that hold all words of a text, best first."""
        wanted = " ".join(self._term(word) for word in dict.fromkeys(words_of(text)))
        return self._rows("search", (wanted, limit)) if wanted else []

    def _purge(self, ask: Ask) -> None:
        ask("rebuild", ())  # the index marks what is deleted; only so the words themselves go

    def _wipe(self) -> None:
        """Rewrite the pages that forgotten decisions lay on."""
        with self._connected() as connection:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _ask(connection: sqlite3.Connection, name: str, values: Sequence[Any]) -> list[Row]:
    return connection.execute(_SQL[name], values).fetchall()
