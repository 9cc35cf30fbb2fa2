"""The machine: the job's readable files, the clock, new names, and where faults of Parley's own are written down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol


class Files(Protocol):
    """The job's readable records: derived from the bus, written after it, and written again harmlessly."""

    def write_state(self, job: str, name: str, text: str) -> None:
        """Replace a state record, whole or not at all."""

    def append(self, job: str, stream: str, lines: Sequence[str]) -> None:
        """Add lines to a stream."""

    def tail(self, job: str, stream: str) -> list[str]:
        """The last lines of a stream; none if there is no such stream."""

    def last_write(self, job: str) -> float:
        """When something of the job was last written, or its last owner left it; 0: never."""

    def write_outcome(self, job: str, name: str, text: str) -> None:
        """Keep an outcome record."""

    def home(self, job: str) -> Path:
        """Where the job's files lie."""


class Clock(Protocol):
    """Time, as seconds."""

    def now(self) -> float:
        """Since the epoch, as people tell it. It may jump."""

    def monotonic(self) -> float:
        """Since some moment. It never jumps."""


class Ids(Protocol):
    """Where new names come from."""

    def new(self) -> str:
        """A name that was not given before: short, and safe in a file name."""


class Faults(Protocol):
    """Where it is written down what went wrong in Parley itself, for those who mend it."""

    def tell(self, job: str, text: str) -> str:
        """Write a fault down; where it can be read."""
