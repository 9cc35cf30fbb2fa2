"""What people ask of a job, and what became of it, as typed values: what an input's row holds as its body and its note.

Any process leaves an input on the bus, and the job's owner takes it (`inputs`). A row may also come from another
program: one that can't be read says nothing, and the owner refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar, cast

from msgspec import Struct

from parley.base.json_codec import Unreadable, decode
from parley.bus.rows import MERGE, InputRow
from parley.bus.store import Store
from parley.engine.values.people import May
from parley.protocol.molecules import Ruling, job_thread

WORDLESS = "revise needs words; say what is to change"


# ---- what is asked ---------------------------------------------------------------------------------


class Input(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """Something that is asked of a job. Its row has the kind in a column of its own."""

    kind: ClassVar[str]


class AnswerInput(Input, frozen=True):
    """The word on a question, as it was put: a verdict or a choice, and words."""

    kind: ClassVar[str] = "answer"
    question: str
    framing: str  # the message that put it
    ruling: Ruling | None = None
    text: str = ""
    choice: str = ""
    rule: int | None = None  # of the playbook's human, if one has spoken


class InterveneInput(Input, frozen=True):
    """Words to a job at work."""

    kind: ClassVar[str] = "intervene"
    text: str
    thread: str = ""  # empty: to the lead of the current state
    now: bool = False
    authoritative: bool = False


class WithdrawInput(Input, frozen=True):
    """A job is given up, or a part of it."""

    kind: ClassVar[str] = "withdraw"
    thread: str = ""  # empty: the whole job
    reason: str = ""


class PauseInput(Input, frozen=True):
    """No agent is to be woken."""

    kind: ClassVar[str] = "pause"


class ResumeInput(Input, frozen=True):
    """A pause ends, or what holds the job is raised: how, by the option, and on which day."""

    kind: ClassVar[str] = "resume"
    raised: dict[str, str] = {}
    day: str = ""


class NameInput(Input, frozen=True):
    """What a person may do in the job from now on; `see` takes back what they could do before."""

    kind: ClassVar[str] = "name"
    person: str
    may: May


class NotMergedInput(Input, frozen=True):
    """A result was not merged: it asks for nothing, and says why."""

    kind: ClassVar[str] = MERGE
    reason: str


class HostLostInput(Input, frozen=True):
    """A turn was to be ended, and its host was lost before that was done: it asks for nothing, and says so.

    The process that ended the turn leaves it: it survives that process, and belongs to the record once it is taken.
    """

    kind: ClassVar[str] = "host-lost"
    turn: str
    agent: str
    thread: str
    host: str
    why: str  # the host counts as lost

    @property
    def words(self) -> str:
        """The same in one line."""
        who = f"turn {self.turn} of {self.agent} on {self.thread}"
        return f"host {self.host} was lost ({self.why}) when {who} was ended: its processes may go on there"


_KINDS: dict[str, type[Input]] = {
    kind.kind: kind
    for kind in (
        AnswerInput,
        InterveneInput,
        WithdrawInput,
        PauseInput,
        ResumeInput,
        NameInput,
        NotMergedInput,
        HostLostInput,
    )
}


def read(row: InputRow) -> Input:
    """What an input asks for. Unreadable if it is none that is known."""
    kind = _KINDS.get(row.kind)
    if kind is None:
        raise Unreadable(f"there is no input {row.kind!r:.40}")
    return decode(row.body, kind)


def read_or_none(row: InputRow) -> Input | None:
    """What an input asks for, if it can be read."""
    try:
        return read(row)
    except Unreadable:
        return None


# ---- what became of it -----------------------------------------------------------------------------


class Handled(Struct, frozen=True, forbid_unknown_fields=True, tag_field="about", tag=str.lower):
    """What became of an input that the owner has taken."""

    in_vain: ClassVar[bool] = False

    @property
    def words(self) -> str:
        """The same in one line."""
        return str(self.__struct_config__.tag)


class AnswerTaken(Handled, frozen=True, tag="answered"):
    """A question has its answer."""


class Withdrawn(Handled, frozen=True):
    """What was given up is gone."""


class Paused(Handled, frozen=True):
    """No agent is woken."""


class Done(Handled, frozen=True):
    """It was carried out."""

    what: str

    @property
    def words(self) -> str:
        """The same in one line."""
        return self.what


class Late(Handled, frozen=True):
    """It had no effect: things stand otherwise by now."""

    in_vain: ClassVar[bool] = True
    why: str

    @property
    def words(self) -> str:
        """The same in one line."""
        return f"too late: {self.why}"


class Denied(Handled, frozen=True):
    """It had no effect: it may not be asked, or not by them."""

    in_vain: ClassVar[bool] = True
    why: str

    @property
    def words(self) -> str:
        """The same in one line."""
        return f"refused: {self.why}"


class Unsigned(Handled, frozen=True):
    """It had no effect: another program wrote it."""

    in_vain: ClassVar[bool] = True
    why: ClassVar[str] = "it is not signed with this bus's key: another program wrote it"

    @property
    def words(self) -> str:
        """The same in one line."""
        return f"refused: {self.why}"


_ANY = AnswerTaken | Withdrawn | Paused | Done | Late | Denied | Unsigned


def handled(row: InputRow) -> Handled | None:
    """What became of an input; None: no owner has taken it. Unreadable if the row says nothing that is known."""
    return decode(row.note, cast("type[Handled]", _ANY)) if row.note else None


def _became(row: InputRow) -> Handled | None:
    """The same, without what another program made of it: its audit names that, and it keeps no human from giving up."""
    try:
        return handled(row)
    except Unreadable:
        return None


def is_in_vain(row: InputRow) -> bool:
    """Whether an input that was taken had no effect."""
    became = _became(row)
    return became is not None and became.in_vain


def note_words(row: InputRow) -> str:
    """What became of an input that was taken, in one line."""
    became = _became(row)
    return became.words if became is not None else ""


# ---- which there are -------------------------------------------------------------------------------


def asks(rows: Iterable[InputRow]) -> bool:
    """Whether anything is asked of a job by these inputs."""
    return any(row.kind not in (MERGE, HostLostInput.kind) for row in rows)


def answered(rows: Iterable[InputRow]) -> list[InputRow]:
    """The answers among a job's inputs that were taken."""
    return [row for row in rows if row.kind == AnswerInput.kind and isinstance(_became(row), AnswerTaken)]


def asked_by(rows: Iterable[InputRow], kind: type[Input], transaction: int) -> InputRow | None:
    """The first input of a kind that a transaction took, and that had its effect."""
    taken = (row for row in rows if row.taken == transaction and row.kind == kind.kind)
    return next((row for row in taken if not is_in_vain(row)), None)


def withdrawn_by(rows: Iterable[InputRow], thread: str, transaction: int) -> InputRow | None:
    """The input by which a person has given up a thread in a transaction.

    A whole job is given up by an answer, too, which may have been taken before: its lead had a turn for it.
    """
    by_answer: InputRow | None = None
    for row in rows:
        given = read_or_none(row) if row.taken and not is_in_vain(row) else None
        job = job_thread(row.job)
        if isinstance(given, WithdrawInput) and row.taken == transaction and thread == (given.thread or job):
            return row
        if isinstance(given, AnswerInput) and given.ruling is Ruling.WITHDRAW and thread == job:
            by_answer = by_answer or row
    return by_answer


def authentic_answers(store: Store, job: str) -> list[InputRow]:
    """What the human has answered so far: no row that another program wrote counts."""
    return [row for row in answered(store.inputs(job, waiting=False)) if store.authentic(row) is not False]


def lacks_words(ruling: str | None, text: str) -> bool:
    """Whether a verdict is of no use as it is: the agent that is to revise something has to read what."""
    return ruling == Ruling.REVISE and not text.strip()


# ---- the messages that are made of them ----------------------------------------------------------

_MADE = "input:"
_NUMBER = re.compile("[1-9][0-9]{0,17}")


def message_key(number: int) -> str:
    """The key of the message that is made of an input."""
    return f"{_MADE}{number}"


def input_of(key: str) -> int | None:
    """The number of the input that a message was made of; None: of no input. Unreadable if its key says no number.

    The key is the row's reference to the input, and keeps the message from being made twice: it is read here alone.
    """
    if not key.startswith(_MADE):
        return None
    number = key.removeprefix(_MADE).partition("/")[0]
    if not _NUMBER.fullmatch(number):
        raise Unreadable(f"its key is {key!r:.80}, and there is no such input")
    return int(number)
