"""What all commands share: where the home is, and words for people. Light: `parley ls` starts with it."""

from __future__ import annotations

import json
import os
import pwd
import select
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from parley.faces.cli import Trouble

HOME = ".parley"
HOME_VARIABLE = "PARLEY_HOME"
TEXT_LIMIT = 100_000  # characters
_WIDTH = 80


def me() -> str:
    """Who is asking: the account, whatever the environment says."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def users_folder(variable: str, default: str) -> Path | None:
    """A folder of the user's own, for settings or the like; None for an account that has no home."""
    named = os.environ.get(variable, "")
    if Path(named).is_absolute():
        return Path(named)
    try:
        return Path(default).expanduser()
    except RuntimeError:
        return None


def own_settings() -> Path:
    """The user's own settings, for all repositories. An account without a home has none, wherever it is."""
    base = users_folder("XDG_CONFIG_HOME", "~/.config") or Path(os.devnull)
    return base / "parley" / "parley.toml"


# ---- asking --------------------------------------------------------------------------------------


def can_ask() -> bool:
    """Whether the user sits at a terminal that shows a question and takes an answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask(question: str) -> str:
    """A line of the user's; empty where they just press Enter, or end the input.

    Not by `input`: a Ctrl-C that comes while that prints its question is heard only after the next line.
    """
    print(question, end="", flush=True)
    select.select([sys.stdin], [], [])
    said = sys.stdin.readline()
    if not said:
        print()
    return said.strip()


def agrees(question: str, *, default: bool = False) -> bool:
    """Whether the user says yes. What is neither yes nor no counts as no."""
    said = ask(f"{question} [{'Y/n' if default else 'y/N'}] ").lower()
    return said in ("y", "yes") if said else default


# ---- the home ------------------------------------------------------------------------------------


class Place(NamedTuple):
    """Where Parley works: the user's folder, and the home that holds the bus and the jobs."""

    root: Path
    home: Path


def place_of(folder: str | None) -> Place:
    """The place for a folder: its repository's top level if it is inside one, otherwise itself."""
    try:
        start = Path(folder).resolve() if folder is not None else Path.cwd()
    except FileNotFoundError as error:
        raise Trouble("the current folder is gone; go to another, or name one with --repo") from error
    if not start.is_dir():
        raise Trouble(f"{start}: there is no such folder; name an existing one with --repo")
    root = _work_tree(start) or start
    named = os.environ.get(HOME_VARIABLE)
    return Place(root, Path(named).absolute() if named else root / HOME)


def make_home(place: Place) -> None:
    """Make the home, out of git's reach: never committed, and left alone by `git clean -fdx`."""
    home = place.home
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        ignore = home / ".gitignore"
        if not ignore.exists():
            ignore.write_text("# Parley's own state: never committed\n*\n", encoding="utf-8")
        if not os.access(home, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied", str(home))
        shield(home)
    except OSError as error:
        raise Trouble(f"{home}: {error.strerror}; make it writable, or name another home with PARLEY_HOME") from error


def shield(home: Path) -> None:
    """Where the home lies in a repository, keep that repository's git off it.

    `git clean -fdx` spares a folder that is a repository itself, so it is made to look like one; and
    `info/exclude`, which is neither index nor configuration, keeps `git add -A` from wanting to add it.
    """
    tree = _work_tree(home.parent)
    if tree is None:
        return
    line = f"/{home.relative_to(tree).as_posix()}/"
    try:
        exclude = _git_folder(tree) / "info" / "exclude"
        known = exclude.read_text(encoding="utf-8", errors="surrogateescape") if exclude.exists() else ""
        if line not in known.splitlines():
            exclude.parent.mkdir(exist_ok=True)
            with exclude.open("a", encoding="utf-8", errors="surrogateescape") as file:
                file.write(f"{'' if known.endswith(chr(10)) or not known else chr(10)}{line}\n")
    except OSError:
        return  # without the line the marker would make `git add -A` fail: better no marker
    marker = home / ".git"
    if not (marker / "HEAD").exists():
        for folder in ("objects", "refs"):
            (marker / folder).mkdir(parents=True, exist_ok=True)
        (marker / "HEAD").write_text("ref: refs/heads/none\n", encoding="utf-8")


def _work_tree(folder: Path) -> Path | None:
    """The work tree that holds a folder. A home only looks like one, and so does a job's: its `.git` is empty."""
    for here in (folder, *folder.parents):
        git = here / ".git"
        if (git.is_dir() or (git.is_file() and git.stat().st_size)) and not (here / "bus.db").exists():
            return here
    return None


def _git_folder(tree: Path) -> Path:
    """The git folder of a work tree, shared by all work trees of its repository."""
    git = tree / ".git"
    if git.is_dir():
        return git
    named = git.read_text(encoding="utf-8", errors="replace").removeprefix("gitdir:").strip()
    own = (tree / named).resolve()
    common = own / "commondir"
    return (own / common.read_text(encoding="utf-8").strip()).resolve() if common.is_file() else own


# ---- words ---------------------------------------------------------------------------------------


def print_json(document: Any) -> None:
    """One document on standard output."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=not _utf8())
    print()


def _utf8() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"


def clock(moment: float) -> str:
    """A time of today, or a day."""
    then = time.localtime(moment)
    today = time.localtime()
    return time.strftime("%H:%M:%S" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)


def lasting(seconds: float) -> str:
    """How long, in a few characters."""
    whole = max(0, int(seconds))
    if whole < 60:  # noqa: PLR2004 - seconds
        return f"{whole}s"
    if whole < 3600:  # noqa: PLR2004 - seconds
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:  # noqa: PLR2004 - seconds
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def columns() -> int:
    """How wide the terminal is."""
    try:
        return int(os.environ.get("COLUMNS", "")) or _WIDTH
    except ValueError:
        try:
            return os.get_terminal_size(1).columns or _WIDTH
        except OSError:
            return _WIDTH


def check_text(text: str) -> str:
    """Words that the bus and the agents can take."""
    if len(text) > TEXT_LIMIT:
        raise Trouble(f"the text has {len(text)} characters, {TEXT_LIMIT} at most; put the rest into a file")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise Trouble("the text is not UTF-8; write it in UTF-8") from error
    return text


def one_line(text: str, length: int) -> str:
    """The beginning of a text, on one line, with nothing that a terminal would obey."""
    words = " ".join(text.split())
    shown = "".join(char if char.isprintable() else "?" for char in words)
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def safe(text: str) -> str:
    """A text whose control characters do nothing; its lines stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "?" for char in text)
