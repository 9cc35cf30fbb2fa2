"""What a turn of the executor decides: events that change the flow, and what is to be done about them.

It decides from the flow alone. Whoever carries it out tells it the time and names its new conversations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from parley.workflow import menus
from parley.workflow.events import apply
from parley.workflow.flow import Draft, Event, Flow, Member, Pending, Talk
from parley.workflow.notes import note_id
from parley.workflow.plain import plain
from parley.workflow.terms import Category, Checkpoint, Note, NoteStatus, Session, Status, Unfit, Worker

_OF_VERIFIER: dict[bool, dict[str, bool]] = {False: {}, True: {"of_verifier": True}}


@dataclass(frozen=True, slots=True)
class Limits:
    """What the job's settings say of workflows."""

    fan_out: int = 3
    rounds: int = 3  # of verification, of merges and of telling somebody the same
    similar: int = 85  # from when two questions are alike, of 100


@dataclass(frozen=True, slots=True)
class Letter:
    """Say something in a conversation; one that is new is opened by it."""

    name: str
    thread: str
    body: str


@dataclass(frozen=True, slots=True)
class Close:
    """End a conversation."""

    thread: str


@dataclass(frozen=True, slots=True)
class Merge:
    """Bring a doer's tree into the executor's."""

    agent: str
    workspace: str


@dataclass(frozen=True, slots=True)
class Restore:
    """Put the executor's tree back."""

    tree: str
    why: str


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the human."""

    question: str
    body: str


@dataclass(frozen=True, slots=True)
class Report:
    """Tell whoever dispatched the executor."""

    body: str


@dataclass(frozen=True, slots=True)
class Enrol:
    """Let the workers of the plan join the executor's team."""

    workers: tuple[Worker, ...]


@dataclass(frozen=True, slots=True)
class Adopt:
    """Have the files of a plan that has come into force."""

    draft: Draft


Action = Letter | Close | Ask | Report | Enrol  # said when the turn ends
Work = Merge | Restore | Adopt  # done in the trees at once: what is decided next depends on it


@dataclass(slots=True)
class Conduct:
    """One turn's decisions as they grow."""

    flow: Flow
    limits: Limits
    now: int
    new: Callable[[], str]  # a name that nobody has
    tree: str = ""  # the executor's own workspace
    kept: Callable[[str], str] = lambda _: ""  # the tree of a workspace at its last turn's end
    engaged: Callable[[str], bool] = lambda _: False  # whether a conversation goes on, whoever began it
    assertable: Callable[[Draft], str] = lambda _: ""  # why a changed plan can't be put before the human
    events: list[Event] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    works: list[Work] = field(default_factory=list)
    changed: set[str] = field(default_factory=set)

    # ---- events --------------------------------------------------------------------------------

    def happen(self, event: str, **what: Any) -> None:
        """Let something happen."""
        made = {"event": event, **what}
        self.changed |= apply(self.flow, made)
        self.events.append(made)

    def move(self, agent: str, to: Status, reason: str = "") -> None:
        """A doer's status changes."""
        self.happen("status", agent=agent, to=str(to), time=self.now, reason=reason)

    def do(self, action: Action | Work) -> None:
        """Something is to be done."""
        if isinstance(action, Merge | Restore | Adopt):
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

    def open(self, kind: str, agent: str, name: str, body: str, base: str = "", about: str = "") -> str:
        """Begin a conversation about a doer; where `base` is given, its tree begins as that workspace's."""
        thread = self.new()
        talk = Talk(thread, kind, agent, name, base, about=about)
        self.happen("open", talk=plain(talk))
        self.do(Letter(name, thread, body))
        return thread

    def tell(self, thread: str, body: str, about: str = "") -> None:
        """Go on with one."""
        talk = self.flow.talks[thread]
        self.happen("tell", thread=thread, busy=True, about=about or talk.about)
        self.do(Letter(talk.name, thread, body))

    def hear(self, thread: str) -> None:
        """One has answered."""
        self.happen("tell", thread=thread, busy=False)

    def close(self, thread: str) -> None:
        """End one, if it is open."""
        if thread in self.flow.talks:
            self.happen("close", thread=thread)
            self.do(Close(thread))

    def ask(self, pending: Pending, body: str, more: str = "") -> None:
        """Ask the human; the answer comes as a message. What can be chosen stands before what is long."""
        question = self.new().partition(":")[2]
        self.happen("ask", question=question, pending=plain(pending))
        told = f"{body}\n\n{menus.shown(question, pending)}"
        self.do(Ask(question, f"{told}\n\n{more}" if more else told))

    def make_room(self) -> bool:
        """Whether one more conversation may be opened, if need be by ending one with a doer that waits for others.

        Its tree stays, and it is begun again from there.
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
        """A note of a doer, or of its verifier, is made, or changed."""
        self.happen("note", agent=agent, note=plain(note), **_OF_VERIFIER[of_verifier])

    def drop_pending(self, agent: str, name: str, how: str, *, of_verifier: bool = False) -> None:
        """A note that was refused for its form is pending no more."""
        self.happen("mend", agent=agent, pending_id=name, reason=how, **_OF_VERIFIER[of_verifier])

    def pend(self, agent: str, unfit: Unfit, *, of_verifier: bool = False) -> None:
        """A note is refused for its form, and kept."""
        self.happen("pend", agent=agent, pending=plain(unfit), **_OF_VERIFIER[of_verifier])

    def escalate(
        self,
        agent: str,
        description: str,
        reason: str,
        category: Category = Category.CONFLICT,
        context: str = "",
    ) -> str:
        """A note that the executor itself makes for a doer that can't go on; its name."""
        session = self.session(agent)
        name = note_id(len(session.notes) + 1)
        context = context or f"made by the executor while {agent} was {self.member(agent).standing.status}"
        note = Note(name, self.now, description, context, NoteStatus.ESCALATED, category, escalation_reason=reason)
        self.put_note(agent, note)
        return name

    def settle(self, agent: str, note: Note, answer: str, by: str, *, of_verifier: bool = False) -> None:
        """A note is resolved by somebody else than its maker."""
        settled = replace(
            note, status=NoteStatus.RESOLVED, resolution=answer, resolved_by=by, resolution_timestamp=self.now
        )
        self.put_note(agent, settled, of_verifier=of_verifier)
