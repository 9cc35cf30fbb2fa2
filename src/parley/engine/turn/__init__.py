"""A turn, stage by stage: start, calls, finish, loss, merges."""
