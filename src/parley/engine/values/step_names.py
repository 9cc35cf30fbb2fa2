"""What a step's row names, read back: where its rule fired, and what it consumed and produced.

The row has names alone: those of the place in the rule's own order (`at`), and what each molecule's `brief` writes.
Views and the audit read them here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from msgspec import Struct, ValidationError, convert

from parley.base.json_codec import Unreadable
from parley.bus.rows import StepRow
from parley.protocol.molecules import Origin, Ruling
from parley.protocol.states import State

N = TypeVar("N", bound=Struct)


# ---- where a rule fired ----------------------------------------------------------------------------


class FiringPlace(Struct, frozen=True, kw_only=True):
    """Where a rule fired: what its left side was found by."""

    agent: str = ""
    thread: str = ""
    message: str = ""
    record: str = ""
    question: str = ""
    child: str = ""  # a thread below
    why: str = ""


_INSTANCE, _THREAD, _RECORD, _QUESTION = ("agent", "thread"), ("thread",), ("record",), ("question",)
_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "open": _RECORD,
        "wake": _INSTANCE,
        "wake-int": ("agent", "thread", "message"),
        "interrupt": ("agent", "thread", "message"),
        "send-step": _INSTANCE,
        "nosend-step": _INSTANCE,
        "ask-step": _INSTANCE,
        "ask": _INSTANCE,
        "send-ask": _INSTANCE,
        "send": _INSTANCE,
        "spark": _INSTANCE,
        "send-terminate": _INSTANCE,
        "send-empty": _INSTANCE,
        "dead-letter": _INSTANCE,
        "merge": _INSTANCE,
        "recover": _INSTANCE,
        "give-up": ("agent", "thread", "why"),
        "enrol": _INSTANCE,
        "transition": _RECORD,
        "strike": _RECORD,
        "dialog": _RECORD,
        "pending": _RECORD,
        "observe": _RECORD,
        "escalate": _QUESTION,
        "human-reply": _QUESTION,
        "respond": _QUESTION,
        "relay": ("record", "question"),
        "intervene": _THREAD,
        "withdraw": _THREAD,
        "hold": _THREAD,
        "release": _THREAD,
        "cascade": ("thread", "child"),
        "term-run": ("thread", "agent"),
        "term-idle": ("thread", "agent"),
        "term-mbox": ("thread", "agent"),
        "term-send": ("thread", "agent"),
        "term-ask": ("thread", "agent"),
        "term-proxy": ("thread", "question"),
        "term-human": ("thread", "question"),
        "term-interrupt": ("thread", "message"),
        "term-record": _RECORD,
        "term-again": _THREAD,
        "term-final": _THREAD,
    }
)


def place_of(step: StepRow) -> FiringPlace:
    """Where a step's rule fired; nothing of a rule that is not known."""
    return FiringPlace(**dict(zip(_NAMES.get(step.rule, ()), step.at.split(" "), strict=False)))


# ---- what it consumed and produced -----------------------------------------------------------------


class NamedRun(Struct, frozen=True):
    """A Run."""

    agent: str
    thread: str
    message: str
    turn: str


class NamedRecord(Struct, frozen=True):
    """A Record."""

    id: str
    state: State
    visit: int = 0


class NamedSurface(Struct, frozen=True):
    """A Surface."""

    agent: str
    thread: str
    workspace: str


class NamedParent(Struct, frozen=True):
    """A Parent: a thread, and the one that it was sparked from."""

    child: str
    thread: str


class NamedInterrupt(Struct, frozen=True):
    """An Interrupt."""

    thread: str
    message: str


class NamedTerminate(Struct, frozen=True):
    """A Terminate."""

    thread: str
    origin: Origin


class NamedVerdict(Struct, frozen=True):
    """A Verdict."""

    record: str
    artifact: str
    ruling: Ruling
    digest: str
    author: str


_KINDS: Mapping[type[Struct], str] = MappingProxyType(
    {
        NamedRun: "Run",
        NamedRecord: "Record",
        NamedSurface: "Surface",
        NamedParent: "Parent",
        NamedInterrupt: "Interrupt",
        NamedTerminate: "Terminate",
        NamedVerdict: "Verdict",
    }
)


def all_named(kind: type[N], briefs: str) -> Iterator[N]:
    """The molecules of a kind that a row names among what its step consumed, or produced. Unreadable if it can't be."""
    mark = f"{_KINDS[kind]} "
    for brief in briefs.split("\n") if mark in briefs else ():
        if brief.startswith(mark):
            words = brief.removeprefix(mark).split(" ")
            said = zip(kind.__struct_fields__, _of_verdict(words) if kind is NamedVerdict else words, strict=False)
            try:
                yield convert(dict(said), kind, strict=False)  # a row's numbers are words
            except ValidationError as error:
                raise Unreadable(f"{brief!r:.80} names no {_KINDS[kind]}: {error}") from error


def _of_verdict(words: list[str]) -> list[str]:
    """The words of a verdict, one for each field: some rulings are two words, and no artifact is a dash."""
    told = words[:-1] if words[-1] == "untold" else words
    return [told[0], told[1] if told[1] != "-" else "", " ".join(told[2:-2]), *told[-2:]]


def first_named(kind: type[N], briefs: str) -> N | None:
    """The first of them."""
    return next(all_named(kind, briefs), None)
