"""The terminal device and its keys."""
