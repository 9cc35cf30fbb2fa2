"""Packs a folder of an agent's as a git tree: bytes, modes, links as links, empty folders, any names.

Everything is read by descriptor and no link is followed. What was read before and has not changed is not read again.
"""

from __future__ import annotations

import os
import posixpath
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from parley.hosts.mirror.mirror_errors import MirrorError
from parley.hosts.mirror.mirror_repository import MirrorRepository
from parley.hosts.mirror.place_names import as_text, is_git, stored
from parley.machine.disk import BLOCK
from parley.workspaces.files.known_blobs import LINK, PROGRAM, REGULAR, KnownBlobs, key_of, mode_of
from parley.workspaces.files.safe_fs import FILE, open_parent
from parley.workspaces.files.safe_walk import LONGEST, walk
from parley.workspaces.files.scan import HOLE_BYTES, hole_bytes, path_text
from parley.workspaces.files.tree_entry import TreeEntry

FOLDER = "40000"  # as a tree has it
_SEEN = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
LEFT_OUT = 20  # paths that are named


class Modes(Struct, frozen=True):
    """The permissions in a folder: the most common of each kind, and where they differ, by path."""

    file: int = 0o644
    program: int = 0o755
    folder: int = 0o755
    odd: dict[str, int] = {}

    def of(self, path: str, kind: str) -> int:
        """The permissions of a path. Its owner can always read it, and enter it: else no turn could begin there."""
        usual = {REGULAR: self.file, PROGRAM: self.program}.get(kind, self.folder)
        own = 0o400 if kind in (REGULAR, PROGRAM) else 0o700
        return self.odd.get(as_text(path), usual) & 0o777 | own


@dataclass(slots=True)
class Allowed:
    """How much may still be packed or laid out: bytes and names."""

    bytes: int = sys.maxsize
    files: int = sys.maxsize

    def take(self, size: int, names: int, whose: str) -> None:
        """Count something; MirrorError where it is too much."""
        self.bytes -= size
        self.files -= names
        if self.files < 0:
            raise MirrorError(f"{whose}: there are too many files; remove some ([workspace] files)")
        if self.bytes < 0:
            raise MirrorError(f"{whose}: it takes more than the job's quota; remove some files ([workspace] quota_mb)")


@dataclass(slots=True)
class PackedFolder:
    """A folder as a tree, and what is known of it besides."""

    tree: str
    modes: Modes
    paths: set[str]  # of its files
    left_out: list[str]


Leave = Callable[[str], bool]  # whether a path is none of the place's


class FolderPacking:
    """Packs folders into a mirror. `allowed` counts over all of them."""

    def __init__(self, mirror: MirrorRepository, allowed: Allowed) -> None:
        self._mirror = mirror
        self._allowed = allowed

    def file(self, path: Path) -> TreeEntry:
        """Pack one ordinary file of Parley's own."""
        with open_parent(path.parent, path.name) as (here, name):
            return _Reading(self._mirror, path.parent).entry(here, name, path.name)

    def folder(self, folder: Path, known: KnownBlobs, others: Iterable[KnownBlobs], leave: Leave) -> PackedFolder:
        """Pack a folder; `known`: what was packed of it before, `others`: what the job's repository may have of it.

        The cache is written by `known.keep`, once a ref holds what was packed.
        """
        known.begin()
        reading = _Reading(self._mirror, folder, known)
        held: dict[str, list[tuple[bytes, str, str]]] = {}  # folder -> its entries
        modes: dict[str, dict[str, int]] = {REGULAR: {}, PROGRAM: {}, FOLDER: {}}
        left: list[str] = []
        hopes: dict[str, tuple[os.stat_result, TreeEntry]] = {}  # what another cache knows: it may not be stored
        for here in walk(folder, mend=True):
            if here.shut or here.deep or _is_out(here.path, leave):
                if here.shut or here.deep:
                    left.append(here.path)
                continue
            inner = f"{here.path}/" if here.path else ""
            entries = held.setdefault(here.path, [])
            for name, seen in here.entries:
                path = inner + name
                if leave(path) or is_git(os.fsencode(name)):
                    if path != ".git" and not leave(path):
                        left.append(path)
                    continue
                if stat.S_ISDIR(seen.st_mode):
                    modes[FOLDER][path] = stat.S_IMODE(seen.st_mode)
                    self._allowed.take(0, 1, str(folder))
                    continue
                if not is_carried(folder, path, seen):
                    left.append(path)
                    continue
                self._allowed.take(seen.st_size, 1, str(folder))
                if stat.S_ISREG(seen.st_mode):
                    modes[mode_of(seen)][path] = stat.S_IMODE(seen.st_mode)
                entry = known.entry(path, key_of(seen))
                if entry is None and (hope := _known(others, path, seen)) is not None:
                    hopes[path] = seen, hope
                    continue
                if entry is None:
                    entry = reading.read(path)
                entries.append((stored(os.fsencode(name)), entry.mode, entry.name))
        missing = self._mirror.missing({entry.name for _, entry in hopes.values()})
        for path, (seen, hope) in hopes.items():
            entry = reading.read(path) if hope.name in missing else hope
            if entry is hope:
                known.note(path, seen, hope.name)
            last = os.fsencode(posixpath.basename(path))
            held[posixpath.dirname(path)].append((stored(last), entry.mode, entry.name))
        paths = {path for kind in (REGULAR, PROGRAM) for path in modes[kind]}
        return PackedFolder(self._tree(held), _modes(modes), paths, left)

    def _tree(self, held: dict[str, list[tuple[bytes, str, str]]]) -> str:
        """Write the trees, the deepest first."""
        top = ""
        for path in sorted(held, key=lambda one: one.count("/") + bool(one), reverse=True):
            name = write_tree(self._mirror, held[path])
            if path:
                above = held.get(posixpath.dirname(path))
                if above is not None:  # else the folder above came to be during the walk, or is left out
                    above.append((stored(os.fsencode(posixpath.basename(path))), FOLDER, name))
            else:
                top = name
        return top


def write_tree(mirror: MirrorRepository, entries: Iterable[tuple[bytes, str, str]]) -> str:
    """Write a tree of names, modes and objects."""
    ordered = sorted(entries, key=lambda one: one[0] + b"/" if one[1] == FOLDER else one[0])
    return mirror.objects.write(
        "tree", b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(one) for name, mode, one in ordered)
    )


def is_carried(folder: Path, path: str, seen: os.stat_result) -> bool:
    """Whether a place carries a file: an ordinary one or a link, not mostly holes, and by a path that is not too long.

    What is not carried stays on its machine.
    """
    if len(os.fsencode(path)) > LONGEST:
        return False
    if stat.S_ISLNK(seen.st_mode):
        return True
    if not stat.S_ISREG(seen.st_mode):
        return False
    if seen.st_blocks * BLOCK + HOLE_BYTES >= seen.st_size:
        return True
    with open_parent(folder, path) as (here, name):
        handle = open_unreadable(name, here)
        try:
            return hole_bytes(handle, seen.st_size) <= HOLE_BYTES
        finally:
            os.close(handle)


def _is_out(path: str, leave: Leave) -> bool:
    """Whether a folder lies in one that is left out."""
    parts = path.split("/") if path else []
    return any(is_git(os.fsencode(part)) or leave("/".join(parts[: number + 1])) for number, part in enumerate(parts))


def _known(others: Iterable[KnownBlobs], path: str, seen: os.stat_result) -> TreeEntry | None:
    return next((found for one in others if (found := one.entry(path, key_of(seen))) is not None), None)


def _modes(found: dict[str, dict[str, int]]) -> Modes:
    usual = {kind: Counter(modes.values()).most_common(1)[0][0] for kind, modes in found.items() if modes}
    odd = {as_text(path): mode for kind, modes in found.items() for path, mode in modes.items() if mode != usual[kind]}
    return Modes(usual.get(REGULAR, 0o644), usual.get(PROGRAM, 0o755), usual.get(FOLDER, 0o755), odd)


class _Reading:
    """Reads files below a folder and writes them as objects."""

    def __init__(self, mirror: MirrorRepository, folder: Path, known: KnownBlobs | None = None) -> None:
        self._mirror, self._folder, self._known = mirror, folder, known

    def read(self, path: str) -> TreeEntry:
        """Write the file or link at a path as an object."""
        try:
            with open_parent(self._folder, path) as (here, name):
                return self.entry(here, name, path)
        except FileNotFoundError as error:
            raise self._changes(path) from error

    def entry(self, here: int, name: str, path: str) -> TreeEntry:
        """The same, in an open folder."""
        seen = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISLNK(seen.st_mode):
            blob = self._mirror.objects.write("blob", os.fsencode(os.readlink(name, dir_fd=here)))
            self._note(path, seen, blob)
            return TreeEntry(LINK, blob)
        handle = open_unreadable(name, here)
        with os.fdopen(handle, "rb", buffering=0) as file:
            seen = os.fstat(handle)
            if not stat.S_ISREG(seen.st_mode):
                raise self._changes(path)
            try:
                blob = self._mirror.objects.write_file(file, seen.st_size)
            except OSError as error:
                if error.errno is None:
                    raise self._changes(path) from error
                raise
        self._note(path, seen, blob)
        return TreeEntry(mode_of(seen), blob)

    def _note(self, path: str, seen: os.stat_result, blob: str) -> None:
        if self._known is not None:
            self._known.note(path, seen, blob)

    def _changes(self, path: str) -> MirrorError:
        return MirrorError(
            f"{path_text(str(self._folder / path))} changes while it is packed: a process of the turn still runs; "
            "the turn can be tried again"
        )


def open_unreadable(name: str, here: int) -> int:
    """An ordinary file to read, also one that its owner, this user, has made unreadable."""
    try:
        return os.open(name, FILE, dir_fd=here)
    except PermissionError:
        place = os.open(name, _SEEN, dir_fd=here)
        try:
            mode = stat.S_IMODE(os.fstat(place).st_mode)
            os.chmod(f"/proc/self/fd/{place}", mode | stat.S_IRUSR)  # noqa: PTH101 - what is open, and nothing else
            return os.open(name, FILE, dir_fd=here)
        finally:
            os.close(place)
