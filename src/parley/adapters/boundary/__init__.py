"""The boundary around every agent process: bubblewrap, seccomp and Landlock, tried before they are trusted."""

from parley.adapters.boundary.cage import UNCACHED, Attempt, Cage, NotHeld, Route, Verdict
from parley.adapters.boundary.caged import Caged
from parley.adapters.boundary.gateway import Request
from parley.adapters.boundary.launch import Boundary
from parley.adapters.boundary.patience import Care, Trouble

__all__ = [
    "UNCACHED",
    "Attempt",
    "Boundary",
    "Cage",
    "Caged",
    "Care",
    "NotHeld",
    "Request",
    "Route",
    "Trouble",
    "Verdict",
]
