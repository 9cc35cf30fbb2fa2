"""The thread beside a store: it hears what other stores write, and renews the lease while the store owns jobs.

It has a connection of its own, so that neither a long commit nor an idle store keeps it from that.
"""

from __future__ import annotations

import os
import select
import socket
import threading
import time
from collections.abc import Callable

import psycopg
from psycopg import Notify, sql

from parley.bus.postgres.postgres_queries import QUERIES
from parley.bus.postgres.server_connection import Session
from parley.bus.rows import BusError

LEASE_SECONDS = 10.0
RENEWAL_SECONDS = 3.0
_DEAF_SECONDS = 0.01  # after a notice of the store's own: one that commits all the time is not to wake this each time
_RETRY_SECONDS = 0.1  # as soon as others, which may find that the lease has ended meanwhile


class LeaseThread:
    """Hears and renews until it is stopped. Whatever goes wrong with its connection, it makes another."""

    def __init__(
        self, open_session: Callable[[], Session], channel: str, owner: str, lease_seconds: float, session: Session
    ) -> None:
        """`session` is the first, and the thread's from now on."""
        self.owning = False  # whether there is a lease to renew
        self.calls: list[Callable[[], None]] = []  # what is called when another store has written
        self._open_session = open_session
        self._channel = channel
        self._owner = owner
        self._seconds = lease_seconds
        self._every = min(RENEWAL_SECONDS, lease_seconds * RENEWAL_SECONDS / LEASE_SECONDS)
        self._heard_itself = False  # whether the store itself has written
        self._written = threading.Event()
        self._stopped = threading.Event()
        self._process = os.getpid()
        self._listening(session)  # what is written from now on is heard
        self._here, self._there = socket.socketpair()
        self._thread = threading.Thread(target=self._run, args=(session,), name="parley-lease", daemon=True)
        self._thread.start()

    def heard(self) -> bool:
        """Whether another store has written since the last call. Nothing is asked of the server."""
        if self._written.is_set():
            self._written.clear()
            return True
        return False

    def wait(self, seconds: float) -> None:
        """Wait until another store has written, for a while."""
        self._written.wait(seconds)

    def stop(self) -> None:
        """End the thread and its connection."""
        self._stopped.set()
        if os.getpid() == self._process:
            self._there.send(b"x")
            self._thread.join()
        self._here.close()
        self._there.close()

    def _listening(self, session: Session) -> Session:
        try:
            session.add_notify_handler(self._hear)
            session.execute(QUERIES["drop_leases"])
            session.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        except BaseException:
            session.close()
            raise
        return session

    def _hear(self, notice: Notify) -> None:
        if notice.payload != self._owner:
            self._tell()
        else:
            self._heard_itself = True

    def _tell(self) -> None:
        self._written.set()
        for call in self.calls:
            call()

    def _run(self, session: Session | None) -> None:
        renewed = time.monotonic()
        while not self._stopped.is_set():
            try:
                if session is None:
                    session = self._listening(self._open_session())
                    self._tell()  # something may have been written meanwhile
                if time.monotonic() - renewed >= self._every:
                    renewed = time.monotonic()
                    if self.owning:
                        session.execute(QUERIES["renew"], (self._seconds, self._owner))
                self._await(session, renewed + self._every - time.monotonic())
            except (psycopg.Error, BusError, OSError):
                if session is not None:
                    session.close()
                session = None
                self._stopped.wait(_RETRY_SECONDS)
        if session is not None:
            session.close()

    def _await(self, session: Session, seconds: float) -> None:
        """Wait for what the server sends, or for the end."""
        heard = select.poll()  # not `select`, which knows no descriptor above 1023
        for descriptor in (session.fileno(), self._here.fileno()):
            heard.register(descriptor, select.POLLIN)
        heard.poll(max(seconds, 0.0) * 1000)
        session.pgconn.consume_input()
        while (notice := session.pgconn.notifies()) is not None:
            self._hear(Notify(notice.relname.decode(), notice.extra.decode(), notice.be_pid))
        if self._heard_itself:
            self._heard_itself = False
            self._stopped.wait(_DEAF_SECONDS)
