"""The places in an agent's own folders that binds lie over: made ready here, since the agent may have changed them.

Bubblewrap makes the place of a bind where it is missing, and follows links on the way to it, before anything confines
it. So this module removes the links and makes the places. An agent can't keep its next turn from starting: folders that
it shut are opened again, and what it left in its home in place of a folder is moved aside.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Collection, Iterable, Iterator

from parley.ports.turns import Bind, BoundaryError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SEEN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN = 0o700


def make_ready(own: Collection[str], home: str, binds: Iterable[Bind], uid: int) -> list[str]:
    """Make a file or a folder for each bind to lie over; returns the binds for which something had to be moved.

    An agent can write to its `own` targets, and to each other writable bind. In its `home` all is the agent's own, and
    is moved aside; in a workspace only links are, since a file there may be the user's.
    """
    known: list[Bind] = []
    removed = []
    for bind in sorted(binds, key=lambda one: one.target.count("/")):  # outer binds first, as they are mounted
        over = [ground for ground in known if bind.target.startswith(f"{ground.target}/")]
        if over:
            ground = max(over, key=lambda one: len(one.target))
            steps = bind.target[len(ground.target) + 1 :].split("/")
            folder = os.path.isdir(bind.source)  # noqa: PTH112 - texts, as binds are
            if _place(ground.source, steps, folder=folder, uid=uid, yields=ground.target == home):
                removed.append(bind.target)
        if bind.target in own:
            _usable(bind.source)
        if bind.target in own or (bind.writable and os.path.isdir(bind.source)):  # noqa: PTH112 - as above
            known.append(bind)
    return removed


def copy(ground: Bind, binds: Iterable[Bind], uid: int) -> None:
    """Without a boundary nothing is bound: copy the binds' files instead. What is in their place is moved aside."""
    os.makedirs(ground.source, exist_ok=True)  # noqa: PTH103 - a text, as binds are
    for bind in binds:
        steps = bind.target[len(ground.target) + 1 :].split("/")
        with _inside(ground.source, steps, uid, []) as folder:
            for name in os.listdir(bind.source):  # noqa: PTH208 - as above
                with open(f"{bind.source}/{name}", "rb") as file:  # noqa: PTH123 - as above
                    data = file.read()
                with contextlib.suppress(FileNotFoundError):
                    if _is_in_the_way(name, folder):
                        os.unlink(name, dir_fd=folder)
                    else:
                        _move(name, folder)
                made = os.open(name, _NEW, 0o444, dir_fd=folder)
                with os.fdopen(made, "wb") as copied:
                    copied.write(data)


def link(workspace: str, binds: Iterable[Bind]) -> None:
    """Without a boundary nothing is bound: put links to the folders into the workspace instead."""
    for bind in binds:
        steps = bind.target.removeprefix(f"{workspace}/").split("/")
        if bind.target.startswith(f"{workspace}/") and os.path.isdir(bind.source):  # noqa: PTH112 - texts, as binds are
            with _inside(workspace, steps[:-1], os.geteuid()) as folder, contextlib.suppress(FileExistsError):
                os.symlink(bind.source, steps[-1], dir_fd=folder)


def _usable(path: str) -> None:
    """Give the owner of a folder all rights to it: an agent may have taken them from itself."""
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116 - a text, as binds are
        if mode & _OWN != _OWN:
            os.chmod(path, mode | _OWN)  # noqa: PTH101 - as above


def _place(root: str, steps: list[str], *, folder: bool, uid: int, yields: bool) -> bool:
    """Make the place of one bind; whether something had to be moved for it."""
    if not all(step and step not in {".", ".."} for step in steps):
        raise BoundaryError(
            f"{root}/{'/'.join(steps)}: nothing can be bound there; write the path without `.` and `..`"
        )
    moved: list[str] = []
    with _inside(root, steps[:-1], uid, moved if yields else None) as parent:
        name = steps[-1]
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                os.unlink(name, dir_fd=parent)
                moved.append(name)
            elif stat.S_ISDIR(mode) == folder:
                _own(name, parent, uid)
                return bool(moved)
            elif yields:
                _move(name, parent)
                moved.append(name)
            else:
                wanted = "a folder" if folder else "a file"
                raise BoundaryError(f"{root}/{'/'.join(steps)} must be {wanted} to be sealed; remove what is there")
        if folder:
            os.mkdir(name, 0o755, dir_fd=parent)
        else:
            os.close(os.open(name, _NEW, 0o644, dir_fd=parent))
        _own(name, parent, uid)
        return bool(moved)


@contextlib.contextmanager
def _inside(root: str, steps: list[str], uid: int, moved: list[str] | None = None) -> Iterator[int]:
    """Open a folder below a root, or make it. What is not a folder on the way is refused, or moved and noted."""
    place = os.open(root, _FOLDER)
    try:
        for step in steps:
            if moved is not None and _is_in_the_way(step, place):
                _move(step, place)
                moved.append(step)
            with contextlib.suppress(FileExistsError):
                os.mkdir(step, 0o755, dir_fd=place)
            _own(step, place, uid)
            try:
                below = _enter(step, place)
            except OSError as error:
                raise BoundaryError(
                    f"{root}/{'/'.join(steps)}: {step} is not a folder, so nothing can be sealed in it; remove it"
                ) from error
            os.close(place)
            place = below
        yield place
    finally:
        os.close(place)


def _enter(name: str, parent: int) -> int:
    """Open a folder. Where its owner took the rights to it away they are given back, or no agent could enter it."""
    seen = os.open(name, _SEEN, dir_fd=parent)
    try:
        mode = stat.S_IMODE(os.fstat(seen).st_mode)
        if mode & _OWN != _OWN:
            os.chmod(f"/proc/self/fd/{seen}", mode | _OWN)  # noqa: PTH101 - the very folder that is open
        return os.open(".", _FOLDER, dir_fd=seen)
    finally:
        os.close(seen)


def _is_in_the_way(name: str, parent: int) -> bool:
    """Whether something of that name exists and is not a folder."""
    try:
        return not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _move(name: str, parent: int) -> None:
    """Rename something within its folder: the agent may want to keep it."""
    os.rename(name, f".aside-{secrets.token_hex(8)}", src_dir_fd=parent, dst_dir_fd=parent)


def _own(name: str, parent: int, uid: int) -> None:
    """Give a place to the user that agents run as: one made now, or by an owner that was killed before it gave it."""
    if os.geteuid() != 0:
        return
    found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    empty = stat.S_ISREG(found.st_mode) and found.st_size == 0 and found.st_nlink == 1
    if found.st_uid == 0 and (empty or stat.S_ISDIR(found.st_mode)):
        os.chown(name, uid, uid, dir_fd=parent, follow_symlinks=False)
