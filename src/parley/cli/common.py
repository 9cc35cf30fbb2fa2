"""What all commands share: finding the home, asking the user, formatting. Few imports: `parley ls` starts with it."""

from __future__ import annotations

import argparse
import json
import os
import pwd
import select
import shlex
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from parley.base.output import print_document
from parley.base.person_names import BadName, person_name
from parley.base.redaction import Secrets
from parley.base.text import printable
from parley.bus.sqlite import safe_open
from parley.cli import FAILED, CommandError
from parley.features.secrets.secret_sources import from_environment, secrets_of
from parley.machine import programs
from parley.machine.discovery import MARKER, NoWorkTree, find_work_tree, git_folder, is_repository

HOME = ".parley"
HOME_VARIABLE = "PARLEY_HOME"
LONGEST_HOME = 400  # bytes: SQLite opens no file whose path has more than 512
LONGEST_PATH = 4096  # bytes with the final NUL: Linux takes no longer one
TEXT_LIMIT = 100_000  # characters
_WIDTH = 80
GIT_SECONDS = 20.0


def account_name() -> str:
    """The user's account; the environment does not count."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"uid {os.getuid()}"


def person(name: str) -> str:
    """A person's name, as a command was given it."""
    try:
        return person_name(name)
    except BadName as bad:
        raise CommandError(str(bad)) from bad


def acting_person(words: argparse.Namespace) -> str:
    """Who acts by a command: the person for whom the page runs it, else the account."""
    return person(words.by) if words.by is not None else account_name()


def users_folder(variable: str, default: str) -> Path | None:
    """A folder of the user's own, for settings or the like; None for an account without a home."""
    named = os.environ.get(variable, "")
    if Path(named).is_absolute():
        return Path(named)
    try:
        return Path(default).expanduser()
    except RuntimeError:
        return None


def own_settings() -> Path:
    """The file of the user's own settings, for all repositories. An account without a home has none."""
    base = users_folder("XDG_CONFIG_HOME", "~/.config") or Path(os.devnull)
    return base / "parley" / "parley.toml"


# ---- asking --------------------------------------------------------------------------------------


def can_ask() -> bool:
    """Whether there is a terminal to ask the user on."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def ask(question: str) -> str:
    """Ask the user for a line; empty where they just press Enter, or end the input.

    Not by `input`: a Ctrl-C while that prints its question takes effect only after the next line.
    """
    print(question, end="", flush=True)
    select.select([sys.stdin], [], [])
    said = sys.stdin.readline()
    if not said:
        print()
    return said.strip()


def agrees(question: str, *, default: bool = False) -> bool:
    """Whether the user says yes. An unclear answer counts as no."""
    said = ask(f"{question} [{'Y/n' if default else 'y/N'}] ").lower()
    return said in ("y", "yes") if said else default


# ---- the home ------------------------------------------------------------------------------------


class Workplace(NamedTuple):
    """Where Parley works: the user's folder, and the home that holds the bus and the jobs."""

    root: Path
    home: Path


def place_of(folder: str | None) -> Workplace:
    """The place for a folder: its repository's top level if it is inside one, otherwise itself."""
    try:
        start = Path(folder).resolve() if folder is not None else Path.cwd()
    except FileNotFoundError as error:
        raise CommandError("the current folder is gone; go to another, or name one with --repo") from error
    if len(os.fsencode(start)) >= LONGEST_PATH:
        raise CommandError(
            f"this folder's path has more than {LONGEST_PATH - 1} bytes: neither git nor Parley can open it"
        )
    if not start.is_dir():
        raise CommandError(f"{start}: there is no such folder; name an existing one with --repo")
    try:
        root = work_tree(start)
        if root is not None:
            programs.leave_out(root)
            _refuse_strangers(root)
        elif not Path(os.path.expanduser("~")).is_relative_to(start):  # noqa: PTH111 - an account may have no home
            programs.leave_out(start)  # but not the user's own programs, where `doctor` runs in their home directory
    except NoWorkTree as error:
        root = error.folder  # no job starts there; earlier jobs can still be looked at
        programs.leave_out(root)
    root = root or start
    named = os.environ.get(HOME_VARIABLE)
    found = Workplace(root, _named_home(named) if named else _home_in(root))
    _latest[:] = [(start, found)]
    return found


_latest: list[tuple[Path, Workplace]] = []  # for texts that are printed: a command has one place


def _named_home(named: str) -> Path:
    """The home that the user names. A link is followed once, here; one called `.parley` never is."""
    home = Path(os.path.realpath(named))
    if not _fits(home):
        raise CommandError(
            f"{HOME_VARIABLE}: a home's path must be UTF-8 and have {LONGEST_HOME} bytes at most; name another"
        )
    return home


def _home_in(root: Path) -> Path:
    """A folder's home: in it, or in the user's state folder where SQLite or agents can't use its path."""
    if _fits(root / HOME):
        return root / HOME
    from hashlib import sha256  # for start-up: few homes need it

    base = users_folder("XDG_STATE_HOME", "~/.local/state")
    home = base / "parley" / "far" / sha256(os.fsencode(root)).hexdigest()[:16] if base is not None else None
    if home is None or not _fits(home):
        raise CommandError(
            f"the path of this folder is not UTF-8, or has more than {LONGEST_HOME} bytes: "
            f"name a home in another folder with {HOME_VARIABLE}"
        )
    return home


def _fits(home: Path) -> bool:
    """Whether SQLite and agents can use this path."""
    try:
        return len(str(home).encode()) <= LONGEST_HOME
    except UnicodeEncodeError:
        return False


def make_home(place: Workplace) -> None:
    """Make the home, out of git's reach: never committed, and left alone by `git clean -fdx`."""
    home = place.home
    try:
        safe_open.admit(home)  # before anything is written there: a home that came with a clone is left alone
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        _put(home / ".gitignore", b"# Parley's own state: never committed\n*\n")
        if not os.access(home, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied", str(home))
        hide_home_from_git(home)
    except safe_open.KeyRefused as refused:
        raise CommandError(str(refused), FAILED) from refused
    except OSError as error:
        raise CommandError(
            f"{home}: {error.strerror}; make it writable, or name another home with PARLEY_HOME"
        ) from error


def hide_home_from_git(home: Path) -> None:
    """Where the home lies in a repository, keep that repository's git from touching it.

    `git clean -fdx` spares a folder that is a repository itself, so it is made to look like one; and
    `info/exclude`, which is neither index nor configuration, keeps `git add -A` from wanting to add it.
    """
    real = Path(os.path.realpath(home.parent)) / home.name
    try:
        tree = work_tree(real.parent)
    except NoWorkTree:
        return  # the code that uses the repository reports what is wrong with it
    if tree is None:
        return
    line = f"/{real.relative_to(tree).as_posix()}/"
    try:
        _exclude(git_folder(tree) / "info" / "exclude", line)
    except OSError:
        return  # without this line the marker would make `git add -A` fail: then make no marker
    marker = home / ".git"
    if os.path.lexists(marker) and not safe_open.is_marker(marker):
        return  # it is a real repository: nothing is written there
    for name, content in safe_open.MARKER.items():
        if content is None:
            (marker / name).mkdir(parents=True, exist_ok=True)
        else:
            _put(marker / name, content)


def _put(path: Path, data: bytes) -> None:
    """Write a new file; anything that is there, a link too, is left alone."""
    with suppress(FileExistsError):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)


def _exclude(path: Path, line: str) -> None:
    """Add a line to git's own exclude file, once. OSError if that is no ordinary file."""
    path.parent.mkdir(exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(f"{path} is no file")
        known = file.readall()
        if os.fsencode(line) not in known.splitlines():
            file.write((b"\n" if known and not known.endswith(b"\n") else b"") + os.fsencode(line) + b"\n")


def work_tree(folder: Path) -> Path | None:
    """The work tree that holds a folder, as git finds it; None if none does. A home of Parley's only looks like one."""
    listed = listed_homes()

    def is_home(here: Path) -> bool:
        if here.name == HOME and (is_repository(here.parent / MARKER) or (here.parent / MARKER).is_file()):
            return True
        return str(here) in listed

    return find_work_tree(Path(os.path.realpath(folder)), is_home)


def _refuse_strangers(root: Path) -> None:
    """Refuse another user's repository, as git does: its files are not this user's.

    Root works for all users, and becomes the repository's owner for what it does there.
    """
    me_here = os.geteuid()
    owners = {path.stat().st_uid for path in (root, root / MARKER, git_folder(root)) if path.exists()}
    if me_here == 0 or owners == {me_here}:
        return
    import subprocess  # for start-up: most repositories are the user's own

    asked = ["git", "-C", str(root), "rev-parse", "--show-toplevel"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, errors="replace", timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return  # a missing git is reported where it is needed
    if "dubious ownership" in said.stderr:
        remedy = "if you trust it: git config --global --add safe.directory"
        raise CommandError(
            f"{root} belongs to another user, and git leaves it alone; {remedy} {shlex.quote(str(root))}"
        )


def homes_file() -> Path | None:
    """Where the homes of this user are listed; None for an account that has no home."""
    base = users_folder("XDG_STATE_HOME", "~/.local/state")
    return base / "parley" / "homes" if base is not None else None


def listed_homes() -> set[str]:
    """The homes that this user's jobs have made, wherever they are; malformed entries are skipped.

    Paths as text, because every command starts with it, and a user may have had many homes.
    """
    path, found = homes_file(), set[str]()
    with suppress(OSError):
        for line in path.read_text(encoding="ascii", errors="replace").splitlines() if path is not None else ():
            with suppress(ValueError, TypeError, KeyError, RecursionError, AttributeError):
                entry = json.loads(line)
                root, home = entry["root"], entry["home"].rstrip("/")
                if not f"{root}/".startswith(f"{home}/"):  # a home that is all of a repository does not hide it
                    found.add(home)
    return found


def secrets_here(folder: str | None) -> Secrets:
    """The secrets that no command may print; without a folder, those of the environment."""
    try:
        start = Path(folder).resolve() if folder is not None else Path.cwd()
        place = next((place for known, place in _latest if known == start), None) or place_of(folder)
        return secrets_of(place.root, os.environ).sparing(str(place.root), str(place.home))
    except (CommandError, OSError, ValueError):
        return Secrets(from_environment(os.environ)).sparing()


# ---- words ---------------------------------------------------------------------------------------


def print_json(document: Any) -> None:
    """One document on standard output."""
    print_document(document)


def time_text(moment: float) -> str:
    """A time of today, or a day."""
    then = time.localtime(moment)
    today = time.localtime()
    return time.strftime("%H:%M:%S" if then[:3] == today[:3] else "%Y-%m-%d %H:%M", then)


def on_terminal() -> bool:
    """Whether the user can be asked on this terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"


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
    """Check a text that goes onto the bus and to agents."""
    if len(text) > TEXT_LIMIT:
        raise CommandError(f"the text has {len(text)} characters, {TEXT_LIMIT} at most; put the rest into a file")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CommandError("the text is not UTF-8; write it in UTF-8") from error
    return text


def one_line(text: str, length: int) -> str:
    """The beginning of a text, on one line, with nothing that a terminal would obey."""
    shown = printable(" ".join(text.split()))
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def safe(text: str) -> str:
    """A text on one line, with nothing that a terminal would obey or hide, and no forged line of ours."""
    return printable(" ".join(text.splitlines()).replace("\t", " "))
