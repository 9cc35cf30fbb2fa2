"""An entry of a git tree or index: what a path holds there."""

from __future__ import annotations

from typing import NamedTuple


class TreeEntry(NamedTuple):
    """The mode of a path, as git writes it, and the name of its object; an empty mode: no file."""

    mode: str = ""
    name: str = ""
