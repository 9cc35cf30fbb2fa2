"""Ownership of paths: patterns, overlaps, and who may write where."""
