"""Where the page of a home is served, if it is: told by a file that counts only while its server lives.

The server holds a lock of the kernel for as long as it lives. The file is the user's own, like all of a home.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parley.bus.owner_locks import Locks
from parley.bus.rows import Owned

LOCK = "page"  # the lock's file is page.lock
FILE = "page-address"
LARGEST = 300  # bytes
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.\-:\[\]]{1,255}")


@contextmanager
def served(home: Path, address: str) -> Iterator[None]:
    """Tell where a home's page is served, until it is not. The first server of a home is the one that is told.

    Where that can't be written, as on a full disk, the page is served all the same: only notices have no link to it.
    """
    locks, path = Locks(home), home / FILE
    try:
        locks.take(LOCK)
    except (Owned, OSError):
        yield
        return
    try:
        with suppress(OSError):
            _write(path, address)
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        locks.forget()


def _write(path: Path, address: str) -> None:
    """Write it in place of what a server that was killed has left, which would count as this one's."""
    with suppress(FileNotFoundError):
        path.unlink()
    draft = path.with_name(f".{FILE}.{os.getpid()}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(draft, flags, 0o600), "w", encoding="ascii") as file:
            file.write(address)
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise


def page_address(home: Path) -> str:
    """Where a home's page is served, without a path; empty: it is not."""
    try:
        if not Locks(home).is_taken(LOCK):
            return ""
        handle = os.open(home / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        said = file.read(LARGEST).decode("ascii", "replace").strip()
    return said if _ADDRESS.fullmatch(said) else ""
