"""The way to the board's database: a connection that comes back after the server does, and a bell for notifications."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg

from parley.bus.postgres.postgres_errors import is_refusal, refused, unreachable
from parley.bus.rows import BusError

Connect = Callable[[], psycopg.Connection[Any]]  # with autocommit, and the bus's schema as its search path

PATIENCE_SECONDS = 20.0  # that a call waits for a server that is down
PAUSE_SECONDS = 0.1
BELL_SECONDS = 1.0  # after which the bell rings though nothing was heard: a notification may be lost with a connection


class BoardRefuses(BusError):
    """The server answers, and does not do what was asked: asking again would end the same way."""


class Stopping(Exception):
    """The process ends: nothing waits for the server any more."""


class BoardLink:
    """One connection, shared by threads. A statement that a lost connection leaves in doubt is run again.

    So every statement has to be one that may be run twice.
    """

    def __init__(self, connect: Connect, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self._connect = connect
        self.patience_seconds = patience_seconds
        self._lock = threading.Lock()
        self._open: psycopg.Connection[Any] | None = None
        self._was_connected = False
        self.stopped = threading.Event()
        self.since = time.monotonic()  # when it was last connected anew
        self._lost_at: float | None = None  # since when the server is away
        self._ends = False

    def rows(self, statement: str, given: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What a statement returns. BusError where the server stays away, BoardRefuses where it answers and refuses."""
        deadline = self._deadline()
        while True:
            try:
                with self._held(deadline):
                    return self._run(statement, given)
            except (psycopg.OperationalError, psycopg.InterfaceError) as error:
                if self.stopped.is_set():
                    raise Stopping from error
                if not self._was_connected and is_refusal(error):
                    raise refused(error, "the board") from error
                if time.monotonic() > deadline:
                    raise unreachable(error, "the board") from error
                self.stopped.wait(PAUSE_SECONDS)
            except psycopg.Error as error:
                raise BoardRefuses(f"the board's database refuses: {_first_line(error)}") from error

    def _deadline(self) -> float:
        """When a call that begins now gives up."""
        begun = self._lost_at if self._ends and self._lost_at is not None else time.monotonic()
        return begun + self.patience_seconds

    def _run(self, statement: str, given: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            if self._open is None or self._open.closed:
                self._open = self._connect()
                self._was_connected = True
                self.since = time.monotonic()
            with self._open.cursor() as cursor:
                cursor.execute(statement, given)
                found = cursor.fetchall() if cursor.description is not None else []
        except (psycopg.OperationalError, psycopg.InterfaceError):
            self._lost_at = self._lost_at or time.monotonic()
            self._drop()
            raise
        self._lost_at = None
        return found

    @contextlib.contextmanager
    def _held(self, deadline: float) -> Iterator[None]:
        """The connection, for one thread. A call that hangs holds up the others no longer than their own patience."""
        if not self._lock.acquire(timeout=max(deadline - time.monotonic(), 0.0)):
            raise psycopg.OperationalError("it does not answer")
        try:
            if self.stopped.is_set():
                raise Stopping
            if self._ends and time.monotonic() > deadline:
                raise psycopg.OperationalError("it has been away all along")
            yield
        finally:
            self._lock.release()

    def script(self, text: str) -> None:
        """Run several statements as one transaction."""
        with self._held(time.monotonic() + self.patience_seconds):
            self._open = self._open or self._connect()
            with self._open.transaction(), self._open.cursor() as cursor:
                cursor.execute(text)

    def end_soon(self) -> None:
        """The process is about to end: a server that is away has its patience once, and not once for each call."""
        self._ends = True

    def stop(self) -> None:
        """Wait for no server any more: calls under way raise Stopping where they would wait."""
        self.stopped.set()

    def close(self) -> None:
        """Let go of the connection."""
        self.stopped.set()
        with self._lock:
            self._drop()

    def _drop(self) -> None:
        if self._open is not None:
            with contextlib.suppress(psycopg.Error):
                self._open.close()
            self._open = None


class Bell:
    """A thread that calls `ring` with what was notified on a channel; with nothing now and then, and when in doubt."""

    def __init__(self, connect: Connect, channel: str, ring: Callable[[Sequence[str]], None]) -> None:
        self._connect = connect
        self._channel = channel
        self._ring = ring
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="parley-bell", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Listen no more."""
        self._stopped.set()

    def join(self) -> None:
        """Wait until it has stopped."""
        self._thread.join(2 * BELL_SECONDS)

    def _listen(self) -> None:
        while not self._stopped.is_set():
            with contextlib.suppress(psycopg.Error, OSError), contextlib.closing(self._connect()) as connection:
                connection.execute(psycopg.sql.SQL("LISTEN {}").format(psycopg.sql.Identifier(self._channel)))
                looked = 0.0  # what was notified before this connection listened may be lost
                while not self._stopped.is_set():
                    heard = [one.payload for one in connection.notifies(timeout=BELL_SECONDS, stop_after=1)]
                    heard += [one.payload for one in connection.notifies(timeout=0)]
                    if heard:
                        self._ring(heard)
                    if time.monotonic() - looked >= BELL_SECONDS:  # also where notifications never cease
                        looked = time.monotonic()
                        self._ring([])
            self._stopped.wait(PAUSE_SECONDS)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
