"""Cookies: signed with a key of the user's own, so that they outlive a restart, and bound to the server's port.

A cookie names a pass, and nothing that counts: what its holder may do is looked up with every request.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import time
from contextlib import suppress
from pathlib import Path

from parley.web.safety.people_book import BookTrouble

KEY_BYTES = 32
LASTS_SECONDS = 30 * 86_400
ACCOUNT = "account"  # the pass of the user who runs the server
_VALUE = re.compile(r"([a-z0-9]{1,32})\.([0-9]{1,12})\.([0-9a-f]{64})")


class Sessions:
    """Makes and reads the cookies of one server."""

    def __init__(self, key: bytes, port: int, *, tls: bool = False) -> None:
        self._key, self._port = key, port
        # Browsers tell servers on other ports of the same host not apart. Under TLS they can at least keep the servers
        # of neighbouring names from setting it.
        self.cookie = f"__Host-parley-{port}" if tls else f"parley-{port}"

    def make(self, name: str) -> str:
        """The value of a cookie for the holder of a pass."""
        issued = str(int(time.time()))
        return f"{name}.{issued}.{self._sign(name, issued)}"

    def read(self, value: str) -> str:
        """The pass that a cookie names; empty if it is not one of this server's, or too old."""
        found = _VALUE.fullmatch(value)
        if found is None or not hmac.compare_digest(found[3], self._sign(found[1], found[2])):
            return ""
        return found[1] if 0 <= time.time() - int(found[2]) + 60 < LASTS_SECONDS else ""

    def _sign(self, name: str, issued: str) -> str:
        return hmac.digest(self._key, f"cookie|{self._port}|{name}|{issued}".encode(), hashlib.sha256).hex()


def page_key(folder: Path) -> bytes:
    """The key of the page in a folder of the user's own; made where there is none."""
    path = folder / "page-key"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = folder / f".page-key.{os.getpid()}.{secrets.token_hex(4)}"
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(os.urandom(KEY_BYTES))
            with suppress(FileExistsError):  # whole or not at all: another server may start at this moment
                path.hardlink_to(draft)
        finally:
            draft.unlink()
        return _read_key(path)
    except OSError as error:
        raise BookTrouble(f"{path}: {error.strerror}; the page's key is kept there") from error


def _read_key(path: Path) -> bytes:
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise BookTrouble(f"{path} has to be yours alone; see to its owner and mode (0600)")
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise BookTrouble(f"{path} is damaged; delete it, and the server makes another")
    return key
