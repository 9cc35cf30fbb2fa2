"""Merging a job's result into the user's checkout, as the user would: only where it goes in clean, or not at all."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from parley.adapters.git import last_line
from parley.adapters.worktrees import delivery
from parley.adapters.worktrees.history import FOLDER, GITLINK, History
from parley.adapters.worktrees.scan import LINK, PROGRAM
from parley.adapters.worktrees.source import Source
from parley.adapters.worktrees.users_git import UsersGit
from parley.ports import WorkspaceError

SHOWN = 5


class WontMerge(WorkspaceError):
    """The result does not go in clean. Nothing was changed; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Homecoming:
    """How a result came home: what it is called, what it changed there, and whether it had been there before."""

    branch: str  # empty in a folder without a repository
    commit: str
    paths: tuple[str, ...]
    before: bool = False


def bring_home(history: History, root: Path, *, whole: bool = False) -> Homecoming:
    """Merge a job's result into what the user has checked out."""
    source = delivery.source_of(history, root)
    return _merge(history, source, whole=whole) if source else _copy(history, root, whole=whole)


def is_home(history: History, root: Path) -> bool:
    """Whether the result is in what the user has checked out."""
    source = delivery.source_of(history, root)
    if source is None:
        return history.ref(delivery.HOME) != ""
    there, head = history.ref(delivery.DELIVERED), source.head()
    if not there or not head:
        return False
    with source.beside() as git:
        return git.run("merge-base", "--is-ancestor", there, head, fine=(0, 1, 128)).returncode == 0


def _merge(history: History, source: Source, *, whole: bool) -> Homecoming:
    found = delivery.deliver(history, source, whole=whole)
    head = source.head()
    with source.beside() as git:
        if head and git.run("merge-base", "--is-ancestor", found.commit, head, fine=(0, 1)).returncode == 0:
            return Homecoming(found.branch, found.commit, (), before=True)
        tree = found.commit
        if head:
            if git.run("merge-base", head, found.commit, fine=(0, 1)).returncode:
                raise WontMerge(f"HEAD has nothing in common with {found.branch}; check out a branch that has")
            done = git.run(
                "merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", head, found.commit, fine=(0, 1)
            )
            tree, *clashes = os.fsdecode(done.stdout).split("\0")
            if done.returncode:
                names = _some([name for name in clashes if name])
                raise WontMerge(f"it conflicts with what is checked out in {names}; merge {found.branch} by hand")
        before = head or git.text("hash-object", "-t", "tree", "-w", "--stdin")
        listed = os.fsdecode(git("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, tree))
        paths = tuple(path for path in listed.split("\0") if path)
    user = _User(source)
    in_the_way = sorted(set(paths) & user.dirty())
    if in_the_way:
        raise WontMerge(f"you have changes of your own in {_some(in_the_way)}; commit or stash them, then merge again")
    user.merge(found, head)
    return Homecoming(found.branch, found.commit, paths)


def _some(paths: list[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(paths[:SHOWN]) + more


class _User:
    """The user's own git, with the user's own identity, hooks and settings: it is the user who merges."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._git = UsersGit(source.root, source.common)

    def dirty(self) -> set[str]:
        """The paths that are not committed."""
        done = self._git("--no-optional-locks", "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
        if done.returncode:
            raise WontMerge(f"git can't tell what you have changed: {last_line(done)}")
        return {line[3:] for line in os.fsdecode(done.stdout).split("\0") if line}

    def merge(self, found: delivery.Delivered, head: str) -> None:
        """Merge a commit; nothing is changed where that fails."""
        named = self._named()
        if head and not named and not self._leads_on(head, found.commit):
            raise WontMerge('git does not know who you are; tell it with `git config user.name "…"` and user.email')
        how = ("--no-ff", "-m", f"Merge {found.branch}") if head and named else ()
        done = self._git("merge", "--quiet", "--no-edit", *how, found.commit)
        if done.returncode:
            if (self._source.git_dir / "MERGE_HEAD").exists():
                self._git("merge", "--abort")
            raise WontMerge(f"git would not merge {found.branch}: {last_line(done)}; nothing was changed")

    def _named(self) -> bool:
        """Whether git has a name to make a commit with; without one it can still move a branch on."""
        return all(self._git("var", f"GIT_{who}_IDENT").returncode == 0 for who in ("AUTHOR", "COMMITTER"))

    def _leads_on(self, head: str, commit: str) -> bool:
        return self._git("merge-base", "--is-ancestor", head, commit).returncode == 0


# ---- a folder without a repository -------------------------------------------------------------------


def _copy(history: History, root: Path, *, whole: bool) -> Homecoming:
    tree = delivery.result(history, whole=whole)
    entries = history.entries(tree)
    differing, new = [], []
    for path, (mode, name) in entries.items():
        if mode in (GITLINK, FOLDER):
            continue
        data, target = history.blob(name), root / path
        if any(parent.is_symlink() for parent in target.parents if root in parent.parents):
            differing.append(path)
        elif not os.path.lexists(target):
            new.append((target, mode, data))
        elif target.is_symlink() or not target.is_file() or target.read_bytes() != data:
            differing.append(path)
    if differing:
        raise WontMerge(f"{_some(differing)} in {root} differ; move them away, then merge again")
    for target, mode, data in new:
        _write(target, mode, data)
    commit = delivery.committed(history, whole=whole)
    history.set_ref(delivery.HOME, commit)
    return Homecoming("", commit, tuple(str(target.relative_to(root)) for target, _, _ in new), before=not new)


def _write(target: Path, mode: str, data: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if mode == LINK:
        target.symlink_to(os.fsdecode(data))
        return
    with target.open("xb") as file:
        file.write(data)
    if mode == PROGRAM:
        target.chmod(target.stat().st_mode | 0o111)
