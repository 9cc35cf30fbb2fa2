"""What was started below this process and still runs: none can leave it unseen, whatever has become of its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from tools.child_processes import children_of

_PR_SET_CHILD_SUBREAPER = 36
LOOK_SECONDS = 0.05


def adopt_orphans() -> None:
    """From here on a process whose parent has died becomes a child of this one, instead of the system's first."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def left_processes(seconds: float) -> list[str]:
    """The children that still run after so many seconds, by their command lines; they are killed.

    Call it when this process waits for none of its own any more.
    """
    deadline = time.monotonic() + seconds
    while found := _children():
        if time.monotonic() > deadline:
            break
        time.sleep(LOOK_SECONDS)
    said = [_command(pid) for pid in found]
    while found:
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        found = _children()  # the children of those that were killed are this one's now
    return said


def _children() -> list[int]:
    """The children that run. Those that have ended are let go."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return children_of(os.getpid())


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return f"process {pid}"
    return words.replace(b"\0", b" ").decode("utf-8", "replace").strip() or f"process {pid}"
