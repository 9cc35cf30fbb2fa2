"""The executor's decisions: starting, verifying, merging and helping agents, and asking the human."""
