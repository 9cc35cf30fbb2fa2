"""Merges two workspaces by git's three-way merge, without a work tree, merge drivers or attributes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from parley.ports.workspaces import Clash, Conflict, Scope
from parley.workspaces.files.known_blobs import REGULAR
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.job_repository import ARTIFACTS, FOLDER, ORCHESTRATION, OWN, Entries, JobRepository
from parley.workspaces.merge.merge_base import MergeBase, find_merge_base
from parley.workspaces.merge.ownership_fence import outside
from parley.workspaces.safe_git import ObjectReader
from parley.workspaces.workspace_marks import (
    MARKED_BYTES,
    OPENS_CLOSES,
    YOURS,
    Beside,
    Markers,
    Sign,
    Signs,
    free_number,
)

SHOWN = 4000  # characters of each side
SHOWN_FILES = 200  # sides of a merge's conflicts that are shown; of the rest only the size
THEIRS, DELETED = ".theirs", ".theirs-deleted"
OUTPUT = re.compile(rf"{ORCHESTRATION}/agents/[^/]+/task_output/")  # files that agents make for others
_BINARY_PROBE = 8000
_LONGEST = 4  # bytes of a character


@dataclass(frozen=True, slots=True)
class MergedTree:
    """The result of a merge: the tree, which of the parent's paths it changes, and the conflicts."""

    tree: str
    paths: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    signs: Signs  # what shows that a conflict is still open
    apart: bool  # whether it holds only the child's own changes, and not those of the child's parent
    kept_out: dict[str, str]  # path -> why the scope does not allow it


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a merge: its commit, the tree that is meant to be merged, and what it is called."""

    commit: str
    tree: str
    label: str


@dataclass(frozen=True, slots=True)
class _MarkedTree:
    """What git made of two sides: a tree with both in it, the conflicts, and their signs."""

    tree: str
    conflicts: tuple[Conflict, ...] = ()
    signs: Signs = field(default_factory=dict)


def combine(
    repository: JobRepository,
    child: str,
    parent: str,
    label: str,
    scope: Scope | None = None,
    untouched: Entries = MappingProxyType({}),
) -> MergedTree | None:
    """Merge a child's branch into its parent's; None if there is nothing new. No file and no ref is changed.

    The commits of both tell what was merged before. `untouched` are files that were sent to the child and that it did
    not change, each with its entry before: those are no change of the child's.
    """
    lineage = find_merge_base(repository, child, parent)
    if lineage.nothing:
        return None
    ours, theirs = repository.tip(parent), repository.tip(child)
    before, brought = repository.tree(ours), repository.tree(theirs)
    # the protocol's own files are the parent's, whatever the child has made of them
    meant = _without_own(repository, brought, before, scope)
    if untouched:
        base = repository.entries(_base(repository, lineage, ours, theirs), list(untouched))
        began = {path: entry for path, entry in untouched.items() if base.get(path) == entry}
        meant = repository.changed_tree(meant, began)
    kept_out: dict[str, str] = {}
    if scope is not None:
        changed = _differing(repository, _base(repository, lineage, ours, theirs), brought)
        kept_out = outside((path for path in changed if path.split("/")[0] not in OWN), scope)
        meant = repository.changed_tree(meant, _as_in(repository, before, kept_out))
    marked = _merged(repository, lineage, _Side(ours, before, "parent"), _Side(theirs, meant, label))
    tree = _without_own(repository, marked.tree, before, scope)
    if scope is not None:
        # a rename on one side moves the other side's change to the new path
        besides = {sign.path for signs in marked.signs.values() for sign in signs if isinstance(sign, Beside)}
        led = (path for path in _differing(repository, before, tree) if path not in {*besides, *marked.signs})
        strayed = outside((path for path in led if path.split("/")[0] not in OWN), scope)
        tree = repository.changed_tree(tree, _as_in(repository, before, strayed))
        kept_out |= strayed
    paths = tuple(_differing(repository, before, tree))
    return MergedTree(
        tree=tree,
        paths=paths,
        conflicts=marked.conflicts,
        signs=marked.signs,
        apart=not lineage.within,
        kept_out=kept_out,
    )


def bring_down(repository: JobRepository, child: str, parent: str) -> MergedTree | None:
    """Merge a parent's branch into its child's; None if there is nothing new. No file and no ref is changed.

    Of the protocol's own files the child has what the parent has, but for outputs that it has changed itself.
    """
    lineage = find_merge_base(repository, parent, child)
    if lineage.nothing:
        return None
    ours, theirs = repository.tip(child), repository.tip(parent)
    before, brought = repository.tree(ours), repository.tree(theirs)
    meant = repository.without_own(brought, before)
    marked = _merged(repository, lineage, _Side(ours, before, YOURS), _Side(theirs, meant, "parent"))
    tree = repository.without_own(marked.tree, before)
    base, here, there = (
        repository.entries(found, OWN) for found in (_base(repository, lineage, ours, theirs), before, brought)
    )
    own = {
        path: there.get(path)
        for path in sorted({*here, *there})
        if here.get(path) != there.get(path) and not (OUTPUT.match(path) and here.get(path) != base.get(path))
    }
    tree = repository.changed_tree(tree, own)
    return MergedTree(
        tree=tree,
        paths=tuple(_differing(repository, before, tree)),
        conflicts=marked.conflicts,
        signs=marked.signs,
        apart=not lineage.within,
        kept_out={},
    )


def _merged(repository: JobRepository, lineage: MergeBase, ours: _Side, theirs: _Side) -> _MarkedTree:
    """Merge two commits with the trees that are meant."""
    if lineage.base:
        one, other = repository.siblings(lineage.base, ours.tree, theirs.tree)
        ours, theirs = replace(ours, commit=one), replace(theirs, commit=other)
    else:
        meant = repository.commit(theirs.tree, (theirs.commit,), f"{theirs.label} as it is merged")
        theirs = replace(theirs, commit=meant)
    tree, rest = repository.merged(ours.commit, theirs.commit)
    if not rest:
        return _MarkedTree(tree)
    with _reading(repository) as files:
        return _ConflictWriter(repository, tree, ours, theirs, files=files).settle(rest)


def _base(repository: JobRepository, lineage: MergeBase, ours: str, theirs: str) -> str:
    """The tree that a merge starts from."""
    if lineage.base:
        return lineage.base
    shared = repository.common(ours, theirs)
    return repository.tree(shared) if shared else repository.objects.write("tree", b"")


def _differing(repository: JobRepository, one: str, other: str) -> list[str]:
    """The paths in which two trees differ."""
    listed = repository.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", one, other)
    return [path for path in os.fsdecode(listed).split("\0") if path]


def _as_in(repository: JobRepository, tree: str, paths: Iterable[str]) -> dict[str, TreeEntry | None]:
    """The changes that make some paths as a tree has them."""
    wanted = list(paths)
    held = repository.entries(tree, wanted) if wanted else {}
    return {path: held.get(path) for path in wanted}


def _without_own(repository: JobRepository, tree: str, before: str, scope: Scope | None) -> str:
    """A tree with the protocol's own files as another has them, but for the outputs that a scope allows."""
    if scope is not None and scope.design:
        return repository.without_own(tree, before, ARTIFACTS)
    plain = repository.without_own(tree, before)
    if scope is None:
        return plain
    here, there = (repository.entries(found, [ORCHESTRATION]) for found in (tree, before))
    outputs = {path for path in {*here, *there} if OUTPUT.match(path) and not scope.allowed(path)}
    return repository.changed_tree(plain, {p: here.get(p) for p in sorted(outputs) if here.get(p) != there.get(p)})


class _ConflictSides:
    """Reads the sides of conflicts by one git process: there may be as many as a tree has files."""

    def __init__(self, repository: JobRepository, contents: ObjectReader) -> None:
        self._repository = repository
        self._contents = contents
        self._left = SHOWN_FILES  # sides that may still be shown

    def size(self, name: str) -> int:
        """How many bytes an object holds."""
        return self._contents.size(name)

    def blob(self, name: str) -> bytes:
        """What an object holds."""
        return self._contents.whole(name)

    def shown(self, side: TreeEntry | None) -> str | None:
        """One side of a conflict, as far as there is room."""
        if side is None:
            return None
        mode, name = side
        if mode == FOLDER:
            return "(a folder)"
        size = self.size(name)
        if self._left <= 0:
            return f"({size} bytes)"
        self._left -= 1
        data = self.blob(name) if size <= MARKED_BYTES else self._beginning(name)
        if b"\0" in data[:_BINARY_PROBE]:
            return f"({size} bytes that are no text)"
        text = data[: _LONGEST * (SHOWN + 1)].decode("utf-8", "replace")
        return text if len(text) <= SHOWN else f"{text[:SHOWN]}…\n({size} bytes in all)"

    def _beginning(self, name: str) -> bytes:
        with self._repository.git.contents() as contents:  # its own reader: a cut read ends it
            return contents.start(name, _LONGEST * (SHOWN + 1))[0]


@contextmanager
def _reading(repository: JobRepository) -> Iterator[_ConflictSides]:
    with repository.git.contents() as contents:
        yield _ConflictSides(repository, contents)


class _ConflictWriter:
    """Writes git's conflicts into the parent's files, so that it can settle them there."""

    def __init__(self, repository: JobRepository, tree: str, ours: _Side, theirs: _Side, files: _ConflictSides) -> None:
        self._repository = repository
        self._tree = tree
        self._ours, self._theirs = ours, theirs
        self._commits = (ours.commit, theirs.commit)
        self._files = files
        self._names: set[str] | None = None  # all paths of the tree, once they are needed
        self._before: dict[str, dict[str, TreeEntry]] = {}  # what each side has at the conflicting paths
        self._changes: dict[str, TreeEntry | None] = {}
        self._signs: dict[str, tuple[Sign, ...]] = {}
        self._found: list[Conflict] = []

    def settle(self, lines: list[str]) -> _MarkedTree:
        """The tree with both sides in it, as git's lines tell of the paths that conflict."""
        stages: dict[str, dict[str, TreeEntry]] = {}
        moved: dict[str, list[str]] = {}
        for line in lines:
            if not line:
                break
            head, _, path = line.partition("\t")
            mode, name, stage = head.split()
            place = path
            for commit in self._commits:  # a file whose name is taken: git has moved it
                place = place.partition(f"~{commit}")[0]
            if place != path:
                moved.setdefault(place, []).append(path)
            stages.setdefault(place, {})[stage] = TreeEntry(mode, name)
        inside = self._repository.entries(self._tree, list(stages), deep=False)
        self._before = {commit: self._repository.entries(commit, list(stages)) for commit in self._commits}
        for path, sides in sorted(stages.items()):
            self._changes |= dict.fromkeys(moved.get(path, ()))
            self._one(path, sides, inside.get(path), moved=path in moved)
        tree = self._repository.changed_tree(self._tree, self._changes)
        return _MarkedTree(tree, tuple(self._found), self._signs)

    def _one(self, path: str, sides: dict[str, TreeEntry], merged: TreeEntry | None, *, moved: bool) -> None:
        ours = self._own(path, sides.get("2"), self._ours.commit)
        theirs = self._own(path, sides.get("3"), self._theirs.commit)
        whole = merged is not None and merged.mode != FOLDER and not moved
        markers = self._mark(path, merged, ours, theirs) if whole and merged and ours and theirs else None
        if markers is not None:
            self._tell(Clash.MARKED, path, ours, theirs, labels=(markers.ours, markers.theirs))
        elif merged and merged.mode == FOLDER:
            how, suffix = (Clash.FILE_HERE, f".{self._ours.label}") if ours is not None else (Clash.FILE_THERE, THEIRS)
            beside = self._beside(f"{path}{suffix}", ours or theirs)
            self._signs[beside] = (Beside(beside),)
            self._tell(how, beside, ours, theirs, beside)
        else:
            self._changes[path] = ours
            if theirs is not None:
                how = Clash.BOTH if ours is not None else Clash.DELETED_HERE if "1" in sides else Clash.RENAMED
                self._lay(how, path, ours, theirs, self._beside(f"{path}{THEIRS}", theirs))
            elif ours is not None and "1" in sides:
                note = self._note(f"{self._theirs.label} deleted {path}, and you have changed it.")
                self._lay(Clash.DELETED_THERE, path, ours, theirs, self._beside(f"{path}{DELETED}", note))

    def _lay(self, how: Clash, path: str, ours: TreeEntry | None, theirs: TreeEntry | None, beside: str) -> None:
        self._signs[path] = (Beside(beside),)
        self._tell(how, path, ours, theirs, beside)

    def _tell(
        self,
        how: Clash,
        path: str,
        ours: TreeEntry | None,
        theirs: TreeEntry | None,
        beside: str = "",
        labels: tuple[str, ...] = (),
    ) -> None:
        here, there = map(self._files.shown, (ours, theirs))
        self._found.append(Conflict(path=path, ours=here, theirs=there, how=how, beside=beside, labels=labels))

    def _own(self, path: str, side: TreeEntry | None, commit: str) -> TreeEntry | None:
        """A side from its own commit, where git has put markers into it: a file that both sides renamed, say."""
        if side is None or not side.mode.startswith("100"):
            return side
        before = self._before[commit].get(path)
        if before is None or before.name == side.name or self._files.size(side.name) > MARKED_BYTES:
            return side
        data = self._files.blob(side.name)
        return before if any(commit.encode() in data for commit in self._commits) else side

    def _note(self, text: str) -> TreeEntry:
        data = os.fsencode(f"{text}\nKeep it or delete it; then remove this note.\n")
        return TreeEntry(REGULAR, self._repository.objects.write("blob", data))

    def _mark(self, path: str, merged: TreeEntry, ours: TreeEntry, theirs: TreeEntry) -> Markers | None:
        """Write a file with conflict markers that name both sides; None if git could not mark it."""
        if not merged.mode.startswith("100") or self._files.size(merged.name) > MARKED_BYTES:
            return None
        data = self._files.blob(merged.name)
        for mark, commit in zip(OPENS_CLOSES, self._commits, strict=True):
            if re.search(b"^" + mark + commit.encode(), data, re.MULTILINE) is None:
                return None
        labels = (self._ours.label, self._theirs.label)
        number = free_number([self._files.blob(side.name) for side in (ours, theirs)], labels)  # it may have markers
        ending = "" if number == 1 else f"-{number}"
        markers = Markers(f"{self._ours.label}{ending}", f"{self._theirs.label}{ending}")
        for commit, label in zip(self._commits, (markers.ours, markers.theirs), strict=True):
            data = data.replace(commit.encode(), label.encode())
        self._changes[path] = TreeEntry(merged.mode, self._repository.objects.write("blob", data))
        self._signs[path] = (markers,)
        return markers

    def _beside(self, path: str, entry: TreeEntry | None) -> str:
        """Write a file under a free name beside the path; returns that name."""
        if self._names is None:
            self._names = self._repository.names(self._tree)
        number, name = 1, path
        while name in self._changes or name in self._names:
            number += 1
            name = f"{path}-{number}"
        self._changes[name] = entry
        return name


def still_open(repository: JobRepository, tree: str, signs: Signs) -> dict[str, tuple[Sign, ...]]:
    """The open conflicts in a tree, each with those of its signs that are still there."""
    files = [_file_of(path, sign) for path, left in signs.items() for sign in left]
    held = repository.entries(tree, files, deep=False) if files else {}
    if not held:
        return {}
    with _reading(repository) as sides:
        found = {
            path: tuple(sign for sign in left if _is_there(sides, held.get(_file_of(path, sign)), sign))
            for path, left in signs.items()
        }
    return {path: left for path, left in found.items() if left}


def _file_of(path: str, sign: Sign) -> str:
    """The file that shows whether a conflict at a path is open."""
    return sign.path if isinstance(sign, Beside) else path


def _is_there(files: _ConflictSides, entry: TreeEntry | None, sign: Sign) -> bool:
    """Whether a conflict's file is there, with its markers where it has them."""
    if entry is None or isinstance(sign, Beside):
        return entry is not None
    if not entry.mode.startswith("100") or files.size(entry.name) > MARKED_BYTES:
        return False
    return sign.pattern.search(files.blob(entry.name)) is not None


def carried(repository: JobRepository, before: str, tree: str, signs: Signs) -> tuple[Conflict, ...]:
    """Open conflicts that a merge brought from the child: what the parent had, and what is there now."""
    if not signs:
        return ()
    firsts = {path: left[0] for path, left in sorted(signs.items())}
    ours = repository.entries(before, list(firsts), deep=False)
    theirs = repository.entries(tree, [_file_of(path, sign) for path, sign in firsts.items()], deep=False)
    found = []
    with _reading(repository) as files:
        for path, sign in firsts.items():
            conflict = Conflict(
                path=path,
                ours=files.shown(ours.get(path)),
                theirs=files.shown(theirs.get(_file_of(path, sign))),
                how=Clash.OPEN if isinstance(sign, Beside) else Clash.MARKED,
                beside=sign.path if isinstance(sign, Beside) else "",
                labels=(sign.ours, sign.theirs) if isinstance(sign, Markers) else (),
            )
            found.append(conflict)
    return tuple(found)
