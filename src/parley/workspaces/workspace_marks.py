"""What Parley records of a workspace besides its files: open conflicts, hidden paths, what was sent with its task."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct, convert, to_builtins

from parley.ports.workspaces import SentFile
from parley.workspaces.files.safe_fs import FILE, open_parent

MARKED_BYTES = 32 << 20  # no larger file is marked
_LINE_BYTES = 64 << 10

OPENS_CLOSES = (rb"<{7,} ", rb">{7,} ")  # how the lines of markers begin
YOURS = "yours"  # what a workspace's own side is called when its parent's tree is brought into it


class Markers(Struct, frozen=True, tag="markers"):
    """The sign of a conflict that is marked in its file: what the two sides are called there."""

    ours: str
    theirs: str

    @property
    def pattern(self) -> re.Pattern[bytes]:
        """The lines that mark it. Anchored to line starts: elsewhere a long line would take for ever to match."""
        names = (f"{re.escape(name)}(?![\\w-])".encode() for name in (self.ours, self.theirs))
        each = (b"^" + mark + name for mark, name in zip(OPENS_CLOSES, names, strict=True))
        return re.compile(b"|".join(each), re.MULTILINE)


class Beside(Struct, frozen=True, tag="beside"):
    """The sign of a conflict whose other side lies in a file of its own."""

    path: str


Sign = Markers | Beside
Signs = Mapping[str, tuple[Sign, ...]]  # path -> the signs that it is open; several merges may each have left one


@dataclass(slots=True)
class WorkspaceMarks:
    """The marks of one workspace. Conflicts are kept for each tree, so that they go back along with it."""

    path: Path
    hidden: list[str] = field(default_factory=list)  # brought along by the copy list or the set-up
    conflicts: dict[str, tuple[Sign, ...]] = field(default_factory=dict)  # it is open while one of its signs is there
    trees: dict[str, dict[str, tuple[Sign, ...]]] = field(default_factory=dict)  # tree -> its conflicts, if it has some
    packed: str = ""  # the last commit that agents can read inside
    shown: dict[str, str] = field(default_factory=dict)  # the same of each worker whose commits can be read
    sent: list[SentFile] = field(default_factory=list)  # what came along with its task

    def write(self) -> None:
        """Write them atomically."""
        data = {each.name: to_builtins(getattr(self, each.name)) for each in fields(self) if each.name != "path"}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with draft.open("w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    def leave_open(self, signs: Signs) -> None:
        """Add conflicts; those that were open stay open."""
        for path, more in signs.items():
            self.conflicts[path] = tuple(dict.fromkeys((*self.conflicts.get(path, ()), *more)))

    def settle(self, folder: Path) -> list[str]:
        """Drop the conflicts that the agent has settled; returns those that are open."""
        each = ((path, sign) for path, signs in self.conflicts.items() for sign in signs)
        return sorted({path for path, sign in each if _is_open(folder, path, sign)})

    def remember(self, tree: str, folder: Path) -> None:
        """Record the conflicts of a tree."""
        if not self.conflicts:
            return
        waiting = self.settle(folder)
        self.conflicts = {path: signs for path, signs in self.conflicts.items() if path in waiting}
        if self.conflicts:
            self.trees[tree] = dict(self.conflicts)
        self.write()

    def go_back(self, tree: str) -> None:
        """Restore the recorded conflicts of a tree."""
        if self.conflicts != self.trees.get(tree, {}):
            self.conflicts = dict(self.trees.get(tree, {}))
            self.write()


def read_marks(path: Path) -> WorkspaceMarks:
    """The marks kept in a file; none if there is no such file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except FileNotFoundError:
        return WorkspaceMarks(path)
    return WorkspaceMarks(
        path=path,
        hidden=data["hidden"],
        conflicts=convert(data["conflicts"], dict[str, tuple[Sign, ...]]),
        trees=convert(data["trees"], dict[str, dict[str, tuple[Sign, ...]]]),
        packed=data["packed"],
        shown=data["shown"],
        sent=convert(data["sent"], list[SentFile]),
    )


def _is_open(folder: Path, path: str, sign: Sign) -> bool:
    """Whether a conflict's markers are still in the file, or the other side's version still lies beside it."""
    try:
        with open_parent(folder, sign.path if isinstance(sign, Beside) else path) as (here, name):
            if isinstance(sign, Beside):
                return os.stat(name, dir_fd=here, follow_symlinks=False) is not None
            handle = os.open(name, FILE, dir_fd=here)
            with os.fdopen(handle, "rb") as file:
                return stat.S_ISREG(os.fstat(handle).st_mode) and has_markers(_lines(file), sign)
    except OSError as error:  # deleted or replaced by a folder: settled; after any other error it counts as open
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EISDIR)


def has_markers(lines: Iterable[bytes], sign: Markers) -> bool:
    """Whether a conflict's markers are among the lines of a file; git makes them longer where they are nested."""
    markers = sign.pattern
    return any(line[:1] in b"<>" and markers.match(line) is not None for line in lines)


def free_number(data: Iterable[bytes], labels: Iterable[str]) -> int:
    """The first number with which no file has markers of these labels yet; 1 stands for the labels alone."""
    taken: set[int] = set()
    for mark, label in zip(OPENS_CLOSES, labels, strict=True):
        named = re.compile(b"^" + mark + re.escape(label).encode() + rb"(?:-(\d{1,9}))?(?![\w-])", re.MULTILINE)
        taken |= {int(number or 1) for text in data for number in named.findall(text)}
    return next(number for number in itertools.count(1) if number not in taken)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of an agent's file, each cut at _LINE_BYTES, up to MARKED_BYTES in all."""
    whole, left = True, MARKED_BYTES
    while left > 0 and (piece := file.readline(_LINE_BYTES)):
        if whole:
            yield piece
        whole = piece.endswith(b"\n")
        left -= len(piece)
