"""The engine: load, reduce, commit, then carry out effects."""
