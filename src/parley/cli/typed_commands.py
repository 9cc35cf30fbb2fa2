"""Writes commands as the user can type them here: with Parley's path where the shell needs it, and with `--repo`."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from parley.cli import CommandError
from parley.cli.common import HOME, HOME_VARIABLE, Workplace, place_of
from parley.machine.programs import SHELLS

NAME = "parley"


def typed(command: str, place: Workplace) -> str:
    """A `parley …` command as it works when it is typed in the current folder."""
    words = f"{program()}{command.removeprefix(NAME)}"
    try:
        here = place_of(None)
    except CommandError:  # the current folder is gone
        here = None
    if here == place:
        return words
    named = os.environ.get(HOME_VARIABLE)
    home = f"{HOME_VARIABLE}={shlex.quote(str(place.home))} " if named or place.home != place.root / HOME else ""
    root = "" if here is not None and here.root == place.root else f" --repo {shlex.quote(str(place.root))}"
    return f"{home}{words}{root}"


def program() -> str:
    """How this Parley is called: by its name where the shell finds this very one, else by its path."""
    own = Path(sys.executable).with_name(NAME)
    if not own.exists():
        return f"{shlex.quote(sys.executable)} -m {NAME}"
    found = shutil.which(NAME, path=SHELLS)
    if found is not None and Path(found).resolve() == own.resolve():
        return NAME
    try:
        below = own.relative_to(Path.cwd())
    except (ValueError, FileNotFoundError):
        return shlex.quote(str(own))
    return shlex.quote(str(below))
