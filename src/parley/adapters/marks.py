"""Processes that belong to a turn, wherever they have moved to: their environment says so."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "PARLEY_TURN"
KILL_SECONDS = 10.0


def _marked(mark: str) -> Iterator[int]:
    needle = f"{MARK}={mark}".encode()
    exact = b"" if mark.endswith("/") else b"\0"
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = b"\0" + (entry / "environ").read_bytes()
            if b"\0" + needle + exact in environment:
                yield int(entry.name)


def end_marked(mark: str) -> None:
    """End the processes of a turn, or with a slash at the end of all of a job's, and wait until they are gone."""
    deadline = time.monotonic() + KILL_SECONDS
    while (found := [pid for pid in _marked(mark) if pid != os.getpid()]) and time.monotonic() < deadline:
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)
