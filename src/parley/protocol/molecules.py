"""What the soup is made of: the molecules, and what they hold: threads, payloads, questions, roles.

The first ten are those of agent dynamics, escalation, intervention and withdrawal. The others are what the protocol
remembers beside them: what a job was opened with, what stands installed, who is dead, what was counted, and which
verdicts count. Messages are opaque here: a message is its id, and its text lies on the bus. Each (agent, thread) pair
is an instance. A molecule's `brief` is how a step's row names it, at a length that depends on neither the conversation
nor the backlog.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from parley.protocol.states import ACTION_TO_STATE, LIVE, Action, State
from parley.protocol.term import Term, refuse_unwritable

ORCHESTRATOR = "orchestrator"
PROXY = "proxy"
HUMAN = "human"

LONGEST_NAME = 64
AGENT_NAME = re.compile(rf"[a-z][a-z0-9_-]{{0,{LONGEST_NAME - 1}}}")  # of every agent, role and worker


class Policy(StrEnum):
    """How often the human is consulted in a state."""

    NEVER = "never"
    WHEN_UNSURE = "when_unsure"
    ALWAYS = "always"


class Rounds(StrEnum):
    """How often an instance may send down the tree and ask."""

    OWN = "own"  # as often as the charter lets each instance
    TEAM = "team"  # as often as all of its team together: it leads their rounds, and says all of a turn or nothing
    FREE = "free"  # what ends its rounds lies outside the protocol


class Ruling(StrEnum):
    """What a verdict says."""

    APPROVE = "approve"
    REVISE = "revise"
    BACKTRACK_INTENT = "backtrack intent"
    BACKTRACK_PLAN = "backtrack plan"
    WITHDRAW = "withdraw"


BACKWARD = (Ruling.BACKTRACK_INTENT, Ruling.BACKTRACK_PLAN)
STEERING = (*BACKWARD, Ruling.WITHDRAW)


class Origin(StrEnum):
    """Why a thread was terminated. The rules treat all alike; what becomes of the work differs."""

    CLOSE = "close"  # its dispatcher ended the conversation
    ACCEPT = "accept"  # the same, of a subteam that had finished: the close accepts its work
    PHASE = "phase"  # its state was left forward
    BACKTRACK = "backtrack"  # its state was left backward
    WITHDRAWAL = "withdrawal"  # it was abandoned
    END = "end"  # its job has reached a terminal


class Kind(StrEnum):
    """What a question asks for."""

    QUESTION = "question"  # an answer in words, with or without a verdict
    ASSERT = "assert"  # a verdict on an artifact's very content
    FAILURE = "failure"  # the orchestrator's: retry, backtrack, withdraw or fail; goes straight to the human


class MessageKind(StrEnum):
    """What a message is to its recipient. It follows from the rule that delivers it, so no agent chooses it."""

    REQUEST = "request"  # the human's, which a job begins with
    TASK = "task"  # the first letter of a conversation: it sparks its recipient
    MESSAGE = "message"  # a dispatcher goes on with a conversation
    REPORT = "report"  # a letter to the dispatcher
    QUESTION = "question"  # to the proxy, and from the proxy to the human
    REPLY = "reply"  # the human's, to the proxy
    ANSWER = "answer"  # to the asker
    INTERVENTION = "intervention"  # what an Interrupt brings
    OUTCOME = "outcome"  # a lead's outcome record, as the orchestrator sees it
    NOTICE = "notice"  # what the protocol itself tells: a merge, a failure, a dead letter, the orchestrator's words


EVERYDAY = (
    MessageKind.TASK,
    MessageKind.MESSAGE,
    MessageKind.REPORT,
    MessageKind.ANSWER,
    MessageKind.INTERVENTION,
    MessageKind.NOTICE,
)
"""What an agent takes whose role says nothing else."""

OWN: Mapping[str, tuple[MessageKind, ...]] = MappingProxyType(
    {
        ORCHESTRATOR: (
            MessageKind.REQUEST,
            MessageKind.REPORT,
            MessageKind.ANSWER,
            MessageKind.INTERVENTION,
            MessageKind.OUTCOME,
            MessageKind.NOTICE,
        ),
        PROXY: (MessageKind.QUESTION, MessageKind.REPLY),
    }
)
"""What the protocol's own two agents take, and nothing else: the rules deliver it, and nothing may wait for ever."""


# ---- threads -------------------------------------------------------------------------------------


def job_thread(job: str) -> str:
    """The thread that spans a job's states; the orchestrator's."""
    return f"job:{job}"


def state_thread(job: str, visit: int) -> str:
    """The thread of one visit of a state; its lead's."""
    return f"state:{job}/{visit}"


def dispatch_thread(name: str) -> str:
    """The thread of a dispatched task."""
    return f"dispatch:{name}"


def escalation_thread(name: str) -> str:
    """The thread of a question; the proxy's."""
    return f"escalation:{name}"


def thread_kind(thread: str) -> str:
    """`job`, `state`, `dispatch` or `escalation`."""
    return thread.partition(":")[0]


def thread_name(thread: str) -> str:
    """What a thread is called after its kind: of a question's thread, the question."""
    return thread.partition(":")[2]


# ---- what a Send carries -------------------------------------------------------------------------


class Deliver(Term, frozen=True):
    """(A, t', x): put message x into A's mailbox on t'."""

    agent: str
    thread: str
    message: str


class Close(Term, frozen=True):
    """terminate(t'): close thread t' and its subtree."""

    thread: str
    origin: Origin = Origin.CLOSE


Payload = Deliver | Close


class Question(Term, frozen=True):
    """One question of an AskQuestion. An assert names its artifact and is bound to what it contained."""

    id: str
    message: str
    kind: Kind = Kind.QUESTION
    artifact: str = ""
    digest: str = ""
    key: str = ""  # what its words come to: two of one key ask the same

    @property
    def subject(self) -> str:
        """What it is counted under: an assert under its artifact, whatever that contains by now."""
        return self.artifact or self.key


class Role(Term, frozen=True):
    """What [spark] installs for an agent. It depends on the agent alone, so all its threads are alike."""

    name: str
    team: frozenset[str] = frozenset()
    tools: tuple[str, ...] = ("Send", "CloseConversation", "AskQuestion")
    messages: tuple[MessageKind, ...] = ()  # the kinds that it takes, where they are not what its name implies
    asserts: tuple[str, ...] = ()  # the artifacts that it may assert for a lead that has dispatched it
    rounds: Rounds = Rounds.OWN

    @property
    def takes(self) -> tuple[MessageKind, ...]:
        """The kinds of messages that an instance of it takes."""
        return self.messages or OWN.get(self.name, EVERYDAY)


# ---- the molecules of the protocol ---------------------------------------------------------------


class Idle(Term, frozen=True):
    """Idle_A(t): A's t-instance waits for mail."""

    agent: str
    thread: str

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"Idle {self.agent} {self.thread}"


class Run(Term, frozen=True):
    """Run(A, t, m): A processes m on t, in a turn of its own. `interrupt` says that an Interrupt brought m."""

    agent: str
    thread: str
    message: str
    turn: str = ""
    interrupt: Interrupt | None = None

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        by = " interrupted" if self.interrupt else ""
        return f"Run {self.agent} {self.thread} {self.message} {self.turn}{by}"


class Send(Term, frozen=True):
    """Send(B, t, msgs): B's t-instance is broadcasting. Questions ride at the end ([send-ask])."""

    agent: str
    thread: str
    payloads: tuple[Payload, ...]
    questions: tuple[Question, ...] = ()

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"Send {self.agent} {self.thread} {len(self.payloads)} {len(self.questions)}"


class Mailbox(Term, frozen=True):
    """Mailbox_A(t, queue): A's inbox on t, oldest first."""

    agent: str
    thread: str
    queue: tuple[str, ...] = ()

    def grown(self, message: str) -> Mailbox:
        """The same with a message more, at its end."""
        return Mailbox(self.agent, self.thread, (*self.queue, message))

    def brief(self) -> str:
        """The molecule as a step's row names it: how many wait, the first and the last."""
        if not self.queue:
            return f"Mailbox {self.agent} {self.thread} 0"
        return f"Mailbox {self.agent} {self.thread} {len(self.queue)} {self.queue[0]} {self.queue[-1]}"


class Parent(Term, frozen=True):
    """Parent(t', t): thread t' (`child`) was sparked from thread t (`thread`)."""

    child: str
    thread: str

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"Parent {self.child} {self.thread}"


class AskQuestion(Term, frozen=True):
    """AskQuestion(A, t, x, π): A on t has asked; x may be several questions."""

    agent: str
    thread: str
    questions: tuple[Question, ...]
    policy: Policy

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"AskQuestion {self.agent} {self.thread} {len(self.questions)} {self.policy}"


class Proxy(Term, frozen=True):
    """Proxy(t, x, π, h): the proxy works on the question that A asked on t. `heard` is h = post-human."""

    id: str
    agent: str
    thread: str
    question: Question
    policy: Policy
    heard: bool = False
    said: Ruling | None = None  # the human's own verdict, which nothing can change
    words: tuple[str, ...] = ()  # the human's messages on this question, oldest first; the answer carries them all

    def brief(self) -> str:
        """The molecule as a step's row names it: of the human's messages, the newest."""
        heard = "post-human" if self.heard else "fresh"
        words = f" {self.words[-1]}" if self.words else ""
        return f"Proxy {self.id} {self.thread} {self.policy} {heard} {self.said or '-'}{words}"


class AskHuman(Term, frozen=True):
    """AskHuman(t, y, π): the proxy waits for the human's response to `framing`."""

    id: str
    agent: str
    thread: str
    question: Question
    policy: Policy
    framing: str
    words: tuple[str, ...] = ()  # what the human has said to this question before

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"AskHuman {self.id} {self.thread} {self.policy} {self.framing}"


class Interrupt(Term, frozen=True):
    """Interrupt(t, Y): redirect t to message Y, at once (`now`) or at its turn boundary."""

    thread: str
    message: str
    now: bool = False
    authoritative: bool = False

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        when = "now" if self.now else "boundary"
        return f"Interrupt {self.thread} {self.message} {when}{' authoritative' if self.authoritative else ''}"


class Terminate(Term, frozen=True):
    """Terminate(t): thread t and its subtree are being withdrawn."""

    thread: str
    origin: Origin = Origin.CLOSE

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"Terminate {self.thread} {self.origin}"


# ---- what the protocol remembers beside them -----------------------------------------------------


class Phase(Term, frozen=True):
    """A live state as [open] fixes it: who leads it, what it produces, and how often it consults the human."""

    lead: str
    artifact: str
    policy: Policy = Policy.ALWAYS


class Charter(Term, frozen=True):
    """What [open] fixes for a job's whole life: who may take part, what each live state is about, and the limits."""

    job: str
    roles: tuple[Role, ...]
    phases: tuple[Phase, Phase, Phase]  # of the live states, in their order
    fan_out: int = 3
    crash_budget: int = 3
    retry_budget: int = 3
    brief_human: bool = True  # whether the proxy looks first where the human is always asked
    companions: tuple[str, ...] = ()  # the artifacts that are approved only with a companion
    backtracks: int = 5  # of a record, those on the human's own verdict not counted
    repeats: int = 10  # how often an instance asks the same while the human says nothing
    exchanges: int = 40  # how often an instance sends down and asks while nothing comes of it; twice as often in all

    def role(self, name: str) -> Role | None:
        """The role of that name, if the job has one."""
        return next((role for role in self.roles if role.name == name), None)

    def phase(self, state: State) -> Phase:
        """What a live state is about."""
        return self.phases[LIVE.index(state)]

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"Charter {self.job} {len(self.roles)} {'/'.join(phase.policy for phase in self.phases)} {self.fan_out}"


class Entry(Term, frozen=True):
    """One transition as it is remembered: the state it left, by which action, whose, when, and why."""

    state: State
    action: Action
    actor: str
    timestamp: float
    reason: str = ""

    def __post_init__(self) -> None:
        refuse_unwritable(self.timestamp)


class Record(Term, frozen=True):
    """The state record of a job, or of a dispatched subteam (`depth` 1 and more)."""

    id: str
    state: State = State.INTENT
    actor: str = ""  # who leads it; empty once it has ended
    history: tuple[Entry, ...] = ()
    backtrack_count: int = 0
    task_id: str = ""
    parent_id: str = ""
    team_id: str = ""
    depth: int = 0
    thread: str = ""  # where its lead works now
    visit: int = 1  # how many states were entered, this one included
    pendings: int = 0  # how often its lead came to rest in this visit without an outcome record
    violations: int = 0  # how many outcome records of this visit did not count
    dialogs: int = 0  # how often the human was asked in this visit what is to become of it
    circled: int = 0  # the backtracks that went by no verdict of the human's own
    lifted: int = 0  # how often the human let it go on at the bound of these
    approved: tuple[tuple[str, str], ...] = ()  # (artifact, digest) as approved, upstream first

    @property
    def live(self) -> bool:
        """Whether the job still has somewhere to go."""
        return self.state in LIVE

    def brief(self) -> str:
        """The record as a step's row names it."""
        return (
            f"Record {self.id} {self.state} {self.visit} {self.backtrack_count} {self.circled} {self.lifted}"
            f" {self.pendings} {self.violations} {self.dialogs} {self.thread}"
        )

    def visits(self, state: State) -> int:
        """How many times `state` was entered: once for the start, once for each arrival."""
        arrivals = sum(ACTION_TO_STATE[entry.action] is state for entry in self.history)
        return arrivals + (state is State.INTENT)


class Surface(Term, frozen=True):
    """The protocol surface of an instance, installed once: its role's, and its workspace."""

    agent: str
    thread: str
    team: frozenset[str]
    tools: tuple[str, ...]
    messages: tuple[MessageKind, ...]
    workspace: str
    asserts: tuple[str, ...] = ()
    rounds: Rounds = Rounds.OWN

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"Surface {self.agent} {self.thread} {self.workspace}"


class Tombstone(Term, frozen=True):
    """Thread t was terminated, and stays so."""

    thread: str

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"Tombstone {self.thread}"


class Hold(Term, frozen=True):
    """Hold(t, cause): t's instance does not wake, and on the job's own thread no instance of the job does."""

    thread: str
    cause: str

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"Hold {self.thread} {self.cause}"


class Crashed(Term, frozen=True):
    """How many turns in a row the instance's agent has lost; 0: its last turn was given up, and it may try anew."""

    agent: str
    thread: str
    count: int

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"Crashed {self.agent} {self.thread} {self.count}"


class Tally(Term, frozen=True):
    """How often an instance has sent down the tree and asked: while nothing came of it, in all, and each question."""

    agent: str
    thread: str
    vain: int = 0  # since its files last changed, or the human spoke to it
    total: int = 0
    asked: tuple[tuple[str, int], ...] = ()  # the same question again, since the human spoke to it

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        most = max((times for _, times in self.asked), default=0)
        return f"Tally {self.agent} {self.thread} {self.vain} {self.total} {most}"


class Assertion(Term, frozen=True):
    """The newest assert of an artifact in a record: the only one whose verdict will count."""

    record: str
    artifact: str
    question: str
    digest: str

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        return f"Assertion {self.record} {self.artifact} {self.question} {self.digest}"


class Verdict(Term, frozen=True):
    """A live verdict in a record, on an artifact's content, or on none (`artifact` is empty)."""

    record: str
    artifact: str
    ruling: Ruling
    digest: str
    author: str
    question: str
    answer: str = ""  # the message that gave it: whose words these were stands there
    told: bool = True  # whether the record's lead has got it; else [relay] tells it

    def brief(self) -> str:
        """The molecule as a step's row names it."""
        untold = "" if self.told else " untold"
        return f"Verdict {self.record} {self.artifact or '-'} {self.ruling} {self.digest} {self.author}{untold}"


Instance = Idle | Run | Send | AskQuestion  # the four that an (agent, thread) pair has at most one of
Escalation = Proxy | AskHuman

Molecule = (
    Idle
    | Run
    | Send
    | Mailbox
    | Parent
    | AskQuestion
    | Proxy
    | AskHuman
    | Interrupt
    | Terminate
    | Charter
    | Surface
    | Tombstone
    | Hold
    | Crashed
    | Tally
    | Assertion
    | Verdict
    | Record
)
