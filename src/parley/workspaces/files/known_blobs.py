"""A cache of the blob of each file of a workspace, so that unchanged files are not read again.

A file counts as unchanged while its kind and mode, its size, both of its times and its inode are the same. One that was
changed after the last scan began could change again without any of them showing it: it is not cached.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from parley.workspaces.files.safe_walk import walk
from parley.workspaces.files.tree_entry import TreeEntry

FORM = 1
REGULAR, PROGRAM, LINK = "100644", "100755", "120000"


def mode_of(seen: os.stat_result) -> str:
    """Git's mode of a file or a link."""
    if stat.S_ISLNK(seen.st_mode):
        return LINK
    return PROGRAM if seen.st_mode & stat.S_IXUSR else REGULAR


def key_of(seen: os.stat_result) -> str:
    """The key that changes when a file does."""
    return f"{seen.st_mode:o} {seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns} {seen.st_ino} "


class KnownBlobs:
    """The cache of one workspace, in a file that no agent can reach. Without it every file is read once."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._held: dict[str, str] | None = None  # path -> its key, then its mode and blob
        self._begun = 0
        self._fresh = False  # whether something has to be written

    def begin(self) -> None:
        """A scan begins: what changes from now on, by the filesystem's own clock, is not cached."""
        with tempfile.TemporaryFile(dir=self._place.parent) as file:
            self._begun = os.fstat(file.fileno()).st_mtime_ns

    def entry(self, path: str, key: str) -> TreeEntry | None:
        """The mode and the blob of an unchanged file; None if it is not cached."""
        found = self._known().get(path, "")
        if not found.startswith(key):
            return None
        mode, _, blob = found[len(key) :].partition(" ")
        return TreeEntry(mode, blob)

    def note(self, path: str, seen: os.stat_result, blob: str) -> None:
        """A file was read: this is its blob."""
        held = self._known()
        if max(seen.st_ctime_ns, seen.st_mtime_ns) >= self._begun:
            self._fresh |= held.pop(path, None) is not None
        else:
            self._fresh = True
            held[path] = f"{key_of(seen)}{mode_of(seen)} {blob}"

    def keep(self, paths: Collection[str]) -> None:
        """Forget all but these files, and write the cache."""
        held = self._known()
        if len(held) > len(paths):
            self._held = held = {path: found for path, found in held.items() if path in paths}
            self._fresh = True
        if not self._fresh:
            return
        self._fresh = False
        draft = self._place.with_name(f".{self._place.name}.{os.getpid()}")
        with contextlib.suppress(OSError):  # a full disk, say: then the files are read again
            draft.write_text(json.dumps([FORM, held]), encoding="ascii")
            draft.replace(self._place)

    def take_for(self, folder: Path, tracked: Mapping[str, TreeEntry]) -> None:
        """Cache the files of a folder that no agent could reach yet as they were written, without reading them."""
        self.begin()
        for here in walk(folder):
            for name, seen in here.entries:
                path = f"{here.path}/{name}" if here.path else name
                entry = None if here.deep or stat.S_ISDIR(seen.st_mode) else tracked.get(path)
                if entry is not None and entry.mode == mode_of(seen):
                    self.note(path, seen, entry.name)
        self.keep(tracked.keys())

    def forget(self) -> None:
        """Empty the cache."""
        self._held, self._fresh = {}, False
        self._place.unlink(missing_ok=True)

    def _known(self) -> dict[str, str]:
        if self._held is None:
            self._held = _read(self._place)
        return self._held


def _read(place: Path) -> dict[str, str]:
    try:
        form, held = json.loads(place.read_bytes())
        if form == FORM and all(isinstance(value, str) for value in held.values()):
            return dict(held)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        pass  # it is only a cache
    return {}
