"""What people ask of a job, left on the bus for its owner to take."""

from __future__ import annotations

import time
from collections.abc import Sequence

from parley.base.json_codec import encode
from parley.base.options import command, refusal
from parley.bus.rows import BusError, Duplicate, InputRow
from parley.bus.store import Store
from parley.engine.inputs import answer_key
from parley.engine.values.human_inputs import (
    WORDLESS,
    AnswerInput,
    Denied,
    Input,
    Unsigned,
    handled,
    lacks_words,
    read_or_none,
)
from parley.engine.values.job_settings import STAND_INS
from parley.engine.values.permissions import needed, objection
from parley.protocol.molecules import AskHuman, Ruling, escalation_thread
from parley.views.job_view import Asked, Present


class Closed(Exception):
    """The question can't be answered, not any more or not by them: who answered it and when, if it was answered."""

    def __init__(self, asked: Asked, earlier: InputRow | None) -> None:
        super().__init__(f"question {asked.id} is closed")
        self.asked = asked
        self.earlier = earlier


class NotDecider(Closed):
    """The question is not theirs to answer."""

    def __init__(self, asked: Asked, who: Sequence[str], by: str) -> None:
        """`who`: all who may give this answer, who started the job first."""
        super().__init__(asked, None)
        started = f"{who[0]} started {asked.job} and is asked by it"
        named = f" or {' or '.join(who[1:])}" if who[1:] else ""
        self.args = (f"question {asked.id} is not yours to answer: {started}; answer as {who[0]}{named}, not as {by}",)


class NoWords(Closed):
    """The verdict says that something is to change, and no words say what."""

    def __init__(self, asked: Asked) -> None:
        super().__init__(asked, None)
        self.args = (WORDLESS,)


class Unchosen(Closed):
    """The answer chooses nothing that the question lets choose, or seems to choose by words: what to do instead."""

    def __init__(self, asked: Asked, why: str) -> None:
        super().__init__(asked, None)
        self.args = (why,)


def give_answer(store: Store, asked: Asked, ruling: str | None, text: str, by: str, choice: str | None = None) -> str:
    """Leave a person's word on a question; the input's key. A question is answered once, by a person who may."""
    if lacks_words(ruling, text):
        raise NoWords(asked)
    if why := refusal(asked.menu, choice):
        raise Unchosen(asked, why)
    if ruling is None and choice is None and (slip := asked.menu.slip(text)):
        raise Unchosen(asked, f"words choose nothing here; to choose `{slip}`: {command(asked.id, slip)}")
    present = Present(store, asked.job)
    verdict = Ruling(ruling) if ruling is not None else None
    given = AnswerInput(question=asked.id, framing=asked.framing, ruling=verdict, text=text, choice=choice or "")
    if by in STAND_INS or objection(present.people, by, given, asked.put_as):
        raise NotDecider(asked, present.people.who_may(needed(given, asked.put_as)), by)
    molecule = present.soup.get(AskHuman, escalation_thread(asked.id))
    if molecule is None or molecule.framing != asked.framing:
        raise Closed(asked, None)
    refused = 0  # the answer of one who may not give it, left past this check: it takes nothing from who may
    while True:
        key = f"{answer_key(molecule)}:{refused}" if refused else answer_key(molecule)
        try:
            leave(store, asked.job, key, given, by=by)
        except Duplicate as error:
            earlier = find_input(store, asked.job, key)
            if earlier is None or _stands(store, present, asked, earlier):
                raise Closed(asked, earlier) from error
            refused += 1
        else:
            return key


def _stands(store: Store, present: Present, asked: Asked, earlier: InputRow) -> bool:
    """Whether an answer that was left before closes its question."""
    became, given = handled(earlier), read_or_none(earlier)
    if isinstance(became, Denied | Unsigned) or given is None or store.authentic(earlier) is False:
        return False
    return became is not None or not objection(present.people, earlier.by, given, asked.put_as)


def leave(store: Store, job: str, key: str, given: Input, *, by: str) -> None:
    """Leave an input of a person's. Duplicate if one of the same key was left before.

    Only what stands in for the human writes in a stand-in's name: no account may be called so.
    """
    if by in STAND_INS:
        raise BusError(f"{by!r} stands in for the human, and no person can be called so; use another account")
    store.put(job, given.kind, key, time.time(), by, encode(given))


def find_input(store: Store, job: str, key: str) -> InputRow | None:
    """The input of a key."""
    return next((row for row in store.inputs(job, waiting=False) if row.key == key), None)
