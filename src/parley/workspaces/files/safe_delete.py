"""Deletes a folder that an agent has filled, of any depth, names and modes, with two descriptors.

A folder inside another is first moved up, beside the others, so that no path grows and no stack of descriptors is
needed: the deepest tree takes as many steps as a flat one with as many entries.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_PLACE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def delete(path: Path) -> None:
    """Delete a folder with all that is in it, or a file in its place. OSError where something can't be deleted."""
    above = os.open(path.parent, _FOLDER)
    try:
        delete_at(above, path.name)
    finally:
        os.close(above)


def delete_at(above: int, name: str) -> None:
    """The same, by the descriptor of the folder that it lies in."""
    if not stat.S_ISDIR(os.lstat(name, dir_fd=above).st_mode):
        os.unlink(name, dir_fd=above)
        return
    with contextlib.closing(_Emptied(_opened(name, above))) as root:
        root.empty()
    os.rmdir(name, dir_fd=above)


def discard(path: Path) -> None:
    """Delete what lies there, if anything; what can't be deleted stays for `parley gc`, which says why."""
    with contextlib.suppress(OSError):
        delete(path)


_going: set[threading.Thread] = set()


def delete_later(path: Path) -> None:
    """Delete a folder in the background; what can't be deleted stays for `parley gc`, which says why."""
    thread = threading.Thread(target=discard, args=(path,), name=f"delete {path.name}", daemon=True)
    _going.difference_update([one for one in _going if not one.is_alive()])
    thread.start()
    _going.add(thread)


def await_deletions(seconds: float) -> None:
    """Wait for background deletions, so long at most: they may free a full disk."""
    deadline = time.monotonic() + seconds
    for thread in list(_going):
        thread.join(max(0.0, deadline - time.monotonic()))


class _Emptied:
    """The folder that is emptied; those below it are moved up to it one by one."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._number = 0

    def close(self) -> None:
        os.close(self._root)

    def empty(self) -> None:
        """Delete all that is in it."""
        while folders := self._clear(self._root, up=False):
            for name in folders:
                inner = _opened(name, self._root)
                try:
                    self._clear(inner, up=True)
                finally:
                    os.close(inner)
                os.rmdir(name, dir_fd=self._root)

    def _clear(self, folder: int, *, up: bool) -> list[str]:
        """Delete a folder's files; its folders are moved up, or returned."""
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        folders = [name for name, is_folder in found if is_folder]
        for name, is_folder in found:
            if not is_folder:
                os.unlink(name, dir_fd=folder)
        if up:
            for name in folders:
                os.close(_opened(name, folder))  # its owner may have made it unreadable; then it can't be moved
                os.rename(name, self._new_name(), src_dir_fd=folder, dst_dir_fd=self._root)
        return folders

    def _new_name(self) -> str:
        while True:
            self._number += 1
            name = f".going-{self._number}"
            try:
                os.lstat(name, dir_fd=self._root)
            except FileNotFoundError:
                return name


def _opened(name: str, above: int) -> int:
    """A folder's descriptor; one that its owner made unreadable is made readable first, by descriptor."""
    place = os.open(name, _PLACE, dir_fd=above)
    try:
        if os.fstat(place).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            Path(f"/proc/self/fd/{place}").chmod(stat.S_IRWXU)
        return os.open(".", _FOLDER, dir_fd=place)
    finally:
        os.close(place)
