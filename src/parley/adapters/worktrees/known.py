"""What is known of a workspace's files without reading them again: which blob each was when it was last read.

A file counts as the same while its kind and mode, its size, both of its times and its inode are. One that was changed
no earlier than the last look began may be changed again without any of them telling: it is not remembered.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

from parley.adapters.worktrees.walk import walk

FORM = 1
REGULAR, PROGRAM, LINK = "100644", "100755", "120000"


def mode_of(seen: os.stat_result) -> str:
    """What git calls a file's or a link's mode."""
    if stat.S_ISLNK(seen.st_mode):
        return LINK
    return PROGRAM if seen.st_mode & stat.S_IXUSR else REGULAR


def key_of(seen: os.stat_result) -> str:
    """By what a file is known again."""
    return f"{seen.st_mode:o} {seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns} {seen.st_ino} "


class Known:
    """The files of one workspace, kept in a file that no agent can reach. Without it all of them are read once."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._held: dict[str, str] | None = None  # path -> its key, and its mode and blob behind it
        self._begun = 0
        self._fresh = False  # whether something is not written yet

    def begin(self) -> None:
        """A look begins: what is changed from now on, by the filesystem's own clock, is not remembered."""
        with tempfile.TemporaryFile(dir=self._place.parent) as file:
            self._begun = os.fstat(file.fileno()).st_mtime_ns

    def entry(self, path: str, key: str) -> tuple[str, str] | None:
        """The mode and the blob of a file that is as it was; None if that is not known."""
        found = self._known().get(path, "")
        if not found.startswith(key):
            return None
        mode, _, blob = found[len(key) :].partition(" ")
        return mode, blob

    def note(self, path: str, seen: os.stat_result, blob: str) -> None:
        """A file was read: this is its blob."""
        held = self._known()
        if max(seen.st_ctime_ns, seen.st_mtime_ns) >= self._begun:
            self._fresh |= held.pop(path, None) is not None
        else:
            self._fresh = True
            held[path] = f"{key_of(seen)}{mode_of(seen)} {blob}"

    def keep(self, paths: Collection[str]) -> None:
        """Forget all but these files, and write what is known."""
        held = self._known()
        if len(held) > len(paths):
            self._held = held = {path: found for path, found in held.items() if path in paths}
            self._fresh = True
        if not self._fresh:
            return
        self._fresh = False
        draft = self._place.with_name(f".{self._place.name}.{os.getpid()}")
        with contextlib.suppress(OSError):  # a full disk, say: then they are read again
            draft.write_text(json.dumps([FORM, held]), encoding="ascii")
            draft.replace(self._place)

    def take_for(self, folder: Path, tracked: Mapping[str, tuple[str, str]]) -> None:
        """Take a folder that no agent could reach yet for what was put there, without reading it."""
        self.begin()
        for here in walk(folder):
            for name, seen in here.entries:
                path = f"{here.path}/{name}" if here.path else name
                entry = None if here.deep or stat.S_ISDIR(seen.st_mode) else tracked.get(path)
                if entry is not None and entry[0] == mode_of(seen):
                    self.note(path, seen, entry[1])
        self.keep(tracked.keys())

    def forget(self) -> None:
        """Nothing of it is true any more."""
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
