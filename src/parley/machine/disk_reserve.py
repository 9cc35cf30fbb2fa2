"""A reserve of disk space in a home, freed when the disk is full, so that jobs can be shown and withdrawn then.

It consists of files, so that both bytes and inodes are freed; their content is random, since a filesystem that
compresses zeros would reserve nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from parley.machine.disk import DiskSpace, disk_space

FOLDER = "reserve"
FILES, FILE_BYTES = 32, 256 << 10
SHARE = 16  # of a small disk it takes at most this fraction, a sixteenth
STEP = 4  # files that a command which only reads frees
LOW_FILES = 16  # with fewer left, or fewer bytes than a step has, a command might fail
RELIEF_SECONDS = 1.0  # in which an agent that has filled the disk is killed
_OWN = re.compile(r"\d+(?:\.draft)?")  # the names of its files
AMPLE = 4  # it is made where the disk has so many times its size left


def _bytes(found: DiskSpace) -> int:
    """The size of each of its files."""
    return min(FILE_BYTES, found.size // (SHARE * FILES))


class DiskReserve:
    """The reserve of a home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._folder = home / FOLDER
        self._relieved = False  # whether it was freed since the disk was last found full

    def keep(self) -> None:
        """Make or refill it, where the disk has ample space. Nothing depends on it."""
        with contextlib.suppress(OSError):
            found = disk_space(self._home)
            if found.free < AMPLE * FILES * _bytes(found) or found.files_free < AMPLE * FILES:
                return
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with self._opened() as folder:
                there = os.listdir(folder)  # noqa: PTH208 - by its descriptor
                for name in map(str, range(FILES)):
                    if name not in there:
                        _fill(folder, name, _bytes(found))

    def ease(self) -> None:
        """Free a part of it where the disk is full, for a command that needs little."""
        if self.is_needed():
            self._spend(STEP)

    def relieve(self) -> None:
        """Free space for a write while agents work, on a disk that one of them has filled.

        That agent is killed within a moment, so it does not take the freed space. Half is kept for a withdrawal; the
        reserve is refilled when there is space.
        """
        if not self.is_needed():
            if self._relieved:
                self._relieved = False
                self.keep()
            return
        self._relieved = True
        with contextlib.suppress(OSError), self._opened() as folder:
            if len(os.listdir(folder)) <= FILES // 2:  # noqa: PTH208 - by its descriptor
                return
        deadline = time.monotonic() + RELIEF_SECONDS
        while self.is_needed() and time.monotonic() < deadline:
            time.sleep(RELIEF_SECONDS / 20)
        self.ease()

    def is_needed(self) -> bool:
        """Whether the disk is so full that a command might fail."""
        with contextlib.suppress(OSError):
            found = disk_space(self._home)
            return found.free < STEP * _bytes(found) or found.files_free < LOW_FILES
        return False

    def is_short(self) -> bool:
        """Whether the disk has less left than a full reserve: no agent should begin a turn."""
        with contextlib.suppress(OSError):  # a missing home is reported elsewhere
            found = disk_space(self._home)
            return found.free < FILES * _bytes(found) or found.files_free < AMPLE * LOW_FILES
        return False

    def spend(self) -> bool:
        """Free all of it; whether there was any."""
        return self._spend(FILES)

    def _spend(self, files: int) -> bool:
        spent = False
        with contextlib.suppress(OSError), self._opened() as folder:
            there = sorted(os.listdir(folder))  # noqa: PTH208 - by its descriptor
            for name in [name for name in there if _OWN.fullmatch(name)][:files]:
                os.unlink(name, dir_fd=folder)
                spent = True
        return spent

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """Open its folder. That happens before the home is checked, and the home may have come with a clone.

        So no link is followed, not even the home's own name: a clone could make Parley delete the user's files by one.
        """
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        home = os.open(self._home, flags)
        try:
            folder = os.open(FOLDER, flags, dir_fd=home)
        finally:
            os.close(home)
        try:
            yield folder
        finally:
            os.close(folder)


def _fill(folder: int, name: str, size: int) -> None:
    """Make one of its files, atomically."""
    draft = f"{name}.draft"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(os.urandom(size))
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
