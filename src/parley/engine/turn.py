"""A turn under way, as the job's owner has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from parley.core.conversation import Admission
from parley.core.terms import Deliver, Payload, Question
from parley.ports import Sent
from parley.workflow.terms import Session


@dataclass(slots=True)
class Turn:
    """What it was given, and the calls accepted so far."""

    turn: str
    agent: str
    thread: str
    message: str
    token: str
    stream: str = ""  # where it is logged
    payloads: list[Payload] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)  # provisional message id -> text
    files: dict[str, tuple[Sent, ...]] = field(default_factory=dict)  # provisional message id -> what goes along
    questions: list[tuple[Question, str]] = field(default_factory=list)
    asked_in: int = 0  # the batch of calls that the last question came with
    said: dict[str, Any] | None = None  # the proxy's answer, or its question to the human
    predicted: dict[str, Any] | None = None  # what the proxy expected before it looked
    recalled: tuple[str, ...] = ()  # the human's decisions that it was reminded of
    calls: list[str] = field(default_factory=list)  # each accepted call in a few words
    notes: list[dict[str, Any]] = field(default_factory=list)
    session: Session | None = None  # a worker's notes, with what it has noted in this turn
    mended: dict[str, str] = field(default_factory=dict)  # its pending notes that it has mended or withdrawn, and how
    claim: str = ""  # the status that a worker claims for the end of its turn
    verdict: dict[str, Any] | None = None  # what a verifier says
    resolves: list[dict[str, Any]] = field(default_factory=list)  # the architect's answers
    refused: list[str] = field(default_factory=list)  # why its other calls were not taken
    heard: float = -1.0  # its last sign of life, by the engine's pulse; below zero while it is not put out yet
    heard_at: float = 0.0  # the same as people tell time
    uses: dict[str, str] = field(default_factory=dict)  # the uses of tools that it is in, each with the tool's name
    last: str = ""  # the last thing that it did
    waiting: bool = False  # for its provider: it can do nothing, and that is neither silence nor work
    day: str = ""  # on which it began, and its usage counts
    begun: float = 0.0  # as its row on the bus has it
    usage: dict[str, float] = field(default_factory=dict)  # what it used, once it is over
    design: Mapping[str, str] = field(default_factory=dict)  # of the workflow in force, as the turn found it
    worked: int = 0  # thousandths of a second at work that are counted with its end
    admission: Admission = field(init=False)  # of its payloads

    def __post_init__(self) -> None:
        self.admission = Admission(self.agent, self.thread)

    @property
    def speaks(self) -> bool:
        """Whether it sends or asks something, so that its final text is no report."""
        return bool(self.questions) or any(isinstance(payload, Deliver) for payload in self.payloads)
