"""A workflow as values: its vocabulary, its notes, its state, and its events."""
