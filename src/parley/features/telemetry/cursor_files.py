"""How far a job's spans were sent: a file beside the job's records, so that the next owner goes on from there.

It may be lost or late: then spans are sent again, with the same ids and the same contents.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from parley.base.json_codec import Unreadable, decode, encode

FILE = "telemetry.json"
LARGEST = 1024  # bytes


class _Cursor(Struct, frozen=True):
    step: int = 0


class CursorFiles:
    """The files of a home's jobs."""

    def __init__(self, jobs: Path) -> None:
        self._jobs = jobs

    def read(self, job: str) -> int:
        """The last step whose spans were taken; 0 where none is known."""
        try:
            handle = os.open(self._jobs / job / FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(handle, "rb") as file:
                return max(0, decode(file.read(LARGEST).decode("utf-8", "replace"), _Cursor).step)
        except (OSError, Unreadable):
            return 0

    def write(self, job: str, step: int) -> None:
        """Note how far it has come, whole or not at all. Where that fails, spans are sent again."""
        path = self._jobs / job / FILE
        draft = path.with_name(f".{FILE}.{os.getpid()}")
        with suppress(OSError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(draft, flags, 0o600), "w", encoding="utf-8") as file:
                file.write(encode(_Cursor(step)))
            draft.replace(path)
