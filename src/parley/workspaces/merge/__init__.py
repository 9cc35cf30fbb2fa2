"""Merging workspaces: the merge base, the ownership of paths, and the merged tree."""
