"""Puts files into a folder of the user's: all of them, or none.

The new files were prepared beside it, on the same filesystem. Then files are only moved: replaced ones into `old/`, new
ones from `new/` into place, by descriptors, through no link and never over anything. So every step can be undone; a
plan that is written first lets the next process undo them if this one is killed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from parley.workspaces.files.safe_fs import FOLDER, open_below, open_parent

PLAN = "plan.json"
_UNLINKABLE = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_COMPARED = 1 << 20


class InTheWay(Exception):
    """The path of a user's file that lies where a new one should go, or changed meanwhile."""


Identity = tuple[int, int, int, int]  # device, inode, size, when it was written


def identity(seen: os.stat_result) -> Identity:
    """What identifies a file in one state."""
    return seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns


@dataclass
class PlacementPlan:
    """What is moved: the files that are replaced and the new ones, each with its identity."""

    old: dict[str, Identity] = field(default_factory=dict)
    new: dict[str, Identity] = field(default_factory=dict)
    folders: dict[str, int] = field(default_factory=dict)  # those that become files, with their modes
    made: list[str] = field(default_factory=list)  # folders that have to be made, the outer ones first
    more: dict[str, str] = field(default_factory=dict)  # what else is needed to undo it

    def write(self, record: Path) -> None:
        """Write it, before anything is moved."""
        self.more["record"] = _number(record)
        with (record / PLAN).open("x", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(asdict(self), file)
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def read(cls, record: Path) -> PlacementPlan | None:
        """The plan of a process that was killed; None where it had moved nothing yet.

        InTheWay where it was written for another folder: it came with an archive or a copy of the repository, and its
        author chose what would be moved and deleted.
        """
        try:
            said = json.loads((record / PLAN).read_text(encoding="utf-8", errors="surrogateescape"))
        except (OSError, ValueError):
            return None
        try:
            for name in ("old", "new"):
                said[name] = {path: tuple(seen) for path, seen in said[name].items()}
            found = cls(**said)
            number = found.more["record"]
        except (AttributeError, KeyError, TypeError) as error:
            raise InTheWay(str(record)) from error
        if number != _number(record):
            raise InTheWay(str(record))
        return found


def _number(folder: Path) -> str:
    """A number that a copy of the folder does not have, and that no archive can foresee."""
    return str(folder.stat().st_ino)


class Placement:
    """Moves files into a folder from a place beside it. `owner` gets the new folders."""

    def __init__(self, root: Path, place: Path, owner: tuple[int, int] | None = None) -> None:
        self._root = root
        self._place = place
        self._owner = owner
        for name in ("new", "old"):
            (place / name).mkdir(exist_ok=True)

    # ---- looking -------------------------------------------------------------------------------

    def plan(
        self, new: Iterable[str], giving_way: Iterable[str], *, programs: bool = True
    ) -> tuple[PlacementPlan, list[str]]:
        """What would be moved, and which files of the user's are in the way.

        `giving_way`: the files that are deleted or replaced. `programs`: whether the mode of a file counts. A new
        file that is there already, byte for byte, is left alone.
        """
        made = PlacementPlan()
        for path in giving_way:
            seen = self._seen(path)
            if seen is not None:
                made.old[path] = identity(seen)
        gone = {entry[:2] for entry in made.old.values()}
        blocked: list[str] = []
        for path in new:
            barred = self._barred(path, made, gone)
            if barred:
                blocked.append(barred)
                continue
            seen = self._seen(path)
            if seen is not None and (seen.st_dev, seen.st_ino) not in gone:
                if stat.S_ISDIR(seen.st_mode):
                    inside = list(self._inside(path, gone))
                    blocked += inside
                    if not inside:
                        made.folders |= self._folders(path)
                elif self._same(path, seen, programs=programs):
                    continue
                else:
                    blocked.append(path)
                    continue
            made.new[path] = identity((self._place / "new" / path).lstat())
        return made, list(dict.fromkeys(blocked))

    def _seen(self, path: str) -> os.stat_result | None:
        try:
            with open_parent(self._root, path) as (here, name):
                return os.stat(name, dir_fd=here, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:  # a folder on the way is a link: nothing of the path's own is there
                return None
            raise

    def _barred(self, path: str, made: PlacementPlan, gone: set[tuple[int, int]]) -> str:
        """What prevents the folders of a path; empty where nothing does. Folders that have to be made are noted."""
        parts = path.split("/")[:-1]
        for number in range(len(parts)):
            folder = "/".join(parts[: number + 1])
            seen = self._seen(folder)
            if seen is None or (seen.st_dev, seen.st_ino) in gone:
                made.made += [
                    one for n in range(number, len(parts)) if (one := "/".join(parts[: n + 1])) not in made.made
                ]
                return ""
            if not stat.S_ISDIR(seen.st_mode):
                return folder
            if self._seen(f"{folder}/.git") is not None:
                return f"{folder}/.git"  # a repository of its own
        return ""

    def _inside(self, path: str, gone: set[tuple[int, int]]) -> Iterator[str]:
        """What lies in a folder and stays."""
        with open_below(self._root, path) as handle:
            for name in sorted(os.listdir(handle)):  # noqa: PTH208 - by descriptor
                seen = os.stat(name, dir_fd=handle, follow_symlinks=False)
                if stat.S_ISDIR(seen.st_mode):
                    yield from self._inside(f"{path}/{name}", gone)
                elif (seen.st_dev, seen.st_ino) not in gone:
                    yield f"{path}/{name}"

    def _folders(self, path: str) -> dict[str, int]:
        """A folder with those in it, the inner ones first, and their modes."""
        found: dict[str, int] = {}
        with open_below(self._root, path) as handle:
            for name in os.listdir(handle):  # noqa: PTH208 - by descriptor
                if stat.S_ISDIR(os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode):
                    found |= self._folders(f"{path}/{name}")
            return {**found, path: stat.S_IMODE(os.fstat(handle).st_mode)}

    def _same(self, path: str, seen: os.stat_result, *, programs: bool) -> bool:
        """Whether what lies at a path is what would be put there."""
        mine = self._place / "new" / path
        made = mine.lstat()
        if stat.S_IFMT(made.st_mode) != stat.S_IFMT(seen.st_mode) or made.st_size != seen.st_size:
            return False
        with open_parent(self._root, path) as (here, name):
            if stat.S_ISLNK(seen.st_mode):
                return os.readlink(name, dir_fd=here) == str(mine.readlink())
            if not stat.S_ISREG(seen.st_mode) or (programs and (made.st_mode ^ seen.st_mode) & stat.S_IXUSR):
                return False
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
            with os.fdopen(handle, "rb") as there, mine.open("rb") as ours:
                while data := ours.read(_COMPARED):
                    if there.read(len(data)) != data:
                        return False
                return not there.read(1)

    # ---- moving --------------------------------------------------------------------------------

    def carry_out(self, plan: PlacementPlan) -> None:
        """Move all files. On failure the reason is raised, and `take_back` undoes what was moved."""
        for number, (path, seen) in enumerate(plan.old.items()):
            self._move_away(path, seen, f"{number}")
        for path in plan.folders:
            self._remove_folder(path, needed=True)
        for path in plan.made:
            self._make_folder(path)
        for path in plan.new:
            self._put(self._place / "new" / path, path)

    def clear_folders(self, plan: PlacementPlan) -> None:
        """Remove the folders that are empty now, as git does."""
        folders = {folder for path in plan.old for folder in above(path)}
        for path in sorted(folders, key=lambda path: -path.count("/")):
            self._remove_folder(path)

    def take_back(self, plan: PlacementPlan) -> list[str]:
        """Undo the moves that were made. Files that changed since are kept; returns where."""
        kept: list[str] = []
        for path, seen in plan.new.items():
            now = self._seen(path)
            if now is None or (now.st_dev, now.st_ino) != seen[:2]:
                continue
            draft = self._place / "new" / path
            with open_parent(self._root, path) as (here, name):
                if identity(now) == seen:
                    os.unlink(name, dir_fd=here) if draft.exists() else os.rename(name, draft, src_dir_fd=here)
                else:  # it was written to meanwhile
                    aside = self._place / f"changed-{secrets.token_hex(4)}"
                    os.rename(name, aside, src_dir_fd=here)
                    kept.append(f"{path} is {aside}")
        for path in reversed(plan.made):
            self._remove_folder(path)
        for path, mode in reversed(plan.folders.items()):
            self._make_folder(path, mode)
        for number, path in enumerate(plan.old):
            old = self._place / "old" / f"{number}"
            if os.path.lexists(old):
                try:
                    for folder in above(path):
                        self._make_folder(folder)
                    self._put(old, path)
                except (OSError, InTheWay):
                    kept.append(f"{path} is {old}")
        return kept

    def _move_away(self, path: str, expected: Identity, name: str) -> None:
        with open_parent(self._root, path) as (here, last):
            if identity(os.stat(last, dir_fd=here, follow_symlinks=False)) != expected:
                raise InTheWay(path)
            os.rename(last, self._place / "old" / name, src_dir_fd=here)
        if identity((self._place / "old" / name).lstat()) != expected:
            raise InTheWay(path)

    def _put(self, made: Path, path: str) -> None:
        """Move a file into place, over nothing."""
        with open_parent(self._root, path) as (here, name):
            try:
                os.link(made, name, dst_dir_fd=here, follow_symlinks=False)
            except FileExistsError as error:
                raise InTheWay(path) from error
            except OSError as error:
                if error.errno not in _UNLINKABLE:
                    raise
                with contextlib.suppress(FileNotFoundError):  # no hard links here
                    os.stat(name, dir_fd=here, follow_symlinks=False)
                    raise InTheWay(path) from error
                os.rename(made, name, dst_dir_fd=here)
                return
        made.unlink()

    def _make_folder(self, path: str, mode: int | None = None) -> None:
        with open_parent(self._root, path) as (here, name):
            try:
                os.mkdir(name, dir_fd=here)
            except FileExistsError:
                return
            handle = os.open(name, FOLDER, dir_fd=here)
            try:
                if mode is not None:
                    os.fchmod(handle, mode)
                if self._owner:
                    os.fchown(handle, *self._owner)
            finally:
                os.close(handle)

    def _remove_folder(self, path: str, *, needed: bool = False) -> None:
        try:
            with open_parent(self._root, path) as (here, name):
                os.rmdir(name, dir_fd=here)
        except OSError as error:
            if needed:
                raise InTheWay(path) from error


def above(path: str) -> Iterator[str]:
    """The folders that a path lies in, the outer ones first."""
    parts = path.split("/")[:-1]
    return ("/".join(parts[: number + 1]) for number in range(len(parts)))


@contextmanager
def locked_checkout(folder: Path) -> Iterator[None]:
    """Lock the checkout against other merges. InTheWay where one holds the lock."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InTheWay("another `parley merge`") from error
        except OSError:  # a filesystem without such locks: git's index lock still protects it
            pass
        yield
    finally:
        os.close(handle)


@contextmanager
def staged(record: Path, root: Path) -> Iterator[Path]:
    """A folder on the filesystem of `root` to prepare files in: the record's own, or a new one in `root`.

    Both are deleted at the end, unless a plan in the record was neither carried out nor undone.
    """
    record.mkdir(mode=0o700)
    place = record
    try:
        if record.stat().st_dev != root.stat().st_dev:
            place = root / f".parley-merge-{secrets.token_hex(8)}"
            place.mkdir(mode=0o700)
        yield place
    finally:
        if not (record / PLAN).exists():
            discard(record, place)


def give(folder: Path, owner: tuple[int, int] | None) -> None:
    """Give a folder of ours, and all in it, to the owner of a checkout; None: this user."""
    if owner is None:
        return
    os.chown(folder, *owner)
    for here, folders, names in os.walk(folder):
        for name in (*folders, *names):
            os.chown(Path(here) / name, *owner, follow_symlinks=False)


def discard(record: Path, place: Path) -> None:
    """Delete the files of a merge. The plan is deleted last: while it exists, there is something to undo."""
    if place != record:
        shutil.rmtree(place, ignore_errors=True)
    shutil.rmtree(record, ignore_errors=True)
