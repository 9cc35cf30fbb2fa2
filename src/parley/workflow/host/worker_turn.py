"""What a turn of one who works in a workflow, or leads it, has done so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from parley.workflow.model.terms import Session
from parley.workflow.model.worker_result import NO_JUDGEMENT, Judgement, Resolve, WorkerResult


@dataclass(slots=True)
class WorkerTurn:
    """A doer's, a verifier's, an architect's or a lead's turn."""

    session: Session | None = None  # a worker's notes, with what it has noted in this turn
    mended: dict[str, str] = field(default_factory=dict)  # its pending notes that it has mended or withdrawn, and how
    claim: str = ""  # the status that a worker claims for the end of its turn
    judgement: Judgement = NO_JUDGEMENT  # what a verifier says
    resolves: list[Resolve] = field(default_factory=list)  # the architect's answers
    report: WorkerResult | None = None  # what it left for the code that dispatched it, once it is over
    design: Mapping[str, str] = field(default_factory=dict)  # the one in force, as a lead's turn found it
    groups: list[str] = field(default_factory=list)  # architecture groups that a lead's turn closes
