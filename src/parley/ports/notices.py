"""Telling the human wherever they are: the contract between the engine and the sender of notices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

NEEDS, DONE = "needs", "done"  # the occasions of notices


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell the human wherever they are. What has an id already told of is not told again."""

    id: str
    job: str
    occasion: str
    title: str
    text: str


class Notices(Protocol):
    """Takes notices to the human. Nothing waits for it, and it never raises: no job depends on a service."""

    def tell(self, notice: Notice) -> None:
        """Send a notice, unless one of this job and id was sent before, by any process."""
