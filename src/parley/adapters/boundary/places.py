"""Where binds are to lie over an agent's own folders: made ready here, because the agent may have been there before.

Bubblewrap makes a place for a bind where there is none, and follows whatever link it finds on the way, before anything
confines it. So no link is left for it to find, and nothing to make.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Collection, Iterable, Iterator

from parley.ports import Bind, BoundaryError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OWN = 0o700


def make_ready(own: Collection[str], binds: Iterable[Bind], uid: int) -> list[str]:
    """See to it that each bind finds a place of its kind on the agent's ground; the links that were in the way.

    The agent's ground is its `own` targets, and each folder besides that it may write to.
    """
    known: list[Bind] = []
    removed = []
    for bind in sorted(binds, key=lambda one: one.target.count("/")):  # as they are mounted: outer ones first
        over = [ground for ground in known if bind.target.startswith(f"{ground.target}/")]
        if over:
            ground = max(over, key=lambda one: len(one.target))
            steps = bind.target[len(ground.target) + 1 :].split("/")
            if _place(ground.source, steps, folder=os.path.isdir(bind.source), uid=uid):  # noqa: PTH112 - texts, as binds are
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
        with _inside(ground.source, steps, uid) as folder:
            for name in os.listdir(bind.source):  # noqa: PTH208 - as above
                with open(f"{bind.source}/{name}", "rb") as file:  # noqa: PTH123 - as above
                    data = file.read()
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=folder)
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


def _place(root: str, steps: list[str], *, folder: bool, uid: int) -> bool:
    """Make one place ready; whether a link had to go for it."""
    if not all(step and step not in {".", ".."} for step in steps):
        raise BoundaryError(f"{root}/{'/'.join(steps)}: this is no place for a bind; name it plainly")
    with _inside(root, steps[:-1], uid) as parent:
        name = steps[-1]
        removed = False
        with contextlib.suppress(FileNotFoundError):
            mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
            if not stat.S_ISLNK(mode):
                if stat.S_ISDIR(mode) != folder:
                    wanted = "a folder" if folder else "a file"
                    raise BoundaryError(f"{root}/{'/'.join(steps)} must be {wanted} to be sealed; remove what is there")
                return False
            os.unlink(name, dir_fd=parent)
            removed = True
        if folder:
            os.mkdir(name, 0o755, dir_fd=parent)
        else:
            os.close(os.open(name, _NEW, 0o644, dir_fd=parent))
        _own(name, parent, uid)
        return removed


@contextlib.contextmanager
def _inside(root: str, steps: list[str], uid: int) -> Iterator[int]:
    """A folder below a root, made where it is missing; a link on the way is refused."""
    place = os.open(root, _FOLDER)
    try:
        for step in steps:
            with contextlib.suppress(FileExistsError):
                os.mkdir(step, 0o755, dir_fd=place)
                _own(step, place, uid)
            try:
                below = os.open(step, _FOLDER, dir_fd=place)
            except OSError as error:
                raise BoundaryError(
                    f"{root}/{'/'.join(steps)}: {step} is no folder, so nothing can be sealed in it; remove it"
                ) from error
            os.close(place)
            place = below
        yield place
    finally:
        os.close(place)


def _own(name: str, parent: int, uid: int) -> None:
    if os.geteuid() == 0:
        os.chown(name, uid, uid, dir_fd=parent, follow_symlinks=False)
