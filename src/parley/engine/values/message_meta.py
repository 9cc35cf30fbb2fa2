"""What the protocol itself knows about a message: one typed value for each meaning. Agents never write it.

A message that means nothing but its words has none. What a feature's own code reads is the feature's own value: here
it is carried, and not looked into.
"""

from __future__ import annotations

from typing import TypeVar, cast

from msgspec import Raw, Struct

from parley.base.json_codec import Unreadable, decode, encode
from parley.base.options import NO_MENU, Menu
from parley.bus.rows import MessageRow
from parley.engine.values.change_stat import Stat
from parley.engine.values.step_extra import Told
from parley.engine.values.unfinished_work import Unfinished
from parley.ports.decisions import How
from parley.ports.workspaces import SentFile
from parley.protocol.molecules import Kind, Ruling

M = TypeVar("M", bound="Meta")


class Meta(
    Struct,
    frozen=True,
    omit_defaults=True,
    forbid_unknown_fields=True,
    kw_only=True,
    tag_field="about",
    tag=str.lower,
):
    """What is known about a message. Clean merges may ride on every kind."""

    riders: tuple[Told, ...] = ()


class Plain(Meta, frozen=True):
    """It means nothing but its words."""


# ---- what the orchestrator hears -------------------------------------------------------------------


class Requested(Meta, frozen=True):
    """The human's request, with which the job begins."""


class Observed(Meta, frozen=True, kw_only=True):
    """A lead left an outcome record: what it says, or why it can't count, and where things stood."""

    record: str
    state: str
    actor: str
    turn: str
    workspace: str
    outcome: str = ""
    reason: str = ""
    problem: str = ""
    contents: tuple[tuple[str, str], ...] = ()  # each artifact's digest
    text: str = ""  # the turn's last words


class Begins(Meta, frozen=True):
    """A visit of a state begins, for its lead."""


class OutcomeRefused(Meta, frozen=True, tag="violated"):
    """An outcome did not count, for the lead that left it."""

    reason: str


class Rested(Meta, frozen=True):
    """The job rests, and its state has no outcome."""


# ---- what becomes of instances ---------------------------------------------------------------------


class Failed(Meta, frozen=True, kw_only=True):
    """An instance has lost its turn for the last time."""

    thread: str
    message: str
    fault: str
    hopeless: bool = False  # trying again would have ended the same way
    tries: int = 0


class Stalled(Meta, frozen=True, kw_only=True):
    """An instance shows no sign of life."""

    thread: str
    turn: str
    since: float


class DeadLetter(Meta, frozen=True):
    """A message found its recipient gone."""

    message: str


class TakenAway(Meta, frozen=True):
    """The human has withdrawn an instance, and not the job."""

    thread: str


class Conflicted(Meta, frozen=True, kw_only=True):
    """A merge left conflicts to settle."""

    thread: str  # whose tree came in
    merged: int  # how many paths came with it
    paths: tuple[str, ...]


class SentFiles(Meta, frozen=True):
    """A task, and the files that go along with it."""

    files: tuple[SentFile, ...]


class LeftForCode(Meta, frozen=True):
    """What a turn left for the code that dispatched it: a value of the feature's own, which only the feature reads."""

    left: Raw

    @classmethod
    def of(cls, value: Struct) -> LeftForCode:
        """What a turn left, as its feature has it."""
        return cls(Raw(encode(value).encode()))


# ---- interventions ---------------------------------------------------------------------------------


class Intervened(Meta, frozen=True, kw_only=True):
    """A human's own words to a job at work."""

    by: str
    text: str
    now: bool = False
    authoritative: bool = False


class PassedOn(Meta, frozen=True, kw_only=True):
    """The same words on their way to the lead of the state that is current."""

    origin: str  # the human's own message
    now: bool = False
    authoritative: bool = False


# ---- questions -------------------------------------------------------------------------------------


class Guessed(Struct, frozen=True, omit_defaults=True):
    """What the proxy would say, or expects the human to say."""

    verdict: str = ""
    confidence: float | None = None
    reason: str = ""
    text: str = ""

    def document(self) -> dict[str, object]:
        """As `--json` gives it."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


class Weighed(Struct, frozen=True):
    """Whether the proxy's own answer stands, by the record of what this human said."""

    answer: bool
    agreement: float
    evidence: float
    why: str

    def document(self) -> dict[str, object]:
        """As `--json` gives it."""
        return {name: getattr(self, name) for name in self.__struct_fields__}


class ProxyView(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """What only a turn of the proxy's can have brought."""

    predicted: Guessed | None = None  # before it looked
    recalled: tuple[str, ...] = ()  # the human's decisions that it was reminded of
    found: str = ""
    would: Guessed | None = None  # what it would say
    reads: Guessed | None = None  # what it reads in the human's words
    weighed: Weighed | None = None


NO_VIEW = ProxyView()


class ToProxy(Meta, frozen=True, kw_only=True):
    """A question that the proxy is to deal with."""

    text: str  # the asker's own words, as its body quotes them
    menu: Menu = NO_MENU
    outline: tuple[str, ...] = ()  # what comes with what is put forward, a line each
    unfinished: tuple[Unfinished, ...] = ()  # the work that is left out of it

    @property
    def warning(self) -> str:
        """What tools run or obey of what is put forward, and odd names in it."""
        return ""


class Posed(ToProxy, frozen=True, kw_only=True):
    """A question as an agent asks it: for those who deal with it, and for what is remembered of it."""

    question: str
    state: str
    kind: Kind
    artifact: str = ""
    digest: str = ""
    stat: Stat | None = None  # what the job has changed, where its work is put forward
    excerpt: str = ""  # how the artifact begins
    draft: str = ""  # what the proxy is told of an artifact that holds nowhere yet

    @property
    def warning(self) -> str:
        """What tools run or obey of the work, and odd names in it."""
        return self.stat.warning_words() if self.stat is not None else ""


class Dialog(ToProxy, frozen=True, kw_only=True):
    """The orchestrator's question when a state can't go on."""

    fault: str
    violation: str = ""  # why its lead's outcome did not count, if that is why it can't go on


class Put(Meta, frozen=True, kw_only=True):
    """A question as it is put to the human."""

    question: str
    state: str
    visit: int
    kind: Kind
    artifact: str = ""
    digest: str = ""
    asker: str
    thread: str  # the asker's
    asked: str  # the message with which it was asked
    subject: str  # what it is about: the first line of what the human is shown
    text: str  # the asker's own words
    framing: str = ""  # the proxy's
    how: How = How.UNSURE  # why the human is asked
    words: str = ""  # what the human has said to it before
    outline: tuple[str, ...] = ()
    menu: Menu = NO_MENU
    unfinished: tuple[Unfinished, ...] = ()
    warning: str = ""
    view: ProxyView = NO_VIEW
    remarks: tuple[str, ...] = ()  # what features tell the human besides


class Replied(Meta, frozen=True, kw_only=True):
    """What the human said to a question."""

    by: str
    put: str  # the message that put the question to them
    ruling: Ruling | None = None
    text: str = ""
    choice: str = ""


class Answered(Meta, frozen=True, kw_only=True):
    """An answer, as its asker gets it."""

    question: str
    kind: Kind
    author: str
    asked: str  # the message with which it was asked
    ruling: Ruling | None = None
    text: str = ""
    choice: str = ""
    heard: bool = False  # whether the words are the human's
    remarks: str = ""  # the proxy's, beside the human's words
    view: ProxyView = NO_VIEW


class Relayed(Meta, frozen=True, kw_only=True):
    """An answer to another agent that leads the state back, as the state's lead hears of it."""

    question: str
    author: str
    asker: str


_ANY = (
    Plain
    | Requested
    | Observed
    | Begins
    | OutcomeRefused
    | Rested
    | Failed
    | Stalled
    | DeadLetter
    | TakenAway
    | Conflicted
    | SentFiles
    | LeftForCode
    | Intervened
    | PassedOn
    | Posed
    | Dialog
    | Put
    | Replied
    | Answered
    | Relayed
)


def read(row: MessageRow) -> Meta | None:
    """What is known about a message."""
    return decode(row.meta, cast("type[Meta]", _ANY)) if row.meta else None


def read_as(kind: type[M], row: MessageRow) -> M:
    """What is known about a message that is known to mean that. Unreadable if it means another thing."""
    meta = read(row)
    if not isinstance(meta, kind):
        raise Unreadable(f"message {row.number} is no {kind.__name__}")
    return meta
