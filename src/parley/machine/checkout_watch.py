"""Whether what is checked out may have changed, told by a few files' stamps: no git is run.

Git keeps a branch as a file of its own, in `packed-refs`, or in a reftable; a linked work tree has its own HEAD. Every
way to move what is checked out changes one of these files, since git replaces them whole.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from parley.machine.discovery import HEAD_BYTES, MARKER, common_of, named_repository, small_file

Stamp = tuple[int, int, int, int]  # device, inode, size, time; of a missing file zeros
_MISSING: Stamp = (0, 0, 0, 0)
MOST_JOBS = 64  # that are watched: those that were looked at last
_TABLES = "reftable/tables.list"


class CheckoutWatch:
    """Counts when what is checked out may have changed, and when a result was delivered that a person looks at."""

    def __init__(self, tree: Path, results: Callable[[str], Path]) -> None:
        """`results` is the folder with the refs of what a job has delivered."""
        self._tree, self._results = tree, results
        self._lock = threading.Lock()
        self._seen = _checked_out(tree)
        self._jobs: OrderedDict[str, Stamp] = OrderedDict()
        self._version = 0

    def follow(self, job: str) -> None:
        """Watch a job's result from now on: call this before it is asked whether the user has it."""
        with self._lock:
            self._jobs.setdefault(job, _stamp(self._results(job)))
            self._jobs.move_to_end(job)
            while len(self._jobs) > MOST_JOBS:
                self._jobs.popitem(last=False)

    def version(self) -> int:
        """A number that has grown if something may have changed since the last call."""
        now = _checked_out(self._tree)
        with self._lock:
            jobs = OrderedDict((job, _stamp(self._results(job))) for job in self._jobs)
            if (now, jobs) != (self._seen, self._jobs):
                self._version += 1
            self._seen, self._jobs = now, jobs
            return self._version


def _checked_out(tree: Path) -> tuple[Stamp, ...]:
    """What differs as soon as another commit is checked out in a work tree; that of a plain folder stays the same."""
    marker = tree / MARKER
    own = marker if marker.is_dir() else named_repository(marker)
    if own is None:
        return ()
    common = common_of(own)
    files = [own / "HEAD", own / "logs/HEAD", own / _TABLES, common / _TABLES, common / "packed-refs"]
    said = small_file(own / "HEAD", HEAD_BYTES) or b""
    name = os.fsdecode(said.removeprefix(b"ref:").strip(b" \t\r\n"))
    if said.startswith(b"ref:") and name.startswith("refs/") and "\0" not in name and ".." not in name:
        files.append(common / name)
    return tuple(_stamp(path) for path in files)


def _stamp(path: Path) -> Stamp:
    try:
        seen = os.stat(path)  # noqa: PTH116 - Path.stat makes an object for each call, five times a second
    except (OSError, ValueError):
        return _MISSING
    size = seen.st_size if stat.S_ISREG(seen.st_mode) else 0
    return seen.st_dev, seen.st_ino, size, seen.st_mtime_ns
