"""A job's result: what it changed, as a diff, and as a branch of the user's repository."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.adapters.git import BUSY_SECONDS, Git, GitError, TooLong
from parley.adapters.worktrees.excludes import excludes
from parley.adapters.worktrees.history import BEGIN, GITLINK, START, STAT, Entries, History
from parley.adapters.worktrees.private import Private
from parley.adapters.worktrees.scan import Unkept, keep, opened, users_changes
from parley.adapters.worktrees.source import Source, find_source
from parley.adapters.worktrees.users_settings import UsersSettings
from parley.obeyed import obeyed
from parley.ports import REPORTS, Change, WorkspaceError
from parley.unportable import unportable

Named = Callable[[Iterable[str]], Mapping[str, str]]
DELIVERED = "refs/parley/delivered"
HOME = "refs/parley/home"  # the result that was copied into a folder without a repository
_DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
_UNCOUNTED = "-"  # what git says of a file that is no text
LONGER_SECONDS = 60  # of a processor's time for what the user waits for, and no job does


@dataclass(frozen=True, slots=True)
class Delivered:
    """A job's result in the user's repository."""

    branch: str  # what it is called there
    commit: str


def result(history: History, tree: str = "", *, whole: bool = False) -> str:
    """The tree that a job has come to, or the one given: without the protocol's own files, with the user's back.

    `whole`: with the protocol's own. Files of the user's with these names stay: the job's lie beside them.
    """
    tree = tree or history.tree(history.tip("") or history.ref(BEGIN))
    start = history.tree(history.ref(START))
    if not whole:
        return history.without_own(tree, start)
    moves = beside(history)
    made = history.entries(tree, list(moves), deep=False) if moves else {}
    moved: Entries = {moves[path]: entry for path, entry in made.items()}
    return history.changed_tree(tree, {**history.entries(start, list(moves), deep=False), **moved} if moves else {})


def beside(history: History) -> dict[str, str]:
    """What of a whole result lies beside files of the user's that have its names, and its name there."""
    job = history.beginning.job
    return {
        path: path.replace(".md", f".{job}.md") if path.endswith(".md") else f"{path}.{job}"
        for path in history.beginning.aside
        if path != REPORTS
    }


def changes(history: History, tree: str = "", *, whole: bool = False, named: Named = lambda paths: {}) -> list[Change]:
    """What a job changed, file by file. `named`: what is obeyed of it on this machine, besides what its name tells.

    Where git would take too long over it, no lines are counted.
    """
    if not history.exists:
        return []
    now = result(history, tree, whole=whole)
    words = ("diff-tree", "-r", "-z", "--raw", *_DIFF, history.ref(START), now)
    try:
        said = history.git.run(*words, "--numstat", busy_seconds=BUSY_SECONDS).stdout
    except TooLong:
        said = history.git(*words)
    listed = os.fsdecode(said).split("\0")
    modes: dict[str, tuple[str, str]] = {}
    counts: dict[str, tuple[str, str]] = {}
    parts = iter(listed)
    for part in parts:
        if part.startswith(":"):
            before, after, *_ = part[1:].split()
            modes[next(parts)] = before, after
        elif part:
            added, removed, path = part.split("\t", 2)
            counts[path] = added, removed
    by = {one.path: one.by for one in obeyed(modes, named(modes))}
    new = [path for path, (before, _) in modes.items() if not int(before)]
    odd = unportable(new, history.git.paths(now)) if new else {}
    lines = {path: counts.get(path, (_UNCOUNTED, _UNCOUNTED)) for path in modes}
    return [
        Change(path, _number(added), _number(removed), by.get(path, ""), odd.get(path, ""))
        for path, (added, removed) in lines.items()
    ]


def _number(count: str) -> int | None:
    return int(count) if count != _UNCOUNTED else None


def named_here(root: Path | None) -> Named:
    """What settings and hooks of the user's git name, where there is a repository; nothing where that can't be told."""

    def named(paths: Iterable[str]) -> Mapping[str, str]:
        try:
            source = find_source(root) if root is not None else None
            return UsersSettings(source).obeyed(paths) if source is not None else {}
        except (WorkspaceError, OSError):
            return {}

    return named


def diff(history: History, tree: str = "", *, whole: bool = False, stat: bool = False) -> bytes:
    """What a job changed, as `git diff` shows it."""
    how = STAT if stat else ("--patch", "--binary")
    words = ("diff-tree", "-r", *how, *_DIFF, history.ref(START), result(history, tree, whole=whole))
    return history.git.run(*words, busy_seconds=LONGER_SECONDS).stdout


def committed(history: History, *, whole: bool = False) -> str:
    """The result as one commit on what the job started from; the same whenever it is asked for."""
    beginning, tip = history.beginning, history.tip("") or history.ref(BEGIN)
    start = history.ref(START)
    nothing = not beginning.base and not history.entries(start)
    seconds = float(history.git.text("log", "-1", "--format=%ct", tip))
    text = f"{beginning.title or f'Parley job {beginning.job}'}\n\nParley job {beginning.job}"
    return history.commit(result(history, whole=whole), () if nothing else (start,), text, seconds)


def source_of(history: History, root: Path | None) -> Source | None:
    """The repository that a job started from, as it is now; None if it started in a folder without one."""
    if root is None or not history.beginning.repository:
        return None
    found = find_source(root)
    if found is None:
        raise WorkspaceError(f"{root} is no repository any more; put it back, and try again")
    return found


def deliver(history: History, source: Source, *, whole: bool = False) -> Delivered:
    """Put the result into the user's repository: a branch, and the job's own history under `refs/parley/jobs`.

    A branch that the user has moved, or works on, stays as it is.
    """
    beginning, tip = history.beginning, history.tip("") or history.ref(BEGIN)
    commit = committed(history, whole=whole)
    history.objects.sync()
    known = f"^{beginning.base}\n" if beginning.base else ""
    with tempfile.TemporaryFile(dir=history.folder) as pack:  # it may be large
        words = ("pack-objects", "--quiet", "--revs", "--stdout")
        history.git.run(*words, stdin=f"{commit}\n{tip}\n{known}".encode(), stdout=pack)
        pack.seek(0)
        source.take(pack)
    source.set_ref(f"refs/parley/jobs/{beginning.job}", tip)
    if whole:
        source.set_ref(f"refs/parley/whole/{beginning.job}", commit)
        return Delivered(commit, commit)
    branch = beginning.branch
    for name in (branch, branch.replace("/", "-")):  # a branch called just `parley` leaves no room below it
        there = source.ref(f"refs/heads/{name}")
        if there == commit:
            return Delivered(name, commit)
        if there and (there != history.ref(DELIVERED) or _in_use(source, name)):
            return Delivered(commit, commit)
        try:
            source.set_ref(f"refs/heads/{name}", commit, there)
        except GitError:
            continue
        history.set_ref(DELIVERED, commit)
        return Delivered(name, commit)
    raise WorkspaceError(f"the branch {branch} can't be made; see what `git branch {branch}` says")


def _in_use(source: Source, branch: str) -> bool:
    """Whether a branch is checked out somewhere."""
    return bool(source.git.text("for-each-ref", "--format=%(worktreepath)", f"refs/heads/{branch}"))


# ---- what the user has not committed ------------------------------------------------------------------


def uncommitted(source: Source) -> list[str]:
    """The paths of the user's checkout that differ from the last commit, new ones included."""
    with source.beside() as git:
        index = git.folder / "index"
        _copy_index(source, index)
        ignored = excludes(source.root, source)
        (git.folder / "info" / "exclude").write_text(ignored, encoding="utf-8", errors="surrogateescape")
        return _differing(git, source.root, index, source.head())


def _copy_index(source: Source, index: Path) -> None:
    """The user's index, to look at; also where it lies in two files. With its time: git asks what changed since."""
    for path in (source.git_dir / "index", *source.git_dir.glob("sharedindex.*")):
        if path.is_file():
            shutil.copy2(path, index if path.name == "index" else index.with_name(path.name))


def _differing(git: Git, root: Path, index: Path, head: str) -> list[str]:
    try:
        staged = git("diff-index", "-z", "--cached", "--name-only", head, index=index) if head else b""
        paths = users_changes(git, root, index)
    except GitError as error:
        raise WorkspaceError(f"what is not committed in {root} can't be told ({error}); commit or stash it") from error
    return sorted({*os.fsdecode(staged).split("\0"), *paths} - {""})


def found_tree(source: Source, private: Private) -> Callable[[History], str]:
    """How to take the user's working tree as it is, once there is a repository to take it into.

    What is private is left out: the keys by which Parley knows the user's word, in a home that is a repository.
    """

    def take(history: History) -> str:
        index, head = history.git.folder / "index-found", source.head()
        _copy_index(source, index)
        links = {path for path, (mode, _) in history.entries(head).items() if mode == GITLINK} if head else set()
        entries: dict[str, tuple[str, str] | None] = {}
        with opened(source.root) as root:
            for path in _differing(history.git, source.root, index, head):
                if path not in links and not path.endswith("/") and not private.holds(source.root / path):
                    try:
                        entries[path] = keep(history.objects, root, path, any_link=True, users_own=True)
                    except Unkept as why:
                        raise WorkspaceError(f'{path}: {why}; remove it, or leave dirty = "include" out') from why
        history.put_entries(index, entries)
        tree = history.git.text("write-tree", index=index)
        index.unlink()
        return tree

    return take
