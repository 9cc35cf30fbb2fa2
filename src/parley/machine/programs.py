"""The search path for programs: absolute, and never a folder that a merge or a job writes to.

Many shells have the checkout's `bin`, or the current folder, on their PATH. There an agent's `git` or `bwrap` would be
found before the machine's, and run as the user. Few imports: `parley ls` starts with it.
"""

from __future__ import annotations

import os
from pathlib import Path

VARIABLE = "PATH"
SHELLS = os.environ.get(VARIABLE)  # the user's shell's, for texts only


def search_path(*without: Path) -> str:
    """The PATH without relative folders and without those below `without`."""
    named = os.environ.get(VARIABLE, os.defpath).split(os.pathsep)
    places = {f"{place}".rstrip("/") for folder in without for place in (folder, os.path.realpath(folder))}
    kept = [part for part in named if part.startswith("/") and not any(_below(part, place) for place in places)]
    return os.pathsep.join(kept) or os.defpath  # an empty PATH would mean the current folder


def leave_out(root: Path) -> None:
    """Remove a folder from the PATH of this process and of those that it starts."""
    os.environ[VARIABLE] = search_path(root)


def _below(path: str, place: str) -> bool:
    return any(f"{one}/".startswith(f"{place}/") for one in (os.path.normpath(path), os.path.realpath(path)))
