"""A connection to the server, made anew where it was lost: calls wait for a server that restarts, for a while."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import Connection, IsolationLevel, sql
from psycopg.conninfo import make_conninfo
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus

from parley.bus.postgres.postgres_errors import explain, is_refusal, refused, unreachable
from parley.bus.postgres.server_address import SILENT_SECONDS, Address
from parley.bus.rows import BusError

Found = TypeVar("Found")
Session = Connection[tuple[Any, ...]]

PATIENCE_SECONDS = 10.0
IDLE_SECONDS = 60  # a process that stops while it is alone does not keep others from writing for ever
_PAUSE_SECONDS = 0.1
# Statements look up a few rows by their keys. A plan made while the tables are tiny would scan them, and be kept.
_SETTINGS = {
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
    "lock_timeout": "10s",
    "statement_timeout": "0",  # an administrator's would end what goes on for long, such as a move to a file
    "client_encoding": "UTF8",
    "default_transaction_isolation": "read committed",
    "standard_conforming_strings": "on",
    "timezone": "UTC",
    # The server ends the session of a client that is silently gone: it may hold locks that others wait for.
    "tcp_keepalives_idle": "5",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "10s",
}
_LATER = {140_000: "idle_session_timeout", 170_000: "transaction_timeout"}  # since which versions of the server


def connect(
    address: Address,
    schema: str,
    *,
    durability: str = "full",
    idle_seconds: int = IDLE_SECONDS,
    silent_seconds: float = SILENT_SECONDS,
) -> Session:
    """Open a session whose unqualified names are the bus's own.

    `silent_seconds`: a shorter time than usual, after which a server that is silently gone is noticed.
    """
    conninfo = address.conninfo if silent_seconds >= SILENT_SECONDS else _sooner(address.conninfo, silent_seconds)
    session = psycopg.connect(conninfo, autocommit=True, prepare_threshold=3)
    try:
        waits = _refuse_pooler(session, address)
        path = sql.SQL("{}, pg_temp").format(sql.Identifier(schema)).as_string(session)
        settings = _SETTINGS | {"search_path": path, "idle_in_transaction_session_timeout": f"{idle_seconds}s"}
        settings |= {name: "0" for version, name in _LATER.items() if session.info.server_version >= version}
        if durability == "normal":
            settings["synchronous_commit"] = "off"
        elif waits == "off":
            settings["synchronous_commit"] = "on"
        calls = sql.SQL(", ").join([sql.SQL("set_config(%s, %s, false)")] * len(settings))
        values = [part for setting in settings.items() for part in setting]
        session.execute(sql.SQL("SELECT {}").format(calls), values)
        session.isolation_level = IsolationLevel.REPEATABLE_READ  # of what is read in one transaction
    except BaseException:
        session.close()
        raise
    return session


def _refuse_pooler(session: Session, address: Address) -> str:
    """Refuse a session that others share, before anything is set in it; what it says of `synchronous_commit`."""
    asked = session.execute("SELECT pg_backend_pid(), current_setting('synchronous_commit')")
    process, waits = asked.fetchone() or (0, "")
    if process != session.info.backend_pid:
        raise BusError(
            f"the PostgreSQL server {address.server!r} is reached through a pooler, and leases and notices need a "
            "session of their own; put the address of the server itself into your own settings"
        )
    return str(waits)


def _sooner(conninfo: str, seconds: float) -> str:
    milliseconds, whole = int(seconds * 1000), max(2, round(seconds))  # libpq takes one second for two
    return make_conninfo(conninfo, tcp_user_timeout=milliseconds, keepalives_idle=1, connect_timeout=whole)


class Begun(msgspec.Struct, frozen=True):
    """A statement that is sent, and whose end is awaited later. It is one transaction of its own.

    `values` says what it is sent with, on the connection that there is by then. Where that is lost meanwhile, `again`
    finds out on another what became of it. `done` is called when it has ended well; `failed` says what an error means.
    """

    statement: str
    values: Callable[[], Sequence[Any]]
    again: Callable[[Session], None]
    done: Callable[[], None]
    failed: Callable[[BusError], BusError]


class ServerConnection:
    """One connection, which threads share: one call at a time goes on.

    `renewed` is called with each connection that takes a lost one's place, before it is used.
    """

    def __init__(
        self, open_session: Callable[[], Session], where: str, renewed: Callable[[Session], None] = lambda _: None
    ) -> None:
        self._open_session = open_session
        self._where = where
        self._renewed = renewed
        self._lock = threading.RLock()
        self._process = os.getpid()
        self._closed = False
        self._depth = 0  # of `alone`
        self._begun: tuple[int, Begun] | None = None  # by the thread that began it
        self._failed: tuple[int, BusError] | None = None  # what became of it, for that thread to hear
        self._session: Session | None = self._made()

    def call(self, work: Callable[[Session], Found], again: Callable[[Session], Found] | None = None) -> Found:
        """Do some work. Where the connection is lost in it, `again` finds out on another what became of it."""
        with self._lock:
            self._refuse_unusable()
            self.finish()
            lost = self._session is None
            if lost and self._depth:  # what was written since `transaction` began is gone: nothing more may follow it
                raise BusError(f"{self._where}: the connection to the server was lost; nothing was written")
            try:
                return work(self._session or self._reopen())
            except psycopg.Error as error:
                if not self._is_lost():
                    raise explain(error, self._where) from error
                self._session = None
                if self._depth:
                    raise unreachable(error, self._where) from error
                if lost:
                    raise unreachable(error, self._where) from error
            except (ValueError, TypeError, OverflowError) as error:  # a value that no column can hold
                raise explain(error, self._where) from error
            try:
                return (again or work)(self._reopen())
            except psycopg.Error as error:
                if not self._is_lost():
                    raise explain(error, self._where) from error
                self._session = None
                raise unreachable(error, self._where) from error

    def part(self, work: Callable[[Session], object]) -> None:
        """Do what may be left undone, before it is closed: a server that is away is not waited for."""
        with self._lock, suppress(psycopg.Error):
            if self._session is not None and not self._is_lost():
                if self._begun is not None:
                    self._begun = None
                    with suppress(psycopg.Error):  # no call is left that could say so
                        _receive(self._session)
                work(self._session)

    def begin(self, begun: Begun) -> None:
        """Send a statement. Whatever is asked next waits for its end, and its error is raised in this thread."""

        def again(session: Session) -> bool:
            begun.again(session)
            return False

        try:
            is_sent = self.call(lambda session: _send(session, begun), again)
        except BusError as error:
            raise begun.failed(error) from error
        if is_sent:
            self._begun = (threading.get_ident(), begun)
        else:
            begun.done()

    def finish(self) -> None:
        """Wait for the end of what was begun. Its error is raised in the thread that began it, now or later."""
        with self._lock:
            if self._begun is not None:
                (thread, begun), self._begun = self._begun, None
                try:
                    self.call(_receive, begun.again)
                    begun.done()
                except BusError as error:
                    self._failed = (thread, begun.failed(error))
            if self._failed is not None and self._failed[0] == threading.get_ident():
                (_, failed), self._failed = self._failed, None
                raise failed from failed.__cause__

    @contextmanager
    def transaction(self, first: str, settle: Callable[[Session], bool]) -> Iterator[None]:
        """A transaction around other calls; one inside another is part of it. `first` is its first statement.

        Where the connection is lost while it is committed, `settle` says whether it was.
        """
        with self._lock:
            if not self._depth:
                self.call(lambda session: _begin(session, first))
            self._depth += 1
            try:
                yield
            except BaseException:
                self._depth -= 1
                if not self._depth and self._session is not None:
                    self._roll_back()
                raise
            self._depth -= 1
            if not self._depth:
                self._commit(settle)

    def _commit(self, settle: Callable[[Session], bool]) -> None:
        def again(session: Session) -> None:
            if not settle(session):
                raise BusError(
                    f"{self._where}: the connection to the server was lost; nothing was written: go on with the job"
                )

        if self._session is None:
            raise BusError(f"{self._where}: the connection to the server was lost; nothing was written")
        self.call(self._end, again)

    def _end(self, session: Session) -> None:
        # Where a statement has failed, whatever became of its error, the server rolls back and says so.
        if session.execute("COMMIT").statusmessage != "COMMIT":
            raise BusError(f"{self._where}: a statement before has failed; nothing was written: go on with the job")

    def _roll_back(self) -> None:
        if self._session is not None:
            with suppress(psycopg.Error):
                self._session.execute("ROLLBACK")

    def another(self) -> Session:
        """One more session beside this one, for a thread of its own."""
        return self._made()

    @property
    def is_inside(self) -> bool:
        """Whether a transaction around calls is open, in the thread that asks."""
        return self._depth > 0

    @property
    def lock(self) -> threading.RLock:
        """What keeps other threads from the connection."""
        return self._lock

    @property
    def is_ours(self) -> bool:
        """Whether this process opened it, and no process that was forked from that one."""
        return os.getpid() == self._process

    def close(self) -> None:
        """Close it. More than once does no harm."""
        with self._lock:
            self._closed = True
            if self._session is not None and self.is_ours:
                self._session.close()
            self._session = None

    @property
    def is_closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def _refuse_unusable(self) -> None:
        if self._closed:
            raise BusError(f"{self._where}: this store was closed; open another")
        if not self.is_ours:
            raise BusError(f"{self._where}: another process opened this store; open another")

    def _is_lost(self) -> bool:
        return self._session is None or self._session.closed or self._session.broken

    def _reopen(self) -> Session:
        session = self._made()
        try:
            self._renewed(session)
        except BaseException:
            session.close()
            raise
        self._session = session
        return session

    def _made(self) -> Session:
        """Connect, and wait for a server that restarts, for a while."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._open_session()
            except psycopg.OperationalError as error:
                if is_refusal(error):
                    raise refused(error, self._where) from error
                if time.monotonic() > deadline:
                    raise unreachable(error, self._where) from error
                time.sleep(_PAUSE_SECONDS)
            except psycopg.Error as error:
                raise explain(error, self._where) from error


def run(session: Session, statement: str, values: Sequence[Any] = ()) -> None:
    """Run a statement that answers nothing."""
    session.execute(statement, values)


def _send(session: Session, begun: Begun) -> bool:
    """Send a statement whole, without a wait for what it answers."""
    first, *others = begun.statement.split("%s")
    numbered = first + "".join(f"${number}{part}" for number, part in enumerate(others, start=1))
    values = [None if value is None else str(value).encode() for value in begun.values()]
    session.pgconn.send_query_params(numbered.encode(), values)
    session.wait(send(session.pgconn))
    return True


def _receive(session: Session) -> None:
    """Wait for what a statement that was sent answers."""
    for result in session.wait(fetch_many(session.pgconn)):
        if result.status not in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK):
            raise error_from_result(result, encoding=session.info.encoding)


def _begin(session: Session, first: str) -> None:
    session.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
    try:
        session.execute(first)
    except psycopg.Error:
        with suppress(psycopg.Error):
            session.execute("ROLLBACK")
        raise
