"""The sockets of one gateway: bounded in number, and ended together with the cage."""

from __future__ import annotations

import contextlib
import socket
import threading


class OpenConnections:
    """Any thread may use it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._sockets)

    def keep(self, connection: socket.socket) -> bool:
        """Take a connection in; False if there are too many, or all were ended."""
        with self._lock:
            if self._closed or len(self._sockets) >= self._most:
                return False
            self._sockets.add(connection)
            return True

    def drop(self, connection: socket.socket) -> None:
        """Close a connection, whether it was taken in or not."""
        with self._lock:
            self._sockets.discard(connection)
        connection.close()

    def end(self) -> None:
        """End all connections. The threads that use them drop them."""
        with self._lock:
            self._closed = True
            for connection in self._sockets:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
