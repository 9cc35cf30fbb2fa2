"""Where Parley is root: mounts by which the ordinary user that runs a cage reaches what the cage needs.

A thread may have a mount namespace of its own. The thread that starts cages has one, with a folder in it that no other
process sees. While a cage is made, its sources are bound there: they may lie in a folder that only root can enter.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from parley.ports.turns import BoundaryError
from parley.sandbox.inside.syscalls import call

FOLDER = Path("/sys")  # on every Linux, and nothing in this thread needs what it hides
_NEW_MOUNTS = 0x20000
_BIND, _RECURSIVE, _SLAVE, _NO_SUID, _NO_DEVICES = 4096, 16384, 1 << 19, 2, 4
_DETACH = 2


class RootMounts:
    """That folder. Only the thread that made it may use it."""

    def __init__(self) -> None:
        self._count = 0
        try:
            call("unshare", _NEW_MOUNTS)
            call("mount", b"none\0", b"/\0", 0, _RECURSIVE | _SLAVE, 0)
            _mount(b"parley", FOLDER, b"tmpfs", _NO_SUID | _NO_DEVICES, b"mode=0755,size=4m")
        except OSError as error:
            if error.errno == errno.EPERM:
                raise BoundaryError(
                    "Parley is root here, but may not make a mount namespace: run it as an ordinary user, or accept "
                    'running without a boundary: [boundary] accept = "none" in parley.toml'
                ) from error
            raise

    def show(self, sources: Iterable[str]) -> dict[str, str]:
        """Bind each source where an ordinary user can reach it; returns where."""
        folder = self._folder()
        try:
            return {source: _bind(source, folder / str(number)) for number, source in enumerate(sources)}
        except OSError:
            _clear(folder)
            raise

    def copy(self, program: str, parts: Iterable[str]) -> str:
        """Copy a program's files to where an ordinary user can run it; returns the copy's path."""
        folder = self._folder()
        top = os.path.commonpath([*parts, str(Path(program).parents[1])])
        for part in parts:
            target = folder / Path(part).relative_to(top)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(part, target)
        for path in folder.rglob("*"):
            path.chmod(0o755)
        return str(folder / Path(program).relative_to(top))

    def _folder(self) -> Path:
        """A new folder that every user can enter, also under a strict umask."""
        self._count += 1
        folder = FOLDER / str(self._count)
        folder.mkdir()
        folder.chmod(0o755)
        return folder

    def clear(self, shown: dict[str, str]) -> None:
        """Unmount what was shown: the cages have it in namespaces of their own by now."""
        for folder in {Path(target).parent for target in shown.values()}:
            _clear(folder)


def _bind(source: str, target: Path) -> str:
    place = os.open(source, os.O_PATH | os.O_CLOEXEC)
    try:
        if stat.S_ISDIR(os.fstat(place).st_mode):
            target.mkdir()
        else:
            target.touch()
        _mount(f"/proc/self/fd/{place}".encode(), target, b"", _BIND | _RECURSIVE, b"")
    finally:
        os.close(place)
    return str(target)


def _clear(folder: Path) -> None:
    for target in list(folder.iterdir()):
        with contextlib.suppress(OSError):
            call("umount2", os.fsencode(target) + b"\0", _DETACH)
        with contextlib.suppress(OSError):
            if target.is_dir():
                target.rmdir()
            else:
                target.unlink()
    with contextlib.suppress(OSError):
        folder.rmdir()


def _mount(source: bytes, target: Path, kind: bytes, flags: int, options: bytes) -> None:
    call("mount", source + b"\0", os.fsencode(target) + b"\0", kind + b"\0", flags, options + b"\0")
