"""File access below folders that an agent may be changing: walk, read, write, delete, compare."""
