"""The tree of processes, seen from outside a cage: which belong to it, and how they are ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable, Iterator, Mapping
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
    """Every living process and its parent, without zombies."""
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
    """All descendants of a process."""
    return descendants_among(parents(), root)


def descendants_from(root: int) -> set[int]:
    """The same, from the process downwards: it costs what the tree has, not what the machine has.

    One whose parent ends in that moment may be missing. Where the kernel lists no children, all processes are read.
    """
    if not Path(f"/proc/{root}/task/{root}/children").exists():
        return descendants(root)
    found: set[int] = set()
    todo = [root]
    while todo:
        fresh = [child for child in _forked(todo.pop()) if child not in found]
        found.update(fresh)
        todo += fresh
    return found


def _forked(pid: int) -> Iterator[int]:
    """The children of all threads of a process; none where it has ended."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - a few times a second
            with contextlib.suppress(OSError):
                yield from map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())


def descendants_among(known: Mapping[int, int], root: int) -> set[int]:
    """The same, among processes that are given with their parents."""
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
    """End every process below `init` except `main`; whether all ended in time."""
    deadline = time.monotonic() + TIDY_SECONDS
    stopped: set[int] = set()
    # a stopped process can't fork, so that this comes to an end even with a fork bomb
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
    """Stop a process; whether it stopped in time. False for one that is gone."""
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
    """Whether every thread of a process is stopped."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            stat = (thread / "stat").read_bytes()
            if stat[stat.rindex(b")") + 2 :][:1] not in {b"T", b"Z", b"X"}:
                return False
    return True


def marked(pids: Iterable[int], mark: bytes) -> set[int]:
    """Those of some processes that have this variable in their environment."""
    return {pid for pid in pids if _has(pid, mark)}


def end_marked(mark: bytes) -> bool:
    """End every process that has this variable in its environment; whether all ended in time."""
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
        return False  # it is gone, or another user's


def _signal(pids: set[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def await_end(handle: int, seconds: float = KILL_SECONDS) -> bool:
    """Wait until the process behind a pidfd is gone."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
