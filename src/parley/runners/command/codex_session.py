"""The file of a Codex session, which only grows: truncating it restores the session to the end of a turn.

It lies in the agent's home, where the agent may have put anything: no link is followed, only a plain file is touched.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

SESSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,99}")
_FOLDERS = (".codex", "sessions")
_DEPTH = 3  # year, month, day
_MOST = 10_000  # names that are tried
_TAIL = 4 << 20  # bytes; no line is longer
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def size(home: str, session: str) -> int:
    """The length of a session's file up to its last whole line; -1 if there is none."""
    with _opened(home, session) as file:
        if file < 0:
            return -1
        end = os.fstat(file).st_size
        begin = max(0, end - _TAIL)
        return begin + os.pread(file, end - begin, begin).rfind(b"\n") + 1


def put_back(home: str, session: str, length: int) -> bool:
    """Truncate a session to drop what a lost turn added. Whether the session exists."""
    with _opened(home, session) as file:
        if file >= 0 and 0 < length < os.fstat(file).st_size:
            os.ftruncate(file, length)
        return file >= 0


@contextmanager
def _opened(home: str, session: str) -> Iterator[int]:
    """A session's file, open; -1 if there is none."""
    file = -1
    if SESSION.fullmatch(session):
        with suppress(OSError):
            file = _find(home, f"-{session}.jsonl")
    try:
        yield file
    finally:
        if file >= 0:
            os.close(file)


def _find(home: str, ending: str) -> int:
    top = os.open(home, _FOLDER)
    held = [top]
    try:
        for name in _FOLDERS:
            held.append(os.open(name, _FOLDER, dir_fd=held[-1]))
        return _search(held[-1], ending, _DEPTH, [_MOST])
    finally:
        for folder in held:
            os.close(folder)


def _search(folder: int, ending: str, depth: int, left: list[int]) -> int:
    for name in sorted(os.listdir(folder), reverse=True):  # the newest first
        left[0] -= 1
        if left[0] < 0:
            return -1
        found = -1
        with suppress(OSError):
            found = _file(name, folder) if name.endswith(ending) else _below(name, folder, ending, depth, left)
        if found >= 0:
            return found
    return -1


def _below(name: str, folder: int, ending: str, depth: int, left: list[int]) -> int:
    if depth == 0:
        return -1
    inner = os.open(name, _FOLDER, dir_fd=folder)
    try:
        return _search(inner, ending, depth - 1, left)
    finally:
        os.close(inner)


def _file(name: str, folder: int) -> int:
    file = os.open(name, _FILE, dir_fd=folder)
    status = os.fstat(file)
    if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
        return file
    os.close(file)
    return -1
