"""Commands as the user can type them here: with a path where the shell does not find Parley, and with the place."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path

from parley.adapters.programs import SHELLS
from parley.faces.cli import Trouble
from parley.faces.cli.desk import HOME, HOME_VARIABLE, Place, place_of

NAME = "parley"


def typed(command: str, place: Place) -> str:
    """A command of Parley's, `parley …`, as it works when it is typed in the current folder."""
    words = f"{program()}{command.removeprefix(NAME)}"
    try:
        here = place_of(None)
    except Trouble:  # the current folder is gone
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
