"""Walks a folder that an agent may be changing, from one descriptor to the next.

No name is ever looked up by a path, no link is followed, and nothing is opened but folders: no pipe, device or file
can keep the walk waiting. However deep it goes, it holds one descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from parley.base.text import cut

DEEPEST = 200  # folders in each other; what lies deeper is counted, and has no path
LONGEST = 3000  # bytes of a path; the same
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)


class WalkedFolder(NamedTuple):
    """One folder of the walk, while it is open."""

    path: str  # from the root; for a folder that lies too deep, the last one above it that does not
    deep: bool  # whether it lies too deep
    entries: list[tuple[str, os.stat_result]]
    shut: bool = False  # whether it can't be opened


def walk(root: Path, *, mend: bool = False) -> Iterator[WalkedFolder]:
    """A folder and every one below it. `mend`: those that the agent made unreadable are made readable again.

    OSError where folders are moved meanwhile, so that the walk can't go back up.
    """
    here = _enter(str(root), None, mend=mend)
    above: list[_Level] = []
    try:
        level, found = _look(here, "", deep=False)
        yield found
        while True:
            if not level.below:
                if not above:
                    return
                level = above.pop()
                back = _back(here, level)
                os.close(here)
                here = back
                continue
            name = level.below.pop()
            path, deep = _join(level, name)
            try:
                inner = _enter(name, here, mend=mend)
            except OSError as error:
                if error.errno not in _GONE:
                    yield WalkedFolder(path, deep, [], shut=True)
                continue
            os.close(here)
            here = inner
            above.append(level)
            level, found = _look(here, path, deep=deep)
            yield found
    finally:
        os.close(here)


class _Level(NamedTuple):
    """A folder on the way down, and what is still to be visited in it."""

    path: str
    identity: tuple[int, int]
    below: list[str]
    deep: bool


def _join(level: _Level, name: str) -> tuple[str, bool]:
    path = f"{level.path}/{name}" if level.path else name
    if level.deep or path.count("/") >= DEEPEST - 1 or len(os.fsencode(path)) > LONGEST:
        return (level.path if level.deep else cut(path, LONGEST)), True
    return path, False


def _look(here: int, path: str, *, deep: bool) -> tuple[_Level, WalkedFolder]:
    entries: list[tuple[str, os.stat_result]] = []
    below: list[str] = []
    with os.scandir(here) as inside:
        for entry in inside:
            try:
                seen = entry.stat(follow_symlinks=False)
            except OSError:
                continue  # it was deleted meanwhile
            entries.append((entry.name, seen))
            if stat.S_ISDIR(seen.st_mode):
                below.append(entry.name)
    itself = os.fstat(here)
    level = _Level(path, (itself.st_dev, itself.st_ino), below, deep)
    return level, WalkedFolder(path, deep, entries)


def _enter(name: str, above: int | None, *, mend: bool) -> int:
    """Open a folder, and nothing else."""
    try:
        here = os.open(name, _FOLDER, dir_fd=above)
    except PermissionError:
        if not mend:
            raise
        _unlock(name, above)
        return os.open(name, _FOLDER, dir_fd=above)
    if mend and os.geteuid() != 0:
        mode = stat.S_IMODE(os.fstat(here).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            with contextlib.suppress(OSError):
                os.fchmod(here, mode | stat.S_IRWXU)
    return here


def _unlock(name: str, above: int | None) -> None:
    """Make a folder readable for its owner, which is this process."""
    place = os.open(name, _PLACE, dir_fd=above)
    try:
        mode = stat.S_IMODE(os.fstat(place).st_mode)
        os.chmod(f"/proc/self/fd/{place}", mode | stat.S_IRWXU)  # noqa: PTH101 - what is open, and nothing else
    finally:
        os.close(place)


def _back(here: int, level: _Level) -> int:
    """The folder above, which must be the one that the walk came from."""
    above = os.open("..", _FOLDER, dir_fd=here)
    itself = os.fstat(above)
    if (itself.st_dev, itself.st_ino) != level.identity:
        os.close(above)
        raise OSError(errno.ESTALE, "folders are moved while they are scanned", level.path)
    return above
