"""Turns on other hosts: the board beside the bus, Temporal that places them, and the worker that carries them out."""
