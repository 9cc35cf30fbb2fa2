"""What of a workspace is ignored, as git tells it, though git never sees the workspace.

Git opens every `.gitignore` on its way by its path, whatever it is: a pipe there would keep it waiting, a link would
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

from parley.adapters.git import Git, GitError, TooLong
from parley.adapters.worktrees.ground import FILE, Ground, reached
from parley.ports import OverQuota

RULES = ".gitignore"
LARGEST = 1 << 20  # bytes of one file of patterns; a larger one is not obeyed
MOST = 16 << 20  # bytes of all of them
# Patterns can be made to take for ever, and the engine waits, with all its other jobs: git has so long for an answer of
# its processor's time, which is plenty for honest ones, and for all of them so long by the clock of a busy machine.
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
        with Ground(self._place, self._place) as ground:
            for path in below:
                self._make(ground, path)
            for path in asked:
                self._make(ground, posixpath.dirname(path))
        names = os.fsencode("".join(f"./{path}\0" for path in asked))  # a name may begin like what git calls magic
        words = ("check-ignore", "--no-index", "-z", "--stdin")
        seconds = max(0.1, self._deadline - time.monotonic())
        try:
            found = self._git.run(
                *words, work=self._place, stdin=names, fine=(0, 1), seconds=seconds, busy_seconds=BUSY_SECONDS
            )
        except TooLong as late:
            raise GitError(
                f"git took too long over the {RULES} files in {self._folder} and was stopped; "
                "remove the patterns that take for ever"
            ) from late
        return {path.removeprefix("./") for path in os.fsdecode(found.stdout).split("\0") if path}

    def _make(self, ground: Ground, path: str) -> None:
        """Have a folder with its patterns, and all above it."""
        if path in self._made:
            return
        self._made.add(path)
        if path:
            self._make(ground, posixpath.dirname(path))
            ground.folder(path)
        rules = f"{path}/{RULES}" if path else RULES
        if self._has_rules(path) and (data := self._patterns(rules)):
            ground.put_data(rules, data)

    def _patterns(self, path: str) -> bytes:
        """What a file of patterns says; nothing where it is something else by now, or too large."""
        data = b""
        with suppress(OSError), reached(self._folder, path) as (here, name):
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
