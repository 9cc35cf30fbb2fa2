"""Deletes from the git remote what it has of turns that are over: of many at once, since each deletion is a push."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection

from parley.hosts.mirror.place_mirror import PlaceMirror
from parley.ports.turns import Order
from parley.ports.workspaces import WorkspaceError

WAIT_SECONDS = 10.0  # for others that end meanwhile
LEAVE_SECONDS = 5.0  # for what is left when the process ends: the remote may not answer


class OverTurns:
    """The turns that are over and whose refs are still on the remote.

    What can't be deleted now is deleted along with the next; `parley gc` deletes what stays behind.
    """

    def __init__(self, mirror: PlaceMirror, carrying: threading.Semaphore) -> None:
        """`carrying`: held while git works with the remote."""
        self._mirror, self._carrying = mirror, carrying
        self._lock, self._deleting = threading.Lock(), threading.Lock()
        self._over: list[Order] = []
        self._thread: threading.Thread | None = None
        self._waits = False
        self._closed = threading.Event()
        self._until = float("inf")  # when no more is deleted

    def add(self, orders: Collection[Order]) -> None:
        """Turns are over. Any thread may call it, and none waits for the remote."""
        with self._lock:
            self._over += orders
            if not orders or self._waits:
                return
            self._waits = True
            self._thread = threading.Thread(target=self._wait, name="parley-over-turns", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Delete what is left, if the remote takes it soon: this process ends."""
        self._until = time.monotonic() + LEAVE_SECONDS
        self._closed.set()
        with self._lock:
            thread = self._thread if self._waits else None
        if thread is not None:
            thread.join()
        else:
            self._delete()

    def _wait(self) -> None:
        self._closed.wait(WAIT_SECONDS)
        with self._lock:
            self._waits = False
        self._delete()

    def _delete(self) -> None:
        with self._deleting:
            with self._lock:
                over, self._over = self._over, []
            if not over or time.monotonic() > self._until:
                return
            try:
                with self._carrying:
                    self._mirror.drop(over, lambda: time.monotonic() > self._until)
            except (WorkspaceError, OSError):
                with self._lock:
                    self._over += over
