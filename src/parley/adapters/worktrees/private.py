"""Parley's own folders: no agent is shown what lies there, and no result is put there.

A home may lie in the user's folder under any name, and the keys of trust and of buses may, where that folder is the
user's home. So they are known by where they really are; a home's usual name is enough everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

NAME = ".parley"


class Private:
    """Some folders, and all that lies below them; but not those that hold all of the user's folder."""

    def __init__(self, folders: Iterable[Path] = (), root: Path | None = None) -> None:
        around = Path(os.path.realpath(root)) if root is not None else None
        real = {os.path.realpath(folder) for folder in folders}
        self._above: dict[Path, Path] = {}  # where folders really are: many paths share theirs
        self._real = {folder for folder in real if around is None or not around.is_relative_to(folder)}

    def names(self, path: Path) -> bool:
        """Whether a path that leads through no link is one of them."""
        return str(path) in self._real

    def holds(self, path: Path) -> bool:
        """Whether a path is one of them, or lies in one, wherever links of the folders above it lead."""
        above = self._above.get(path.parent)
        if above is None:
            above = self._above[path.parent] = Path(os.path.realpath(path.parent))
        return any(str(one) in self._real for one in (above / path.name, above, *above.parents))
