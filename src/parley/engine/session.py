"""The loop in which a face runs jobs: own them, crank, show, and know when to stop.

A job that another process owns is watched, and taken over within seconds should that process die.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from parley.core.terms import AskHuman, Hold, Run, escalation_thread
from parley.engine.compartment import Broken
from parley.engine.engine import Engine, collect_seldom
from parley.engine.live import LiveJob
from parley.engine.losing import is_parked
from parley.engine.projections import TERMINAL, Asked, Present
from parley.engine.records import REFUSED, WORDLESS, asks, lacks_words
from parley.engine.stand_in import STAND_INS, answer_key
from parley.options import command, refusal
from parley.ports import BusError, Duplicate, InputRow, Owned, Store

CRANK_SECONDS = 0.1
WATCH_SECONDS = 0.25  # how soon the death of another owner is seen


class Pause(StrEnum):
    """Why a session ends with a job."""

    ENDED = "ended"  # it has reached a terminal
    WAITING = "waiting"  # for the human, and nobody can be asked here
    PAUSED = "paused"  # by the human
    UNCONFINED = "unconfined"  # an agent could not be confined: the job is interrupted, and asks no one
    BROKEN = "broken"  # Parley itself failed in it: the job is interrupted, and the others went on


class Rest(NamedTuple):
    """How a session leaves a job, and why, where the job's record does not say."""

    how: Pause
    why: str = ""


class View(Protocol):
    """Whoever looks on. What it does must not take long."""

    def show(self) -> None:
        """Something may have changed."""


def drive(engine: Engine, jobs: Sequence[str], view: View, *, stay: bool) -> dict[str, Rest]:
    """Run jobs until each has ended, or can't go on here; how each stands then.

    `stay`: wait for the human's answers and for the end of a pause, however long that takes. Without it, a job that
    only the human can bring on is not waited for, also where another process owns it.
    """
    ended: dict[str, Rest] = {}
    collect_seldom()
    while True:
        ended |= {job: Rest(Pause.BROKEN, why) for job, why in engine.put_aside().items()}
        watched = [job for job in jobs if job not in engine.jobs and job not in ended]
        for job in watched:
            try:
                over = not _taken_over(engine, job)
            except Broken as broken:
                ended[job] = Rest(Pause.BROKEN, str(broken))
                continue
            if over:
                ended[job] = Rest(Pause.ENDED)
            elif not stay and job not in engine.jobs and (how := _rest_elsewhere(engine.world.store, job)):
                ended[job] = Rest(how)
        happened = engine.crank(CRANK_SECONDS if engine.jobs else 0.0)
        if not engine.jobs and watched:
            time.sleep(WATCH_SECONDS)
        view.show()
        for job, live in list(engine.jobs.items()):
            if not live.record.live:
                engine.release(job)
                ended[job] = Rest(Pause.ENDED)
            elif live.unconfined:
                engine.release(job)
                ended[job] = Rest(Pause.UNCONFINED, live.unconfined)
        if len(ended) == len(jobs):
            return ended
        resting = {} if happened or stay else {job: _rest(live) for job, live in engine.jobs.items()}
        if resting and len(resting) + len(ended) == len(jobs) and all(resting.values()):
            for job, how in resting.items():
                if how is not None:
                    engine.release(job)
                    ended[job] = Rest(how)
            return ended


def _taken_over(engine: Engine, job: str) -> bool:
    """Become the job's owner if it has none; False if there is nothing left to own."""
    store = engine.world.store
    if store.owner_lives(job):
        return True
    if _is_over(engine, job):
        return False
    try:
        engine.adopt(job)
    except Owned:
        return True  # another was faster
    return True


def _is_over(engine: Engine, job: str) -> bool:
    return engine.world.store.load(job).row.state in TERMINAL


def _rest(live: LiveJob) -> Pause | None:
    """Whether only the human can bring the job on."""
    if live.running:
        return None
    if live.held:
        return Pause.WAITING if live.unpaid else Pause.PAUSED
    if any(is_parked(hold) for hold in live.soup.of(Hold)):
        return None  # it goes on by itself when the provider lets it
    return Pause.WAITING if live.asking else None


def _rest_elsewhere(store: Store, job: str) -> Pause | None:
    """The same of a job that another process owns, as the bus has it."""
    present = Present(store, job)
    soup = present.soup
    if any(soup.of(Run)) or asks(store.inputs(job)) or any(is_parked(hold) for hold in soup.of(Hold)):
        return None
    if present.row.held:
        return Pause.WAITING if present.unpaid else Pause.PAUSED
    return Pause.WAITING if present.questions() else None


# ---- what people ask of a job, left on the bus for whoever owns it -------------------------------


class Closed(Exception):
    """The question can't be answered, not any more or not by them: who answered it and when, if anybody did."""

    def __init__(self, asked: Asked, earlier: InputRow | None) -> None:
        super().__init__(f"question {asked.id} is closed")
        self.asked = asked
        self.earlier = earlier


class NotDecider(Closed):
    """The question is not theirs to answer."""

    def __init__(self, asked: Asked, decider: str, by: str) -> None:
        super().__init__(asked, None)
        started = f"{decider} started {asked.job} and is asked by it"
        self.args = (f"question {asked.id} is not yours to answer: {started}; answer as {decider}, not as {by}",)


class Wordless(Closed):
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
    """Leave the human's word on a question; the input's key. A question is answered once, by who started the job."""
    if lacks_words(ruling, text):
        raise Wordless(asked)
    if why := refusal(asked.menu, choice):
        raise Unchosen(asked, why)
    if ruling is None and choice is None and (slip := asked.menu.slip(text)):
        raise Unchosen(asked, f"words choose nothing here; to choose `{slip}`: {command(asked.id, slip)}")
    present = Present(store, asked.job)
    if by != present.row.decider:
        raise NotDecider(asked, present.row.decider, by)
    molecule = present.soup.get(AskHuman, escalation_thread(asked.id))
    if molecule is None or molecule.framing != asked.framing:
        raise Closed(asked, None)
    body = {"question": asked.id, "framing": asked.framing, "ruling": ruling, "text": text, "rule": None}
    if choice is not None:
        body["choice"] = choice
    refused = 0  # somebody else's word, left past this check: it takes nothing from the decider
    while True:
        key = f"{answer_key(molecule)}:{refused}" if refused else answer_key(molecule)
        try:
            leave(store, asked.job, "answer", key, body=body, by=by)
        except Duplicate as error:
            earlier = find_input(store, asked.job, key)
            if earlier is None or (
                earlier.by in (by, *STAND_INS)
                and not earlier.note.startswith(REFUSED)
                and store.authentic(earlier) is not False
            ):
                raise Closed(asked, earlier) from error
            refused += 1
        else:
            return key


def leave(store: Store, job: str, kind: str, key: str, *, body: Mapping[str, Any], by: str) -> None:
    """Leave an input of a person's. Duplicate if one of the same key was left before.

    Only what stands in for the human writes in a stand-in's name: no account may be called so.
    """
    if by in STAND_INS:
        raise BusError(f"{by!r} stands in for the human, and no person can be called so; use another account")
    store.put(job, kind, key, time.time(), by, json.dumps(body, ensure_ascii=False))


def find_input(store: Store, job: str, key: str) -> InputRow | None:
    """The input of a key."""
    return next((row for row in store.inputs(job, waiting=False) if row.key == key), None)
