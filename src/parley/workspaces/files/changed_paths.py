"""Which paths of a workspace differ from what is committed: changed, gone and new ones.

Git's own answer would be the same, but git opens what it compares by its path. Here every file is opened by the
descriptor of its folder, and only where the filesystem says that it may have changed since it was last read.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import stat
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.workspaces.files.ignored import Ignored, ignoring
from parley.workspaces.files.known_blobs import KnownBlobs, mode_of
from parley.workspaces.files.safe_fs import FILE, open_parent
from parley.workspaces.files.scan import OWN, PRIVATE, Survey
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.job_repository import ARTIFACTS, GITLINK, within
from parley.workspaces.safe_git import CHUNK, Git

LARGE = 32 << 20  # bytes; a larger file that may have changed counts as changed, and is read when it is kept
AT_ONCE = 5000  # files about which git is asked one by one; of more, their folders are asked about first
ROUNDS = 10

Tracked = Mapping[str, TreeEntry]  # by path


@dataclass(frozen=True, slots=True)
class ComparedFolder:
    """A workspace to compare with what is committed."""

    git: Git
    folder: Path
    beside: Path  # a folder that no agent can reach, in which git is asked
    object_format: str
    known: KnownBlobs


def differing(place: ComparedFolder, found: Survey, tracked: Tracked, hidden: Iterable[str] = ()) -> list[str]:
    """The paths that differ. A new folder with a repository in it ends in `/`. What is hidden is never new."""
    changed = [path for path, entry in tracked.items() if _differs(place, found, path, entry)]
    return [*changed, *new(place, found, tracked, hidden)]


def spoilt(place: ComparedFolder, found: Survey, tracked: Tracked) -> bool:
    """Whether anything differs at all, what is ignored included."""
    if any(_differs(place, found, path, entry) for path, entry in tracked.items()):
        return True
    links = {path for path, entry in tracked.items() if entry.mode == GITLINK}
    others = (path for path in (*found.held, *found.nested) if path not in tracked and not _private(path))
    return any(not within(path, links) for path in others)


def _private(path: str) -> bool:
    return path.partition("/")[0] in PRIVATE


def _differs(place: ComparedFolder, found: Survey, path: str, entry: TreeEntry) -> bool:
    if entry.mode == GITLINK or _private(path):
        return False
    key = found.held.get(path)
    if key is None:
        return True
    return (place.known.entry(path, key) or _read(place, path)) != entry


def _read(place: ComparedFolder, path: str) -> TreeEntry | None:
    """The mode and the blob of a file as it is now; None where it can't be read, or takes too long."""
    try:
        with open_parent(place.folder, path) as (here, name):
            seen = os.stat(name, dir_fd=here, follow_symlinks=False)
            if stat.S_ISLNK(seen.st_mode):
                data = os.fsencode(os.readlink(name, dir_fd=here))
                blob = hashlib.new(place.object_format, b"blob %d\0" % len(data) + data).hexdigest()
            else:
                handle = os.open(name, FILE, dir_fd=here)
                try:
                    seen = os.fstat(handle)
                    if not stat.S_ISREG(seen.st_mode) or seen.st_size > LARGE:
                        return None
                    blob = _blob(handle, seen.st_size, place.object_format)
                finally:
                    os.close(handle)
    except (OSError, ValueError):
        return None
    if blob:
        place.known.note(path, seen, blob)
    return TreeEntry(mode_of(seen), blob) if blob else None


def _blob(handle: int, size: int, object_format: str) -> str:
    """The git id of a file's content; none where its size changes meanwhile."""
    digest, left = hashlib.new(object_format, b"blob %d\0" % size), size
    while left and (data := os.read(handle, min(CHUNK, left))):
        digest.update(data)
        left -= len(data)
    return "" if left or os.read(handle, 1) else digest.hexdigest()


# ---- what is new ---------------------------------------------------------------------------------------


def new(
    place: ComparedFolder, found: Survey, tracked: Tracked, hidden: Iterable[str] = (), *, whole: bool = False
) -> list[str]:
    """The paths that are there and not tracked, without what is ignored.

    `whole`: a folder in which nothing is tracked stands for all that lies in it.
    """
    never = {*PRIVATE, *hidden, *(path for path, entry in tracked.items() if entry.mode == GITLINK)}
    folders = _folders(tracked)
    nested = {path for path in found.nested if path not in folders and not _above(path, found.nested - folders)}
    others = [path for path in found.held if path not in tracked and not _above(path, nested)]
    sure = [path for path in others if _own(path)]
    asked = [path for path in others if not _own(path) and not within(path, never)]
    inside = sorted(path for path in nested if not within(path, never))
    if not asked and not inside and not whole:
        return sure
    with ignoring(place.git, place.folder, place.beside, found.rules.__contains__) as rules:
        if whole:
            empty = (path for path in found.empty if path not in folders and not within(path, never))
            return _collapsed(rules, asked, [*inside, *empty], folders)
        if len(asked) > AT_ONCE:
            asked = _without_ignored_folders(rules, asked, folders)
        gone = rules.of(asked, inside)
    return [*sure, *(path for path in asked if path not in gone), *(f"{path}/" for path in inside if path not in gone)]


def _folders(tracked: Iterable[str]) -> set[str]:
    """Every folder that something tracked lies in."""
    found = {""}
    for path in tracked:
        here = posixpath.dirname(path)
        while here not in found:
            found.add(here)
            here = posixpath.dirname(here)
    return found


def _above(path: str, folders: Collection[str]) -> bool:
    return bool(folders) and within(posixpath.dirname(path), folders)


def _own(path: str) -> bool:
    """Whether a path is the protocol's own, and committed even if it is ignored."""
    return path in ARTIFACTS or path.partition("/")[0] in OWN


def _topmost(path: str, known: Collection[str]) -> str:
    """The highest folder of a path that is not among those known; none if all are."""
    here, top = posixpath.dirname(path), ""
    while here and here not in known:
        here, top = posixpath.dirname(here), here
    return top


def _without_ignored_folders(rules: Ignored, asked: list[str], folders: set[str]) -> list[str]:
    """Leave out what lies in ignored folders, a level at a time: there may be very many files in few of them."""
    known = set(folders)
    for _ in range(ROUNDS):
        tops = {path: _topmost(path, known) for path in asked}
        wanted = {top for top in tops.values() if top}
        if len(asked) <= AT_ONCE or not wanted:
            break
        gone = rules.of((), wanted)
        asked = [path for path in asked if tops[path] not in gone]
        known |= wanted
    return asked


def _collapsed(rules: Ignored, files: list[str], inside: Iterable[str], folders: set[str]) -> list[str]:
    """The same with a folder in the place of all that lies in it, where nothing in it is tracked."""
    tops = {path: _topmost(path, folders) for path in files}
    within_new = (_topmost(f"{path}/.", folders) for path in inside)
    below = dict.fromkeys([*(top for top in tops.values() if top), *within_new])
    single = [path for path, top in tops.items() if not top]
    gone = rules.of(single, below)
    return [path for path in (*single, *below) if path not in gone]
