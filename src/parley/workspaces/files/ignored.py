"""Asks git which paths of a workspace are ignored, without letting git into the workspace.

Git opens every `.gitignore` on its way by its path: a pipe there would keep it waiting, a link would
lead it elsewhere. So it is asked in a folder of Parley's own that has nothing but the folders in question and copies of
those `.gitignore` files that are ordinary ones.
"""

from __future__ import annotations

import os
import posixpath
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parley.ports.workspaces import OverQuota
from parley.workspaces.files.safe_fs import FILE, SafeFolder, open_parent
from parley.workspaces.safe_git import Git, GitError, GitTooLong

RULES = ".gitignore"
LARGEST = 1 << 20  # bytes of one file of patterns; a larger one is not obeyed
MOST = 16 << 20  # bytes of all of them
# Patterns can be made to take for ever, and the engine and all its other jobs wait meanwhile: one answer gets so much
# processor time, which is plenty for honest patterns, and all answers together get so long by the clock.
BUSY_SECONDS = 2
SECONDS = 10.0


class Ignored:
    """Git's answers about one workspace. `has_rules`: whether a folder seems to have patterns of its own."""

    def __init__(self, git: Git, folder: Path, place: Path, has_rules: Callable[[str], bool]) -> None:
        self._git = git
        self._folder = folder
        self._place = place
        self._has_rules = has_rules
        self._made: set[str] = set()
        self._bytes = 0
        self._deadline = time.monotonic() + SECONDS

    def of(self, files: Iterable[str], folders: Iterable[str] = ()) -> set[str]:
        """Those of the files and folders that git ignores, whether or not a commit has them."""
        below = list(folders)
        asked = [*files, *below]
        if not asked:
            return set()
        with SafeFolder(self._place, self._place) as safe_folder:
            for path in below:
                self._make(safe_folder, path)
            for path in asked:
                self._make(safe_folder, posixpath.dirname(path))
        names = os.fsencode("".join(f"./{path}\0" for path in asked))  # a name may begin like git's pathspec magic
        words = ("check-ignore", "--no-index", "-z", "--stdin")
        seconds = max(0.1, self._deadline - time.monotonic())
        try:
            found = self._git.run(
                *words, work=self._place, stdin=names, fine=(0, 1), seconds=seconds, busy_seconds=BUSY_SECONDS
            )
        except GitTooLong as late:
            raise GitError(
                f"git took too long over the {RULES} files in {self._folder} and was stopped; "
                "remove the patterns that take for ever"
            ) from late
        return {path.removeprefix("./") for path in os.fsdecode(found.stdout).split("\0") if path}

    def _make(self, safe_folder: SafeFolder, path: str) -> None:
        """Make a folder with its patterns, and those above it."""
        if path in self._made:
            return
        self._made.add(path)
        if path:
            self._make(safe_folder, posixpath.dirname(path))
            safe_folder.folder(path)
        rules = f"{path}/{RULES}" if path else RULES
        if self._has_rules(path) and (data := self._patterns(rules)):
            safe_folder.put_data(rules, data)

    def _patterns(self, path: str) -> bytes:
        """A file of patterns; empty where it is no ordinary file any more, or too large."""
        data = b""
        with suppress(OSError), open_parent(self._folder, path) as (here, name):
            handle = os.open(name, FILE, dir_fd=here)
            with os.fdopen(handle, "rb") as file:
                found = os.fstat(handle)
                if stat.S_ISREG(found.st_mode) and found.st_size <= LARGEST:
                    data = file.read(LARGEST)
        self._bytes += len(data)
        if self._bytes > MOST:
            raise OverQuota(f"the {RULES} files in {self._folder} have more than {MOST >> 20} MB; remove some")
        return data


@contextmanager
def ignoring(git: Git, folder: Path, beside: Path, has_rules: Callable[[str], bool]) -> Iterator[Ignored]:
    """Ask git what it ignores in a folder; the copies lie `beside` for as long."""
    with tempfile.TemporaryDirectory(prefix="rules-", dir=beside, ignore_cleanup_errors=True) as place:
        yield Ignored(git, folder, Path(place), has_rules)
