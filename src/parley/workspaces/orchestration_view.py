"""A read-only view of a job's files below `orchestration/`, in its folder and in its commits."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from parley.ports.workspaces import FOLDER_VIEW, TIP_VIEW, UNKEPT
from parley.workspaces.files.known_blobs import LINK, PROGRAM, REGULAR
from parley.workspaces.files.safe_fs import FOLDER, open_below
from parley.workspaces.files.safe_walk import DEEPEST
from parley.workspaces.files.scan import CannotKeep, leads_outside, refuse_name
from parley.workspaces.job_repository import ORCHESTRATION, JobRepository
from parley.workspaces.safe_git import GitError

MOST_BYTES = 64 << 20  # of one file
OTHER = "other"  # what can't be read
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OrchestrationView:
    """The files of each view, read once. A file is identified by its mode and its git object."""

    def __init__(self, repository: JobRepository, folder: Path) -> None:
        self._repository, self._folder = repository, folder
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
            with suppress(OSError, ValueError), open_below(self._folder, "/".join(above)) as handle:
                return _read(last, handle)
            return None
        try:
            return self._repository.blob(name)
        except GitError:
            return None

    def name(self, data: bytes) -> str:
        """The identity of an ordinary file with this content."""
        return f"{REGULAR} {self._object(data)}"

    def _object(self, data: bytes) -> str:
        wide = self._repository.exists and self._repository.beginning.object_format == "sha256"
        made = hashlib.sha256() if wide else hashlib.sha1(usedforsecurity=False)
        made.update(b"blob %d\0" % len(data))
        made.update(data)
        return made.hexdigest()

    def _committed(self, view: str) -> dict[str, str] | None:
        if not self._repository.exists:
            return None
        tree = self._repository.tip("") if view == TIP_VIEW else view
        try:
            entries = self._repository.entries(tree, [ORCHESTRATION]) if tree else {}
        except GitError:
            return None
        return {path: f"{entry.mode} {entry.name}" for path, entry in entries.items()}

    def _in_folder(self) -> dict[str, str] | None:
        found: dict[str, str] = {}
        try:
            with open_below(self._folder, "") as handle:
                self._look(ORCHESTRATION, handle, ORCHESTRATION, found)
        except OSError:
            return None
        return found

    def _look(self, name: str, handle: int, path: str, found: dict[str, str]) -> None:
        """Add what lies at a name in an open folder, and all below it."""
        try:
            refuse_name(path)
            mode = os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode) and path.count("/") < DEEPEST:
                inner = os.open(name, FOLDER, dir_fd=handle)
                try:
                    for entry in sorted(os.listdir(inner)):  # noqa: PTH208 - of what is open
                        self._look(entry, inner, f"{path}/{entry}", found)
                finally:
                    os.close(inner)
            elif stat.S_ISREG(mode):
                kind = PROGRAM if mode & stat.S_IXUSR else REGULAR
                found[path] = f"{kind} {self._object(_read(name, handle))}"
            elif stat.S_ISLNK(mode):
                target = os.readlink(name, dir_fd=handle)
                known = f"{LINK} {self._object(os.fsencode(target))}"
                found[path] = UNKEPT if leads_outside(path, target) else known
            else:
                found[path] = UNKEPT
        except FileNotFoundError:
            return  # it was deleted meanwhile
        except CannotKeep:
            found[path] = UNKEPT
        except OSError:
            found[path] = OTHER


def _read(name: str, handle: int) -> bytes:
    with os.fdopen(os.open(name, _READ, dir_fd=handle), "rb") as file:
        return file.read(MOST_BYTES)
