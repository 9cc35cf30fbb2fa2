"""Finds and deletes the files of finished jobs for `parley gc`. No other command deletes them."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from parley.ports.workspaces import WorkspaceError
from parley.workspaces.delivery import merge_to_checkout, result_branch
from parley.workspaces.files.safe_delete import delete
from parley.workspaces.files.safe_walk import walk
from parley.workspaces.job_repository import MIRROR, REPOSITORY, START, JobRepository

FOLDERS = ("work", "trees", "gitdirs", "sealed", "marks", "clones", "clones.known", "asked", "aside", "homes", MIRROR)
LEFT = ("left", "lost", "retired")  # refs with what deleted workspaces held
DRAFT_SECONDS = 86400  # a draft that is older was left by a crash


@dataclass(frozen=True, slots=True)
class Waste:
    """Something that may be deleted, or the reason why it stays."""

    job: str
    path: Path
    size: int
    what: str
    kept: str = ""  # why it stays; empty: it may be deleted
    commit: str = ""  # of a branch of the user's, which `path` names


def find_waste(repository: JobRepository, root: Path, job: str, *, unmerged: bool, merges: bool = True) -> list[Waste]:
    """What a finished job has left. `unmerged`: also the only copy of work that was never merged.

    `merges`: whether `parley merge` would take its result; not that of a withdrawn or failed job.
    """
    if not repository.exists:
        return [_waste(repository, job, name) for name in FOLDERS if (repository.folder / name).exists()]
    why = "" if unmerged else _only_copy(repository, root, job) if merges else _left_over(repository, job)
    names = [name for name in (*FOLDERS, REPOSITORY) if (repository.folder / name).exists()]
    return [_waste(repository, job, name, why) for name in names]


def _waste(repository: JobRepository, job: str, name: str, kept: str = "") -> Waste:
    path = repository.folder / name
    what = {
        "work": "the job's worktree",
        "trees": "its dispatches' worktrees",
        "aside": "what was moved aside",
        "homes": "its agents' homes",
    }
    return Waste(
        job=job,
        path=path,
        size=size_of(path),
        what=what.get(name, "its repository and records of worktrees"),
        kept=kept,
    )


def _left_over(repository: JobRepository, job: str) -> str:
    """Why the files of a job that is not done must stay; empty if it has changed nothing."""
    start = repository.tree(repository.ref(START))
    kept = [commit for kind in LEFT for commit in repository.refs(f"refs/parley/{kind}").values()]
    if not result_branch.changes(repository) and all(
        repository.without_own(repository.tree(commit), start) == start for commit in dict.fromkeys(kept)
    ):
        return ""
    return f"the only copy of what it did lies here; look at it with `parley diff {job}`, or delete it with --unmerged"


def _only_copy(repository: JobRepository, root: Path, job: str) -> str:
    """Why the files of a job must stay; empty if the user has the result."""
    try:
        if merge_to_checkout.is_merged(repository, root):
            return ""
    except WorkspaceError as error:
        return str(error)
    return f"its result is not merged; take it with `parley merge {job}`, or delete it with --unmerged"


def find_branches(repository: JobRepository, root: Path, job: str, *, last: bool) -> list[Waste]:
    """The branches of a job in the user's repository that are merged: they hold nothing that is only there.

    `last`: the job's own files are deleted, so the others are named as well. They stay.
    """
    try:
        source = result_branch.source_of(repository, root) if repository.exists else None
        if source is None:
            return []
        merged, there = result_branch.merged_branches(repository, source), result_branch.branches(repository, source)
    except WorkspaceError:
        return []  # of a repository that is gone, or can't be read, nothing is deleted
    found = [Waste(job, Path(name), 0, "its branch, which is merged", commit=merged[name]) for name in merged]
    for name in there.keys() - merged.keys() if last else ():
        why = f"it is not merged, or you work on it; delete it with `git branch -D {name}`"
        found.append(Waste(job, Path(name), 0, "its branch", kept=why, commit=there[name]))
    return found


def find_drafts(home: Path, now: float) -> list[Waste]:
    """Half-made files that crashes have left."""
    drafts = [*home.glob("bases/.draft-*"), *home.glob(f"jobs/*/{REPOSITORY}.*"), *home.glob(f"jobs/*/{MIRROR}.*")]
    old = [path for path in drafts if now - path.stat().st_mtime > DRAFT_SECONDS]
    return [Waste("", path, size_of(path), "left by a crash") for path in old]


def find_bases(home: Path, going: Iterable[Path]) -> list[Waste]:
    """The frozen bases that no job needs once `going` is deleted."""
    gone = set(going)
    needed = set()
    for repository in home.glob(f"jobs/*/{REPOSITORY}"):
        if repository not in gone:
            needed.add(JobRepository(repository.parent).beginning.base)
    bases = [path for path in home.glob("bases/*") if path.name not in needed and not path.name.startswith(".")]
    return [Waste("", path, size_of(path), "a base that no job needs") for path in bases]


def remove(repository: JobRepository, root: Path, waste: Waste) -> None:
    """Delete it."""
    if waste.commit:
        source = result_branch.source_of(repository, root)
        if source is not None:
            source.drop_ref(f"refs/heads/{waste.path}", waste.commit)
        return
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
