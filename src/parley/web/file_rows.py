"""The changed files of a job or an instance as a page lists them: each with its numbers, its warnings and its diff."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from parley.base.text import name_bytes, name_text
from parley.ports.workspaces import Change
from parley.views.job_diffs import DiffOf

PAGE = 100  # files on one page
OPEN_FILES = 30  # a change of so many files is shown with its diffs
OPEN_LINES = 400  # of a file whose diff is shown at once


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRow:
    """One changed file."""

    id: str
    name: str  # its path, with everything escaped that is no plain text
    added: int | None
    removed: int | None
    obeyed: str
    unportable: str
    address: str  # of its diff
    shown: bool  # whether its diff is shown without being asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePage:
    """Some of the changed files, and how many there are."""

    rows: Sequence[FileRow]
    first: int
    total: int
    added: int
    removed: int
    obeyed: int
    unportable: int
    more: str  # the address of those that follow; empty: these are the last

    @property
    def left(self) -> int:
        """How many files follow."""
        return self.total - self.first - len(self.rows)


def file_page(changes: Sequence[Change], of: DiffOf, base: str, thread: str = "", first: int = 0) -> FilePage:
    """The files from one on; `base` is the address of the job's page."""
    where = {"thread": thread, "version": of.version}
    wanted = {name: value for name, value in where.items() if value}
    rows = [
        _row(number, one, f"{base}/changes/file?{urlencode({**wanted, 'path': name_text(one.path)})}", len(changes))
        for number, one in enumerate(changes[first : first + PAGE], first)
    ]
    more = f"{base}/changes/files?{urlencode({**wanted, 'first': first + PAGE})}"
    return FilePage(
        rows=rows,
        first=first,
        total=len(changes),
        added=sum(one.added or 0 for one in changes),
        removed=sum(one.removed or 0 for one in changes),
        obeyed=sum(bool(one.obeyed) for one in changes),
        unportable=sum(one.unportable is not None for one in changes),
        more=more if first + PAGE < len(changes) else "",
    )


def _row(number: int, one: Change, address: str, files: int) -> FileRow:
    lines = (one.added or 0) + (one.removed or 0)
    return FileRow(
        id=f"file-{number}",
        name=name_text(one.path),
        added=one.added,
        removed=one.removed,
        obeyed=one.obeyed,
        unportable=one.unportable.why if one.unportable else "",
        address=address,
        shown=files <= OPEN_FILES and lines <= OPEN_LINES,
    )


def path_of(name: str) -> str:
    """The path that a row's name was made of."""
    return os.fsdecode(name_bytes(name))
