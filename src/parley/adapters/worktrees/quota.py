"""What a job takes of the disk: its workspaces, its history, its instances' homes, and what was moved aside."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from parley.adapters.worktrees.history import REPOSITORY
from parley.adapters.worktrees.scan import size_of

ASIDE = "aside"
_KNOWN = {"work", "trees", ASIDE, REPOSITORY}  # what changes only when somebody here changes it, or looks through it
_OURS = {"clones", "clones.known"}  # what the proxy reads: Parley's copies of what is counted in the repository


class Quota:
    """How much of the disk is left to a job. What no agent can have changed meanwhile is not looked through again."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._workspaces: dict[str, int] = {}
        self._aside: dict[tuple[str, int], int] = {}  # by name and inode: a name may be used again
        self._history: int | None = None

    def keep(self, name: str, size: int) -> None:
        """Remember how much a workspace holds."""
        self._workspaces[name] = size

    def forget(self, name: str) -> None:
        """A workspace has gone."""
        self._workspaces.pop(name, None)

    def left_to(self, name: str) -> int:
        """How many bytes a workspace may hold, by all that the job holds besides."""
        if self._history is None:
            self._history = self._size(self._folder / REPOSITORY)
            found = {path.name: path for path in self._folder.glob("trees/*")} | {"job": self._folder / "work"}
            self._workspaces = {key: self._size(path) for key, path in found.items()} | self._workspaces
        others = sum(size for key, size in self._workspaces.items() if key != name)
        return self._limit - self._history - others - self._moved_aside() - self._rest()

    def _rest(self) -> int:
        """What agents and records write besides: homes, the agents' repositories, streams."""
        with contextlib.suppress(OSError), os.scandir(self._folder) as entries:
            return sum(self._size(Path(entry.path)) for entry in entries if entry.name not in _KNOWN | _OURS)
        return 0

    def _moved_aside(self) -> int:
        """All of it but the largest: that one turn outgrew the quota must not be the job's end, that two did may."""
        found: dict[tuple[str, int], int] = {}
        with contextlib.suppress(OSError), os.scandir(self._folder / ASIDE) as entries:
            for entry in entries:
                key = entry.name, entry.inode()
                found[key] = self._aside[key] if key in self._aside else self._size(Path(entry.path))
        self._aside = found
        return sum(found.values()) - max(found.values(), default=0)

    def _size(self, path: Path) -> int:
        try:
            return size_of(path, self._limit) if path.is_dir() and not path.is_symlink() else path.lstat().st_size
        except OSError:
            return 0
