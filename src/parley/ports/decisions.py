"""What is remembered of a human: the contract between the engine and the memory.

A decision follows from the bus; the memory keeps it beyond the job and the repository.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

_WORDS = re.compile(r"\w+")


class MemoryTrouble(Exception):
    """The memory can't be used: the text says why and what to do. A job goes on without it."""


class How(StrEnum):
    """How a decision came about."""

    POLICY = "policy"  # the human is always asked there
    UNSURE = "unsure"  # the proxy was not sure enough, or the record was not
    CHECKED = "checked"  # it was sure, and the human was asked to check it
    ANSWERED = "answered"  # by the proxy itself
    CORRECTED = "corrected"  # by the human, later


@dataclass(frozen=True, slots=True)
class Guess:
    """What the proxy thinks that the human will say. No verdict: plain words, as they stand in `text`."""

    verdict: str
    confidence: float  # 0 to 1
    reason: str = ""
    text: str = ""

    def met_by(self, verdict: str, said: str) -> bool:
        """Whether the human said what was expected.

        Verdicts are met by the same. Plain words are met where the human approves of them, or says the very
        same: anything else counts as another answer, since only the human could tell.
        """
        if self.verdict:
            return self.verdict == verdict
        same = _WORDS.findall(said.lower()) == _WORDS.findall(self.text.lower())
        return bool(self.text.strip()) and (verdict == "approve" or (not verdict and same))


@dataclass(frozen=True, slots=True)
class Decided:
    """One decision: what was asked, what the proxy expected, what the human said. It follows from the bus."""

    time: float
    human: str
    repository: str  # its name, not where it lies
    job: str
    question: str
    framing: str  # the message that put it to the human; none where the proxy answered by itself
    state: str
    kind: str  # question, assert
    asked: str
    artifact: str = ""
    digest: str = ""
    excerpt: str = ""  # how the artifact began
    before: Guess | None = None  # predicted before any file was read
    after: Guess | None = None
    verdict: str | None = None  # the human's; empty: words only; None: the human was not asked
    said: str = ""
    how: str = ""  # one of How
    agreed: bool = False  # whether the human said what was predicted
    id: str = ""  # the memory's own name for it


@dataclass(frozen=True, slots=True)
class Recalled:
    """A decision that came to mind, and how like it is to what is asked now, 0 to 1."""

    decided: Decided
    likeness: float


class Decisions(Protocol):
    """What one human has decided, over all jobs and repositories. Any number of processes may use it at once."""

    def remember(self, decided: Sequence[Decided]) -> None:
        """Keep decisions. What was kept before, by job, question and framing, stays as it is."""

    def recall(self, human: str, state: str, kind: str, text: str, limit: int) -> list[Recalled]:
        """The human's decisions that are most like a question, most like first; `text` may be anything."""

    def past(self, human: str, state: str, kind: str, text: str) -> list[Recalled]:
        """The human's last decisions of this state and kind, and the last of any; oldest first, without their texts."""
