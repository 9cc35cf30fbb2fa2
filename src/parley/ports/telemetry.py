"""Telemetry: what operators are told of jobs as traces and metrics. Names and numbers alone, never words of a job."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

TOOL, SLOT = "tool", "slot"  # what a turn was in: a use of a tool, or the wait for a free slot


class MidTurn(Struct, frozen=True, kw_only=True):
    """Something within a turn that is over: the bus has no row of it."""

    job: str
    epoch: int  # of the owner: a turn that was never committed may have had the id of another
    turn: str
    agent: str
    number: int  # counts up within the turn
    kind: str  # TOOL or SLOT
    name: str = ""  # the tool's
    own: bool = False  # whether it is one of the protocol's own tools
    outcome: str  # ok, failed, refused, cut (the turn was over first)
    began: float
    ended: float


class Telemetry(Protocol):
    """Where a job's owner tells how far the job has come. No call waits for anything, or raises."""

    def took(self, job: str, epoch: int, step: int) -> None:
        """This process owns the job from now on; `step` is the last one that an earlier owner committed."""

    def committed(self, job: str, step: int) -> None:
        """All steps up to this one are on the bus."""

    def passed(self, event: MidTurn) -> None:
        """Something within a turn is over."""

    def released(self, job: str) -> None:
        """This process has let go of the job."""
