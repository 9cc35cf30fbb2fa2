"""The artifacts of a workspace: opened only where they are ordinary files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def regular(path: Path) -> Iterator[int | None]:
    """An ordinary file, opened; no link is followed, and nothing that could keep one waiting."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield handle if stat.S_ISREG(os.fstat(handle).st_mode) else None
    finally:
        os.close(handle)


def digest(path: Path) -> str:
    """The digest of an ordinary file; nothing if there is none."""
    with regular(path) as handle:
        if handle is None:
            return ""
        with os.fdopen(os.dup(handle), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def start(path: Path, length: int) -> str:
    """The first characters of an ordinary file; nothing if there is none."""
    with regular(path) as handle:
        return "" if handle is None else os.read(handle, 4 * length).decode("utf-8", "replace")[:length]
