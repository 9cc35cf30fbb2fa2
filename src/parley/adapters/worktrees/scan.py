"""What an agent left in its workspace: looked at without following anything, and without trusting any name."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from parley.adapters.git import Git, Objects
from parley.adapters.worktrees.history import ARTIFACTS, ORCHESTRATION
from parley.ports import REPORTS, OverQuota

PRIVATE = (".parley", ".claude")  # at a workspace's root: never committed
DEEPEST = 200  # folders in each other; what lies deeper is left out
RULES = (".gitignore", ".gitattributes")  # what git reads wherever it looks
LINES = 20  # told one by one; the rest is counted
REGULAR, PROGRAM, LINK = "100644", "100755", "120000"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK_LIMIT = 4096
TOO_DEEP = f"it lies more than {DEEPEST} folders deep"
_GITS_OWN = (".git", "git~1")
_ATTRIBUTES_BYTES, _ATTRIBUTES_LINE = 1 << 20, 2048


@dataclass(slots=True)
class Survey:
    """How much a folder holds, and what of it is neither file, folder nor link."""

    files: int = 0
    bytes: int = 0
    special: list[str] = field(default_factory=list)
    shut: list[str] = field(default_factory=list)  # folders that nobody can look into
    deep: list[str] = field(default_factory=list)  # folders that lie deeper than is followed
    traps: list[str] = field(default_factory=list)  # those that git would open, and wait at


def survey(folder: Path, file_limit: int, byte_limit: int, *, mend: bool = False) -> Survey:
    """Look through a folder; OverQuota as soon as a limit is passed, however much there is.

    `mend`: folders that their owner has shut against itself are opened again.
    """
    found, waiting = Survey(), [(str(folder), 0)]
    while waiting:
        here, depth = waiting.pop()
        try:
            if mend and os.lstat(here).st_mode & stat.S_IRWXU != stat.S_IRWXU:
                open_up(folder, os.path.relpath(here, folder))
            inside = os.scandir(here)
        except (FileNotFoundError, NotADirectoryError):
            continue  # it went meanwhile
        except OSError:
            if len(found.shut) <= LINES:
                found.shut.append(os.path.relpath(here, folder))
            continue
        with inside:
            for entry in inside:
                found.files += 1
                if entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, depth + 1))
                    if depth + 1 == DEEPEST and len(found.deep) <= LINES:
                        found.deep.append(os.path.relpath(entry.path, folder))
                else:
                    _weigh(entry, found, folder)
                if found.files > file_limit:
                    raise OverQuota(
                        f"there are more than {file_limit} files in {folder}; remove some ([workspace] files)"
                    )
                if found.bytes > byte_limit:
                    raise OverQuota(
                        f"the job's files take more than its quota with {folder}; remove some, "
                        "or what lies in the job's folders `aside` and `homes` ([workspace] quota_mb)"
                    )
    return found


def open_up(root: Path, relative: str = ".") -> None:
    """Let a folder's owner, who we are, read and change it, whatever it did to it. No link is followed."""
    if os.geteuid() == 0:  # who may do all that anyway
        return
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(OSError):
        here = os.open(root, flags)
        try:
            for part in [] if relative == "." else relative.split("/"):
                above, here = here, os.open(part, flags, dir_fd=here)
                os.close(above)
            mode = stat.S_IMODE(os.fstat(here).st_mode)
            os.chmod(f"/proc/self/fd/{here}", mode | stat.S_IRWXU)  # noqa: PTH101 - what is open, and nothing else
        finally:
            os.close(here)


def _weigh(entry: os.DirEntry[str], found: Survey, folder: Path) -> None:
    try:
        seen = entry.stat(follow_symlinks=False)
    except OSError:
        return
    found.bytes += seen.st_size
    if not (stat.S_ISREG(seen.st_mode) or stat.S_ISLNK(seen.st_mode)):
        if entry.name in RULES:
            found.traps.append(os.path.relpath(entry.path, folder))
        if len(found.special) <= LINES:
            found.special.append(os.path.relpath(entry.path, folder))


def size_of(folder: Path, limit: int) -> int:
    """The bytes in a folder; the limit where there are more."""
    try:
        return survey(folder, limit, limit).bytes
    except OverQuota:
        return limit


def changed(git: Git, folder: Path, index: Path, hidden: Iterable[str]) -> list[str]:
    """The paths that differ from an index: changed, gone and new ones. A folder with a repository in it ends in `/`."""
    rules = [f"--exclude=/{_escaped(path)}" for path in (*PRIVATE, *hidden)]
    own = (f"{folder}{below}" for folder in (ORCHESTRATION, REPORTS) for below in ("", "/**"))
    kept = [f"--exclude=!/{name}" for name in (*ARTIFACTS, *own)]
    left = [f":(top,exclude,literal){path}" for path in PRIVATE]
    words = ("ls-files", "-z", "--modified", "--others", "--exclude-standard", *rules, *kept)
    found = os.fsdecode(git(*words, "--", ".", *left, work=folder, index=index)).split("\0")
    return list(dict.fromkeys(path for path in found if path))


def _escaped(path: str) -> str:
    return re.sub(r"([\\*?\[\]! ])", r"\\\1", path)


# ---- reading ---------------------------------------------------------------------------------------


class Unkept(Exception):
    """Something can't be kept: the reason, as whoever left it there is told."""

    def __init__(self, why: str, *, is_link: bool = False) -> None:
        super().__init__(why)
        self.is_link = is_link  # which a ref can hold, if nobody checks it out


@contextmanager
def opened(folder: Path) -> Iterator[int]:
    """A folder to read below."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def keep(
    objects: Objects, root: int, path: str, *, any_link: bool = False, users_own: bool = False
) -> tuple[str, str] | None:
    """Write what lies at a path; its mode and object, None if nothing is there. Unkept where it must not be kept."""
    refuse_name(path, users_own=users_own)
    *folders, name = path.split("/")
    if len(folders) >= DEEPEST:
        raise Unkept(TOO_DEEP)
    held: list[int] = []
    here = root
    try:
        for part in folders:
            here = os.open(part, _FOLDER, dir_fd=here)
            held.append(here)
        return _keep_here(objects, here, name, path, any_link=any_link)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP and len(held) < len(folders):
            return None  # what was its folder is a link now
        raise Unkept(f"it can't be read ({error.strerror or error})") from error
    finally:
        for handle in held:
            os.close(handle)


def _keep_here(objects: Objects, here: int, name: str, path: str, *, any_link: bool) -> tuple[str, str] | None:
    seen = os.stat(name, dir_fd=here, follow_symlinks=False)
    if stat.S_ISLNK(seen.st_mode):
        target = os.readlink(name, dir_fd=here)
        if not any_link and (len(target) > _LINK_LIMIT or leaves(path, target)):
            raise Unkept(f"it is a link that leads outside the workspace ({target[:80]})", is_link=True)
        if not any_link and name.lower().startswith(".git"):
            raise Unkept("git's own files must not be links", is_link=True)
        return LINK, objects.write("blob", os.fsencode(target))
    if stat.S_ISDIR(seen.st_mode):
        return None
    handle = os.open(name, _FILE, dir_fd=here)
    with os.fdopen(handle, "rb", buffering=0) as file:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            raise Unkept("it is no ordinary file")
        if name.lower() == ".gitattributes":
            _check_attributes(handle, seen.st_size)
        return PROGRAM if seen.st_mode & stat.S_IXUSR else REGULAR, objects.write_file(file, seen.st_size)


def _check_attributes(handle: int, size: int) -> None:
    """Refuse attributes that git itself would call broken wherever the commit goes."""
    lines = os.pread(handle, _ATTRIBUTES_BYTES, 0).split(b"\n") if size < _ATTRIBUTES_BYTES else []
    if not lines or max(map(len, lines)) >= _ATTRIBUTES_LINE:
        raise Unkept("its lines are too long, or too many, for git")


def leaves(path: str, target: str) -> bool:
    """Whether a link may lead outside: it steps up too far, or in a way that depends on other links."""
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    if any(_plain(part) in _GITS_OWN for part in re.split(r"[/\\]", target)):
        return True  # outside the workspace is also what is git's
    return target.startswith("/") or ".." in parts[ups:] or ups > posixpath.dirname(path).count("/") + bool("/" in path)


def _plain(part: str) -> str:
    """A name as the least exact filesystem takes it."""
    return part.partition(":")[0].rstrip(". ").lower()


def refuse_name(path: str, *, users_own: bool = False) -> None:
    """Refuse a name that would be git's own, here or on another filesystem, and what says where submodules are from."""
    for part in re.split(r"[/\\]", path):
        plain = _plain(part)
        if plain in _GITS_OWN:
            raise Unkept("its name is git's own")
        if not users_own and (plain == ".gitmodules" or plain.startswith("gitmod~")):
            raise Unkept("submodules stay as they are")


def told(left: dict[str, str]) -> tuple[str, ...]:
    """What was left out, a line each; those beyond a number are counted."""
    lines = [f"{printable(path)}: {why.removeprefix(f'{path} ')}" for path, why in sorted(left.items())]
    more = len(lines) - LINES
    return (*lines[:LINES], f"and {more} more") if more > 0 else tuple(lines)


def printable(path: str) -> str:
    """A path on one line, as text that can be written anywhere."""
    return "".join(char if char.isprintable() else f"\\x{ord(char) & 0xFF:02x}" for char in path)[:200]
