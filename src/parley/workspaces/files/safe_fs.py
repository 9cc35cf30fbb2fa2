"""Writes, reads and deletes files below a folder that an agent may be changing at the same time.

Each folder of a path is opened from the one above it and no link is followed, so that nothing is ever written, changed
or deleted outside. What is in the way is moved aside, and never written through.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_IN_THE_WAY = (errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR, errno.ELOOP, errno.ENOENT)
TRIES = 100  # against a process that keeps putting things in the way
_NAME_BYTES = 100  # of what is moved aside


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if not {"", ".", ".."}.isdisjoint(parts):
        raise OSError(errno.EINVAL, "the path must be relative, without `..`", path)
    return parts


@contextmanager
def open_parent(folder: Path, path: str) -> Iterator[tuple[int, str]]:
    """Open the folder of a path; yields it and the path's last name. OSError where a step on the way is no folder."""
    *folders, name = _parts(path)
    here = os.open(folder, FOLDER)
    try:
        for part in folders:
            below = os.open(part, FOLDER, dir_fd=here)
            os.close(here)
            here = below
        yield here, name
    finally:
        os.close(here)


@contextmanager
def open_below(folder: Path, path: str) -> Iterator[int]:
    """Open a folder below another; an empty path: that one itself. OSError where a step on the way is no folder."""
    if not path:
        here = os.open(folder, FOLDER)
    else:
        with open_parent(folder, path) as (above, name):
            here = os.open(name, FOLDER, dir_fd=above)
    try:
        yield here
    finally:
        os.close(here)


class SafeFolder:
    """A workspace's folder, to write below. What is written gets the folder's owner."""

    def __init__(self, folder: Path, aside: Path) -> None:
        self._folder = folder
        self._aside = aside
        self._root = -1

    def __enter__(self) -> Self:
        self._root = os.open(self._folder, FOLDER)
        found = os.fstat(self._root)
        self._owner = (found.st_uid, found.st_gid) if os.geteuid() == 0 else None
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._root)

    def put(self, path: str, fill: Callable[[int], None], *, program: bool = False, mode: int | None = None) -> None:
        """Write a file at a path; `fill` writes its content. `mode`: its permissions, where they are not the usual."""
        with self._made(path) as (here, name):
            draft = f".parley-{secrets.token_hex(8)}"
            handle = os.open(draft, _DRAFT, 0o600, dir_fd=here)
            try:
                fill(handle)
                self._give(handle)
                os.fchmod(handle, mode if mode is not None else 0o755 if program else 0o644)
                self._place(here, draft, name)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(draft, dir_fd=here)
                raise
            finally:
                os.close(handle)

    def put_data(self, path: str, data: bytes) -> None:
        """Write a file with these bytes at a path."""

        def fill(handle: int) -> None:
            with os.fdopen(os.dup(handle), "wb") as file:
                file.write(data)

        self.put(path, fill)

    def link(self, path: str, target: str) -> None:
        """Put a link at a path."""
        with self._made(path) as (here, name):
            draft = f".parley-{secrets.token_hex(8)}"
            os.symlink(target, draft, dir_fd=here)
            if self._owner:
                os.chown(draft, *self._owner, dir_fd=here, follow_symlinks=False)
            self._place(here, draft, name)

    def folder(self, path: str) -> None:
        """Make a folder at a path, unless there is one."""
        with self._made(path) as (here, name):
            os.close(self._step(here, name))

    def remove(self, path: str) -> None:
        """Delete a file or a link, and the folders that are empty then. Anything else stays."""
        with contextlib.suppress(OSError), open_parent(self._folder, path) as (here, name):
            os.unlink(name, dir_fd=here)
        above = path.rpartition("/")[0]
        while above:
            try:
                with open_parent(self._folder, above) as (here, name):
                    os.rmdir(name, dir_fd=here)
            except OSError:
                break
            above = above.rpartition("/")[0]

    def clear(self, path: str) -> None:
        """Move aside what is at a path, if anything."""
        with contextlib.suppress(OSError), open_parent(self._folder, path) as (here, name):
            self._move(here, name)

    def read(self, path: str, limit: int) -> bytes | None:
        """The bytes of an ordinary file of at most `limit` bytes; None for anything else."""
        with contextlib.suppress(OSError), open_parent(self._folder, path) as (here, name):
            handle = os.open(name, FILE, dir_fd=here)
            with os.fdopen(handle, "rb") as file:
                found = os.fstat(handle)
                if stat.S_ISREG(found.st_mode) and found.st_size <= limit:
                    return file.read(limit + 1)
        return None

    # ---- steps ---------------------------------------------------------------------------------

    @contextmanager
    def _made(self, path: str) -> Iterator[tuple[int, str]]:
        """As `open_parent`, with missing folders made."""
        *folders, name = _parts(path)
        here = os.dup(self._root)
        try:
            for part in folders:
                below = self._step(here, part)
                os.close(here)
                here = below
            yield here, name
        finally:
            os.close(here)

    def _step(self, here: int, part: str) -> int:
        for _ in range(TRIES):
            try:
                return os.open(part, FOLDER, dir_fd=here)
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, 0o755, dir_fd=here)
                    with contextlib.suppress(OSError):  # it may be something else already
                        self._own_folder(here, part)
            except OSError as error:
                if error.errno not in _IN_THE_WAY:
                    raise
                self._move(here, part)
        raise OSError(errno.EBUSY, "another process keeps putting something in the way", part)

    def _own_folder(self, here: int, part: str) -> None:
        handle = os.open(part, FOLDER, dir_fd=here)
        try:
            self._give(handle)
        finally:
            os.close(handle)

    def _give(self, handle: int) -> None:
        if self._owner:
            os.fchown(handle, *self._owner)

    def _place(self, here: int, draft: str, name: str) -> None:
        for _ in range(TRIES):
            try:
                return os.rename(draft, name, src_dir_fd=here, dst_dir_fd=here)
            except (IsADirectoryError, NotADirectoryError, FileExistsError):
                self._move(here, name)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:
                    raise
                self._move(here, name)
        raise OSError(errno.EBUSY, "another process keeps putting something in the way", name)

    def _move(self, here: int, name: str) -> None:
        """Move aside what is in the way: it may be an agent's work."""
        self._aside.mkdir(exist_ok=True)
        short = os.fsdecode(os.fsencode(name)[:_NAME_BYTES])
        with contextlib.suppress(FileNotFoundError):
            os.rename(name, self._aside / f"{short}-{secrets.token_hex(4)}", src_dir_fd=here)
