"""`parley trust`: allow what a repository's own parley.toml asks for beyond what a repository may.

A file that came with a clone is somebody else's. What it says of policies, limits and roles harms nobody; what would
widen the boundary, run a program of its choice with the user's key, show the user's files to agents, or send what a
job says elsewhere waits for the user's word. That word is about the very content: a changed file is to
be allowed anew.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parley import config
from parley.adapters.worktrees.source import find_source
from parley.faces.cli import OK, Trouble
from parley.faces.cli.desk import Place, place_of, print_json

# Tables, and the settings in them that a repository may not decide; none named: the whole table.
WIDENING: Mapping[str, tuple[str, ...]] = {
    "boundary": ("accept", "readable", "hosts", "exempt"),
    "agents": (),
    "claude": ("path", "subscription"),
    "workspace": ("copy",),
    "notify": ("to",),
}


def settings_of(place: Place) -> config.Settings:
    """The settings of a place, unless they ask for what the user has not allowed."""
    settings = config.read(place.root)
    if asked := unallowed(place):
        raise Trouble(
            f"{config.FILE} came with this repository and asks for {', '.join(asked)}; read it, then allow it "
            "with `parley trust`"
        )
    return settings


def unallowed(place: Place) -> list[str]:
    """What the settings ask for that only the user may allow, and has not."""
    content = _content(place)
    asked = widening(content)
    if not asked or not _came_along(place) or _digest(content) in _allowed():
        return []
    return asked


def widening(content: bytes) -> list[str]:
    """The settings of a file that are more than a repository may decide."""
    try:
        document = tomllib.loads(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError):
        return []  # whoever reads the settings says so
    found = []
    for table, keys in WIDENING.items():
        given: Any = document.get(table)
        if isinstance(given, dict) and given:
            found += [f"[{table}] {key}" for key in keys if key in given] if keys else [f"[{table}]"]
    return found


def run(words: argparse.Namespace) -> int:
    """Allow the settings as they are now."""
    place = place_of(words.repo)
    config.read(place.root)
    content = _content(place)
    asked = widening(content)
    if asked:
        path = _book()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with path.open("a", encoding="ascii") as book:
            book.write(f"{_digest(content)}\n")
    if words.json:
        print_json({"allowed": asked})
    else:
        print(f"allowed: {', '.join(asked)}" if asked else f"{config.FILE} asks for nothing that has to be allowed")
    return OK


def _content(place: Place) -> bytes:
    path = place.root / config.FILE
    try:
        return path.read_bytes() if path.is_file() else b""
    except OSError:
        return b""


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _came_along(place: Place) -> bool:
    """Whether the file is part of what is checked out. One that is not committed is the user's own."""
    source = find_source(place.root)
    if source is None:
        return False
    words = ("rev-parse", "--verify", "--quiet", f"HEAD:{config.FILE}")
    return source.git.run(*words, fine=(0, 1, 128)).returncode == 0


def _book() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME") or Path("~/.config").expanduser()
    return Path(base) / "parley" / "trusted"


def _allowed() -> set[str]:
    try:
        return set(_book().read_text(encoding="ascii").split())
    except (OSError, UnicodeDecodeError):
        return set()
