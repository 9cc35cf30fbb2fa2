"""The disk of a host: whether it has room for one more turn, and how it is said that it has none."""

from __future__ import annotations

import errno
from pathlib import Path

from parley.machine.disk import disk_space

LEAST_BYTES, LEAST_FILES = 32 << 20, 1000  # free, below which a host takes no turn
SHARE = 16  # of a small disk at most this fraction has to be free, a sixteenth


class HostDisk:
    """The disk that a worker's home is on."""

    def __init__(self, home: Path) -> None:
        self._home = home

    @property
    def has_room(self) -> bool:
        """Whether a turn can be laid out. Where that can't be told, it is tried."""
        try:
            found = disk_space(self._home)
        except OSError:
            return True
        enough = found.free >= min(LEAST_BYTES, found.size // SHARE)
        return enough and found.files_free >= min(LEAST_FILES, found.most_files // SHARE)

    @property
    def full(self) -> str:
        """How it is said that there is no room."""
        return f"the disk of {self._home} is full: no turn is taken until some space is free there"

    def explain(self, error: Exception) -> str:
        """What is wrong, in one line."""
        return self.full if is_full(error) else str(error)


def is_full(error: Exception) -> bool:
    """Whether an error says that a disk has no room."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
