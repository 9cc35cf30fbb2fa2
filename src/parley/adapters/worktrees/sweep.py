"""`parley gc`: what finished jobs have left on the disk, and what of it may go. Nothing else ever deletes."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from parley.adapters.worktrees import delivery, homecoming
from parley.adapters.worktrees.history import REPOSITORY, START, History
from parley.adapters.worktrees.removal import delete
from parley.adapters.worktrees.walk import walk
from parley.ports import WorkspaceError

FOLDERS = ("work", "trees", "gitdirs", "sealed", "marks", "clones", "clones.known", "asked", "aside", "homes")
LEFT = ("left", "lost", "retired")  # refs with what workspaces held that are gone
DRAFT_SECONDS = 86400  # a draft that is older was left by a crash


@dataclass(frozen=True, slots=True)
class Waste:
    """Something that may go, or the reason why it stays."""

    job: str
    path: Path
    size: int
    what: str
    kept: str = ""  # why it stays; empty: it may go


def find_waste(history: History, root: Path, job: str, *, unmerged: bool, merges: bool = True) -> list[Waste]:
    """What a finished job has left. `unmerged`: also the only copy of work that was never merged.

    `merges`: whether `parley merge` would take its result. Of a job that was withdrawn or has failed it takes nothing.
    """
    if not history.exists:
        return [_waste(history, job, name) for name in FOLDERS if (history.folder / name).exists()]
    why = "" if unmerged else _only_copy(history, root, job) if merges else _left_over(history, job)
    names = [name for name in (*FOLDERS, REPOSITORY) if (history.folder / name).exists()]
    return [_waste(history, job, name, why) for name in names]


def _waste(history: History, job: str, name: str, kept: str = "") -> Waste:
    path = history.folder / name
    what = {
        "work": "the job's worktree",
        "trees": "its dispatches' worktrees",
        "aside": "what was moved aside",
        "homes": "its agents' homes",
    }
    return Waste(job, path, size_of(path), what.get(name, "its repository and records of worktrees"), kept)


def _left_over(history: History, job: str) -> str:
    """Why what a job holds that is not done is not to be deleted; empty if it has changed nothing."""
    start = history.tree(history.ref(START))
    kept = [commit for kind in LEFT for commit in history.refs(f"refs/parley/{kind}").values()]
    if not delivery.changes(history) and all(
        history.without_own(history.tree(commit), start) == start for commit in dict.fromkeys(kept)
    ):
        return ""
    return f"the only copy of what it did lies here; look at it with `parley diff {job}`, or delete it with --unmerged"


def _only_copy(history: History, root: Path, job: str) -> str:
    """Why what a job holds is not to be deleted; empty if the user has it."""
    try:
        if homecoming.is_home(history, root):
            return ""
    except WorkspaceError as error:
        return str(error)
    return f"its result is not merged; take it with `parley merge {job}`, or delete it with --unmerged"


def find_drafts(home: Path, now: float) -> list[Waste]:
    """What crashes have left half made."""
    drafts = [*home.glob("bases/.draft-*"), *home.glob(f"jobs/*/{REPOSITORY}.*")]
    old = [path for path in drafts if now - path.stat().st_mtime > DRAFT_SECONDS]
    return [Waste("", path, size_of(path), "left by a crash") for path in old]


def find_bases(home: Path, going: Iterable[Path]) -> list[Waste]:
    """The frozen bases that no job needs, once some of what is there has gone."""
    gone = set(going)
    needed = set()
    for repository in home.glob(f"jobs/*/{REPOSITORY}"):
        if repository not in gone:
            needed.add(History(repository.parent).beginning.base)
    bases = [path for path in home.glob("bases/*") if path.name not in needed and not path.name.startswith(".")]
    return [Waste("", path, size_of(path), "a base that no job needs") for path in bases]


def remove(history: History, root: Path, waste: Waste) -> None:
    """Delete what may go, and let the user's repository go of what it held for the job."""
    if waste.job and waste.path.name == REPOSITORY:
        source = delivery.source_of(history, root)
        if source is not None:
            for kind in ("base", "whole"):
                source.drop_ref(f"refs/parley/{kind}/{history.beginning.job}")
    try:
        delete(waste.path)
    except OSError as error:
        raise WorkspaceError(f"{waste.path} can't be deleted: {error.strerror}; see to its permissions") from error


def size_of(path: Path) -> int:
    """The bytes that a folder's files have."""
    if not path.is_dir() or path.is_symlink():
        return path.lstat().st_size
    found = (entry for folder in walk(path) for _, entry in folder.entries)
    return sum(entry.st_size for entry in found if not stat.S_ISDIR(entry.st_mode))
