"""Parley's own folders: no agent sees what is in them, and no result is written there.

A home may lie in the user's folder under any name; so may the keys of trust and of buses, where that folder is the
user's home directory. So the folders are compared by their real paths; the name `.parley` is private everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

NAME = ".parley"


class PrivateFolders:
    """Private folders with all that lies below them; folders that contain the user's whole folder do not count."""

    def __init__(self, folders: Iterable[Path] = (), root: Path | None = None) -> None:
        around = Path(os.path.realpath(root)) if root is not None else None
        real = {os.path.realpath(folder) for folder in folders}
        self._above: dict[Path, Path] = {}  # folder -> its real path: many paths share a folder
        self._real = {folder for folder in real if around is None or not around.is_relative_to(folder)}

    def names(self, path: Path) -> bool:
        """Whether a path without links is one of the folders."""
        return str(path) in self._real

    def holds(self, path: Path) -> bool:
        """Whether a path is one of the folders or lies in one, with links in its parent folders resolved."""
        above = self._above.get(path.parent)
        if above is None:
            above = self._above[path.parent] = Path(os.path.realpath(path.parent))
        return any(str(one) in self._real for one in (above / path.name, above, *above.parents))
