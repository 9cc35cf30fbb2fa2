"""Merging two workspaces by git's own three-way merge, without a work tree, a driver or an attribute in between."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from parley.adapters.git import Contents
from parley.adapters.worktrees.fence import outside
from parley.adapters.worktrees.history import ARTIFACTS, FOLDER, ORCHESTRATION, OWN, Entries, History
from parley.adapters.worktrees.known import REGULAR
from parley.adapters.worktrees.lineage import Lineage, trace
from parley.adapters.worktrees.marks import (
    BESIDE,
    BETWEEN,
    MARKED_BYTES,
    OPENS_CLOSES,
    YOURS,
    free_number,
    is_beside,
    is_marked,
    sign_of,
    signs_in,
)
from parley.ports import Clash, Conflict, Scope

SHOWN = 4000  # characters of each side
SHOWN_FILES = 200  # sides of a merge's conflicts that are shown; of more, only how large they are
THEIRS, DELETED = ".theirs", ".theirs-deleted"
OUTPUT = re.compile(rf"{ORCHESTRATION}/agents/[^/]+/task_output/")  # what agents leave for others
_BINARY_PROBE = 8000
_LONGEST = 4  # bytes of a character


@dataclass(frozen=True, slots=True)
class Combined:
    """What a merge comes to: the tree, which of the parent's paths it changes, and what is left to settle."""

    tree: str
    paths: tuple[str, ...]
    conflicts: tuple[Conflict, ...]
    signs: dict[str, str]  # path -> what shows that its conflict is still open
    apart: bool  # whether only the child's own changes are in it, and not all that it was made from
    kept_out: dict[str, str]  # path -> why the scope does not allow it


def combine(
    history: History,
    child: str,
    parent: str,
    label: str,
    scope: Scope | None = None,
    untouched: Entries = MappingProxyType({}),
) -> Combined | None:
    """Merge a child's branch into its parent's; None if there is nothing new. No file and no ref is changed.

    The history of both tells what was merged before: that is where the child's last merge stands. `untouched` are files
    that the child was given and left alone, each as it began without them: those are no change of the child's.
    """
    lineage = trace(history, child, parent)
    if lineage.nothing:
        return None
    ours, theirs = history.tip(parent), history.tip(child)
    before, brought = history.tree(ours), history.tree(theirs)
    # the protocol's own files are the parent's, whatever the child has made of them
    meant = _without_own(history, brought, before, scope)
    if untouched:
        base = history.entries(_base(history, lineage, ours, theirs), list(untouched))
        began = {path: entry for path, entry in untouched.items() if base.get(path) == entry}
        meant = history.changed_tree(meant, began)
    kept_out: dict[str, str] = {}
    if scope is not None:
        changed = _differing(history, _base(history, lineage, ours, theirs), brought)
        kept_out = outside((path for path in changed if path.split("/")[0] not in OWN), scope)
        meant = history.changed_tree(meant, _as_in(history, before, kept_out))
    tree, conflicts, signs = _merged(history, lineage, (ours, theirs), (before, meant), ("parent", label))
    tree = _without_own(history, tree, before, scope)
    if scope is not None:
        # a rename on one side takes the other side's change along, to wherever it leads
        besides = {sign.removeprefix(BESIDE) for sign in signs.values() if is_beside(sign)}
        led = (path for path in _differing(history, before, tree) if path not in besides and path not in signs)
        strayed = outside((path for path in led if path.split("/")[0] not in OWN), scope)
        tree = history.changed_tree(tree, _as_in(history, before, strayed))
        kept_out |= strayed
    paths = tuple(_differing(history, before, tree))
    return Combined(tree, paths, conflicts, signs, not lineage.within, kept_out)


def bring_down(history: History, child: str, parent: str) -> Combined | None:
    """Merge a parent's branch into its child's; None if there is nothing new. No file and no ref is changed.

    Of the protocol's own files the child has what the parent has, but for outputs that it has changed itself.
    """
    lineage = trace(history, parent, child)
    if lineage.nothing:
        return None
    ours, theirs = history.tip(child), history.tip(parent)
    before, brought = history.tree(ours), history.tree(theirs)
    meant = history.without_own(brought, before)
    tree, conflicts, signs = _merged(history, lineage, (ours, theirs), (before, meant), (YOURS, "parent"))
    tree = history.without_own(tree, before)
    base, here, there = (
        history.entries(found, OWN) for found in (_base(history, lineage, ours, theirs), before, brought)
    )
    own = {
        path: there.get(path)
        for path in sorted({*here, *there})
        if here.get(path) != there.get(path) and not (OUTPUT.match(path) and here.get(path) != base.get(path))
    }
    tree = history.changed_tree(tree, own)
    return Combined(tree, tuple(_differing(history, before, tree)), conflicts, signs, not lineage.within, {})


def _merged(
    history: History, lineage: Lineage, tips: tuple[str, str], trees: tuple[str, str], labels: tuple[str, str]
) -> tuple[str, tuple[Conflict, ...], dict[str, str]]:
    """Two commits, ours and theirs, merged as their trees are meant; the tree, the conflicts and their signs."""
    (ours, theirs), (before, meant) = tips, trees
    if lineage.base:
        ours, theirs = history.siblings(lineage.base, before, meant)
    else:
        theirs = history.commit(meant, (theirs,), f"{labels[1]} as it is merged")
    tree, rest = history.merged(ours, theirs)
    if not rest:
        return tree, (), {}
    with _reading(history) as files:
        return _Settling(history, tree, dict(zip((ours, theirs), labels, strict=True)), files).settle(rest)


def _base(history: History, lineage: Lineage, ours: str, theirs: str) -> str:
    """The tree that a merge starts from."""
    if lineage.base:
        return lineage.base
    shared = history.common(ours, theirs)
    return history.tree(shared) if shared else history.objects.write("tree", b"")


def _differing(history: History, one: str, other: str) -> list[str]:
    """The paths in which two trees differ."""
    listed = history.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", one, other)
    return [path for path in os.fsdecode(listed).split("\0") if path]


def _as_in(history: History, tree: str, paths: Iterable[str]) -> dict[str, tuple[str, str] | None]:
    """What has to change for some paths to be as a tree has them."""
    wanted = list(paths)
    held = history.entries(tree, wanted) if wanted else {}
    return {path: held.get(path) for path in wanted}


def _without_own(history: History, tree: str, before: str, scope: Scope | None) -> str:
    """A tree with the protocol's own files as another has them, but for the outputs that a scope allows."""
    if scope is not None and scope.design:
        return history.without_own(tree, before, ARTIFACTS)
    plain = history.without_own(tree, before)
    if scope is None:
        return plain
    here, there = (history.entries(found, [ORCHESTRATION]) for found in (tree, before))
    outputs = {path for path in {*here, *there} if OUTPUT.match(path) and not scope.allowed(path)}
    return history.changed_tree(plain, {p: here.get(p) for p in sorted(outputs) if here.get(p) != there.get(p)})


class _Files:
    """What the sides of conflicts hold, by one git for all of them: there may be as many as a tree has files."""

    def __init__(self, history: History, contents: Contents) -> None:
        self._history = history
        self._contents = contents
        self._left = SHOWN_FILES  # sides of which something is still shown

    def size(self, name: str) -> int:
        """How many bytes an object holds."""
        return self._contents.size(name)

    def blob(self, name: str) -> bytes:
        """What an object holds."""
        return self._contents.whole(name)

    def shown(self, side: tuple[str, str] | None) -> str | None:
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
        with self._history.git.contents() as contents:  # of its own: nothing else can be read there afterwards
            return contents.start(name, _LONGEST * (SHOWN + 1))[0]


@contextmanager
def _reading(history: History) -> Iterator[_Files]:
    with history.git.contents() as contents:
        yield _Files(history, contents)


class _Settling:
    """Makes of git's conflicts what a parent can work on in its own files.

    `labels` are the two sides' commits, ours first, with what each side is called.
    """

    def __init__(self, history: History, tree: str, labels: dict[str, str], files: _Files) -> None:
        self._history = history
        self._tree = tree
        self._labels = labels
        self._files = files
        self._ours, self._theirs = labels
        self._names: set[str] | None = None  # all that the tree has, once that is asked for
        self._before: dict[str, dict[str, tuple[str, str]]] = {}  # what each side has at the paths that conflict
        self._changes: dict[str, tuple[str, str] | None] = {}
        self._signs: dict[str, str] = {}
        self._found: list[Conflict] = []

    def settle(self, lines: list[str]) -> tuple[str, tuple[Conflict, ...], dict[str, str]]:
        """The tree with both sides in it, the conflicts, and their signs."""
        stages: dict[str, dict[str, tuple[str, str]]] = {}
        moved: dict[str, list[str]] = {}
        for line in lines:
            if not line:
                break
            head, _, path = line.partition("\t")
            mode, name, stage = head.split()
            place = path
            for commit in self._labels:  # a file whose name something else has: git has moved it
                place = place.partition(f"~{commit}")[0]
            if place != path:
                moved.setdefault(place, []).append(path)
            stages.setdefault(place, {})[stage] = (mode, name)
        inside = self._history.entries(self._tree, list(stages), deep=False)
        self._before = {commit: self._history.entries(commit, list(stages)) for commit in self._labels}
        for path, sides in sorted(stages.items()):
            self._changes |= dict.fromkeys(moved.get(path, ()))
            self._one(path, sides, inside.get(path), moved=path in moved)
        return self._history.changed_tree(self._tree, self._changes), tuple(self._found), self._signs

    def _one(
        self, path: str, sides: dict[str, tuple[str, str]], merged: tuple[str, str] | None, *, moved: bool
    ) -> None:
        ours = self._own(path, sides.get("2"), self._ours)
        theirs = self._own(path, sides.get("3"), self._theirs)
        if merged and merged[0] != FOLDER and ours and theirs and not moved and self._mark(path, merged, ours, theirs):
            self._tell(Clash.MARKED, path, ours, theirs, labels=tuple(self._signs[path].split(" ")))
        elif merged and merged[0] == FOLDER:
            how, suffix = (
                (Clash.FILE_HERE, f".{self._labels[self._ours]}") if ours is not None else (Clash.FILE_THERE, THEIRS)
            )
            beside = self._beside(f"{path}{suffix}", ours or theirs)
            self._signs[beside] = f"{BESIDE}{beside}"
            self._tell(how, beside, ours, theirs, beside)
        else:
            self._changes[path] = ours
            if theirs is not None:
                how = Clash.BOTH if ours is not None else Clash.DELETED_HERE if "1" in sides else Clash.RENAMED
                self._lay(how, path, ours, theirs, self._beside(f"{path}{THEIRS}", theirs))
            elif ours is not None and "1" in sides:
                note = self._note(f"{self._labels[self._theirs]} deleted {path}, and you have changed it.")
                self._lay(Clash.DELETED_THERE, path, ours, theirs, self._beside(f"{path}{DELETED}", note))

    def _lay(
        self, how: Clash, path: str, ours: tuple[str, str] | None, theirs: tuple[str, str] | None, beside: str
    ) -> None:
        self._signs[path] = f"{BESIDE}{beside}"
        self._tell(how, path, ours, theirs, beside)

    def _tell(
        self,
        how: Clash,
        path: str,
        ours: tuple[str, str] | None,
        theirs: tuple[str, str] | None,
        beside: str = "",
        labels: tuple[str, ...] = (),
    ) -> None:
        here, there = map(self._files.shown, (ours, theirs))
        self._found.append(Conflict(path, here, there, how, beside, labels))

    def _own(self, path: str, side: tuple[str, str] | None, commit: str) -> tuple[str, str] | None:
        """A side as its own commit has it, where git has put markers into it: so for a file that both have renamed."""
        if side is None or not side[0].startswith("100"):
            return side
        before = self._before[commit].get(path)
        if before is None or before[1] == side[1] or self._files.size(side[1]) > MARKED_BYTES:
            return side
        data = self._files.blob(side[1])
        return before if any(mark.encode() in data for mark in self._labels) else side

    def _note(self, text: str) -> tuple[str, str]:
        data = os.fsencode(f"{text}\nKeep it or delete it; then remove this note.\n")
        return REGULAR, self._history.objects.write("blob", data)

    def _mark(self, path: str, merged: tuple[str, str], ours: tuple[str, str], theirs: tuple[str, str]) -> bool:
        """Put a file in place that has markers, both sides by their names; False if git could not mark it."""
        mode, name = merged
        if not mode.startswith("100") or self._files.size(name) > MARKED_BYTES:
            return False
        data = self._files.blob(name)
        for mark, commit in zip(OPENS_CLOSES, self._labels, strict=True):
            if re.search(b"^" + mark + commit.encode(), data, re.MULTILINE) is None:
                return False
        both = [self._files.blob(side[1]) for side in (ours, theirs)]
        number = free_number(both, self._labels.values())  # it may be a file about markers, say
        names = [label if number == 1 else f"{label}-{number}" for label in self._labels.values()]
        for commit, label in zip(self._labels, names, strict=True):
            data = data.replace(commit.encode(), label.encode())
        self._changes[path] = (mode, self._history.objects.write("blob", data))
        self._signs[path] = sign_of(*names)
        return True

    def _beside(self, path: str, entry: tuple[str, str] | None) -> str:
        """Lay a file under a name that nothing in the tree has yet; that name."""
        if self._names is None:
            self._names = self._history.names(self._tree)
        number, name = 1, path
        while name in self._changes or name in self._names:
            number += 1
            name = f"{path}-{number}"
        self._changes[name] = entry
        return name


def still_open(history: History, tree: str, signs: Mapping[str, str]) -> dict[str, str]:
    """The conflicts in a tree that are not settled, each with those of its signs that are still there."""
    each = [(path, sign) for path in signs for sign in signs_in(signs[path])]
    pairs = [(path, sign, sign.removeprefix(BESIDE) if is_beside(sign) else path) for path, sign in each]
    held = history.entries(tree, [file for _, _, file in pairs], deep=False) if pairs else {}
    found: dict[str, list[str]] = {}
    if not any(file in held for _, _, file in pairs):
        return {}
    with _reading(history) as files:
        for path, sign, file in pairs:
            if file in held and (is_beside(sign) or _is_marked(files, held[file], sign)):
                found.setdefault(path, []).append(sign)
    return {path: BETWEEN.join(left) for path, left in found.items()}


def _is_marked(files: _Files, entry: tuple[str, str], sign: str) -> bool:
    if not entry[0].startswith("100") or files.size(entry[1]) > MARKED_BYTES:
        return False
    return is_marked(files.blob(entry[1]), sign)


def carried(history: History, before: str, tree: str, signs: Mapping[str, str]) -> tuple[Conflict, ...]:
    """Conflicts that a merge brought along as they were left: what the parent had, and what lies there now."""
    if not signs:
        return ()
    firsts = {path: signs_in(text)[0] for path, text in sorted(signs.items())}
    besides = {path: sign.removeprefix(BESIDE) if is_beside(sign) else "" for path, sign in firsts.items()}
    ours = history.entries(before, list(firsts), deep=False)
    theirs = history.entries(tree, [beside or path for path, beside in besides.items()], deep=False)
    found = []
    with _reading(history) as files:
        for path, sign in firsts.items():
            beside = besides[path]
            how, labels = (Clash.OPEN, ()) if beside else (Clash.MARKED, tuple(sign.split(" ")))
            sides = files.shown(ours.get(path)), files.shown(theirs.get(beside or path))
            found.append(Conflict(path, *sides, how, beside, labels))
    return tuple(found)
