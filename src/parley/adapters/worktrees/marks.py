"""What is to be known of a workspace besides its files: sealed artifacts, open conflicts, what is never committed."""

from __future__ import annotations

import errno
import itertools
import json
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from parley.adapters.worktrees.ground import FILE, reached

MARKED_BYTES = 32 << 20  # no larger file is marked
_LINE_BYTES = 64 << 10

OPENS_CLOSES = (rb"<{7,} ", rb">{7,} ")  # how the lines of markers begin
YOURS = "yours"  # what a workspace's own side is called when its parent's tree is brought into it
BETWEEN = "\0"  # two signs of one path
BESIDE = "beside:"  # the sign of a conflict whose other side lies in a file of its own


@dataclass(slots=True)
class Marks:
    """The marks of one workspace. Conflicts are kept for each tree, so that they go back along with it."""

    path: Path
    hidden: list[str] = field(default_factory=list)  # brought along by the copy list or the set-up
    conflicts: dict[str, str] = field(default_factory=dict)  # path -> signs that it is open: any of them tells
    trees: dict[str, dict[str, str]] = field(default_factory=dict)  # tree -> its conflicts, where it has some
    packed: str = ""  # the last commit that agents can read inside
    shown: dict[str, str] = field(default_factory=dict)  # the same of each worker whose commits can be read
    sent: list[list[Any]] = field(default_factory=list)  # what came along with its task

    def write(self) -> None:
        """Keep them, whole or not at all."""
        data = {key: value for key, value in asdict(self).items() if key != "path"}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        with draft.open("w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)

    def leave_open(self, signs: Mapping[str, str]) -> None:
        """More conflicts have come; what was open before stays so."""
        for path, more in signs.items():
            both = (*signs_in(self.conflicts.get(path, "")), *signs_in(more))
            self.conflicts[path] = BETWEEN.join(dict.fromkeys(both))

    def settle(self, folder: Path) -> list[str]:
        """The conflicts that nobody has settled yet."""
        each = ((path, sign) for path, signs in self.conflicts.items() for sign in signs_in(signs))
        return sorted({path for path, sign in each if _is_open(folder, path, sign)})

    def remember(self, tree: str, folder: Path) -> None:
        """Keep the conflicts that belong to a tree."""
        if not self.conflicts:
            return
        waiting = self.settle(folder)
        self.conflicts = {path: signs for path, signs in self.conflicts.items() if path in waiting}
        if self.conflicts:
            self.trees[tree] = dict(self.conflicts)
        self.write()

    def go_back(self, tree: str) -> None:
        """Have the conflicts again that belong to a tree."""
        if self.conflicts != self.trees.get(tree, {}):
            self.conflicts = dict(self.trees.get(tree, {}))
            self.write()


def read_marks(path: Path) -> Marks:
    """The marks kept in a file; none if there is no such file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8", errors="surrogateescape"))
    except FileNotFoundError:
        return Marks(path)
    later = data.get("shown", {}), data.get("sent", [])
    return Marks(path, data["hidden"], data["conflicts"], data["trees"], data["packed"], *later)


def signs_in(text: str) -> list[str]:
    """The signs of one path's conflicts: several merges may each have left one."""
    return [sign for sign in text.split(BETWEEN) if sign]


def is_beside(sign: str) -> bool:
    """Whether a sign is a file beside the path, and not markers in it."""
    return sign.startswith(BESIDE)


def sign_of(ours: str, theirs: str) -> str:
    """The sign of markers by which the two sides are called."""
    return f"{ours} {theirs}"


def _is_open(folder: Path, path: str, sign: str) -> bool:
    """Whether a conflict's markers are still in the file, or the other side's version still lies beside it."""
    beside = is_beside(sign)
    try:
        with reached(folder, sign.removeprefix(BESIDE) if beside else path) as (here, name):
            if beside:
                return os.stat(name, dir_fd=here, follow_symlinks=False) is not None
            handle = os.open(name, FILE, dir_fd=here)
            with os.fdopen(handle, "rb") as file:
                return stat.S_ISREG(os.fstat(handle).st_mode) and has_markers(_lines(file), sign)
    except OSError as error:  # gone, or something else than a file: somebody has settled it; else nobody can tell
        return error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EISDIR)


def has_markers(lines: Iterable[bytes], sign: str) -> bool:
    """Whether a conflict's markers are among the lines of a file; git makes them longer where they are nested."""
    markers = _markers(sign)
    return any(line[:1] in b"<>" and markers.match(line) is not None for line in lines)


def is_marked(data: bytes, sign: str) -> bool:
    """The same of all that a file holds."""
    return _markers(sign).search(data) is not None


def _markers(sign: str) -> re.Pattern[bytes]:
    """The lines by which a conflict is known. Each begins a line: anywhere else, a long one would be tried for ever."""
    ours, _, theirs = sign.rpartition(" ")
    both = (f"(?:{re.escape(ours)})" if ours else f"(?:parent|{YOURS})", re.escape(theirs))
    names = (f"{name}(?![\\w-])".encode() for name in both)
    each = (b"^" + mark + name for mark, name in zip(OPENS_CLOSES, names, strict=True))
    return re.compile(b"|".join(each), re.MULTILINE)


def free_number(data: Iterable[bytes], labels: Iterable[str]) -> int:
    """The first number by which no file has markers of two sides that are called so: 1 is the plain names."""
    taken: set[int] = set()
    for mark, label in zip(OPENS_CLOSES, labels, strict=True):
        named = re.compile(b"^" + mark + re.escape(label).encode() + rb"(?:-(\d{1,9}))?(?![\w-])", re.MULTILINE)
        taken |= {int(number or 1) for text in data for number in named.findall(text)}
    return next(number for number in itertools.count(1) if number not in taken)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """The lines of a file that an agent wrote, long ones only as far as they matter, and not without end."""
    whole, left = True, MARKED_BYTES
    while left > 0 and (piece := file.readline(_LINE_BYTES)):
        if whole:
            yield piece
        whole = piece.endswith(b"\n")
        left -= len(piece)
