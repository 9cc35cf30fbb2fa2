"""The merge base of two workspaces: the tree that a merge of one into the other starts from.

As a rule the commits tell it. A workspace may also be merged past its parent, in which an agent still works, into one
further up: then only its own changes are taken, and the new commit must not claim the parent's.
"""

from __future__ import annotations

from dataclasses import dataclass

from parley.workspaces.job_repository import SEED, JobRepository

ACROSS = "refs/parley/across"  # for each merge past a parent: a commit whose parents are the merge and what was merged


@dataclass(frozen=True, slots=True)
class MergeBase:
    """What a merge starts from."""

    base: str = ""  # a tree; empty: as the commits tell
    within: bool = True  # whether the parent has the commit that the child was made from
    nothing: bool = False  # whether the parent has all of the child's changes already


def find_merge_base(repository: JobRepository, child: str, parent: str) -> MergeBase:
    """The base for merging a child's branch into a parent's. Both are slugs."""
    ours, theirs = repository.tip(parent), repository.tip(child)
    if repository.is_ancestor(theirs, ours):
        return MergeBase(nothing=True)
    merged = _merged_across(repository, parent, ours)
    shared = repository.common(ours, theirs)
    seed = repository.ref(f"{SEED}/{child or 'job'}")
    within = not seed or repository.is_ancestor(seed, ours)
    start = shared if within else seed
    for _, tip in (found for found in merged if found[0] == (child or "job")):
        if repository.is_ancestor(start, tip) and repository.is_ancestor(tip, theirs):
            start = tip
    if start == theirs:
        return MergeBase(nothing=True)
    base = repository.tree(start) if start else ""
    for name, tip in merged:
        if name != (child or "job") and base:
            base = _with(repository, base, start, name, repository.common(tip, theirs))
    return MergeBase("" if start == shared and base == repository.tree(start) else base, within)


def record(repository: JobRepository, child: str, parent: str, commit: str) -> None:
    """Record that a parent's commit holds a child's changes without having it as an ancestor."""
    both = repository.commit(
        repository.tree(commit), (commit, repository.tip(child)), f"{child or 'job'} merged across"
    )
    repository.set_ref(f"{ACROSS}/{parent or 'job'}/{child or 'job'}/{commit}", both)


def _merged_across(repository: JobRepository, parent: str, ours: str) -> list[tuple[str, str]]:
    """The merges past a parent that a branch holds: the workspaces' names, and up to which commit."""
    prefix = f"{ACROSS}/{parent or 'job'}"
    lines = repository.git.text("for-each-ref", "--format=%(refname) %(parent)", prefix).splitlines()
    found = []
    for ref, merge, tip in (line.split() for line in lines):
        if repository.is_ancestor(merge, ours):  # not one that was undone
            found.append((ref.split("/")[-2], tip))
    return found


def _with(repository: JobRepository, base: str, start: str, name: str, tip: str) -> str:
    """A base with what both sides have of another workspace; unchanged where that would conflict."""
    seed = repository.ref(f"{SEED}/{name}")
    if not seed or not tip or not repository.is_ancestor(seed, tip) or repository.is_ancestor(tip, start):
        return base
    shared = repository.common(tip, start)
    since = shared if repository.is_ancestor(seed, shared) else seed
    tree, conflicts = repository.merged(*repository.siblings(repository.tree(since), base, repository.tree(tip)))
    return base if conflicts else tree
