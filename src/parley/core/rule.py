"""What a rule is, and what firing one means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from parley.core.frozen import quick
from parley.core.soup import Soup
from parley.core.states import Action
from parley.core.terms import Charter, Interrupt, Molecule, Origin, Payload, Question, Role, Ruling

# ---- what a firing's author chose; everything else about a firing follows from the soup -----------


@quick
@dataclass(frozen=True, slots=True)
class Broadcast:
    """[send-step]: what the agent sends, and what it asks in the same turn; whether the turn changed its files."""

    payloads: tuple[Payload, ...]
    questions: tuple[Question, ...] = ()
    progress: bool = False


@dataclass(frozen=True, slots=True)
class Asking:
    """[ask-step]: what the agent asks; whether the turn changed its files."""

    questions: tuple[Question, ...]
    progress: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """[human-reply] and [respond]: a message, whose verdict it is, and the verdict, if there is one.

    `words` are the human's messages that [respond] carries to the asker, word for word.
    """

    message: str
    author: str
    ruling: Ruling | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ending:
    """[withdraw]: why, and the message that tells the parent."""

    origin: Origin
    notice: str = ""


@dataclass(frozen=True, slots=True)
class Opening:
    """[open]: what the job starts with."""

    charter: Charter
    request: str
    task_id: str = ""
    team_id: str = ""


@dataclass(frozen=True, slots=True)
class Passage:
    """[transition]: the outcome, and what the record's artifacts contained when it was written."""

    action: Action
    actor: str
    timestamp: float = 0.0
    reason: str = ""
    contents: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Enrolment:
    """[enrol]: the roles that join an instance's team."""

    roles: tuple[Role, ...]


Choice = Broadcast | Asking | Answer | Ending | Opening | Passage | Enrolment | Interrupt | str | None


@quick
@dataclass(frozen=True, slots=True)
class Firing:
    """One firing of a rule: where, as the names its left side is found by, and what was chosen."""

    rule: str
    at: tuple[str, ...]
    choice: Choice = None


@quick
@dataclass(frozen=True, slots=True)
class Reaction:
    """What a firing takes out of the soup and what it puts in."""

    consumed: tuple[Molecule, ...]
    produced: tuple[Molecule, ...]


Menu = Callable[[str, Soup, Molecule | None], Iterable[Choice]]
"""What might be chosen for a rule at a molecule. The rules do not limit it; whoever explores must."""


Sites = Callable[[Soup, Menu], Iterator[Firing]]
React = Callable[[Soup, Firing], Reaction]


@dataclass(frozen=True, slots=True)
class Rule:
    """A reaction rule: how it reads, where it may match, and what it does there.

    `react` computes the reaction at a firing's site or raises `Disabled` (the left side or the side
    condition fails) or `Refused` (the agent chose something that it may not do).
    """

    name: str
    section: str
    shape: str
    when: str
    sites: Sites
    react: React


RuleSet = Mapping[str, Rule]
