"""What one agent's workspace has changed since it began: at work, closed, or in a turn that was lost or cut short.

People look at it file by file. A path comes from outside, and is taken only where it is one that was changed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection
from dataclasses import dataclass

from parley.base.text import cut, printable
from parley.ports.workspaces import Change, WorkspaceError, retired_ref
from parley.workspaces.delivery.result_branch import DIFF, Named, compared
from parley.workspaces.job_repository import SEED, JobRepository
from parley.workspaces.safe_git import BUSY_SECONDS, GitTooLong

FILE_BYTES = 1 << 20  # of the diff of one file
WHOLE_BYTES = 16 << 20  # of the diff of all files
LONGEST_PATH = 4096
LAST = ""  # the version of a workspace that is its last


@dataclass(frozen=True, slots=True)
class WorkVersion:
    """A version of a workspace that is kept: its last, or what a turn had come to that was lost or cut short."""

    name: str  # LAST, or the turn's; a number follows where the turn has several
    turn: str  # empty for the last
    retired: bool = False  # whether its conversation is closed


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two commits that are compared."""

    before: str
    after: str


def versions(repository: JobRepository, job: str, workspace: str, slug: str) -> list[WorkVersion]:
    """The versions of a workspace that are kept; the last is the first of them."""
    if not repository.exists:
        return []
    retired = bool(repository.ref(retired_ref(job, workspace)))
    last = [WorkVersion(LAST, "", retired)] if _last(repository, job, workspace, slug) is not None else []
    return [*last, *(WorkVersion(name, name.partition("-")[0]) for name in sorted(_lost(repository, job, slug)))]


def changes(repository: JobRepository, job: str, workspace: str, slug: str, version: str, named: Named) -> list[Change]:
    """What a version of a workspace has changed, file by file."""
    pair = _pair(repository, job, workspace, slug, version)
    return compared(repository, pair.before, pair.after, named) if pair is not None else []


def diff(
    repository: JobRepository,
    job: str,
    workspace: str,
    slug: str,
    version: str,
    path: str,
    without: Collection[str],
    *,
    spaces: bool = True,
) -> bytes:
    """The same as git shows it: of one file, or of all but some."""
    pair = _pair(repository, job, workspace, slug, version)
    if pair is None:
        raise WorkspaceError(f"{job} keeps no files of {cut(printable(workspace), 80)}")
    if path:
        return file_diff(repository, pair.before, pair.after, path, spaces=spaces)
    kept_out = [f":(top,exclude,literal){name}" for name in without]
    return _bounded(
        repository, WHOLE_BYTES, "diff-tree", "-r", "--patch", *DIFF, pair.before, pair.after, "--", ".", *kept_out
    )


def file_diff(repository: JobRepository, before: str, after: str, path: str, *, spaces: bool = True) -> bytes:
    """The diff of one file between two trees, with or without changes of white space alone.

    WorkspaceError where it is not one that differs.
    """
    words = ("--literal-pathspecs", "diff-tree", "-r")
    listed = (*words, "-z", "--name-only", *DIFF, before, after, "--", path)
    if not _is_plain(path) or _names(repository, *listed) != [path]:
        raise WorkspaceError(f"{cut(printable(path), 200)!r} is not among what was changed")
    shown = DIFF if spaces else (*DIFF, "--ignore-all-space")
    return _bounded(repository, FILE_BYTES, *words, "--patch", *shown, before, after, "--", path)


def _is_plain(path: str) -> bool:
    """Whether a path can be one of a tree's at all."""
    parts = path.split("/")
    if not 0 < len(path) <= LONGEST_PATH or "\0" in path or {"", ".", ".."}.intersection(parts):
        return False
    try:
        os.fsencode(path)
    except ValueError:  # a lone surrogate
        return False
    return True


def _names(repository: JobRepository, *words: str) -> list[str]:
    return [name for name in os.fsdecode(repository.git(*words)).split("\0") if name]


def _pair(repository: JobRepository, job: str, workspace: str, slug: str, version: str) -> _Pair | None:
    if not repository.exists:
        return None
    if version == LAST:
        return _last(repository, job, workspace, slug)
    commit = _lost(repository, job, slug).get(version)
    return _Pair(f"{commit}^", commit) if commit is not None else None


def _last(repository: JobRepository, job: str, workspace: str, slug: str) -> _Pair | None:
    seed = repository.ref(f"{SEED}/{slug or 'job'}")
    now = (repository.ref(retired_ref(job, workspace)) if slug else "") or repository.tip(slug)
    return _Pair(seed, now) if seed and now else None


def _lost(repository: JobRepository, job: str, slug: str) -> dict[str, str]:
    """The commits of turns that were lost or cut short, by the turns' names."""
    prefix = f"refs/parley/lost/{job}/{slug or 'job'}/"
    found = {name.removeprefix(prefix): commit for name, commit in repository.refs(prefix.rstrip("/")).items()}
    return {name: commit for name, commit in found.items() if not name.endswith("-branch")}


def _bounded(repository: JobRepository, most: int, *words: str) -> bytes:
    """The beginning of a diff; a last line that begins with a backslash, as git's own remarks do, says what is left."""
    with tempfile.TemporaryFile(dir=repository.folder) as file:
        try:
            repository.git.run(*words, stdout=file, busy_seconds=BUSY_SECONDS)
        except GitTooLong:
            return b"\\ git would take too long to compare it\n"
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        data = file.read(most)
    if size <= most:
        return data
    return data[: data.rfind(b"\n") + 1] + b"\\ the rest is left out: this diff has %d bytes\n" % size
