"""What a worker's turn left for the code that dispatched it: its calls, and what of its own files was taken."""

from __future__ import annotations

from msgspec import Struct

from parley.workflow.model.flow import PlanDraft
from parley.workflow.model.terms import Note, RefusedNote


class Mended(Struct, frozen=True):
    """A pending note that was mended by another, or withdrawn: how."""

    pending_id: str
    how: str


class Criterion(Struct, frozen=True):
    """A checkpoint as a verifier judged it: what is handed to whom, and whether it may be."""

    to: str
    met: bool
    evidence: str = ""


class Judgement(Struct, frozen=True, omit_defaults=True):
    """A verifier's word on what it has looked at, and on each of its checkpoints."""

    verdict: str = ""  # empty: it has said nothing that counts
    findings: tuple[str, ...] = ()
    criteria: tuple[Criterion, ...] = ()


NO_JUDGEMENT = Judgement()


class Resolve(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An answer of the architect's to a note; None: the call did not say."""

    agent: str = ""
    note_id: str = ""
    answer: str | None = None
    source: str | None = None
    route: str | None = None
    task: str | None = None
    same_as: str | None = None  # an earlier note that asks the same
    author: str = ""  # who was asked before it was given: the human, or the proxy
    said: str = ""  # in which words they answered


class Outside(Struct, frozen=True):
    """What a worker wrote outside its paths: it was put back."""

    paths: tuple[str, ...]
    owners: tuple[str, ...]  # whose each of them is
    ref: str  # what holds what was there


class WorkerResult(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """All that one turn left."""

    notes: tuple[Note, ...] = ()  # made or changed
    pending: tuple[RefusedNote, ...] = ()  # refused for their form
    mended: tuple[Mended, ...] = ()
    outside: Outside | None = None
    claim: str = ""  # the status that it claims
    judgement: Judgement = NO_JUDGEMENT
    resolves: tuple[Resolve, ...] = ()
    problems: tuple[str, ...] = ()  # what of its files was not taken
    plan: str = ""  # a plan that it has changed
    instructions: tuple[tuple[str, str], ...] = ()  # those that it has changed with the plan: path and text
    diff: str = ""  # of these
    gaps: tuple[str, ...] = ()  # what the design check says of that

    @property
    def draft(self) -> PlanDraft:
        """The plan, with what changes with it."""
        return PlanDraft(self.plan, self.instructions)


NO_RESULT = WorkerResult()
