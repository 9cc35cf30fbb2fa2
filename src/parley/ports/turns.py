"""Turns: what an agent's turn is given, what it tells, and who carries it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from msgspec import Struct

from parley.base.quoting import QUESTION, with_asker, with_sender
from parley.protocol.molecules import MessageKind

SCRIPTED, CLAUDE, PROOF = "scripted", "claude", "proof"
BUILT_IN: Mapping[str, str] = MappingProxyType(
    {SCRIPTED: "plays a playbook", CLAUDE: "Claude Code", PROOF: "runs acceptance commands"}
)
"""The runners that come with Parley, by the names that roles give them. Any other is a program of the settings."""


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
class DiskUse:
    """What a job's files take of the disk."""

    bytes: int  # of all that counts against its quota
    parts: Mapping[str, Weight]  # of each workspace, home and repository of an agent's, by its path


class Room(Protocol):
    """How much of the disk a job may take, looked up while its turns run."""

    folder: Path  # the job's
    limit: int  # bytes
    files: int  # in one folder of an agent's

    def look(self, known: Mapping[str, Weight]) -> DiskUse:
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
    worker: str = ""  # as whom the agent works here; empty: no other agent owns anything in the tree
    claims: tuple[Claim, ...] = ()  # of all workers, its own among them
    room: Room | None = field(default=None, compare=False, repr=False)  # None: its files are not bounded


Judge = Callable[[Site, str], str]  # why a path from the tree's root must not be written there; empty if it may


def unjudged(site: Site, path: str) -> str:
    """The judge where none was given: where paths have owners, none may be written."""
    return f"{path}: its owner can't be determined here, so the answer is no" if site.worker or site.claims else ""


RESULT_LIMIT = 2000  # characters of a tool's result that are reported


class BoundaryError(Exception):
    """No boundary, or one that could not be verified: the text says which attempt, and what to do."""


class Order(Struct, frozen=True):
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
    runner: str = SCRIPTED
    role: str = "{}"  # the role as the job's snapshot has it (JSON)
    skills: tuple[str, ...] = ()  # those that a lead follows, the phase's own first
    host: str = ""
    kind: MessageKind = MessageKind.MESSAGE
    by_code: bool = False  # code has written the message, and its first line says what it is
    message_id: str = ""  # the same where the message is given again, after a turn on it was lost
    body: str = ""  # the message as it was written, without what the engine tells along with it

    @property
    def addressed(self) -> str:
        """The message as an agent reads it, its sender first. A playbook's rules are matched with `message`.

        An agent's own words need a line that says whose they are; all other messages begin with a line of the
        protocol's. Of these only a question leaves its sender out.
        """
        if self.kind is MessageKind.QUESTION:
            return with_asker(self.sender, self.message)
        if self.kind in (MessageKind.TASK, MessageKind.MESSAGE) and not self.by_code:
            return with_sender(self.sender, self.message)
        return self.message

    @property
    def asked(self) -> str:
        """The question that the message puts to the proxy, without its mark; empty where it puts none."""
        return self.body.removeprefix(QUESTION).strip() if self.kind is MessageKind.QUESTION else ""

    @property
    def overran(self) -> str:
        """How the turn is lost where it takes longer than it may."""
        return f"it took longer than {self.time_limit_seconds:g} s"


class Called(Struct, frozen=True):
    """A tool call in mid-turn. It is answered by `Turns.reply`."""

    job: str
    turn: str
    token: str
    number: int
    tool: str
    arguments: Mapping[str, Any]
    batch: int = 0  # the calls of one message of the agent's have the same; 0 where the runner can't tell


class Sign(StrEnum):
    """What a sign of life tells of."""

    WORK = ""  # what the agent says or does
    WRITING = "writing"  # a response is being written: no work is done yet
    PAUSE = "pause"  # the agent waits as it was told to: that says less than what it did before
    QUEUE = "queue"  # the turn waits for a free slot; over: it has one


class Progress(Struct, frozen=True):
    """A sign of life, for the stream and the faces.

    Where it says that a tool's use begins, the agent may be silent until it says that the same use is over.
    """

    job: str
    turn: str
    text: str  # what the agent says; of a tool's use: what it is about, without the tool's name
    tool: str = ""  # the name of a tool whose use begins, or is over
    use: str = ""  # which use of it: several may go on at once
    over: bool = False
    result: str = ""  # of a use that is over: how its result begins
    failed: bool = False  # the same: whether it failed
    sign: Sign = Sign.WORK
    host: str = ""  # of a turn that has waited for a slot: the other host that it begins on


class Waiting(Struct, frozen=True):
    """The turn waits for its provider: why, and when it tries again. No reason: it goes on. Its clock stands still."""

    job: str
    turn: str
    reason: str = ""
    until: float = 0.0  # in seconds since the epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Confined:
    """How an agent's process was confined: what was tried in its cage before it got it, and what came of that."""

    ok: bool = False
    held: int = 0  # of the attempts to get out
    tried: int = 0
    faults: tuple[str, ...] = ()
    exemptions: tuple[str, ...] = ()
    uid: int = -1
    accepted: str = ""  # the weaker boundary that the user accepted by name
    nested: tuple[str, ...] = ()  # repositories inside the workspace
    unlinked: tuple[str, ...] = ()  # links that led outside, now copies; and what gave way to a seal


class Ended(Struct, frozen=True):
    """A turn is over, every process of it gone. `fault` is empty, or says how the agent was lost."""

    job: str
    turn: str
    epoch: int
    text: str = ""
    handle: str = ""
    usage: Mapping[str, float] = {}
    fault: str = ""
    refusals: tuple[str, ...] = ()
    boundary: Confined | None = None  # how the agent's process was confined, where it was started at all
    hard: bool = False  # trying again would end the same way: it is given up at once
    unconfined: bool = False  # the agent could not be confined and was not started: the job is interrupted
    parked_seconds: float = 0.0  # the turn was lost to a limit of the provider's: it may be tried again after this
    remembered: str = ""  # by an agent that played its own death: the handle that its next try goes on from
    overtime: bool = False  # it reached its time limit: its files stay, and its session as far as `handle` says
    model: str = ""  # which model answered, where the agent's program tells
    host: str = ""  # where it ran, where turns run on other hosts
    given_back: bool = False  # its host was lost, or had to end: that is no failure of the agent's


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
        """End all that an owner that died may have left running of a job's turns."""

    def rest(self, job: str) -> None:
        """End what is kept ready of a job between its turns."""

    def hosts(self) -> tuple[str, ...]:
        """Where turns can be run; the first is here."""

    def close(self) -> None:
        """End every turn."""


class Runner(Protocol):
    """Runs the turns of one kind of agent. Called from one thread; tells from any."""

    def start(self, order: Order, tell: Callable[[TurnEvent], None]) -> None:
        """Begin a turn. The last thing told of it, and once, is its Ended."""

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""

    def cancel(self, job: str, turn: str) -> None:
        """End a turn and all its processes, before this returns. It reports nothing afterwards."""

    def wrap_up(self, job: str, turn: str) -> bool:
        """A turn's time is over: ask its agent to come to an end. False if this agent can't be asked."""

    def stop(self, job: str, turn: str) -> bool:
        """End a turn where it is, and soon tell its Ended as overtime. False if this runner can't: cancel it."""

    def rest(self, job: str) -> None:
        """End what is kept ready of a job between its turns."""

    def close(self) -> None:
        """End everything."""
