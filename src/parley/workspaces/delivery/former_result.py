"""Finds out what of a finished job's result the user's checkout lacks: a job that continues it begins with that."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from parley.ports.workspaces import WorkspaceError
from parley.workspaces.checkout.source_repository import find_source
from parley.workspaces.checkout.users_git import PARLEY, UsersGit
from parley.workspaces.delivery import result_branch
from parley.workspaces.job_repository import START, FormerResult, JobRepository
from parley.workspaces.safe_git import ABSENT


def missing_result(repository: JobRepository, root: Path, redact: result_branch.Redact = str) -> FormerResult | None:
    """The result to begin with; None where the job changed nothing, or the checkout has all that it changed."""
    start, source = repository.ref(START), find_source(root)
    by = UsersGit(source.root, source.common).identities() if source is not None else None
    commit = result_branch.committed(repository, by=by or PARLEY, redact=redact)
    repository.objects.sync()
    if repository.tree(commit) == repository.tree(start):
        return None
    if source is None:
        result_branch.source_of(repository, root)  # it refuses where there was a repository
        return FormerResult(repository, commit, start)
    head, both = source.head(), source.reading()
    if result_branch.is_taken(repository, source, commit):
        return None
    if head and not _paths(repository, repository.beginning.base or start, commit, both) & _paths(
        repository, commit, head, both
    ):
        return None  # each path that the job changed is there as the job left it, however it came there
    if not repository.beginning.repository:
        job = repository.beginning.job
        raise WorkspaceError(
            f"{job} began before {root} was a repository; merge its result and commit it there, then try again"
        )
    between = repository.git.text("rev-list", "--first-parent", commit, f"^{start}").splitlines()[1:]
    known = (one for one in between if head and _is_ancestor(repository, one, head, both))
    return FormerResult(repository, commit, next(known, start))


def _is_ancestor(repository: JobRepository, commit: str, of: str, both: Mapping[str, str]) -> bool:
    words = ("merge-base", "--is-ancestor", commit, of)
    return repository.git.run(*words, fine=(0, 1, ABSENT), more=both).returncode == 0


def _paths(repository: JobRepository, before: str, after: str, both: Mapping[str, str]) -> set[str]:
    """The paths in which two commits differ."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after)
    return {*os.fsdecode(repository.git(*words, more=both)).split("\0")} - {""}
