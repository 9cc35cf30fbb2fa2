"""Telling the human wherever they are: the contract between the engine and the sender of notices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

NEEDS, DONE = "needs", "done"  # the occasions of notices


class PutQuestion(NamedTuple):
    """A question as it was put to a person: another framing, or another content, is another question."""

    question: str
    framing: str
    digest: str  # of the artifact; empty where there is none
    person: str


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell the human wherever they are. What has an id already told of is not told again."""

    id: str
    job: str
    occasion: str
    title: str
    text: str
    about: PutQuestion | None = None  # the question that it tells of


class Notices(Protocol):
    """Takes notices to the human. Nothing waits for it, and it never raises: no job depends on a service."""

    def tell(self, notice: Notice) -> None:
        """Send a notice, unless one of this job and id was sent before, by any process."""
