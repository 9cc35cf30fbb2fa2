"""Processes by their parents: who is in a cage, seen from outside."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

TIDY_SECONDS = 10.0  # a fork bomb on a busy machine takes a while to stop
KILL_SECONDS = 10.0


def children(pid: int) -> list[int]:
    """A process's own children."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]
    except FileNotFoundError:  # a kernel without that file, or no such process
        return [child for child, parent in parents().items() if parent == pid]


def parents() -> dict[int, int]:
    """Every living process and its parent; what only waits to be reaped does not live."""
    found = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - thousands of names, often
        if name.isdecimal():
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{name}/stat").read_bytes()
                state, parent = stat[stat.rindex(b")") + 2 :].split(b" ", 2)[:2]
                if state not in {b"Z", b"X"}:
                    found[int(name)] = int(parent)
    return found


def descendants(root: int) -> set[int]:
    """All that came of a process, without itself."""
    return descendants_among(parents(), root)


def descendants_among(known: Mapping[int, int], root: int) -> set[int]:
    """The same, of processes and their parents that were looked up before."""
    below: dict[int, list[int]] = {}
    for pid, parent in known.items():
        below.setdefault(parent, []).append(pid)
    found: set[int] = set()
    todo = [root]
    while todo:
        fresh = [pid for pid in below.get(todo.pop(), ()) if pid not in found]
        found.update(fresh)
        todo += fresh
    return found


def end_all_but(init: int, main: int) -> bool:
    """End every process below an init but one. Whether it could be done in time."""
    deadline = time.monotonic() + TIDY_SECONDS
    stopped: set[int] = set()
    # whoever has been stopped can't fork any more: so this ends, also with a fork bomb
    while fresh := descendants(init) - {main} - stopped:
        _signal(fresh, signal.SIGSTOP)
        stopped |= fresh
        if time.monotonic() > deadline:
            break
    while rest := descendants(init) - {main}:
        _signal(rest, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def stop(pid: int) -> bool:
    """Stop a process. Whether it stands still in time; one that is gone does not."""
    deadline = time.monotonic() + TIDY_SECONDS
    try:
        os.kill(pid, signal.SIGSTOP)
        while not _stands(pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.001)
    except (ProcessLookupError, FileNotFoundError):
        return False
    return True


def _stands(pid: int) -> bool:
    """Whether no thread of a process runs."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = (thread / "stat").read_bytes()
            if stat[stat.rindex(b")") + 2 :][:1] not in {b"T", b"Z", b"X"}:
                return False
    return True


def marked(pids: Iterable[int], mark: bytes) -> set[int]:
    """Those of some processes that have a variable in their environment."""
    return {pid for pid in pids if _has(pid, mark)}


def end_marked(mark: bytes) -> bool:
    """End every process that has a variable in its environment, wherever it went. Whether it could be done in time."""
    deadline = time.monotonic() + TIDY_SECONDS
    while found := marked(parents(), mark):
        _signal(found, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def _has(pid: int, variable: bytes) -> bool:
    try:
        return variable in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False  # it is gone, or somebody else's


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def await_end(handle: int, seconds: float = KILL_SECONDS) -> bool:
    """Wait until the process behind a pidfd is gone."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
