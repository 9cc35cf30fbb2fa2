"""The contracts between the engine and the world. Adapters implement them; the engine knows nothing else.

Rows are plain values: what they mean is the engine's business, how they are kept is the store's. They are tuples,
since a turn makes a dozen of what a table takes as it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from parley.quoting import with_sender

# ---- the bus -------------------------------------------------------------------------------------


# What a verifier may say of what it was given: `blocked` means that a decision is needed from above.
JUDGEMENTS = ("verified", "rejected", "blocked")

# What a job may be called: its id names files and folders, whatever the filesystem.
JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class BusError(Exception):
    """The bus can't be used: the text says why and what to do."""


class LostOwnership(BusError):
    """Another owner has taken the job: whoever gets this must stop acting for it."""


class Owned(BusError):
    """The job has a living owner."""


class Duplicate(BusError):
    """An input of this key was given before."""


class StepRow(NamedTuple):
    """One firing. `at`, `choice`, `consumed` and `produced` are JSON texts or briefs, kept to the letter."""

    number: int
    transaction: int
    rule: str
    who: str
    time: float
    at: str
    choice: str
    consumed: str
    produced: str
    extra: str = ""  # what the turn that this step ended left behind: handle, tree, usage (JSON)


class MessageRow(NamedTuple):
    """One message. `seq` counts up per recipient, `key` makes it unique: none lost, none twice, none reordered."""

    number: int
    transaction: int
    sender: str
    sender_thread: str
    agent: str
    thread: str
    seq: int
    key: str
    time: float
    body: str
    meta: str = ""  # what the protocol itself knows about it (JSON); agents never write it
    kind: str = ""  # what it is to its recipient: a task, a report, …


class TurnRow(NamedTuple):
    """A turn that [wake] has put out to be run: the outbox."""

    turn: str  # t and a number, which is the order of turns
    agent: str
    thread: str
    message: str
    epoch: int
    host: str
    status: str  # submitted, ended, lost
    started: float


class TransactionRow(NamedTuple):
    """One commit: how far its steps and messages go, and the head of the hash chain after it."""

    number: int
    time: float
    epoch: int
    steps: int
    messages: int
    head: str
    digests: str = ""  # of its steps, its messages and the inputs it took, eight digits each: to name a changed row


class JobRow(NamedTuple):
    """What a listing shows of a job. Derived: the record, the charter and the steps say the same."""

    job: str
    request: str
    decider: str
    created: float
    updated: float
    state: str
    visit: int
    backtracks: int
    needs_human: int
    held: int
    agent: str
    settings: str  # the job's snapshot: roles, playbook, policies, limits (JSON)


MERGE = "merge"  # the kind of an input that asks for nothing: it says why a result was not merged


class InputRow(NamedTuple):
    """What somebody outside asks of a job: an answer, an intervention, a withdrawal, a pause."""

    number: int
    job: str
    kind: str
    key: str
    time: float
    by: str
    body: str  # JSON
    taken: int = 0  # the transaction that took it, or 0
    note: str = ""  # what became of it
    signature: str = ""  # by the key of the bus: who has not that key can't leave one that is taken


class Spent(NamedTuple):
    """What turns have used up: of one job on one day, or of all jobs on it. Whole numbers, so that sums are exact."""

    turns: int = 0
    tokens: int = 0
    micros: int = 0  # money, in millionths of a dollar
    millis: int = 0  # time at work, in thousandths of a second


class Commit(NamedTuple):
    """All that one transaction writes for one job."""

    job: str
    epoch: int
    transaction: TransactionRow
    steps: Sequence[StepRow]
    messages: Sequence[MessageRow]
    molecules: Mapping[str, str | None]  # slot -> the molecule there now (JSON), None: gone
    started: Sequence[TurnRow]
    ended: Sequence[tuple[str, int, str]]  # (turn, epoch, status): compare and set
    taken: Sequence[tuple[int, str]]  # (input number, what became of it)
    row: JobRow | None  # the listing's row where it has changed
    spent: Sequence[tuple[str, Spent]] = ()  # by day, what it adds to what was used up


@dataclass(frozen=True, slots=True)
class Loaded:
    """A job as the bus has it, from which an owner goes on."""

    row: JobRow
    molecules: Mapping[str, str]
    transaction: TransactionRow | None
    sequences: Mapping[tuple[str, str], int]  # (agent, thread) -> the last seq delivered
    turns: Sequence[TurnRow]  # those still submitted
    epoch: int = 0  # the last owner's; 0 if nobody ever owned it
    spent: Mapping[str, Spent] | None = field(default_factory=dict)  # by day; None in an export that has no such rows


class Store(Protocol):
    """A bus. Every write is one transaction, durable when the call returns."""

    def create(self, row: JobRow) -> None:
        """Make a job known, without any step yet. An id in use is a Duplicate."""

    def own(self, job: str) -> int:
        """Become the job's owner for as long as this process lives; the new epoch. Owned if another lives."""

    def disown(self, job: str) -> None:
        """Let go of a job."""

    def owner_lives(self, job: str) -> bool:
        """Whether some living process, this one included, owns the job."""

    def owner_stopped(self, job: str) -> int:
        """The process that owns the job and was stopped by somebody, so that it does nothing; 0 if that is not so."""

    def commit(self, commits: Sequence[Commit]) -> None:
        """Write all or none. LostOwnership if an epoch is no longer the job's."""

    def alone(self) -> AbstractContextManager[object]:
        """Nobody else writes while it lasts: what is read inside still holds for a commit inside."""

    def spent(self, day: str) -> Spent:
        """What all jobs together have used up on a day."""

    def load(self, job: str) -> Loaded:
        """The job's current molecules and counters, in time that does not depend on its length."""

    def jobs(self) -> list[JobRow]:
        """Every job, oldest first."""

    def steps(self, job: str, after: int = 0) -> Iterator[StepRow]:
        """The job's steps, in order."""

    def messages(self, job: str, after: int = 0) -> Iterator[MessageRow]:
        """The job's messages, in order."""

    def message(self, job: str, number: int) -> MessageRow:
        """One message."""

    def transactions(self, job: str) -> Iterator[TransactionRow]:
        """The job's transactions, in order."""

    def turns(self, job: str) -> Iterator[TurnRow]:
        """Every turn of the job, in order."""

    def put(self, job: str, kind: str, key: str, time: float, by: str, body: str) -> int:
        """Leave an input for the job's owner; its number. Any process may. Duplicate if the key was used."""

    def inputs(self, job: str, *, waiting: bool = True) -> list[InputRow]:
        """The job's inputs, in order: those nobody took yet, or all."""

    def authentic(self, row: InputRow) -> bool | None:
        """Whether a process that has the bus's key left the input; None where that can't be told."""

    def unsealed(self, job: str) -> int | None:
        """The job's first transaction that was not written with the bus's key; 0: none; None: it can't be told."""

    def changed(self) -> bool:
        """Whether another process has written since the last call: cheap enough to ask often."""

    def close(self) -> None:
        """Let go of everything."""


# ---- turns ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bind:
    """Something of the outside that an agent sees inside its boundary."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """What one worker owns of a tree, and what it must not touch, by patterns of paths."""

    worker: str
    owns: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Weight:
    """What a folder takes: bytes of the disk, and names."""

    bytes: int = 0
    files: int = 0

    def __add__(self, other: Weight) -> Weight:
        return Weight(self.bytes + other.bytes, self.files + other.files)


@dataclass(frozen=True, slots=True)
class Held:
    """What a job's files take of the disk."""

    bytes: int  # of all that counts against its quota
    parts: Mapping[str, Weight]  # of each workspace, home and repository of an agent's, by its path


class Room(Protocol):
    """How much of the disk a job may take, looked up while its turns run."""

    folder: Path  # the job's
    limit: int  # bytes
    files: int  # in one folder of an agent's

    def look(self, known: Mapping[str, Weight]) -> Held:
        """Look through all of the job's folders but those whose weight is known."""

    def owns(self, folder: str) -> bool:
        """Whether a folder is a workspace of the job's, which is put back when its turn is lost."""

    def spoil(self, folder: str, *, delete: bool) -> None:
        """A workspace was filled by a turn that is lost for it: none of it is kept; `delete`: nor moved aside."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a turn runs: the workspace, and what lies over it that is not the agent's to change."""

    workspace: str  # its path is the same inside the boundary and outside
    writable: bool = True
    binds: tuple[Bind, ...] = ()
    worker: str = ""  # as whom the agent works here; empty: nothing in the tree is somebody else's
    claims: tuple[Claim, ...] = ()  # of all workers, its own among them
    room: Room | None = field(default=None, compare=False, repr=False)  # None: its files are not bounded


Judge = Callable[[Site, str], str]  # why a path from the tree's root must not be written there; empty if it may


def unjudged(site: Site, path: str) -> str:
    """The judge where nobody has given one: where paths have owners, none may be written."""
    return f"{path}: nobody here can say whose it is, so the answer is no" if site.worker or site.claims else ""


class BoundaryError(Exception):
    """No boundary, or one that could not be verified: the text says which attempt, and what to do."""


class Order(NamedTuple):
    """A turn to be run. The token is the turn's alone: a call that bears another is refused."""

    turn: str
    job: str
    epoch: int
    token: str
    agent: str
    thread: str
    message: str
    sender: str
    state: str
    visit: int
    site: Site
    home: str  # the instance's own folder, which outlives its turns: its sessions lie there
    handle: str
    may_ask: bool
    time_limit_seconds: float
    tools: tuple[str, ...]
    rules: str = ""  # for the scripted agent: its rules as JSON, `null` where the playbook has none
    runner: str = "scripted"
    role: str = "{}"  # the role as the job's snapshot has it (JSON)
    skill: str = ""  # the phase skill that a lead follows
    host: str = ""

    @property
    def addressed(self) -> str:
        """The message as an agent reads it, its sender first. A playbook's rules are matched with `message`."""
        return with_sender(self.sender, self.message)

    @property
    def overran(self) -> str:
        """How the turn is lost where it takes longer than it may."""
        return f"it took longer than {self.time_limit_seconds:g} s"


@dataclass(frozen=True, slots=True)
class Called:
    """A tool call in mid-turn. It is answered by `Turns.reply`."""

    job: str
    turn: str
    token: str
    number: int
    tool: str
    arguments: Mapping[str, Any]
    batch: int = 0  # the calls of one message of the agent's have the same; 0 where the runner can't tell


@dataclass(frozen=True, slots=True)
class Progress:
    """A sign of life, for the stream and the faces.

    Where it says that a tool's use begins, the agent may be silent until it says that the same use is over.
    """

    job: str
    turn: str
    text: str
    tool: str = ""  # the name of a tool whose use begins, or is over
    use: str = ""  # which use of it: several may go on at once
    over: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """The turn waits for its provider: why, and when it tries again. No reason: it goes on. Its clock stands still."""

    job: str
    turn: str
    reason: str = ""
    until: float = 0.0  # in seconds since the epoch


@dataclass(frozen=True, slots=True)
class Ended:
    """A turn is over, every process of it gone. `fault` is empty, or says how the agent was lost."""

    job: str
    turn: str
    epoch: int
    text: str = ""
    handle: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    fault: str = ""
    refusals: tuple[str, ...] = ()
    boundary: Mapping[str, Any] = field(default_factory=dict)  # how the agent's process was confined, for the audit
    hard: bool = False  # trying again would end the same way: it is given up at once
    unconfined: bool = False  # the agent could not be confined and was not started: the job is interrupted
    parked_seconds: float = 0.0  # the turn was lost to a limit of the provider's: it may be tried again after this
    remembered: str = ""  # by an agent that played its own death: the handle that its next try goes on from
    overtime: bool = False  # it reached its time limit: its files stay, and its session as far as `handle` says
    model: str = ""  # which model answered, where the agent's program tells


TurnEvent = Called | Progress | Waiting | Ended


class Turns(Protocol):
    """Carries turns out, here or elsewhere. Execution at least once; the bus makes the effect once."""

    def submit(self, order: Order) -> None:
        """Start a turn. Again with the same turn and epoch: nothing happens."""

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes, before this returns. One that is not there is no error."""

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """What has happened since the last call, in order; waits that long at most for the first."""

    def reclaim(self, job: str) -> None:
        """End whatever an owner that died may have left running of a job's turns."""

    def rest(self, job: str) -> None:
        """End what is kept ready of a job between its turns."""

    def hosts(self) -> tuple[str, ...]:
        """Where turns can be run; the first is here."""

    def close(self) -> None:
        """End every turn."""


class Faults(Protocol):
    """Where it is written down what went wrong in Parley itself, for those who mend it."""

    def tell(self, job: str, text: str) -> str:
        """Write a fault down; where it can be read."""


class Runner(Protocol):
    """Runs the turns of one kind of agent. Called from one thread; tells from any."""

    def start(self, order: Order, tell: Callable[[TurnEvent], None]) -> None:
        """Begin a turn. The last thing told of it, and once, is its Ended."""

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes, before this returns. Nothing of it is told afterwards."""

    def wrap_up(self, job: str, turn: str) -> bool:
        """A turn's time is over: ask its agent to come to an end. False if this agent can't be asked."""

    def stop(self, job: str, turn: str) -> bool:
        """End a turn where it is, and soon tell its Ended as overtime. False if this runner can't: cancel it."""

    def rest(self, job: str) -> None:
        """End what is kept ready of a job between its turns."""

    def close(self) -> None:
        """End everything."""


# ---- the rest of the world -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome record that a turn left: what it says, or what is wrong with it."""

    outcome: str = ""
    reason: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a workspace held at a turn's end: the id of its tree, and what was left out of it, with the reason."""

    tree: str
    left_out: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()  # the paths that a scope did not allow, and that were put back
    ref: str = ""  # what holds what was there, with its commit


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose the paths of a workspace are, for whoever works there."""

    allowed: Callable[[str], str]  # of a path from the tree's root: empty, or why it is not its to change
    design: bool = False  # whether they design a workflow together: its files are merged like any others


class Clash(StrEnum):
    """How a conflict lies in the parent's tree."""

    MARKED = "marked"  # both sides are in the file, between markers
    BOTH = "both"  # ours is in place, theirs lies beside it
    DELETED_HERE = "deleted here"  # we deleted it, theirs lies beside
    DELETED_THERE = "deleted there"  # ours is in place, a note that they deleted it lies beside
    RENAMED = "renamed"  # both renamed one file: ours has its own name, theirs lies beside its new one
    FILE_HERE = "file here"  # they have a folder of that name, our file lies beside it
    FILE_THERE = "file there"  # we have a folder of that name, their file lies beside it
    OPEN = "open"  # the child left it open; how it lies there is not known here


@dataclass(frozen=True, slots=True)
class Conflict:
    """A path that both sides changed. Each side is shown as far as there is room; absent: deleted there.

    `beside` is the file that lies beside it until the conflict is settled.
    """

    path: str
    ours: str | None
    theirs: str | None
    how: Clash = Clash.MARKED
    beside: str = ""
    labels: tuple[str, ...] = ()  # what the two sides are called in its markers


@dataclass(frozen=True, slots=True)
class Merge:
    """What a merge brought into the parent's tree, what it left as conflicts there, and what it had to leave out."""

    paths: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    left_out: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()  # what was merged, and the result; none if there was nothing new
    kept_out: tuple[str, ...] = ()  # paths that the scope does not allow, a line each with the reason


@dataclass(frozen=True, slots=True)
class Change:
    """What a job did to one file, in lines; None where it is not text. `obeyed`: what runs or obeys it, if anything.

    `unportable`: why another system can't hold a new name as it is.
    """

    path: str
    added: int | None
    removed: int | None
    obeyed: str = ""
    unportable: str = ""


class WorkspaceError(Exception):
    """A workspace can't be made or kept: the text says why and what to do."""


class NoRoom(WorkspaceError):
    """The machine's disk is full: no job can go on, whichever program filled it."""


class SetUpFailed(WorkspaceError):
    """The user's set-up command did not do its work in a fresh workspace: no turn can begin there."""

    unconfined = False


class SetUpUnconfined(SetUpFailed):
    """The set-up command could not be confined, and was not started."""

    unconfined = True


class OverQuota(WorkspaceError):
    """The job's files have outgrown what they may take of the disk."""


def slug_of(name: str) -> str:
    """A workspace's name as part of a file's or a branch's name; empty for a job's own."""
    kind, _, rest = name.partition(":")
    if kind == "job":
        return ""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", rest)
    return plain if plain == rest and rest else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def retired_ref(job: str, name: str) -> str:
    """The ref of a job's `snapshots.git` under which the last files of a closed workspace are kept."""
    return f"refs/parley/retired/{job}/{slug_of(name) or 'job'}"


REPORTS = ".parley-reports"  # in a worker's workspace: final texts that are too long for a message
CHILDREN = ".parley/children"  # in a dispatcher's workspace: the last commits of those that it dispatched


class Sent(NamedTuple):
    """A file that goes along with a task: its path in both workspaces, and what it held when it was sent."""

    path: str
    blob: str  # in the job's repository, by git's own digest
    mode: str  # as git writes it
    size: int


class Workspace(Protocol):
    """Where agents work, and what the engine needs to know of it. Nothing in it is trusted.

    A name is a thread: the job's own for its leads, a dispatch's for whoever was dispatched.
    """

    def reclaim(self, job: str) -> None:
        """Free what an owner that died may have left locked."""

    def prepare(
        self,
        job: str,
        name: str,
        parent: str,
        sealed: Iterable[str] = (),
        *,
        children: Sequence[str] | None = None,
        sent: Sequence[Sent] = (),
    ) -> Site:
        """Make a workspace ready (again). A new one starts as its parent's tree; sealed files can't be changed.

        `sent` came along with its task: a new workspace has them, in the place of whatever has their names there; one
        that is made again has those of them again that no commit holds.

        Any workspace can be the parent. `children` are the workspaces whose last commits are shown, read-only, in
        CHILDREN; None for an agent that dispatches no one.
        """

    def clone(self, job: str, name: str, of: str, tree: str, children: Mapping[str, str]) -> Site:
        """A read-only clone for the proxy of a question: a tree that the workspace `of` had committed, and no more.

        Whatever happens to that workspace, the clone stays as it is. `children` are the workspaces of those whom the
        asker had dispatched, each with the tree that is shown of it in CHILDREN. No tree: what the job began with.
        """

    def pick(self, job: str, name: str, to: str, paths: Sequence[str], most: int) -> tuple[Sent, ...]:
        """Keep ordinary files of a workspace, ignored ones too, as they are now, for the workspace `to`.

        WorkspaceError, in one line, for what is no ordinary file below it, or more than so many bytes in all.
        """

    def clear_outcome(self, job: str, name: str) -> None:
        """See to it that no outcome record is there when a turn starts."""

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """The outcome record, if a turn left one."""

    def snapshot(self, job: str, name: str, text: str, scope: Scope | None = None) -> Kept:
        """Commit what is there now, with this message. OverQuota if there is too much of it.

        What the scope does not allow is kept under a ref, put back as it was, and told as left out.
        """

    def read(self, job: str, name: str, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file of at most so many bytes holds; None for anything else. No link is followed."""

    def write(self, job: str, name: str, files: Mapping[str, str | None]) -> None:
        """Put files of the protocol's own, None: take them away; they are committed at once, and nothing else is.

        What stands in the way is moved aside. Nothing happens where there is no workspace.
        """

    def draft(self, job: str, name: str, files: Mapping[str, str]) -> str:
        """Keep the tree that a workspace has committed last with these files of the protocol's own in it; its name.

        The workspace stays as it is. WorkspaceError where it has committed nothing.
        """

    def listing(self, job: str, name: str, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder, by their paths from the tree's root, in order. No link is followed."""

    def committed(self, job: str, name: str) -> str:
        """The tree that a workspace has committed last; empty where there is none."""

    def read_committed(self, job: str, tree: str, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file of a committed tree holds, if it holds no more than that; None for anything else."""

    def list_committed(self, job: str, tree: str, folder: str) -> tuple[str, ...]:
        """The ordinary files of a committed tree below a folder, by their paths from its root, in order."""

    def contents(self, job: str, tree: str, artifacts: Iterable[str]) -> dict[str, str]:
        """The digest of each artifact that a committed tree has as an ordinary file."""

    def restore(self, job: str, name: str, tree: str, lost: str) -> None:
        """Put back what a tree holds, and keep what was there instead under the name of what was lost."""

    def abandon(self, job: str, name: str, lost: str) -> None:
        """Keep what is there under the name of what was abandoned, and leave it there: whoever comes next goes on."""

    def merge(self, job: str, name: str, parent: str, scope: Scope | None = None) -> Merge:
        """Bring what a workspace committed since it began, or was last merged, into its parent's tree.

        Of what the scope does not allow nothing is brought. Of the protocol's own files only the outputs are that the
        scope allows, and none without a scope.
        """

    def refresh(self, job: str, name: str, parent: str, *, clean: bool = False) -> Merge:
        """Bring what its parent has committed into a workspace; what it changed itself stays.

        With `clean` nothing is brought where that would leave conflicts: they are told, and nothing has changed.
        """

    def beginning(self, job: str, tree: str, artifact: str, length: int) -> str:
        """The first characters of an artifact of a committed tree; empty where there is none."""

    def changed(self, job: str, name: str) -> tuple[str, ...]:
        """The paths that a workspace's commits have changed since it began."""

    def unresolved(self, job: str, name: str) -> list[str]:
        """The paths that a merge left in conflict and nobody has settled yet."""

    def retire(self, job: str, name: str) -> None:
        """Nobody works there any more: keep what it holds under a ref, and take the folder away; a clone just goes."""

    def changes(self, job: str, tree: str = "") -> list[Change]:
        """What the job's tree, or the one given, has changed of what it started from, the protocol's own left out."""


FOLDER_VIEW, TIP_VIEW = "folder", "tip"  # where a job's own files lie: in its workspace, and in its last commit
UNKEPT = "unkept"  # what a file is known by that no commit ever holds


class Papers(Protocol):
    """The files below `orchestration/` in a job's own workspace and in its commits, to be compared and not changed.

    A view is FOLDER_VIEW, TIP_VIEW, or a tree that the bus names.
    """

    def listed(self, view: str) -> Mapping[str, str] | None:
        """What is there, by path, with what each is known by; None: there is no such view any more."""

    def data(self, view: str, path: str) -> bytes | None:
        """What an ordinary file holds; None for anything else."""

    def name(self, data: bytes) -> str:
        """What an ordinary file with this content is known by."""


class Files(Protocol):
    """The job's readable records: derived from the bus, written after it, and written again harmlessly."""

    def write_state(self, job: str, name: str, text: str) -> None:
        """Replace a state record, whole or not at all."""

    def append(self, job: str, stream: str, lines: Sequence[str]) -> None:
        """Add lines to a stream."""

    def tail(self, job: str, stream: str) -> list[str]:
        """The last lines of a stream; none if there is no such stream."""

    def last_write(self, job: str) -> float:
        """When something of the job was last written, or its last owner left it; 0: never."""

    def write_outcome(self, job: str, name: str, text: str) -> None:
        """Keep an outcome record."""

    def home(self, job: str) -> Path:
        """Where the job's files lie."""


class Clock(Protocol):
    """Time, as seconds."""

    def now(self) -> float:
        """Since the epoch, as people tell it. It may jump."""

    def monotonic(self) -> float:
        """Since some moment. It never jumps."""


class Ids(Protocol):
    """Where new names come from."""

    def new(self) -> str:
        """A name that was not given before: short, and safe in a file name."""
