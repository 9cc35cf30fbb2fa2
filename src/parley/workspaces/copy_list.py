"""The copy list: uncommitted files of the user's checkout that a fresh workspace gets."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from parley.ports.workspaces import WorkspaceError
from parley.settings.schema import COPYABLE, is_copyable
from parley.workspaces.files.scan import leads_outside
from parley.workspaces.home.private_folders import NAME, PrivateFolders

_CLONE = 0x40049409  # FICLONE: share the blocks where the filesystem can


def check_copies(paths: Iterable[str]) -> None:
    """Refuse a copy list that leads outside the user's folder, or to a path that must not be copied."""
    for path in paths:
        if not is_copyable(path):
            raise WorkspaceError(f"[workspace] copy: {path!r} can't be copied; {COPYABLE}")


def bring(root: Path, paths: Iterable[str], folder: Path, private: PrivateFolders) -> list[str]:
    """Copy the listed paths that exist and are not in the workspace yet, but nothing private; returns them."""
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


def _copy(source: Path, target: Path, name: str, private: PrivateFolders) -> None:
    if private.names(source):
        return
    if source.is_symlink():
        leads = str(source.readlink())
        if not leads_outside(name, leads):
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
