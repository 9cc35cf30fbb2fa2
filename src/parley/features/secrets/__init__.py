"""Secrets: where they are, and keeping them out of all that people read."""
