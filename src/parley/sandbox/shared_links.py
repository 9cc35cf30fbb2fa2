"""What a workspace shares with the host by hard links, repositories and owners.

Agents may be at work meanwhile, and Parley may be root: nothing here follows a link, and every step starts from the
descriptor of an open folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from parley.sandbox.inside.syscalls import call

FRESH_NS = 50_000_000  # a folder that changed within this time may change again without a new timestamp
_NO_LINKS, _STAY_BENEATH = 0x04, 0x08
_LONGEST = 8192  # bytes of a `.git` or `commondir` file
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HOW = b"".join(word.to_bytes(8, "little") for word in (_FOLDER, 0, _NO_LINKS | _STAY_BENEATH))


class _Linked(NamedTuple):
    """A file that has several links."""

    name: str
    inode: int
    links: int


@dataclass(slots=True)
class _Tree:
    """A workspace as it was seen: each folder's last change, its subfolders, its files with several links."""

    changed: dict[str, int] = field(default_factory=dict)
    below: dict[str, list[str]] = field(default_factory=dict)
    linked: dict[str, list[_Linked]] = field(default_factory=dict)  # by folder
    nested: set[str] = field(default_factory=set)


class SeenWorkspaces:
    """The workspaces as they were last seen, so that a launch reads only folders that changed."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.trees: dict[str, _Tree] = {}


def copy_shared_files(seen: SeenWorkspaces, workspace: str, uid: int) -> tuple[list[str], list[str]]:
    """Replace each file that has a link outside by a copy; returns those files, and the nested repositories."""
    with seen.lock:
        tree = seen.trees.pop(workspace, None)
        tree = _look(workspace, tree or _Tree())
        copied = []
        for folder, name in list(_shared(tree)):
            path = os.path.join(folder, name)  # noqa: PTH118 - as the walk has them
            with _below(workspace, folder) as place, contextlib.suppress(FileNotFoundError):  # it may go at any time
                if place is not None and _copy(place, name, uid):
                    copied.append(path)
            tree.changed.pop(folder, None)
        seen.trees[workspace] = tree
        return copied, sorted(tree.nested)


def _look(root: str, tree: _Tree) -> _Tree:
    """The workspace as it is now: folders that did not change are not read again."""
    now = _Tree()
    horizon = time.time_ns() - FRESH_NS
    try:
        top = os.open(root, _FOLDER)
    except OSError:
        return now
    todo = [root]
    try:
        while todo:
            folder = todo.pop()
            try:
                place = _beneath(top, os.fsencode(folder[len(root) + 1 :]) or b".")
                try:
                    changed = os.fstat(place).st_ctime_ns
                    if tree.changed.get(folder) == changed:
                        now.below[folder], now.linked[folder] = tree.below[folder], tree.linked[folder]
                        now.nested |= {folder} & tree.nested
                    else:
                        _read(place, folder, root, now)
                finally:
                    os.close(place)
            except OSError:
                continue  # it has gone, is no folder any more, or can't be read
            if changed < horizon:
                now.changed[folder] = changed
            todo += now.below[folder]
    finally:
        os.close(top)
    return now


def _read(place: int, folder: str, root: str, now: _Tree) -> None:
    """What is in a folder that is open."""
    below: list[str] = []
    linked: list[_Linked] = []
    with os.scandir(place) as entries:
        for entry in entries:
            if entry.name == ".git" and folder != root:
                now.nested.add(folder)
            if entry.is_dir(follow_symlinks=False):
                below.append(f"{folder}/{entry.name}")
            elif entry.is_file(follow_symlinks=False):
                status = entry.stat(follow_symlinks=False)
                if status.st_nlink > 1:
                    linked.append(_Linked(entry.name, status.st_ino, status.st_nlink))
    now.below[folder], now.linked[folder] = below, linked


def _shared(tree: _Tree) -> Iterator[tuple[str, str]]:
    """The files of which not all links are in the workspace."""
    here: dict[int, int] = {}
    for files in tree.linked.values():
        for file in files:
            here[file.inode] = here.get(file.inode, 0) + 1
    for folder, files in tree.linked.items():
        for file in files:
            if here[file.inode] < file.links:
                yield folder, file.name


@contextlib.contextmanager
def _below(root: str, folder: str) -> Iterator[int | None]:
    """Open a folder of a workspace; None if it is no folder any more."""
    with contextlib.ExitStack() as stack:
        place: int | None = None
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            top = os.open(root, _FOLDER)
            stack.callback(os.close, top)
            place = _beneath(top, os.fsencode(os.path.relpath(folder, root)))
            stack.callback(os.close, place)
        yield place


def _copy(folder: int, name: str, uid: int) -> bool:
    """Replace a file by a copy; whether that was needed, and done."""
    try:
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return False
    with os.fdopen(source, "rb") as old:
        status = os.fstat(source)
        if not stat.S_ISREG(status.st_mode) or status.st_nlink < 2:  # noqa: PLR2004 - another link of it is gone
            return False
        fresh = f".{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(fresh, flags, 0o600, dir_fd=folder), "wb") as new:
            while chunk := old.read(1 << 20):
                new.write(chunk)
            new.flush()
            if os.geteuid() == 0:
                os.fchown(new.fileno(), uid, uid)
            os.fchmod(new.fileno(), status.st_mode & 0o777)
            os.utime(new.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        os.rename(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    return True


def hand_over(path: str, uid: int) -> None:
    """Give a tree to an ordinary user. A file with several links is copied first: only the copy is given away."""
    top = os.open(path, _FOLDER)
    try:
        todo = [b"."]
        while todo:
            name = todo.pop()
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                folder = _beneath(top, name)
                try:
                    todo += [name + b"/" + below for below in _give(folder, uid)]
                finally:
                    os.close(folder)
    finally:
        os.close(top)


def _beneath(top: int, name: bytes) -> int:
    """Open a folder at any depth below another, by one call that follows no link."""
    try:
        return call("openat2", top, name + b"\0", _HOW, len(_HOW))
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # only an agent makes folders this deep: it owns them already
            raise FileNotFoundError(error.errno, error.strerror) from error
        if error.errno == errno.ELOOP:
            raise NotADirectoryError(error.errno, error.strerror) from error
        raise


def _give(folder: int, uid: int) -> list[bytes]:
    """Give a folder and the files in it to an ordinary user; returns the names of the folders in it."""
    below = []
    status = os.fstat(folder)
    if status.st_uid != uid or status.st_gid != uid:
        os.fchown(folder, uid, uid)
    with os.scandir(folder) as entries:
        for entry in list(entries):
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(found.st_mode):
                    below.append(os.fsencode(entry.name))
                elif found.st_uid == uid and found.st_gid == uid:
                    continue
                elif not (stat.S_ISREG(found.st_mode) and found.st_nlink > 1 and _copy(folder, entry.name, uid)):
                    os.chown(entry.name, uid, uid, dir_fd=folder, follow_symlinks=False)
    return below


def repositories(workspace: str) -> list[str]:
    """The repository that a worktree belongs to, as its `.git` file says."""
    with contextlib.suppress(OSError, ValueError):
        text = _text(Path(workspace) / ".git")
        if text.startswith("gitdir: "):
            private = (Path(workspace) / text[8:].strip()).resolve()
            return [str((private / _text(private / "commondir").strip()).resolve())]
    return []


def _text(path: Path) -> str:
    """The text of a small ordinary file; empty for anything else, such as a pipe at which a reader would wait."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        return file.read(_LONGEST).decode("utf-8") if stat.S_ISREG(os.fstat(handle).st_mode) else ""
