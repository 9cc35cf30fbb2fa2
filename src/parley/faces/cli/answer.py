"""`parley answer`: the human's word on a question."""

from __future__ import annotations

import argparse

from parley.adapters.sqlite import SqliteStore
from parley.engine import fate
from parley.engine.projections import Asked, inbox
from parley.engine.records import LATE, REFUSED, WORDLESS, lacks_words
from parley.engine.session import Closed, NotDecider, Unchosen, give_answer
from parley.faces import interrupt
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.bus import bus, pick
from parley.faces.cli.desk import Place, check_text, clock, me, place_of, print_json
from parley.faces.cli.inputs import wait
from parley.faces.cli.withdrawal import carried_out, ending
from parley.options import NAMES
from parley.ports import InputRow

REMEDY = "`parley inbox` lists the open ones"


def run(words: argparse.Namespace) -> int:
    """Answer a question."""
    said = f"backtrack {words.backtrack}" if words.backtrack else words.verdict
    choice, ruling = (said, None) if said in NAMES else (None, said)
    if not check_text(words.text).strip() and said is None:
        raise Trouble("an answer needs words or a verdict; give TEXT, --approve, --revise, --backtrack or --withdraw")
    if lacks_words(ruling, words.text):
        raise Trouble(f'{WORDLESS}: parley answer {words.id} "TEXT" --revise')
    place = place_of(words.repo)
    with bus(place) as store:
        asked = _question(store, words.id)
        if words.backtrack and words.backtrack not in asked.backtracks:
            where = (
                f"it can go back to {' or '.join(asked.backtracks)}" if asked.backtracks else "it is the first state"
            )
            raise Trouble(f"{asked.state} can't go back to {words.backtrack}: {where}; choose another verdict")
        key = _given(store, asked, ruling, words.text, choice)
        interrupt.tell(lambda: f"the answer to {asked.id} is kept; see how {asked.job} stands: parley show {asked.job}")
        return _outcome(store, place, asked, key, words)


def _given(store: SqliteStore, asked: Asked, ruling: str | None, text: str, choice: str | None) -> str:
    try:
        return give_answer(store, asked, ruling, text, me(), choice)
    except (NotDecider, Unchosen) as refused:
        raise Trouble(str(refused)) from refused
    except Closed as closed:
        raise Trouble(_became(store, asked, closed.earlier)) from closed


def _question(store: SqliteStore, given: str) -> Asked:
    """The open question that an id names; otherwise what became of it."""
    given = given.removeprefix("escalation:")
    rows = store.jobs()
    open_now = {asked.id: asked for asked in inbox(store, rows)}
    if given and not any(name.startswith(given) for name in open_now):
        for row in rows:
            closed = fate.fate(store, row.job, given)
            if closed is not None:
                raise Trouble(f"{closed.words(clock)}; {REMEDY}")
    return open_now[pick(given, open_now, "open question", "`parley inbox` lists them")]


def _became(store: SqliteStore, asked: Asked, earlier: InputRow | None) -> str:
    """Why a question that was open a moment ago is not any more."""
    closed = fate.answered(asked.job, asked.id, earlier) if earlier else fate.fate(store, asked.job, asked.id)
    said = closed.words(clock) if closed else f"question {asked.id} was put anew meanwhile"
    return f"{said}; {REMEDY}"


def _outcome(store: SqliteStore, place: Place, asked: Asked, key: str, words: argparse.Namespace) -> int:
    """Say what became of the answer. One that gives the job up does not wait for a process to go on with it."""
    gives_up = words.verdict == "withdraw"
    meanwhile = ending(store, asked.job) if gives_up else lambda: None
    taken = wait(store, asked.job, key, meanwhile) if store.owner_lives(asked.job) else None
    if taken is None and gives_up and not store.owner_lives(asked.job):
        taken = carried_out(store, place, asked.job, key)
    note = taken.note if taken else "kept"
    if note.startswith((LATE, REFUSED)) and not words.json:
        raise Trouble(_became(store, asked, None) if note.startswith(LATE) else note, FAILED)
    if words.json:
        print_json({"id": asked.id, "job": asked.job, "taken": taken is not None, "note": note})
    elif taken is None and store.owner_lives(asked.job):
        print(f"answered {asked.id}; whoever works on the job is busy and will take it")
    elif taken is None:
        print(f"answered {asked.id}; nobody works on the job now, go on with: parley resume {asked.job}")
    else:
        print(f"{note} {asked.id}{f': the whole job {asked.job} is given up' if gives_up else ''}")
    if asked.kind == "question" and words.verdict == "approve" and not words.json:
        print("your yes is the answer to what was asked; it approves no artifact")
    if asked.menu.words and not (words.verdict or words.backtrack or words.json):
        print(f"your words chose nothing: {asked.menu.words}")
    if asked.superseded and not words.json:
        print(f"{asked.artifact} was put forward anew since: the verdict that counts is the one on {asked.superseded}")
    return FAILED if note.startswith((LATE, REFUSED)) else OK
