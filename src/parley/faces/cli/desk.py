"""What all commands share: where the home is, and words for people. Light: `parley ls` starts with it."""

from __future__ import annotations

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

from parley.adapters import bus_gate, programs
from parley.adapters.discovery import MARKER, NoWorkTree, find_work_tree, git_folder, is_repository
from parley.engine.redaction import Secrets
from parley.engine.vault import from_environment, secrets_of
from parley.faces.cli import FAILED, Trouble
from parley.output import print_document
from parley.text import printable

HOME = ".parley"
HOME_VARIABLE = "PARLEY_HOME"
LONGEST_HOME = 400  # bytes: SQLite opens no file whose path has more than 512
LONGEST_PATH = 4096  # bytes, with the one that ends it: Linux takes no longer one
TEXT_LIMIT = 100_000  # characters
_WIDTH = 80
GIT_SECONDS = 20.0


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
    if len(os.fsencode(start)) >= LONGEST_PATH:
        raise Trouble(f"this folder's path has more than {LONGEST_PATH - 1} bytes: neither git nor Parley can open it")
    if not start.is_dir():
        raise Trouble(f"{start}: there is no such folder; name an existing one with --repo")
    try:
        root = work_tree(start)
        if root is not None:
            programs.leave_out(root)
            _refuse_strangers(root)
        elif not Path(os.path.expanduser("~")).is_relative_to(start):  # noqa: PTH111 - an account may have no home
            programs.leave_out(start)  # but not all that the user has installed, who asks `doctor` at home
    except NoWorkTree as error:
        root = error.folder  # no job starts there; what was done there before can still be looked at
        programs.leave_out(root)
    root = root or start
    named = os.environ.get(HOME_VARIABLE)
    found = Place(root, _named_home(named) if named else _home_in(root))
    _latest[:] = [(start, found)]
    return found


_latest: list[tuple[Path, Place]] = []  # for what is printed: a command has one place


def _named_home(named: str) -> Path:
    """The home that the user names. A link is followed once, here; one that is called `.parley` never is."""
    home = Path(os.path.realpath(named))
    if not _fits(home):
        raise Trouble(
            f"{HOME_VARIABLE}: a home's path must be UTF-8 and have {LONGEST_HOME} bytes at most; name another"
        )
    return home


def _home_in(root: Path) -> Path:
    """A folder's home: in it, or in the user's state folder where its path is one that SQLite or agents can't take."""
    if _fits(root / HOME):
        return root / HOME
    from hashlib import sha256  # for start-up: few homes need it

    base = users_folder("XDG_STATE_HOME", "~/.local/state")
    home = base / "parley" / "far" / sha256(os.fsencode(root)).hexdigest()[:16] if base is not None else None
    if home is None or not _fits(home):
        raise Trouble(
            f"the path of this folder is not UTF-8, or has more than {LONGEST_HOME} bytes: "
            f"name a home in another folder with {HOME_VARIABLE}"
        )
    return home


def _fits(home: Path) -> bool:
    """Whether a bus can lie there, and agents can be told of files in it."""
    try:
        return len(str(home).encode()) <= LONGEST_HOME
    except UnicodeEncodeError:
        return False


def make_home(place: Place) -> None:
    """Make the home, out of git's reach: never committed, and left alone by `git clean -fdx`."""
    home = place.home
    try:
        bus_gate.admit(home)  # before anything is written there: what came with a clone is left alone
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        _put(home / ".gitignore", b"# Parley's own state: never committed\n*\n")
        if not os.access(home, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied", str(home))
        shield(home)
    except bus_gate.Refused as refused:
        raise Trouble(str(refused), FAILED) from refused
    except OSError as error:
        raise Trouble(f"{home}: {error.strerror}; make it writable, or name another home with PARLEY_HOME") from error


def shield(home: Path) -> None:
    """Where the home lies in a repository, keep that repository's git off it.

    `git clean -fdx` spares a folder that is a repository itself, so it is made to look like one; and
    `info/exclude`, which is neither index nor configuration, keeps `git add -A` from wanting to add it.
    """
    real = Path(os.path.realpath(home.parent)) / home.name
    try:
        tree = work_tree(real.parent)
    except NoWorkTree:
        return  # what uses the repository says what is wrong with it
    if tree is None:
        return
    line = f"/{real.relative_to(tree).as_posix()}/"
    try:
        _exclude(git_folder(tree) / "info" / "exclude", line)
    except OSError:
        return  # without the line the marker would make `git add -A` fail: better no marker
    marker = home / ".git"
    if os.path.lexists(marker) and not bus_gate.is_marker(marker):
        return  # it is somebody's: nothing is written there
    for name, content in bus_gate.MARKER.items():
        if content is None:
            (marker / name).mkdir(parents=True, exist_ok=True)
        else:
            _put(marker / name, content)


def _put(path: Path, data: bytes) -> None:
    """Write a new file; what is there, be it a link, is left alone."""
    with suppress(FileExistsError):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)


def _exclude(path: Path, line: str) -> None:
    """Add a line to git's own list of what to leave out, once. An OSError if that is no ordinary file."""
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
    """Leave another user's repository alone, as git does: its files were not put there by this user.

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
        return  # that git is missing is told where it is needed
    if "dubious ownership" in said.stderr:
        remedy = "if you trust it: git config --global --add safe.directory"
        raise Trouble(f"{root} belongs to another user, and git leaves it alone; {remedy} {shlex.quote(str(root))}")


def homes_file() -> Path | None:
    """Where the homes of this user are listed; None for an account that has no home."""
    base = users_folder("XDG_STATE_HOME", "~/.local/state")
    return base / "parley" / "homes" if base is not None else None


def listed_homes() -> set[str]:
    """The homes that this user's jobs have made, wherever they are. It is only a list: what is odd in it is none.

    Paths as text, for each command starts with it, and a user may have had many homes.
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


def known_here(folder: str | None) -> Secrets:
    """What nothing that is printed may hold, whatever the command is; without a folder, what the environment says."""
    try:
        start = Path(folder).resolve() if folder is not None else Path.cwd()
        place = next((place for known, place in _latest if known == start), None) or place_of(folder)
        return secrets_of(place.root, os.environ).sparing(str(place.root), str(place.home))
    except (Trouble, OSError, ValueError):
        return Secrets(from_environment(os.environ)).sparing()


# ---- words ---------------------------------------------------------------------------------------


def print_json(document: Any) -> None:
    """One document on standard output."""
    print_document(document)


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
    shown = printable(" ".join(text.split()))
    return shown if len(shown) <= length else f"{shown[: length - 1]}…"


def safe(text: str) -> str:
    """A text on one line, in which nothing is obeyed by a terminal, or hidden, and no line of ours is forged."""
    return printable(" ".join(text.splitlines()).replace("\t", " "))
