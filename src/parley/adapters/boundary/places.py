"""Where binds are to lie over an agent's own folders: made ready here, because the agent may have been there before.

Bubblewrap makes a place for a bind where there is none, and follows whatever link it finds on the way, before anything
confines it. So no link is left for it to find, and nothing to make. Whatever an agent made of the way to a bind, its
next turn begins: folders that it shut are opened again, and what it left in its home in their place is moved aside.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Collection, Iterable, Iterator

from parley.ports import Bind, BoundaryError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_SEEN = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN = 0o700


def make_ready(own: Collection[str], home: str, binds: Iterable[Bind], uid: int) -> list[str]:
    """See to it that each bind finds a place of its kind on the agent's ground; what was in the way of one.

    The agent's ground is its `own` targets, and each folder besides that it may write to. In its `home` all is its own,
    and gives way; in a workspace only links do, since a file there may be the user's.
    """
    known: list[Bind] = []
    removed = []
    for bind in sorted(binds, key=lambda one: one.target.count("/")):  # as they are mounted: outer ones first
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
    """Where nothing can be bound: put the binds' files into the agent's ground, whatever it left in their place."""
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
    """Where nothing can be bound: let a folder that is shown in the workspace be found by a link."""
    for bind in binds:
        steps = bind.target.removeprefix(f"{workspace}/").split("/")
        if bind.target.startswith(f"{workspace}/") and os.path.isdir(bind.source):  # noqa: PTH112 - texts, as binds are
            with _inside(workspace, steps[:-1], os.geteuid()) as folder, contextlib.suppress(FileExistsError):
                os.symlink(bind.source, steps[-1], dir_fd=folder)


def _usable(path: str) -> None:
    """An agent that shut itself out of its own folder is let in again."""
    with contextlib.suppress(OSError):
        mode = stat.S_IMODE(os.stat(path).st_mode)  # noqa: PTH116 - a text, as binds are
        if mode & _OWN != _OWN:
            os.chmod(path, mode | _OWN)  # noqa: PTH101 - as above


def _place(root: str, steps: list[str], *, folder: bool, uid: int, yields: bool) -> bool:
    """Make one place ready; whether something had to go for it."""
    if not all(step and step not in {".", ".."} for step in steps):
        raise BoundaryError(f"{root}/{'/'.join(steps)}: this is no place for a bind; name it plainly")
    moved: list[str] = []
    with _inside(root, steps[:-1], uid, moved if yields else None) as parent:
        name = steps[-1]
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            if stat.S_ISLNK(mode):
                os.unlink(name, dir_fd=parent)
                moved.append(name)
            elif stat.S_ISDIR(mode) == folder:
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
    """A folder below a root, made where it is missing. What is no folder on the way is refused, or moved and noted."""
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
                    f"{root}/{'/'.join(steps)}: {step} is no folder, so nothing can be sealed in it; remove it"
                ) from error
            os.close(place)
            place = below
        yield place
    finally:
        os.close(place)


def _enter(name: str, parent: int) -> int:
    """Open a folder. Its owner may have taken all rights to it: then no one in the cage would find what lies in it."""
    seen = os.open(name, _SEEN, dir_fd=parent)
    try:
        mode = stat.S_IMODE(os.fstat(seen).st_mode)
        if mode & _OWN != _OWN:
            os.chmod(f"/proc/self/fd/{seen}", mode | _OWN)  # noqa: PTH101 - what is open, and nothing else
        return os.open(".", _FOLDER, dir_fd=seen)
    finally:
        os.close(seen)


def _is_in_the_way(name: str, parent: int) -> bool:
    """Whether there is something of the name that is no folder."""
    try:
        return not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _move(name: str, parent: int) -> None:
    """Give something another name in its own folder: it may be what an agent wants to keep."""
    os.rename(name, f".aside-{secrets.token_hex(8)}", src_dir_fd=parent, dst_dir_fd=parent)


def _own(name: str, parent: int, uid: int) -> None:
    if os.geteuid() == 0:
        os.chown(name, uid, uid, dir_fd=parent, follow_symlinks=False)
