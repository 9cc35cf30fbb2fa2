"""Scans an agent's workspace and stores its files as git objects; no link is followed, no name trusted."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import re
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from parley.base.text import cut, printable
from parley.machine.disk import BLOCK
from parley.ports.workspaces import REPORTS, OverQuota
from parley.workspaces.files import odd_names
from parley.workspaces.files.ignored import RULES
from parley.workspaces.files.known_blobs import LINK, key_of, mode_of
from parley.workspaces.files.safe_walk import DEEPEST, LONGEST, WalkedFolder, walk
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.home.private_folders import NAME
from parley.workspaces.job_repository import ARTIFACTS, ORCHESTRATION
from parley.workspaces.job_repository import OWN as PAPERS
from parley.workspaces.safe_git import Git, LooseObjects

PRIVATE = (".parley", ".claude")  # at a workspace's root: never committed
OWN = (ORCHESTRATION, REPORTS)  # folders that are committed even if they are ignored
LINES = 20  # listed one by one; the rest is counted
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINK_LIMIT = 4096
_DRIVE = re.compile(r"[A-Za-z]:")  # on Windows a link may name one
TOO_DEEP = f"it lies more than {DEEPEST} folders deep, or its path has more than {LONGEST} bytes"
_REPOSITORY = {"HEAD", "objects", "refs"}
_ATTRIBUTES_BYTES, _ATTRIBUTES_LINE = 1 << 20, 2048
PAPER_BYTES = 1_000_000  # of an artifact or another file of the protocol's; a longer one is never read
HOLE_BYTES = 1 << 20  # a file with more bytes in holes is left out: keeping it would write what the agent did not
_EXTENTS = 1000  # of one file that are counted


@dataclass(slots=True)
class Survey:
    """The content of a workspace: its files and links, its size, and what is neither file, folder nor link."""

    files: int = 0
    bytes: int = 0
    special: list[str] = field(default_factory=list)
    shut: list[str] = field(default_factory=list)  # folders that can't be opened
    deep: list[str] = field(default_factory=list)  # folders that lie deeper than is followed
    held: dict[str, str] = field(default_factory=dict)  # ordinary files and links, each with its key of `known_blobs`
    rules: set[str] = field(default_factory=set)  # the folders that have a `.gitignore`
    nested: set[str] = field(default_factory=set)  # the folders that have a repository of their own
    empty: set[str] = field(default_factory=set)  # the folders that are empty


def survey(folder: Path, file_limit: int, byte_limit: int, *, mend: bool = False) -> Survey:
    """Scan a folder; OverQuota as soon as a limit is passed.

    `mend`: folders that the agent made unreadable are made readable again.
    """
    found = Survey()
    repositories: dict[str, set[str]] = {}
    for here in walk(folder, mend=mend):
        if here.shut or here.deep:
            named = found.shut if here.shut else found.deep
            if len(named) <= LINES and here.path not in named:
                named.append(here.path)
        if here.path.endswith("/.git"):
            repositories[here.path] = {name for name, _ in here.entries}
        _count(here, found)
        if found.files > file_limit:
            raise OverQuota(f"there are more than {file_limit} files in {folder}; remove some ([workspace] files)")
        if found.bytes > byte_limit:
            raise OverQuota(
                f"the job's files take more than its quota with {folder}; remove some, "
                "or what lies in the job's folders `aside` and `homes` ([workspace] quota_mb)"
            )
    found.nested |= {path.removesuffix("/.git") for path, names in repositories.items() if names >= _REPOSITORY}
    return found


def _count(here: WalkedFolder, found: Survey) -> None:
    """Add what one folder holds."""
    inner = f"{here.path}/" if here.path else ""
    gits_own = here.deep or f"/{inner}".find("/.git/") >= 0  # which git itself never looks at
    found.files += len(here.entries)
    if not here.entries and here.path and not gits_own and not here.shut:
        found.empty.add(here.path)
    for name, seen in here.entries:
        mode = seen.st_mode
        if stat.S_ISDIR(mode):
            continue
        found.bytes += seen.st_blocks * BLOCK
        if stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            if gits_own:
                continue
            if name == RULES:
                found.rules.add(here.path)
            if name != ".git":
                found.held[inner + name] = key_of(seen)
            elif here.path and seen.st_size:  # a worktree or a submodule
                found.nested.add(here.path)
        elif len(found.special) <= LINES:
            found.special.append(inner + name)


def open_up(root: Path, relative: str = ".") -> None:
    """Make a folder readable and writable for its owner, which is this process. No link is followed."""
    if os.geteuid() == 0:  # root may read and change it anyway
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


def users_changes(git: Git, folder: Path, index: Path) -> list[str]:
    """The paths of the user's own checkout that differ from an index. Git opens it: no agent may be working there."""
    words = ("ls-files", "-z", "--modified", "--others", "--exclude-standard", *(f"--exclude=/{at}" for at in PRIVATE))
    kept = [f"--exclude=!/{name}" for name in (*ARTIFACTS, *(f"{at}{below}" for at in OWN for below in ("", "/**")))]
    left = [f":(top,exclude,literal){path}" for path in PRIVATE]
    found = os.fsdecode(git(*words, *kept, "--", ".", *left, work=folder, index=index)).split("\0")
    return list(dict.fromkeys(path for path in found if path))


# ---- reading ---------------------------------------------------------------------------------------


class CannotKeep(Exception):
    """A file can't be kept: the reason, as the agent is told."""

    def __init__(self, why: str, *, is_link: bool = False) -> None:
        super().__init__(why)
        self.is_link = is_link  # a ref can hold it, as long as it is not checked out


class TooLarge(CannotKeep):
    """A file has more bytes than may be kept."""


Note = Callable[[str, os.stat_result, str], None]  # the path, what it was when it was read, its object


@contextmanager
def open_folder(folder: Path) -> Iterator[int]:
    """A folder to read below."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


@dataclass(slots=True)
class Allowance:
    """How many bytes may still be read to be kept. A sparse file counts with its whole length."""

    left: int = sys.maxsize

    def take(self, path: str, handle: int, size: int) -> None:
        """Let a file be read; CannotKeep where it is too long, or mostly holes."""
        if path.split("/", maxsplit=1)[0] in PAPERS and size > PAPER_BYTES:
            raise CannotKeep(f"it has {size} bytes, and may have {PAPER_BYTES}; shorten it")
        if (holes := hole_bytes(handle, size)) > HOLE_BYTES:
            raise CannotKeep(f"it is sparse: {holes} of its {size} bytes were never written")
        if size > self.left:
            raise TooLarge(f"it has {size} bytes, more than the job's quota leaves ([workspace] quota_mb)")
        self.left -= size


def hole_bytes(handle: int, size: int) -> int:
    """How many bytes of a file were never written, where the filesystem can tell."""
    if size <= HOLE_BYTES:
        return 0
    at = written = 0
    try:
        for _ in range(_EXTENTS):
            begin = os.lseek(handle, at, os.SEEK_DATA)
            at = os.lseek(handle, begin, os.SEEK_HOLE)
            written += at - begin
            if at >= size:
                break
        else:
            return 0 if written >= at // 2 else size - written  # very fragmented: judged by its beginning
    except OSError as error:
        if error.errno != errno.ENXIO:  # no data behind this place
            return 0
    finally:
        os.lseek(handle, 0, os.SEEK_SET)
    return max(0, size - written)


def keep(
    objects: LooseObjects,
    root: int,
    path: str,
    *,
    any_link: bool = False,
    users_own: bool = False,
    allowance: Allowance | None = None,
    note: Note | None = None,
) -> TreeEntry | None:
    """Write the file at a path as an object; its mode and object, None without a file. CannotKeep where it must not be.

    `note` is called with what was read.
    """
    refuse_name(path, users_own=users_own)
    *folders, name = path.split("/")
    if len(folders) >= DEEPEST or len(os.fsencode(path)) > LONGEST:
        raise CannotKeep(TOO_DEEP)
    held: list[int] = []
    here = root
    try:
        for part in folders:
            here = os.open(part, _FOLDER, dir_fd=here)
            held.append(here)
        allowed = None if users_own else allowance or Allowance()
        entry, seen = _keep_here(objects, here, name, path, allowed, any_link=any_link)
        if entry is not None and note is not None:
            note(path, seen, entry.name)
        return entry
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP and len(held) < len(folders):
            return None  # its folder is a link now
        raise CannotKeep(f"it can't be read ({error.strerror or error})") from error
    finally:
        for handle in held:
            os.close(handle)


def _keep_here(
    objects: LooseObjects, here: int, name: str, path: str, allowance: Allowance | None, *, any_link: bool
) -> tuple[TreeEntry | None, os.stat_result]:
    seen = os.stat(name, dir_fd=here, follow_symlinks=False)
    if stat.S_ISLNK(seen.st_mode):
        target = os.readlink(name, dir_fd=here)
        if not any_link and (len(target) > _LINK_LIMIT or leads_outside(path, target)):
            raise CannotKeep(f"it is a link that leads outside the workspace ({cut(target, 80)})", is_link=True)
        if not any_link and odd_names.folded(name).startswith((".git", ".mailmap")):
            raise CannotKeep("git's own files must not be links", is_link=True)
        return TreeEntry(LINK, objects.write("blob", os.fsencode(target))), seen
    if stat.S_ISDIR(seen.st_mode):
        return None, seen
    handle = os.open(name, _FILE, dir_fd=here)
    with os.fdopen(handle, "rb", buffering=0) as file:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            raise CannotKeep("it is no ordinary file")
        if odd_names.folded(name) == ".gitattributes":
            _check_attributes(handle, seen.st_size)
        if allowance is not None:
            allowance.take(path, handle, seen.st_size)
        return TreeEntry(mode_of(seen), objects.write_file(file, seen.st_size)), seen


def _check_attributes(handle: int, size: int) -> None:
    """Refuse attributes that git itself refuses to read."""
    lines = os.pread(handle, _ATTRIBUTES_BYTES, 0).split(b"\n") if size < _ATTRIBUTES_BYTES else []
    if not lines or max(map(len, lines)) >= _ATTRIBUTES_LINE:
        raise CannotKeep("its lines are too long, or too many, for git")


def leads_outside(path: str, target: str) -> bool:
    """Whether a link may lead outside: it has too many `..`, or its target depends on other links."""
    parts = [part for part in target.split("/") if part not in ("", ".")]
    ups = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    if any(odd_names.is_git(part) or odd_names.folded(part) == NAME for part in odd_names.parts(target)):
        return True  # git's folder counts as outside, and so does Parley's home in the user's checkout
    if "\\" in target and leads_outside(path, target.replace("\\", "/")):
        return True  # as Windows reads it
    if _DRIVE.match(target):
        return True
    return target.startswith("/") or ".." in parts[ups:] or ups > posixpath.dirname(path).count("/") + bool("/" in path)


def refuse_name(path: str, *, users_own: bool = False) -> None:
    """Refuse a name that is git's own, here or on another filesystem, and `.gitmodules`."""
    if why := odd_names.refusal(path, users_own=users_own):
        raise CannotKeep(why)


def left_out_lines(left: dict[str, str]) -> tuple[str, ...]:
    """One line for each path that was left out; those beyond LINES are counted."""
    lines = [f"{path_text(path)}: {why}" for path, why in sorted(left.items())]
    more = len(lines) - LINES
    return (*lines[:LINES], f"and {more} more") if more > 0 else tuple(lines)


def path_text(path: str) -> str:
    """A path on one line, as text that can be written anywhere."""
    return cut(printable(path), 200)
