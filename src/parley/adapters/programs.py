"""Where programs are looked for: by whole paths, and never in a folder that a merge or a job puts files into.

Many a shell has the checkout's `bin`, or the folder that it is in, on its PATH. There an agent's `git` or `bwrap` would
be found before the machine's, and run as the user. Light: `parley ls` starts with it.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "PATH"
SHELLS = os.environ.get(VARIABLE)  # what the user's shell has, for what is only told


def search_path(*without: Path) -> str:
    """Where programs are looked for: never relative to a folder that git works in, nor below these ones."""
    named = os.environ.get(VARIABLE, os.defpath).split(os.pathsep)
    places = {f"{place}".rstrip("/") for folder in without for place in (folder, os.path.realpath(folder))}
    kept = [part for part in named if part.startswith("/") and not any(_below(part, place) for place in places)]
    return os.pathsep.join(kept) or os.defpath  # an empty one would mean the current folder


def leave_out(root: Path) -> None:
    """Look for no program below a folder from now on: neither this process nor what it starts."""
    os.environ[VARIABLE] = search_path(root)


def _below(path: str, place: str) -> bool:
    return any(f"{one}/".startswith(f"{place}/") for one in (os.path.normpath(path), os.path.realpath(path)))
