"""`parley workflow`: the command, and its reading of workflow folders."""
