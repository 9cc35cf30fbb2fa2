"""Workspaces as git worktrees: one for each instance, committed by the orchestrator alone."""

from parley.adapters.worktrees.workspace import Worktrees

__all__ = ["Worktrees"]
