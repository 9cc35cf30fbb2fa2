"""The folder in an instance's home with a turn's message, its role and its tool socket.

The agent may have left anything in its home. So no link is followed, and every file is made anew.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

FOLDER = ".parley"
MESSAGE, ROLE, SOCKET = "message.md", "role.md", "tools.sock"
_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TurnFolder:
    """The folder, held open, so that files go there even if it is renamed. OSError if it can't be opened."""

    def __init__(self, home: str) -> None:
        Path(home).parent.mkdir(exist_ok=True)  # and nothing above: a job's deleted folder is not made again
        Path(home).mkdir(mode=0o700, exist_ok=True)
        above = os.open(home, _OPEN)
        try:
            self.descriptor = _enter(above)
        finally:
            os.close(above)

    def write(self, name: str, text: str) -> None:
        """Write a file."""
        self.clear(name)
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=self.descriptor)
        with os.fdopen(file, "wb") as stream:
            stream.write(text.encode("utf-8", "replace"))

    def clear(self, name: str) -> None:
        """Delete a file."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self.descriptor)


def _enter(above: int) -> int:
    try:
        return os.open(FOLDER, _OPEN, dir_fd=above)
    except FileNotFoundError:
        pass
    except NotADirectoryError:  # a link, or a file
        os.unlink(FOLDER, dir_fd=above)
    os.mkdir(FOLDER, 0o700, dir_fd=above)
    return os.open(FOLDER, _OPEN, dir_fd=above)
