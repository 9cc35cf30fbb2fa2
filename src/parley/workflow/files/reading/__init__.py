"""How a workflow's files are read: strictly, with all that is wrong told as findings."""
