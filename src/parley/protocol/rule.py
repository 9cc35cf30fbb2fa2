"""What a rule is: how it reads, where it may fire, what it does there, and what its firing leaves to be chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from parley.protocol.errors import Disabled
from parley.protocol.molecules import Charter, Interrupt, Molecule, Origin, Payload, Question, Role, Ruling
from parley.protocol.soup import Soup
from parley.protocol.states import Action
from parley.protocol.term import Term, refuse_unwritable

C = TypeVar("C")

# ---- what a firing's author chose; everything else about a firing follows from the soup -----------


class Broadcast(Term, frozen=True):
    """[send-step]: what the agent sends, and what it asks in the same turn; whether the turn changed its files."""

    payloads: tuple[Payload, ...]
    questions: tuple[Question, ...] = ()
    progress: bool = False


class Asking(Term, frozen=True):
    """[ask-step]: what the agent asks; whether the turn changed its files."""

    questions: tuple[Question, ...]
    progress: bool = False


class Answer(Term, frozen=True):
    """[human-reply] and [respond]: a message, whose verdict it is, and the verdict, if there is one.

    `words` are the human's messages that [respond] carries to the asker, word for word.
    """

    message: str
    author: str
    ruling: Ruling | None = None
    words: tuple[str, ...] = ()


class Ending(Term, frozen=True):
    """[withdraw]: why, and the message that tells the parent."""

    origin: Origin
    notice: str = ""


class Opening(Term, frozen=True):
    """[open]: what the job starts with."""

    charter: Charter
    request: str
    task_id: str = ""
    team_id: str = ""


class Passage(Term, frozen=True):
    """[transition]: the outcome, and what the record's artifacts contained when it was written."""

    action: Action
    actor: str
    timestamp: float = 0.0
    reason: str = ""
    contents: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        refuse_unwritable(self.timestamp)


class Enrolment(Term, frozen=True):
    """[enrol]: the roles that join an instance's team."""

    roles: tuple[Role, ...]


Choice = Broadcast | Asking | Answer | Ending | Opening | Passage | Enrolment | Interrupt | str | None


class Firing(Term, frozen=True):
    """One firing of a rule: where, as the names its left side is found by, and what was chosen."""

    rule: str
    at: tuple[str, ...]
    choice: Choice = None

    def chosen(self, kind: type[C]) -> C:
        """What was chosen, which is of the kind that the rule takes."""
        if not isinstance(self.choice, kind):
            raise Disabled(f"[{self.rule}] takes a {kind.__name__}, not {self.choice!r:.80}")
        return self.choice


class Reaction(Term, frozen=True):
    """What a firing takes out of the soup and what it puts in."""

    consumed: tuple[Molecule, ...]
    produced: tuple[Molecule, ...]


Menu = Callable[[str, Soup, Molecule | None], Iterable[Choice]]
"""What might be chosen for a rule at a molecule. The rules do not limit it; an explorer must."""


Sites = Callable[[Soup, Menu], Iterator[Firing]]
React = Callable[[Soup, Firing], Reaction]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """A reaction rule: how it reads, where it may match, and what it does there.

    `shape` is its notation, `besides` the notation of what the protocol remembers with it. `?` behind a molecule says
    that it may be missing, `*` that there may be any number of them, `+` that there is one at least.
    `react` computes the reaction at a firing's site or raises `Disabled` (the left side or the side
    condition fails) or `Refused` (the agent chose something that it may not do).
    """

    name: str
    section: str
    shape: str
    besides: str = ""
    when: str = ""
    sites: Sites
    react: React


RuleSet = Mapping[str, Rule]
