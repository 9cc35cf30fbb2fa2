"""A job's past, from the rows of the bus: turns, messages, artifacts, merges, times."""
