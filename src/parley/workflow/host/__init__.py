"""Where a workflow hangs on the engine: its two agents, its gates, its files, its audit."""
