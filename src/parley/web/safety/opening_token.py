"""The token of the link that the server opens in the browser itself.

Other users of the machine see the words that programs are started with, so the printed link's token is not among them.
This one is good once, for a minute, and only for a connection of the user's own.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from pathlib import Path

LASTS_SECONDS = 60.0
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LOCAL, _REMOTE, _USER = 1, 2, 7  # columns


class OpeningToken:
    """One token, until it is used or too old."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._lock = threading.Lock()
        self._token, self._until = "", 0.0

    def make(self) -> str:
        """A token that may be used from now on."""
        with self._lock:
            self._token, self._until = secrets.token_urlsafe(24), time.monotonic() + LASTS_SECONDS
            return self._token

    def takes(self, token: str, client_port: int) -> bool:
        """Whether a visitor is let in by it; and it lets in once."""
        with self._lock:
            fits = bool(self._token) and secrets.compare_digest(self._token.encode(), token.encode("utf-8", "replace"))
            if not fits or time.monotonic() > self._until or not _is_own(client_port, self._port):
                return False
            self._token = ""
            return True


def _is_own(client_port: int, server_port: int) -> bool:
    """Whether the connection from one port to the other is of this process's user: the kernel's table says."""
    users: set[int] = set()
    for table in _TABLES:
        try:
            lines = table.read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for fields in map(str.split, lines):
            if _port(fields[_LOCAL]) == client_port and _port(fields[_REMOTE]) == server_port:
                users.add(int(fields[_USER]))
    return users == {os.geteuid()}


def _port(address: str) -> int:
    return int(address.rpartition(":")[2], 16)
