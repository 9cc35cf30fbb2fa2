"""Bringing a job's result home: what it changed, as a diff, as a branch of the user's repository, merged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from parley.adapters.worktrees.history import BEGIN, START, History
from parley.adapters.worktrees.source import Source
from parley.ports import Change

FoundTree = Callable[[History], str]


def start_of(history: History) -> str:
    """The commit that a job's result is compared with."""
    return history.ref(START)


def result(history: History, *, whole: bool = False) -> str:
    """The tree that a job has come to: without the protocol's own files, and with the user's that were set aside."""
    tree = history.tree(history.tip("") or history.ref(BEGIN))
    return tree if whole else history.without_own(tree, history.tree(start_of(history)))


def changes(history: History, *, whole: bool = False) -> list[Change]:
    """What a job changed, file by file."""
    if not history.exists:
        return []
    words = ("diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv")
    found = []
    for line in os.fsdecode(history.git(*words, start_of(history), result(history, whole=whole))).split("\0"):
        if line:
            added, removed, path = line.split("\t", 2)
            found.append(Change(path, *(int(count) if count != "-" else None for count in (added, removed))))
    return found


def found_tree(source: Source) -> FoundTree:
    """How to take the user's working tree as it is, once there is a repository to take it into."""

    def take(history: History) -> str:
        return ""

    return take


__all__ = ["Path", "changes", "found_tree", "result"]
