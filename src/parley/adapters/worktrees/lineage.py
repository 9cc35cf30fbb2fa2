"""What two workspaces have in common: what a merge of one into the other starts from.

As a rule the commits tell it. A workspace may also be merged across the one it was made from, which is still being
worked in: then only its own changes are taken, and the commit above must not claim what lies between.
"""

from __future__ import annotations

from dataclasses import dataclass

from parley.adapters.worktrees.history import SEED, History

ACROSS = "refs/parley/across"  # for each merge across: a commit whose parents are the merge and what was merged


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a merge is to start from."""

    base: str = ""  # a tree; empty: as the commits tell
    within: bool = True  # whether all that the child was made from is in the parent
    nothing: bool = False  # whether the parent has all of it already


def trace(history: History, child: str, parent: str) -> Lineage:
    """How a child's branch stands to the branch that it is to be merged into. Both are slugs."""
    ours, theirs = history.tip(parent), history.tip(child)
    if history.is_ancestor(theirs, ours):
        return Lineage(nothing=True)
    merged = _merged_across(history, parent, ours)
    shared = history.common(ours, theirs)
    seed = history.ref(f"{SEED}/{child or 'job'}")
    within = not seed or history.is_ancestor(seed, ours)
    start = shared if within else seed
    for _, tip in (found for found in merged if found[0] == (child or "job")):
        if history.is_ancestor(start, tip) and history.is_ancestor(tip, theirs):
            start = tip
    if start == theirs:
        return Lineage(nothing=True)
    base = history.tree(start) if start else ""
    for name, tip in merged:
        if name != (child or "job") and base:
            base = _with(history, base, start, name, history.common(tip, theirs))
    return Lineage("" if start == shared and base == history.tree(start) else base, within)


def record(history: History, child: str, parent: str, commit: str) -> None:
    """Keep that a commit of the parent's holds a child's changes without being made from it."""
    both = history.commit(history.tree(commit), (commit, history.tip(child)), f"{child or 'job'} merged across")
    history.set_ref(f"{ACROSS}/{parent or 'job'}/{child or 'job'}/{commit}", both)


def _merged_across(history: History, parent: str, ours: str) -> list[tuple[str, str]]:
    """What was merged across into a branch, as it stands: the workspaces' names, and up to which commit."""
    prefix = f"{ACROSS}/{parent or 'job'}"
    lines = history.git.text("for-each-ref", "--format=%(refname) %(parent)", prefix).splitlines()
    found = []
    for ref, merge, tip in (line.split() for line in lines):
        if history.is_ancestor(merge, ours):  # a merge that was taken back has not been
            found.append((ref.split("/")[-2], tip))
    return found


def _with(history: History, base: str, start: str, name: str, tip: str) -> str:
    """A base with what both sides have of another workspace; as it is where that does not go in clean."""
    seed = history.ref(f"{SEED}/{name}")
    if not seed or not tip or not history.is_ancestor(seed, tip) or history.is_ancestor(tip, start):
        return base
    shared = history.common(tip, start)
    since = shared if history.is_ancestor(seed, shared) else seed
    tree, conflicts = history.merged(*history.siblings(history.tree(since), base, history.tree(tip)))
    return base if conflicts else tree
