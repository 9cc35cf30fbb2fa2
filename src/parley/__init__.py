"""Parley: one human request, turned into finished and reviewed work by a team of coding agents."""

__version__ = "0.1.0"
