"""Measures and deletes folders by descriptor, safe against an agent's changes, and reads a disk's free space.

Blocks count, not lengths: a sparse file counts with what it holds. A file with several names is counted once. No link
is followed, only folders are opened, and any depth works: one folder is open at a time.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from parley.ports.turns import Weight

BLOCK = 512  # bytes of one of st_blocks, on every filesystem
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class DiskSpace:
    """The used and free space of a filesystem."""

    used: int
    free: int  # bytes that its user may still write
    files: int  # that are there; 0 where the filesystem does not count them
    files_free: int  # that its user may still make; the maximum where it does not count them
    size: int
    most_files: int


def disk_space(path: Path | str) -> DiskSpace:
    """The space of the filesystem below a path."""
    found = os.statvfs(path)
    size, unit = found.f_blocks * found.f_frsize, found.f_frsize
    counted = found.f_files > 0
    return DiskSpace(
        used=size - found.f_bfree * unit,
        free=found.f_bavail * unit,
        files=found.f_files - found.f_ffree if counted else 0,
        files_free=found.f_favail if counted else sys.maxsize,
        size=size,
        most_files=found.f_files if counted else sys.maxsize,
    )


def weigh(folder: Path | str, most_files: int = sys.maxsize) -> Weight:
    """The size of a folder or a file. Counting stops at `most_files`."""
    walk = _Walk(most_files)
    try:
        top = os.lstat(folder)
        if not stat.S_ISDIR(top.st_mode):
            return Weight(top.st_blocks * BLOCK, 1)
        walk.through(_open(os.fspath(folder)))
    except OSError:
        pass  # it was deleted meanwhile
    return Weight(walk.bytes, walk.files)


class _Above(NamedTuple):
    """A folder above, by its identity, and the names of its folders that are still to be walked."""

    device: int
    inode: int
    names: list[str]


class _Walk:
    """A walk through a folder with one descriptor, which goes back by `..` and checks each folder's identity."""

    def __init__(self, most_files: int) -> None:
        self.bytes = self.files = 0
        self._most = most_files
        self._seen: set[tuple[int, int]] = set()

    def through(self, here: int) -> None:
        way: list[_Above] = []
        names = self._list(here)
        try:
            while self.files <= self._most:
                if names:
                    found = os.fstat(here)
                    with contextlib.suppress(OSError):  # deleted, or no folder any more
                        below = _open(names.pop(), here)
                        os.close(here)
                        way.append(_Above(found.st_dev, found.st_ino, names))
                        here = below
                        names = self._list(here)
                elif way:
                    above = way.pop()
                    up = _open("..", here)
                    os.close(here)
                    here, names = up, above.names
                    found = os.fstat(here)
                    if (found.st_dev, found.st_ino) != (above.device, above.inode):
                        return  # it was moved meanwhile: the next walk will find it
                else:
                    return
        finally:
            os.close(here)

    def _list(self, here: int) -> list[str]:
        """Count the files of a folder; returns its subfolders."""
        below = []
        self.bytes += os.fstat(here).st_blocks * BLOCK
        with contextlib.suppress(OSError), os.scandir(here) as entries:
            for entry in entries:
                self.files += 1
                if self.files > self._most:
                    break
                if entry.is_dir(follow_symlinks=False):
                    below.append(entry.name)
                else:
                    with contextlib.suppress(OSError):
                        self._count(entry.stat(follow_symlinks=False))
        return below

    def _count(self, found: os.stat_result) -> None:
        if found.st_nlink > 1:
            name = found.st_dev, found.st_ino
            if name in self._seen:
                return
            self._seen.add(name)
        self.bytes += found.st_blocks * BLOCK


def _open(name: str, above: int | None = None) -> int:
    """Open a folder; one that its owner, this user, has made unreadable is made readable for good."""
    try:
        found = os.open(name, _FOLDER, dir_fd=above)
    except PermissionError:
        return _opened_up(name, above)
    if os.fstat(found).st_mode & stat.S_IXUSR or os.geteuid() == 0:
        return found
    os.close(found)  # it can be listed, but its entries can't be examined
    return _opened_up(name, above)


def remove(folder: Path | str) -> None:
    """Delete a folder that no process writes to any more, with all that is in it; what can't be deleted stays."""
    path = Path(folder)
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(path.lstat().st_mode):
            path.unlink()
            return
        _empty(os.fspath(folder))
        path.rmdir()


def _empty(folder: str) -> None:
    here = _opened_up(folder)
    way: list[tuple[str, list[str]]] = []
    names = _strip(here)
    try:
        while True:
            if names:
                name = names.pop()
                try:
                    below = _opened_up(name, here)
                except OSError:
                    continue
                os.close(here)
                here = below
                way.append((name, names))
                names = _strip(here)
            elif way:
                name, names = way.pop()
                above = os.open("..", _FOLDER, dir_fd=here)
                os.close(here)
                here = above
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=here)
            else:
                return
    finally:
        os.close(here)


def _strip(here: int) -> list[str]:
    """Delete the files of a folder; returns its subfolders."""
    below = []
    with os.scandir(here) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.name)
            else:
                with contextlib.suppress(OSError):
                    os.unlink(entry.name, dir_fd=here)
    return below


def _opened_up(name: str, above: int | None = None) -> int:
    place = os.open(name, _PLACE, dir_fd=above)
    try:
        path = f"/proc/self/fd/{place}"
        mode = stat.S_IMODE(os.fstat(place).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(path, mode | stat.S_IRWXU)  # noqa: PTH101 - what is open, and nothing else
        return os.open(path, _FOLDER & ~os.O_NOFOLLOW)
    finally:
        os.close(place)
