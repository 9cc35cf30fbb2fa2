"""The copy list: what of the user's checkout a fresh workspace gets besides what is committed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from parley.adapters.worktrees.private import NAME, Private
from parley.adapters.worktrees.scan import leaves
from parley.config import COPYABLE, is_copyable
from parley.ports import WorkspaceError

_CLONE = 0x40049409  # FICLONE: share the blocks where the filesystem can


def check_copies(paths: Iterable[str]) -> None:
    """Refuse a copy list that leads outside the user's folder, or to what is not to be copied."""
    for path in paths:
        if not is_copyable(path):
            raise WorkspaceError(f"[workspace] copy: {path!r} can't be copied; {COPYABLE}")


def bring(root: Path, paths: Iterable[str], folder: Path, private: Private) -> list[str]:
    """Copy what is there of a list and not in the workspace yet, but nothing that is private; the paths."""
    brought = []
    root = Path(os.path.realpath(root))
    for path in paths:
        plain = str(PurePosixPath(path))
        source, target = root / plain, folder / plain
        if not os.path.lexists(source) or _inside_link(root, source) or _inside_link(folder, target):
            continue
        if private.holds(source):
            continue
        empty = target.is_dir() and not target.is_symlink() and not any(target.iterdir())
        if os.path.lexists(target) and not empty:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        _copy(source, target, plain, private)
        brought.append(plain)
    return brought


def _inside_link(root: Path, path: Path) -> bool:
    return any(parent.is_symlink() for parent in path.parents if root in parent.parents)


def _copy(source: Path, target: Path, name: str, private: Private) -> None:
    if private.names(source):
        return
    if source.is_symlink():
        leads = str(source.readlink())
        if not leaves(name, leads):
            target.symlink_to(leads)
    elif source.is_dir():
        target.mkdir(exist_ok=True)
        for inner in source.iterdir():
            if inner.name not in (".git", NAME):  # a submodule's files, but neither its repository nor its jobs
                _copy(inner, target / inner.name, f"{name}/{inner.name}", private)
        shutil.copystat(source, target)
    elif source.is_file():
        with source.open("rb") as here, target.open("xb") as there:
            try:
                fcntl.ioctl(there.fileno(), _CLONE, here.fileno())
            except OSError:
                shutil.copyfileobj(here, there)
        with contextlib.suppress(OSError):
            shutil.copystat(source, target)
