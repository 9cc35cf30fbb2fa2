"""A lock of the kernel on an open file, waited for a while: a process that is stopped keeps the locks that it holds."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.01


class StillLocked(OSError):
    """Another process holds the lock for too long: `strerror` says which, and what to do."""


def lock(descriptor: int, seconds: float = PATIENCE_SECONDS) -> None:
    """Lock an open file for this process alone."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise StillLocked(error.errno, _waited(holder(os.fstat(descriptor)), seconds)) from error
            time.sleep(_PAUSE_SECONDS)


def holder(there: os.stat_result) -> int:
    """The process that has locked a file for itself alone, by the kernel's own word; 0: none, or it can't be told."""
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    place = f"{os.major(there.st_dev):02x}:{os.minor(there.st_dev):02x}:{there.st_ino}"
    found = (line.split() for line in lines if place in line.split())
    return next((int(words[4]) for words in found if words[1] == "FLOCK" and words[3] == "WRITE"), 0)


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal, and does nothing until another."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False
    return stat[stat.rindex(b")") + 2 :][:1] in {b"T", b"t"}


def _waited(pid: int, seconds: float) -> str:
    if not pid:
        return f"another process has locked it for {seconds:.0f} s; end that one, or try again later"
    if is_stopped(pid):
        return f"process {pid} has locked it and is stopped; let it go on with `kill -CONT {pid}`, or end it"
    return f"process {pid} has locked it for {seconds:.0f} s; end that one, or try again later"
