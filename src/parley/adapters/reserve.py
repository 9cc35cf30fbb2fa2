"""A little of the disk that is kept for the moment when it is full: to look at a job then, and to give it up.

It is files, so that both bytes and inodes are set free, and their content is random: a disk that presses zeros would
keep nothing.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

from parley.adapters.disk import Standing, standing

FOLDER = "reserve"
FILES, FILE_BYTES = 32, 256 << 10
SHARE = 16  # of a small disk it takes this part at most
STEP = 4  # files that one command takes, where it only reads
LOW_FILES = 16  # with fewer left, or fewer bytes than a step has, a command might not get through
RELIEF_SECONDS = 1.0  # in which an agent that has filled the disk is ended
_OWN = re.compile(r"\d+(?:\.draft)?")  # what its files are called
AMPLE = 4  # it is made where the disk has so many times as much left


def _bytes(found: Standing) -> int:
    """How large each of its files is."""
    return min(FILE_BYTES, found.size // (SHARE * FILES))


class Reserve:
    """The reserve of a home."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._folder = home / FOLDER
        self._relieved = False  # since the disk was last found full

    def keep(self) -> None:
        """Make it, or make it whole again, where the disk has ample room. Nothing depends on it."""
        with contextlib.suppress(OSError):
            found = standing(self._home)
            if found.free < AMPLE * FILES * _bytes(found) or found.files_free < AMPLE * FILES:
                return
            self._folder.mkdir(mode=0o700, exist_ok=True)
            with self._opened() as folder:
                there = os.listdir(folder)  # noqa: PTH208 - by its descriptor
                for name in map(str, range(FILES)):
                    if name not in there:
                        _fill(folder, name, _bytes(found))

    def ease(self) -> None:
        """Let go of a part of it where the disk is full: for a command that only needs a little."""
        if self.is_needed():
            self._spend(STEP)

    def relieve(self) -> None:
        """Before something is written while agents work: make room for it on a disk that one of them has filled.

        That agent is ended within a moment, so what is let go of then is not taken by it. Half is kept, for a
        withdrawal, and it is made whole again when there is room.
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
        """Whether the disk is so full that a command might not get through."""
        with contextlib.suppress(OSError):
            found = standing(self._home)
            return found.free < STEP * _bytes(found) or found.files_free < LOW_FILES
        return False

    def is_short(self) -> bool:
        """Whether the disk has less left than the reserve has when it is whole: no agent should begin a turn."""
        with contextlib.suppress(OSError):  # what is wrong with a home that is not there is told elsewhere
            found = standing(self._home)
            return found.free < FILES * _bytes(found) or found.files_free < AMPLE * LOW_FILES
        return False

    def spend(self) -> bool:
        """Let go of all of it; whether there was any."""
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
        """Its folder, by which all is done. It is needed before a home is looked over, and that may be anybody's.

        So no link leads to it, also not the home's own name: a clone could have files of the user's deleted by one.
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
    """Make one of its files, whole or not at all."""
    draft = f"{name}.draft"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(draft, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(os.urandom(size))
    os.rename(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
