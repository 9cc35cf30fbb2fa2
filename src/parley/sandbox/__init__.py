"""The boundary around every agent process: bubblewrap, seccomp and Landlock. Each cage is tried before it is used."""

from parley.sandbox.boundary import Boundary
from parley.sandbox.cage import UNCACHED, Attempt, Cage, CageVerdict, NotHeld, Route
from parley.sandbox.caged_process import Caged
from parley.sandbox.gateway.gateway import Request
from parley.sandbox.gateway.upstream_trouble import HoldPolicy, UpstreamTrouble

__all__ = [
    "UNCACHED",
    "Attempt",
    "Boundary",
    "Cage",
    "CageVerdict",
    "Caged",
    "HoldPolicy",
    "NotHeld",
    "Request",
    "Route",
    "UpstreamTrouble",
]
