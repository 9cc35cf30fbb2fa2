"""The files below `orchestration/` of a job: in its folder and in its commits, looked at and never changed."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from parley.adapters.git import GitError
from parley.adapters.worktrees.ground import FOLDER, down
from parley.adapters.worktrees.history import ORCHESTRATION, History
from parley.adapters.worktrees.scan import DEEPEST, LINK, PROGRAM, REGULAR
from parley.ports import FOLDER_VIEW, TIP_VIEW

MOST_BYTES = 64 << 20  # of one file
OTHER = "other"  # what is neither a file nor a link
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Filed:
    """One look at them: each view is read once. A file is known by its mode and its name as an object of git's."""

    def __init__(self, history: History, folder: Path) -> None:
        self._history, self._folder = history, folder
        self._seen: dict[str, dict[str, str] | None] = {}

    def listed(self, view: str) -> Mapping[str, str] | None:
        """What is there, by path; None: there is no such view any more."""
        if view not in self._seen:
            self._seen[view] = self._in_folder() if view == FOLDER_VIEW else self._committed(view)
        return self._seen[view]

    def data(self, view: str, path: str) -> bytes | None:
        """What an ordinary file holds."""
        mode, _, name = ((self.listed(view) or {}).get(path) or "").partition(" ")
        if mode not in (REGULAR, PROGRAM):
            return None
        if view == FOLDER_VIEW:
            *above, last = path.split("/")
            with suppress(OSError, ValueError), down(self._folder, "/".join(above)) as handle:
                return _read(last, handle)
            return None
        try:
            return self._history.blob(name)
        except GitError:
            return None

    def name(self, data: bytes) -> str:
        """What an ordinary file with this content is known by."""
        return f"{REGULAR} {self._object(data)}"

    def _object(self, data: bytes) -> str:
        wide = self._history.exists and self._history.beginning.object_format == "sha256"
        made = hashlib.sha256() if wide else hashlib.sha1(usedforsecurity=False)
        made.update(b"blob %d\0" % len(data))
        made.update(data)
        return made.hexdigest()

    def _committed(self, view: str) -> dict[str, str] | None:
        if not self._history.exists:
            return None
        tree = self._history.tip("") if view == TIP_VIEW else view
        try:
            entries = self._history.entries(tree, [ORCHESTRATION]) if tree else {}
        except GitError:
            return None
        return {path: f"{mode} {name}" for path, (mode, name) in entries.items()}

    def _in_folder(self) -> dict[str, str] | None:
        if not self._folder.is_dir():
            return None
        found: dict[str, str] = {}
        with suppress(OSError, ValueError), down(self._folder, ORCHESTRATION) as handle:
            self._look(handle, ORCHESTRATION, found)
        return found

    def _look(self, handle: int, prefix: str, found: dict[str, str]) -> None:
        with os.scandir(handle) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
        for entry in inside:
            path = f"{prefix}/{entry.name}"
            try:
                mode = entry.stat(follow_symlinks=False).st_mode
                if stat.S_ISDIR(mode) and path.count("/") < DEEPEST:
                    inner = os.open(entry.name, FOLDER, dir_fd=handle)
                    try:
                        self._look(inner, path, found)
                    finally:
                        os.close(inner)
                elif stat.S_ISREG(mode):
                    kind = PROGRAM if mode & stat.S_IXUSR else REGULAR
                    found[path] = f"{kind} {self._object(_read(entry.name, handle))}"
                elif stat.S_ISLNK(mode):
                    found[path] = f"{LINK} {self._object(os.fsencode(os.readlink(entry.name, dir_fd=handle)))}"
                else:
                    found[path] = OTHER
            except FileNotFoundError:
                continue  # it went meanwhile
            except OSError:
                found[path] = OTHER


def _read(name: str, handle: int) -> bytes:
    with os.fdopen(os.open(name, _READ, dir_fd=handle), "rb") as file:
        return file.read(MOST_BYTES)
