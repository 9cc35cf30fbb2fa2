"""What the stages of a turn hand from one to the next, and to the hooks between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct

from parley.bus.rows import MessageRow
from parley.engine import protocol_messages
from parley.engine.turn.running_turn import Turn
from parley.engine.values.message_meta import LeftForCode
from parley.engine.values.step_extra import Nearly
from parley.ports.turns import Ended, Site
from parley.ports.workspaces import Kept, Merge, Outcome, Scope
from parley.protocol.molecules import Payload, Question, Record, Surface

NOWHERE, NOTHING_KEPT = Site(""), Kept("")


class Waking(Struct):
    """A turn that is about to start: the rule that starts it, where, and by which message."""

    rule: str  # wake, wake-int or interrupt
    agent: str
    thread: str
    message: str
    now: float
    day: str
    nearly: tuple[Nearly, ...] = ()  # budgets that are nearly spent with it


class Start(Struct):
    """A turn that is committed, and is given to its runner."""

    turn: Turn
    surface: Surface
    record: Record  # whose state the turn works for
    leads: Record | None  # the record that the turn's agent leads, if it leads one
    above: Surface | None  # who dispatched it
    message: MessageRow  # that woke it
    base: str = ""  # the workspace that a new one begins as
    site: Site = NOWHERE
    briefing: str = ""  # told behind the message
    remarks: list[str] = []  # told after it
    skills: list[str] = []  # that a lead follows besides its state's


class Gate(Struct):
    """A committed tree with an artifact that its lead asserts, or whose approval is to count."""

    record: Record
    workspace: str
    tree: str
    contents: dict[str, str]  # the digest of each artifact
    artifact: str = ""  # the one that is asserted
    excerpt: str = ""  # how the artifact begins
    outline: tuple[str, ...] = ()  # what the human is told of what comes with it, a line each
    counts: bool = False  # an outcome says that it is approved


class Brought(Struct, frozen=True):
    """A tree that a turn's end has brought in: whose, and what came with it."""

    agent: str
    thread: str
    merge: Merge

    def words(self) -> str:
        """What came of the merge, as its message to the agent has it."""
        return protocol_messages.merged(self.agent, self.thread, self.merge)


class LastWords(Struct, frozen=True):
    """What a turn's agent said last, and what the protocol adds to it."""

    text: str = ""
    own: str = ""


NO_WORDS = LastWords()


class TurnEnd(Struct):
    """The end of an agent's turn, as far as the stages have come with it."""

    turn: Turn
    event: Ended
    surface: Surface
    record: Record | None  # the record that the turn's agent leads, if it leads one
    above: Surface | None  # who dispatched it
    left: LeftForCode | None = None  # what the turn left for code that dispatched it
    outcome: Outcome | None = None
    leaving: list[str] = []  # threads whose trees are brought in
    closing: list[str] = []  # those that the turn closes
    merges: list[Brought] = []
    scope_for: Callable[[Surface], Scope | None] = lambda surface: None  # what a merge of its tree may bring
    opaque: frozenset[str] = frozenset()  # agents below which no tree is looked for: they merge for themselves
    scope: Scope | None = None  # what the turn may change of its own tree
    put_back: tuple[str, ...] = ()  # what was put right in the tree, with the reasons
    kept: Kept = NOTHING_KEPT
    said: LastWords = NO_WORDS
    gate: Gate | None = None
    unsettled: list[str] = []  # conflicts that are still open in the tree
    made: tuple[str, ...] = ()  # paths that the worker has changed, for its dispatcher
    questions: list[Question] = []
    payloads: list[Payload] = []

    @property
    def contents(self) -> Mapping[str, str]:
        """What the artifacts contain, where the turn's agent leads a record."""
        return self.gate.contents if self.gate is not None else {}


class AnsweredQuestion(Struct, frozen=True):
    """A question that the human has answered, as three messages on the bus."""

    question: MessageRow  # from the asker to the proxy
    framing: MessageRow  # from the proxy to the human
    reply: MessageRow  # from the human
