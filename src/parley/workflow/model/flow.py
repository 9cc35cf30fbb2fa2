"""The state of a workflow: a value that events change, each checked against the table of statuses.

The executor's steps carry the events on the bus. A flow is rebuilt from them, or from its slots: one for each entity,
so that a change costs the same however many agents there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct

from parley.workflow.model.notes import unsettled
from parley.workflow.model.terms import (
    Joined,
    LivenessAction,
    Merged,
    Plan,
    PlanChange,
    Proof,
    Rescope,
    Session,
    Status,
    StrayWrite,
    Worker,
    WorkerStanding,
)

EDGES: Mapping[Status, frozenset[Status]] = MappingProxyType(
    {
        Status.PENDING: frozenset({Status.WORKING, Status.FAILED}),
        Status.WORKING: frozenset({Status.BLOCKED, Status.REVIEW, Status.FAILED, Status.STALLED}),
        Status.REVIEW: frozenset({Status.READY, Status.BLOCKED, Status.WORKING, Status.FAILED, Status.STALLED}),
        Status.READY: frozenset({Status.VERIFIED, Status.BLOCKED, Status.WORKING, Status.FAILED}),
        Status.VERIFIED: frozenset({Status.COMPLETE, Status.WORKING}),
        Status.BLOCKED: frozenset({Status.WORKING, Status.FAILED}),
        Status.COMPLETE: frozenset({Status.WORKING}),
        Status.FAILED: frozenset({Status.WORKING}),
        Status.STALLED: frozenset({Status.WORKING, Status.BLOCKED, Status.FAILED}),
    }
)
"""The statuses that may follow each.

A worker starts (pending, working), believes that it is done (completion_drive_review), has no note left
(ready_for_verification), is approved (verified), and its session ends (session_complete). From working and review it
may be blocked; from any status it may be sent back to working. A verifier may block its doer. A worker is `failed` when
it crashed too often or was abandoned, and leaves that only by another try; it is `stalled` when it shows no sign of
life in a turn, and leaves that when it does, when it is helped, or when it is given up.
"""

MET = frozenset({Status.VERIFIED, Status.COMPLETE})
AT_WORK = frozenset({Status.WORKING, Status.REVIEW, Status.STALLED})


class IllegalEvent(ValueError):
    """An event that can't happen here: the text says why."""


class NoteName(Struct, frozen=True):
    """Which note of which agent."""

    agent: str
    note_id: str


class NoteAskedFor(Struct, frozen=True):
    """A verifier's note that went up, and the doer's note that it went up as."""

    note_id: str
    asked_as: str


class RoutedNote(Struct, frozen=True):
    """A note that waits for the solution architect, and what that is to decide."""

    note_id: str
    task: str


class Review(Struct, frozen=True, omit_defaults=True):
    """The notes of a doer's verifier; they outlive each of its conversations."""

    session: Session | None = None
    by: tuple[str, ...] = ()  # whose notes they are: the last of these; a changed plan may name another verifier
    refused: int = 0  # the number of its last note that was refused for its form
    asked: tuple[NoteAskedFor, ...] = ()  # its notes that went up

    @property
    def is_noted(self) -> bool:
        """Whether there is anything in it."""
        return self.session is not None and bool(self.session.notes or self.session.pending)


class Member(Struct, frozen=True, omit_defaults=True):
    """A doer: where it stands, where its work is, and how far the check of it has come."""

    standing: WorkerStanding
    workspace: str = ""  # it outlives the conversation
    checking: str = ""  # proving, judging, or waiting to be merged
    tree: str = ""  # of the workspace, as it is checked
    proofs: tuple[Proof, ...] = ()  # of the round that goes on
    since: int = 0  # the number of the event that last changed its status: first come, first served
    given_up: bool = False  # the workflow goes on without it
    gone: int = 0  # since when
    left: int = 0  # the number of the event that gave it up: sessions are put away in that order
    past: tuple[Session, ...] = ()  # its sessions before this one
    refused: int = 0  # the number of its last note that was refused for its form
    nudges: int = 0  # how often it was told the same in this status
    rejections: int = 0  # rounds and merges that failed since it was last helped
    routed: tuple[RoutedNote, ...] = ()  # notes that wait for the solution architect
    stale: tuple[str, ...] = ()  # whose newer output it has not been told to read yet
    review: Review = Review()  # its verifier's notes


class OpenConversation(Struct, frozen=True, omit_defaults=True):
    """A conversation that the executor has open."""

    thread: str
    kind: str  # doer, verifier, prover, integrator, architect, design: the verifier of a changed plan
    agent: str  # whom it is about
    name: str  # who is spoken to
    base: str = ""  # the workspace that its own began as
    busy: bool = True  # whether it has been told something that it has not answered
    about: str = ""  # of an architect: what it was told; of a prover: check or merge


class Merging(Struct, frozen=True, omit_defaults=True):
    """The merge that goes on: one at a time."""

    agent: str
    before: str  # the tree to go back to
    merged: Merged
    sides: tuple[str, ...] = ()  # whose commands have to hold


class AskedQuestion(Struct, frozen=True, omit_defaults=True):
    """A question that a task escalated. Those of one turn count as one asking."""

    note_id: str
    text: str
    time: int
    asking: int = 1  # which of the task's askings it belongs to
    by: str = ""  # whose note it is: the doer's, or its verifier's
    session: int = 0  # when the session began that the note is in; notes of each are counted anew
    answer: str = ""  # empty: not answered
    same_as: tuple[str, ...] = ()  # the keys of those that ask the same, as the architect says

    @property
    def key(self) -> str:
        """Its key within its task."""
        return f"{self.by} {self.session} {self.note_id}"

    @property
    def same_notes(self) -> list[str]:
        """The notes that ask the same."""
        return [key.rpartition(" ")[2] for key in self.same_as]


class PlanDraft(Struct, frozen=True, omit_defaults=True):
    """A plan that the architects have changed, with the instructions that are approved with it."""

    plan: str
    instructions: tuple[tuple[str, str], ...] = ()  # those that are changed too: path and text


class PlanReview(Struct, frozen=True, omit_defaults=True):
    """A changed plan that the design verifier reviews, or will review when a conversation is free."""

    text: str
    instructions: tuple[tuple[str, str], ...] = ()
    more: str = ""  # how the instructions differ
    workspace: str = ""  # where it was made
    reminders: int = 0

    @property
    def draft(self) -> PlanDraft:
        """The plan, with what changes with it."""
        return PlanDraft(self.text, self.instructions)


class PendingQuestion(Struct, frozen=True, omit_defaults=True):
    """A question of the executor to the human, and what its answer decides."""

    about: str  # plan, failed, unresolved, stalled
    agent: str = ""
    text: str = ""  # the plan that is to come into force
    instructions: tuple[tuple[str, str], ...] = ()  # those that change with it: path and text
    judged: str = ""  # what became of that plan at the design verifier

    @property
    def draft(self) -> PlanDraft:
        """The plan, with what changes with it."""
        return PlanDraft(self.text, self.instructions)


class EntityKind(StrEnum):
    """What is kept of a workflow, each in a slot of its own."""

    FLOW = "flow"  # the workflow itself
    PLAN = "plan"
    WORKER = "worker"  # one that has joined, by its name
    AGENT = "agent"  # a doer's standing, by its name
    TOLD = "told"  # an agent's instructions, by their path
    TALK = "talk"  # an open conversation, by its thread
    JUDGING = "judging"
    MERGING = "merging"
    MERGE = "merge"  # these six by their numbers
    JOIN = "join"
    CHANGE = "change"
    RESCOPE = "rescope"
    ACTION = "action"
    STRAY = "stray"
    QUESTION = "question"
    WAITING = "waiting"  # by the agent
    HISTORY = "history"  # what was asked, by the task


class Entity(NamedTuple):
    """One of these."""

    kind: EntityKind
    name: str = ""  # empty: there is one in a workflow


@dataclass(slots=True)
class Flow:
    """One workflow. Only the job's owner applies events to it; others read."""

    thread: str  # the executor's
    plan: Plan | None = None
    phase: str = "running"  # then complete, or stopped
    started: int = 0
    ended: int = 0  # when it was complete or stopped; 0 while it runs
    why: str = ""  # it was stopped
    run: int = 1  # which of the job's workflows it is
    count: int = 0  # of events
    draft: str = ""  # a plan that waits for the human
    architect: str = ""  # the architect's conversation
    gaps: int = 0  # how often the architect was told that its plan has gaps
    refused: str = ""  # what a plan is known by that does not come into force
    resting: list[NoteName] = field(default_factory=list)  # answered with a plan that is not in force yet
    commissioned: list[NoteName] = field(default_factory=list)  # what the solution architect works on
    workers: dict[str, Worker] = field(default_factory=dict)
    added: dict[str, Worker] = field(default_factory=dict)  # who is not in the plan: the solution architect
    instructions: dict[str, str] = field(default_factory=dict)  # of the plan's agents, as approved: path and text
    joins: list[Joined] = field(default_factory=list)  # when these came, and what for
    members: dict[str, Member] = field(default_factory=dict)
    talks: dict[str, OpenConversation] = field(default_factory=dict)
    merges: list[Merged] = field(default_factory=list)
    merging: Merging | None = None
    judging: PlanReview | None = None
    changes: list[PlanChange] = field(default_factory=list)
    rescopes: list[Rescope] = field(default_factory=list)
    actions: list[LivenessAction] = field(default_factory=list)
    strays: list[StrayWrite] = field(default_factory=list)
    questions: dict[str, PendingQuestion] = field(default_factory=dict)
    waiting: dict[str, str] = field(default_factory=dict)  # who is to go on with what, when there is room
    history: dict[str, tuple[AskedQuestion, ...]] = field(default_factory=dict)  # by task
    held: list[str] = field(default_factory=list)  # who could work now, and waits for a free slot of the fan-out
    ever_held: list[str] = field(default_factory=list)
    # ---- derived from these
    statuses: Counter[Status] = field(default_factory=Counter)
    unsettled: int = 0  # notes that are open, escalated or pending
    dependents: dict[str, list[str]] = field(default_factory=dict)
    unmet: dict[str, int] = field(default_factory=dict)  # how many dependencies each still waits for
    stage_of: dict[str, int] = field(default_factory=dict)
    left: list[int] = field(default_factory=list)  # how many of each stage are not done
    stage: int = 0  # the first that is not done
    startable: dict[str, None] = field(default_factory=dict)
    unchecked: dict[str, None] = field(default_factory=dict)  # ready, and not verified yet
    mergeable: dict[str, None] = field(default_factory=dict)
    blocked: dict[str, None] = field(default_factory=dict)  # in the order in which it happened
    failed: dict[str, None] = field(default_factory=dict)  # and not decided yet
    undone: int = 0  # how many doers are neither verified nor given up

    @property
    def gate(self) -> str:
        """`overall_completion_drive_gate`: whether the job's work may be approved."""
        return "clear" if self.phase == "complete" and not self.unsettled else "blocked"

    def status(self, agent: str) -> Status:
        """A doer's status."""
        return self.members[agent].standing.status

    def standings(self) -> list[WorkerStanding]:
        """Every doer's standing, in the plan's order."""
        return [member.standing for member in self.members.values()]

    def was_refused(self, agent: str) -> bool:
        """Whether the last merge of a doer's was not taken."""
        return next((not one.taken for one in reversed(self.merges) if one.agent == agent), False)

    def sessions(self) -> list[tuple[str, Session]]:
        """Every session, in the plan's order, a doer's oldest first; then those of the verifiers."""
        of_doers = [
            (name, session)
            for name, member in self.members.items()
            for session in (*member.past, member.standing.session)
            if session is not None
        ]
        return [*of_doers, *self.reviews()]

    def reviews(self, verifier: str = "") -> list[tuple[str, Session]]:
        """Every verifier, or this one, with what it has noted about each of its doers; the newest last.

        Where a changed plan has given a doer to another verifier, that one has the notes once it has looked.
        """
        found = [
            (member.review.by[-1], member.review.session)
            for member in self.members.values()
            if member.review.is_noted and member.review.session is not None
        ]
        noted = [one for one in found if verifier in ("", one[0])]
        return sorted(noted, key=lambda one: one[1].session_start)

    def abandoned(self) -> list[tuple[str, str]]:
        """The doers that the workflow goes on without, and why."""
        return [(name, member.standing.reason) for name, member in self.members.items() if member.given_up]

    def may_start(self, agent: str) -> bool:
        """Whether all that a doer depends on, and every earlier stage, is verified."""
        return not self.unmet.get(agent, 0) and self.stage_of.get(agent, 0) <= self.stage


# ---- derived values ------------------------------------------------------------------


def _done(member: Member) -> bool:
    return member.standing.status in MET or member.given_up


def index(flow: Flow) -> None:
    """Rebuild all derived values: when a plan comes into force, and when a flow is loaded."""
    plan = flow.plan
    flow.workers = {**(plan.workers if plan else {}), **flow.added}
    stages = plan.stages if plan else ()
    flow.stage_of = {name: number for number, stage in enumerate(stages) for name in stage}
    flow.left = [0] * max(1, len(stages))
    flow.dependents = {}
    flow.unmet = {}
    flow.statuses = Counter()
    flow.unsettled = flow.undone = 0
    for index in (flow.startable, flow.unchecked, flow.mergeable, flow.blocked, flow.failed):
        index.clear()
    for name in flow.members:
        worker = flow.workers[name]
        flow.unmet[name] = 0
        for above in worker.depends_on:
            flow.dependents.setdefault(above, []).append(name)
            flow.unmet[name] += above not in flow.members or flow.status(above) not in MET
        flow.left[flow.stage_of.get(name, 0)] += not _done(flow.members[name])
    flow.stage = next((number for number, left in enumerate(flow.left) if left), len(flow.left))
    for member in sorted(flow.members.values(), key=lambda one: one.since):
        _count(flow, member, 1)
        _file(flow, member)


def become(flow: Flow, member: Member) -> None:
    """Replace a member, and update the derived values."""
    name = member.standing.name
    before = flow.members[name]
    _count(flow, before, -1)
    flow.members[name] = member
    _count(flow, member, 1)
    met, done = member.standing.status in MET, _done(member)
    if met != (before.standing.status in MET):
        for below in flow.dependents.get(name, ()):
            flow.unmet[below] += -1 if met else 1
            _file(flow, flow.members[below])
    if done != _done(before):
        stage = flow.stage_of.get(name, 0)
        flow.left[stage] += -1 if done else 1
        if not done and stage < flow.stage:
            flow.stage = stage
            for other in list(flow.startable):
                _file(flow, flow.members[other])
        while flow.stage < len(flow.left) and not flow.left[flow.stage]:
            flow.stage += 1
            for other in flow.plan.stages[flow.stage] if flow.plan and flow.stage < len(flow.left) else ():
                if other in flow.members:
                    _file(flow, flow.members[other])
    _file(flow, member)


def _count(flow: Flow, member: Member, by: int) -> None:
    flow.statuses[member.standing.status] += by
    for session in (member.standing.session, member.review.session):
        flow.unsettled += by * (len(unsettled(session)) + len(session.pending if session else ()))
    flow.undone += by * (not _done(member))


def _file(flow: Flow, member: Member) -> None:
    """Enter a member into the indexes of what can be done next."""
    name, status = member.standing.name, member.standing.status
    for index, belongs in (
        (flow.startable, status is Status.PENDING and flow.may_start(name)),
        (flow.unchecked, status is Status.READY and not member.checking),
        (flow.mergeable, status is Status.READY and member.checking == "merging"),
        (flow.blocked, status is Status.BLOCKED),
        (flow.failed, status is Status.FAILED and not member.given_up),
    ):
        if not belongs:
            index.pop(name, None)
        elif name not in index:
            index[name] = None
