"""One turn of the executor: the events that it decides, and the actions and work that follow.

It decides from the flow alone. The caller gives it the time and names for new conversations, and carries it out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from msgspec.structs import replace

from parley.protocol.molecules import thread_name
from parley.workflow.model import menus
from parley.workflow.model.events import (
    AnyEvent,
    ConversationClosed,
    ConversationOpened,
    ConversationTold,
    HumanAsked,
    NoteRefused,
    NoteTaken,
    PendingSettled,
    StatusChanged,
    apply,
)
from parley.workflow.model.flow import Entity, Flow, Member, OpenConversation, PendingQuestion, PlanDraft
from parley.workflow.model.notes import note_id
from parley.workflow.model.terms import Category, Checkpoint, Note, NoteStatus, RefusedNote, Session, Status, Worker


@dataclass(frozen=True, slots=True)
class WorkflowLimits:
    """What the job's settings say of workflows."""

    fan_out: int = 3
    rounds: int = 3  # of verification, of merges and of reminding an agent
    similar: int = 85  # from when two questions are alike, of 100


@dataclass(frozen=True, slots=True)
class SendMessage:
    """Send a message in a conversation; a new one is opened by it."""

    name: str
    thread: str
    body: str
    answers: str = ""  # that a verifier judges with: they stand below, under a mark of their own


@dataclass(frozen=True, slots=True)
class CloseConversation:
    """End a conversation."""

    thread: str


@dataclass(frozen=True, slots=True)
class MergeWorkspace:
    """Merge a doer's tree into the executor's."""

    agent: str
    workspace: str


@dataclass(frozen=True, slots=True)
class RestoreTree:
    """Restore the executor's tree."""

    tree: str
    why: str


@dataclass(frozen=True, slots=True)
class AskTheHuman:
    """Ask the human."""

    question: str
    body: str


@dataclass(frozen=True, slots=True)
class ReportToDispatcher:
    """Report to the executor's dispatcher."""

    body: str


@dataclass(frozen=True, slots=True)
class EnrolWorkers:
    """Let the workers of the plan join the executor's team."""

    workers: tuple[Worker, ...]


@dataclass(frozen=True, slots=True)
class AdoptPlan:
    """Write the files of a plan that has come into force."""

    draft: PlanDraft


Action = SendMessage | CloseConversation | AskTheHuman | ReportToDispatcher | EnrolWorkers  # said when the turn ends
Work = MergeWorkspace | RestoreTree | AdoptPlan  # done in the trees at once: what is decided next depends on it


@dataclass(slots=True)
class ExecutorTurn:
    """The decisions of one turn, as they accumulate."""

    flow: Flow
    limits: WorkflowLimits
    now: int
    new: Callable[[], str]  # makes a new, unused name
    tree: str = ""  # the executor's own workspace
    kept: Callable[[str], str] = lambda _: ""  # the tree of a workspace at its last turn's end
    engaged: Callable[[str], bool] = lambda _: False  # whether a conversation is open, no matter who began it
    assertable: Callable[[PlanDraft], str] = lambda _: ""  # why a changed plan can't be put before the human
    events: list[AnyEvent] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    changed: set[Entity] = field(default_factory=set)

    # ---- events --------------------------------------------------------------------------------

    def happen(self, event: AnyEvent) -> None:
        """Let something happen."""
        self.changed |= apply(self.flow, event)
        self.events.append(event)

    def move(self, agent: str, to: Status, reason: str = "", *, stalled: bool = False) -> None:
        """A doer's status changes; `stalled`: it becomes blocked because it stalled."""
        self.happen(StatusChanged(agent, to, self.now, reason, stalled=stalled))

    def do(self, action: Action | Work) -> None:
        """Something is to be done."""
        if isinstance(action, MergeWorkspace | RestoreTree | AdoptPlan):
            self.works.append(action)
        else:
            self.actions.append(action)

    # ---- reading -------------------------------------------------------------------------------

    def member(self, agent: str) -> Member:
        """A doer as it is now."""
        return self.flow.members[agent]

    def worker(self, agent: str) -> Worker:
        """Its contract."""
        return self.flow.workers[agent]

    def session(self, agent: str) -> Session:
        """Its notes."""
        return self.member(agent).standing.session or Session(self.worker(agent).task_id, self.now)

    def checkpoints(self, agent: str) -> tuple[Checkpoint, ...]:
        """Where a doer's output is handed over, by the plan in force."""
        return self.flow.plan.checkpoints_of(agent) if self.flow.plan else ()

    def free(self) -> int:
        """How many more conversations may be open."""
        return self.limits.fan_out - len(self.flow.talks)

    # ---- conversations -------------------------------------------------------------------------

    def open(
        self, kind: str, agent: str, name: str, body: str, base: str = "", about: str = "", answers: str = ""
    ) -> str:
        """Begin a conversation about a doer; where `base` is given, its tree begins as that workspace's."""
        thread = self.new()
        talk = OpenConversation(thread=thread, kind=kind, agent=agent, name=name, base=base, about=about)
        self.happen(ConversationOpened(talk))
        self.do(SendMessage(name, thread, body, answers))
        return thread

    def tell(self, thread: str, body: str, about: str = "") -> None:
        """Go on with one."""
        talk = self.flow.talks[thread]
        self.happen(ConversationTold(thread, busy=True, about=about or talk.about))
        self.do(SendMessage(talk.name, thread, body))

    def hear(self, thread: str) -> None:
        """One has answered."""
        self.happen(ConversationTold(thread, busy=False))

    def close(self, thread: str) -> None:
        """End one, if it is open."""
        if thread in self.flow.talks:
            self.happen(ConversationClosed(thread))
            self.do(CloseConversation(thread))

    def ask(self, pending: PendingQuestion, body: str, more: str = "") -> None:
        """Ask the human; the answer comes as a message. What can be chosen stands before what is long."""
        question = thread_name(self.new())
        self.happen(HumanAsked(question, pending))
        told = f"{body}\n\n{menus.shown(question, pending)}"
        self.do(AskTheHuman(question, f"{told}\n\n{more}" if more else told))

    def make_room(self) -> bool:
        """Whether one more conversation may be opened, if need be by closing one with a doer that waits for others.

        That doer's tree stays, and it starts again from there.
        """
        if self.free() > 0:
            return True
        waiting = [
            talk
            for talk in self.flow.talks.values()
            if talk.kind == "doer"
            and not talk.busy
            and self.flow.status(talk.agent) in (Status.BLOCKED, Status.READY, Status.FAILED)
        ]
        idle = [talk for talk in self.flow.talks.values() if talk.kind == "architect" and not talk.busy]
        for talk in (*waiting, *idle):
            self.close(talk.thread)
            return True
        return False

    # ---- notes ---------------------------------------------------------------------------------

    def put_note(self, agent: str, note: Note, *, of_verifier: bool = False) -> None:
        """Make or change a note of a doer or its verifier."""
        self.happen(NoteTaken(note, agent=agent, of_verifier=of_verifier))

    def drop_pending(self, agent: str, name: str, how: str, *, of_verifier: bool = False) -> None:
        """A note that was refused for its form is pending no more."""
        self.happen(PendingSettled(name, how, agent=agent, of_verifier=of_verifier))

    def pend(self, agent: str, unfit: RefusedNote, *, of_verifier: bool = False) -> None:
        """A note is refused for its form, and kept."""
        self.happen(NoteRefused(unfit, agent=agent, of_verifier=of_verifier))

    def escalate(
        self,
        agent: str,
        description: str,
        reason: str,
        category: Category = Category.CONFLICT,
        context: str = "",
    ) -> str:
        """Escalate a note of the executor's own for a doer that can't go on; returns its name."""
        session = self.session(agent)
        name = note_id(len(session.notes) + 1)
        context = context or f"made by the executor while {agent} was {self.member(agent).standing.status}"
        note = Note(
            note_id=name,
            timestamp=self.now,
            description=description,
            context=context,
            status=NoteStatus.ESCALATED,
            category=category,
            escalation_reason=reason,
        )
        self.put_note(agent, note)
        return name

    def settle(self, agent: str, note: Note, answer: str, by: str, *, of_verifier: bool = False) -> None:
        """Resolve a note for its maker."""
        settled = replace(
            note, status=NoteStatus.RESOLVED, resolution=answer, resolved_by=by, resolution_timestamp=self.now
        )
        self.put_note(agent, settled, of_verifier=of_verifier)
