"""Makes a folder what a place says, with only what differs written.

No link is followed and nothing outside is touched. What was fetched is checked and counted before the first file is
changed. Each file is put in its place whole; a crash leaves some of them old and some new, and filling again mends it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import posixpath
import stat
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from parley.hosts.mirror.folder_packing import FOLDER, Allowed, Leave, Modes, is_carried, open_unreadable
from parley.hosts.mirror.mirror_errors import MirrorError, PlaceRefused
from parley.hosts.mirror.mirror_repository import object_format as hash_of
from parley.hosts.mirror.place_listing import Listing
from parley.hosts.mirror.place_names import is_git
from parley.machine.disk import disk_space
from parley.workspaces.files.known_blobs import LINK, PROGRAM, KnownBlobs, key_of, mode_of
from parley.workspaces.files.safe_delete import delete, delete_at, discard
from parley.workspaces.files.safe_fs import SafeFolder, open_below, open_parent
from parley.workspaces.files.safe_walk import walk
from parley.workspaces.files.scan import path_text
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.safe_git import CHUNK, ObjectReader

_LINK_BYTES = 4096
_SPARE_BYTES = 8 << 20  # that the disk has to have left afterwards
Relink = Callable[[str], str]  # a link's target as it is to be here


@dataclass(slots=True)
class _Present:
    """What a folder holds now."""

    files: dict[str, os.stat_result] = field(default_factory=dict)
    folders: dict[str, os.stat_result] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)  # what no place carries: sockets and the like, and git's own


@dataclass(frozen=True, slots=True)
class FolderFilling:
    """Fills one folder. `leave`: paths that stay as they are; `aside`: where what is in the way goes to be deleted."""

    folder: Path
    known: KnownBlobs
    leave: Leave
    aside: Path
    relink: Relink

    def fill(self, reader: ObjectReader, wanted: Listing, modes: Modes, allowed: Allowed) -> None:
        """Make the folder what is wanted."""
        if os.path.lexists(self.folder) and not stat.S_ISDIR(self.folder.lstat().st_mode):
            delete(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        present = self._look()
        files = {path: entry for path, entry in wanted.files.items() if not self._left(path)}
        folders = {path for path in wanted.folders if not self._left(path)}
        writing = {path: entry for path, entry in files.items() if self._differs(reader, present, path, entry)}
        self._count(reader, present, files, writing, allowed)
        self._remove(present, files, folders)
        self.aside.mkdir(parents=True, exist_ok=True)
        try:
            with SafeFolder(self.folder, self.aside) as safe_folder:
                for path in sorted(folders):
                    safe_folder.folder(path)
                for path, entry in writing.items():
                    self._put(safe_folder, reader, path, entry, modes)
        finally:
            discard(self.aside)
        for path, entry in files.items():
            if path not in writing and entry.mode != LINK and path in present.files:
                self._permit(path, modes.of(path, entry.mode), present.files[path])
        for path in sorted(folders, reverse=True):  # the deepest first: one that can't be written to comes last
            self._permit(path, modes.of(path, FOLDER), present.folders.get(path), folder=True)
        self.known.take_for(self.folder, {path: entry for path, entry in files.items() if entry.mode != LINK})

    def _look(self) -> _Present:
        found = _Present()
        for here in walk(self.folder, mend=True):
            inner = f"{here.path}/" if here.path else ""
            for name, seen in [] if here.deep or here.shut else here.entries:
                path = inner + name
                if is_git(os.fsencode(name)) or self.leave(path):
                    found.others.add(path)
                elif stat.S_ISDIR(seen.st_mode):
                    found.folders[path] = seen
                elif is_carried(self.folder, path, seen):
                    found.files[path] = seen
                else:
                    found.others.add(path)
        inside = {path for path in (*found.files, *found.folders) if _within(path, found.others)}
        for path in inside:
            found.files.pop(path, None)
            found.folders.pop(path, None)
        return found

    def _left(self, path: str) -> bool:
        """Whether a path, or a folder that it lies in, is none of the place's."""
        while path:
            if self.leave(path):
                return True
            path = posixpath.dirname(path)
        return False

    def _differs(self, reader: ObjectReader, present: _Present, path: str, entry: TreeEntry) -> bool:
        seen = present.files.get(path)
        if seen is None or entry.mode == LINK or mode_of(seen) != entry.mode:
            return True  # links are short: they are made anew
        known = self.known.entry(path, key_of(seen))
        if known is not None:
            return known != entry
        # a file that is the same is not written again: its time stays, and no build takes it for changed
        return seen.st_size != reader.size(entry.name) or not self._holds(path, seen, entry.name)

    def _holds(self, path: str, seen: os.stat_result, name: str) -> bool:
        """Whether a file holds what an object does."""
        digest = hashlib.new(hash_of(name), b"blob %d\0" % seen.st_size)
        with open_parent(self.folder, path) as (here, last):
            handle = open_unreadable(last, here)
            try:
                while data := os.read(handle, CHUNK):
                    digest.update(data)
            finally:
                os.close(handle)
        return digest.hexdigest() == name

    def _count(
        self,
        reader: ObjectReader,
        present: _Present,
        files: dict[str, TreeEntry],
        writing: dict[str, TreeEntry],
        allowed: Allowed,
    ) -> None:
        """Refuse what is too much before anything is changed."""
        new = 0
        for path, entry in files.items():
            size = reader.size(entry.name) if path in writing else present.files[path].st_size
            if entry.mode == LINK and size > _LINK_BYTES:
                raise PlaceRefused(f"{path_text(path)} is a link with {size} bytes; it is refused")
            allowed.take(size, 0, str(self.folder))
            new += size if path in writing else 0
        if new and new + _SPARE_BYTES > disk_space(self.folder).free:
            raise MirrorError(f"the disk of {self.folder} has no room for {new} bytes; free some, then try again")

    def _remove(self, present: _Present, files: dict[str, TreeEntry], folders: set[str]) -> None:
        """Delete what is not wanted; what no place carries stays in a folder that does."""
        keeping = {above for path in present.others if self.leave(path) for above in _above(path)}
        gone = {path for path in present.folders if path not in folders and path not in keeping}
        for path in sorted(gone):
            if not _within(posixpath.dirname(path), gone):
                self._delete(path)
        for path in present.files:
            if path not in files and not _within(path, gone):
                self._delete(path)
        for path in present.others:
            if path in files or path in folders:
                self._delete(path)

    def _delete(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError), open_parent(self.folder, path) as (here, name):
            delete_at(here, name)

    def _put(self, safe_folder: SafeFolder, reader: ObjectReader, path: str, entry: TreeEntry, modes: Modes) -> None:
        if entry.mode == LINK:
            target = reader.whole(entry.name)
            if b"\0" in target or not target:
                raise PlaceRefused(f"{path_text(path)} is a link to no path; it is refused")
            safe_folder.link(path, self.relink(os.fsdecode(target)))
        else:
            fill = partial(_copy, reader, entry.name)
            safe_folder.put(path, fill, program=entry.mode == PROGRAM, mode=modes.of(path, entry.mode))

    def _permit(self, path: str, mode: int, seen: os.stat_result | None, *, folder: bool = False) -> None:
        if seen is not None and stat.S_IMODE(seen.st_mode) == mode:
            return
        if folder:
            with open_below(self.folder, path) as handle:
                os.fchmod(handle, mode)
            return
        with open_parent(self.folder, path) as (here, name):
            handle = open_unreadable(name, here)
            try:
                os.fchmod(handle, mode)
            finally:
                os.close(handle)


def _copy(reader: ObjectReader, name: str, handle: int) -> None:
    with os.fdopen(os.dup(handle), "wb") as file:
        reader.copy(name, file.write)


def _above(path: str) -> list[str]:
    found = []
    while path := posixpath.dirname(path):
        found.append(path)
    return found


def _within(path: str, folders: set[str]) -> bool:
    """Whether a path is one of these, or lies below one."""
    while path:
        if path in folders:
            return True
        path = posixpath.dirname(path)
    return False
