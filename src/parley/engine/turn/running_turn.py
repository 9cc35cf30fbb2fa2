"""A turn under way, as the job's owner has it."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from msgspec import Struct

from parley.ports.workspaces import SentFile
from parley.protocol.conversation import Admission
from parley.protocol.molecules import Payload, Question

P = TypeVar("P")


class CallNote(Struct, frozen=True):
    """An accepted call. How its text begins is told only where it is read: without secrets, and cut."""

    tool: str
    about: str = ""  # in a few words
    text: str = ""  # what the agent says by it


class TurnQuestion(Struct, frozen=True):
    """A question that a turn asks when it ends, and its words."""

    question: Question
    text: str


class ToolUse(NamedTuple):
    """A use of a tool that is under way: the tool's name, and since when."""

    tool: str
    since: float


class Turn(Struct):
    """What it was given, and the calls that were accepted so far."""

    turn: str
    agent: str
    thread: str
    message: str
    token: str
    admission: Admission  # of its payloads
    day: str = ""  # on which it began, and its usage counts
    begun: float = 0.0  # as its row on the bus has it
    stream: str = ""  # where it is logged
    out: bool = False  # whether it was given to its runner
    heard: float = 0.0  # its last sign of life, as people tell time
    pulse: float = 0.0  # the same, by the engine's pulse
    last: str = ""  # the last thing that it did
    uses: dict[str, ToolUse] = {}  # the uses of tools that it is in
    waiting: bool = False  # for its provider: it can do nothing, and that is neither silence nor work
    queued: bool = False  # for a slot, here or on another host: the same
    payloads: list[Payload] = []
    texts: dict[str, str] = {}  # provisional message id -> text
    files: dict[str, tuple[SentFile, ...]] = {}  # provisional message id -> what goes along
    questions: list[TurnQuestion] = []
    asked_in: int = 0  # the batch of calls that the last question came with
    notes: list[dict[str, Any]] = []
    calls: list[CallNote] = []  # those that were accepted
    refused: list[str] = []  # why its other calls were not taken
    usage: dict[str, float] = {}  # what it used, once it is over
    worked: int = 0  # thousandths of a second at work that are counted with its end
    _parts: dict[type[Any], Any] = {}  # what features know of it

    def part(self, kind: type[P]) -> P:
        """What a feature knows of the turn: a value of the feature's own type, made when it is first asked for."""
        found: P | None = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind()
        return found
