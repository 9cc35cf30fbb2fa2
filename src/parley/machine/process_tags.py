"""Finds and kills the processes of a job by a mark in their environment.

Caged processes can't hide: the init of their process namespace has the mark, the agent can't reach it, and all others
die with it. Git that works for a job has a mark of its own.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "PARLEY_TURN"
KILL_SECONDS = 10.0
_PAUSE_SECONDS = 0.002


def gits_mark(job: str) -> str:
    """The mark of Parley's own git while it works for a job."""
    return f"{job}/git"


def _mark_of(pid: int) -> str:
    """A process's mark; empty where it has none, has ended, or is another user's."""
    try:
        environment = b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return ""
    _, found, rest = environment.partition(f"\0{MARK}=".encode())
    return rest.partition(b"\0")[0].decode("utf-8", "surrogateescape") if found else ""


def _marked(mark: str, spared: str) -> Iterator[int]:
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdecimal()):  # noqa: PTH208 - very many
        if pid != os.getpid() and _fits(_mark_of(pid), mark, spared):
            yield pid


def _fits(found: str, mark: str, spared: str) -> bool:
    if not found or found == spared:
        return False
    return found.startswith(mark) if mark.endswith("/") else found == mark


def _kill(pid: int, mark: str, spared: str) -> None:
    """Kill a process, but not another that got its number meanwhile."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        handle = os.pidfd_open(pid)
        try:
            if _fits(_mark_of(pid), mark, spared):
                signal.pidfd_send_signal(handle, signal.SIGKILL)
        finally:
            os.close(handle)


def any_marked(mark: str, *, spared: str = "") -> bool:
    """Whether a process of a turn or a job runs."""
    return next(_marked(mark, spared), None) is not None


def end_marked(mark: str, *, spared: str = "", seconds: float = KILL_SECONDS) -> bool:
    """Kill the processes of a turn, or with a trailing slash of a whole job, and wait until they have ended.

    `spared`: a mark whose processes are left alone. Returns whether they ended in time.
    """
    deadline = time.monotonic() + seconds
    while True:
        some = False
        for pid in _marked(mark, spared):  # the oldest first: all others die with it
            _kill(pid, mark, spared)
            some = True
        if not some:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_SECONDS)
