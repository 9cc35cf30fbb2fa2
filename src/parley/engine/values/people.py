"""What each person may do in a job: see it, answer for it, or decide. Who started the job always decides.

Others are named: in the job's settings, when it starts, or later by an input of who started it. The last naming of a
person counts. What inputs have named is kept beside the soup, in a slot: it follows from the inputs that were taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from parley.base.json_codec import Unreadable, decode, encode
from parley.bus.rows import Loaded
from parley.engine.values import job_settings
from parley.engine.values.job_settings import StandIns
from parley.protocol.molecules import HUMAN

SLOT = "people"  # where it is kept who was named since the job started


class May(StrEnum):
    """What a person may do in a job. Each includes what stands before it, and `<` compares by that."""

    SEE = "see"  # look at everything
    ANSWER = "answer"  # answer plain questions, advise, pause and go on
    DECIDE = "decide"  # verdicts, choices, budgets, what must be obeyed, withdrawals

    def __lt__(self, other: str) -> bool:
        return _rank(self) < _rank(other)

    def __le__(self, other: str) -> bool:
        return _rank(self) <= _rank(other)

    def __gt__(self, other: str) -> bool:
        return _rank(self) > _rank(other)

    def __ge__(self, other: str) -> bool:
        return _rank(self) >= _rank(other)


_ORDER = {may.value: rank for rank, may in enumerate(May)}
DOES = {May.SEE: "only looks", May.ANSWER: "answers", May.DECIDE: "decides"}  # said of a person


def _rank(may: str) -> int:
    return _ORDER[str(may)]


class NamedPeople(Struct, frozen=True):
    """The persons who were named besides who started the job: a part of its settings, and what its slot holds."""

    people: dict[str, May] = {}


class People(Struct, frozen=True, kw_only=True):
    """Who may do what in a job, as it stands."""

    decider: str  # who started it
    named: Mapping[str, May] = {}
    stand_ins: tuple[str, ...] = ()  # what may answer in the human's place

    def may(self, person: str) -> May:
        """What a person may do. One who was never named may see."""
        return May.DECIDE if person == self.decider else self.named.get(person, May.SEE)

    def who_may(self, needed: May) -> list[str]:
        """Everyone who may do so much: who started the job first."""
        return [self.decider, *(name for name, may in self.named.items() if may >= needed and name != self.decider)]

    def document(self) -> dict[str, str]:
        """Who may do more than see, as `--json` gives it."""
        return {name: str(self.may(name)) for name in self.who_may(May.ANSWER)}


def read_people(decider: str, named: NamedPeople, stand_ins: StandIns, kept: str) -> People:
    """Who may do what, by two parts of a job's settings and by what its slot holds. Unreadable if that is malformed."""
    try:
        since = decode(kept, NamedPeople).people if kept else {}
    except Unreadable as error:
        raise Unreadable(f"who may do what in the job: {error}") from error
    return People(decider=decider or HUMAN, named={**named.people, **since}, stand_ins=tuple(stand_ins.names()))


def people_of(loaded: Loaded) -> People:
    """Who may do what in a job as the bus has it. Unreadable if its settings, or its slot, have another shape."""
    row = loaded.row
    named, stand_ins = job_settings.read(row, NamedPeople), job_settings.read(row, StandIns)
    return read_people(row.decider, named, stand_ins, loaded.molecules.get(SLOT, ""))


def may_of(loaded: Loaded, person: str) -> May:
    """What a person may do in a job: every face asks this, and the job's owner asks again when it takes an input."""
    return people_of(loaded).may(person)


def with_naming(kept: str, person: str, may: May) -> str:
    """What the slot holds after one more naming. Unreadable if it held another shape."""
    since = decode(kept, NamedPeople).people if kept else {}
    return encode(NamedPeople({**since, person: may}))
