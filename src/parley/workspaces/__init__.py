"""Workspaces as git worktrees: one for each instance, committed by the orchestrator alone."""

from parley.workspaces.job_workspaces import JobWorkspaces

__all__ = ["JobWorkspaces"]
