"""Who may ask what of a job: one rule, for the owner that takes an input, for the audit, and for every face.

Who started the job may ask everything. A person who was named may ask what their naming includes, and nothing else.
What stands in for the human answers, where the job was started with it. Any other name is an account of this machine
that holds the bus's key: as it could stop the processes themselves, it may advise, pause, go on and withdraw.
"""

from __future__ import annotations

from msgspec import Struct

from parley.base.person_names import BadName, person_name
from parley.base.wording import joined
from parley.engine.values.human_inputs import (
    AnswerInput,
    HostLostInput,
    Input,
    InterveneInput,
    NameInput,
    ResumeInput,
    WithdrawInput,
)
from parley.engine.values.people import May, People
from parley.protocol.molecules import STEERING, Kind


class QuestionKind(Struct, frozen=True):
    """What a question is, for who may answer it."""

    kind: Kind
    has_menu: bool = False

    def needed(self) -> May:
        """What the least answer to it needs: words."""
        return May.ANSWER if self.kind is Kind.QUESTION and not self.has_menu else May.DECIDE


def needed(given: Input, question: QuestionKind | None = None) -> May:
    """What a person must be allowed for an input; `question` is the one that it answers, where it is open."""
    match given:
        case AnswerInput():
            plain = question is None or question.needed() is May.ANSWER
            return May.ANSWER if plain and not given.choice and given.ruling not in STEERING else May.DECIDE
        case InterveneInput():
            return May.DECIDE if given.authoritative else May.ANSWER
        case ResumeInput():
            return May.DECIDE if given.raised else May.ANSWER
        case WithdrawInput() | NameInput():
            return May.DECIDE
        case _:
            return May.ANSWER


def objection(people: People, by: str, given: Input, question: QuestionKind | None = None) -> str:
    """Why a person may not ask for this, in one line; empty if they may."""
    if isinstance(given, HostLostInput):
        return ""  # it asks for nothing
    if isinstance(given, NameInput):
        return _against_naming(people, by, given)
    if by == people.decider or (isinstance(given, AnswerInput) and by in people.stand_ins):
        return ""
    due = needed(given, question)
    if by in people.named:
        return "" if people.may(by) >= due else _too_little(people, by, given, due)
    if isinstance(given, AnswerInput | ResumeInput | InterveneInput) and _is_deciders(given):
        return _too_little(people, by, given, due)
    return ""


def _is_deciders(given: AnswerInput | ResumeInput | InterveneInput) -> bool:
    """Whether an input is for persons who answer for the job alone: an account that was not named can't ask it."""
    return isinstance(given, AnswerInput) or needed(given) is May.DECIDE


def _too_little(people: People, by: str, given: Input, due: May) -> str:
    """Who could ask for it instead."""
    decider, *others = people.who_may(due)
    started = f"{decider}, who started the job,"
    who, s = (f"only {joined([started, *others])}", "") if others else (f"only {started}", "s")
    match given:
        case AnswerInput() if not others:
            return f"{decider} started the job, and only they can answer; not {by}"
        case AnswerInput():
            return f"{who} can answer; not {by}"
        case InterveneInput(authoritative=True):
            return f"{who} decide{s}"
        case ResumeInput() if given.raised:
            return f"{who} raise{s} its budgets"
        case WithdrawInput():
            return f"{who} withdraw{s} it or a part of it; not {by}"
        case _:
            return f"{by} may only see this job"


def _against_naming(people: People, by: str, given: NameInput) -> str:
    if by != people.decider:
        return f"only {people.decider}, who started the job, says what others may do"
    if given.person == people.decider:
        return f"{given.person} started the job, and always decides"
    try:
        return "" if person_name(given.person) == given.person else "the name has blanks around it; leave them out"
    except BadName as bad:
        return str(bad)
