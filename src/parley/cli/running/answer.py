"""`parley answer`: answers a question."""

from __future__ import annotations

import argparse
from contextlib import suppress

from parley.actions.leave import Closed, NotDecider, Unchosen, give_answer
from parley.base.options import NAMES
from parley.bus.rows import InputRow
from parley.bus.store import HomeStore
from parley.cli import FAILED, OK, CommandError, ctrl_c
from parley.cli.common import Workplace, account_name, check_text, place_of, print_json, time_text
from parley.cli.leave_input import wait
from parley.cli.open_bus import open_bus, pick
from parley.cli.running.withdraw import agent_killer, carried_out
from parley.engine.values.human_inputs import WORDLESS, Late, handled, lacks_words
from parley.views.job_view import DAMAGE, Asked, inbox
from parley.views.questions import question_outcome

REMEDY = "`parley inbox` lists the open ones"


def run(words: argparse.Namespace) -> int:
    """Answer a question."""
    said = f"backtrack {words.backtrack}" if words.backtrack else words.verdict
    choice, ruling = (said, None) if said in NAMES else (None, said)
    if not check_text(words.text).strip() and said is None:
        raise CommandError(
            "an answer needs words or a verdict; give TEXT, --approve, --revise, --backtrack or --withdraw"
        )
    if lacks_words(ruling, words.text):
        raise CommandError(f'{WORDLESS}: parley answer {words.id} "TEXT" --revise')
    place = place_of(words.repo)
    with open_bus(place) as store:
        asked = _question(store, words.id)
        if words.backtrack and words.backtrack not in asked.backtracks:
            where = (
                f"it can go back to {' or '.join(asked.backtracks)}" if asked.backtracks else "it is the first state"
            )
            raise CommandError(f"{asked.state} can't go back to {words.backtrack}: {where}; choose another verdict")
        key = _given(store, asked, ruling, words.text, choice)
        ctrl_c.set_interrupted_hint(
            lambda: f"the answer to {asked.id} is kept; see how {asked.job} stands: parley show {asked.job}"
        )
        return _outcome(store, place, asked, key, words)


def _given(store: HomeStore, asked: Asked, ruling: str | None, text: str, choice: str | None) -> str:
    try:
        return give_answer(store, asked, ruling, text, account_name(), choice)
    except (NotDecider, Unchosen) as refused:
        raise CommandError(str(refused)) from refused
    except Closed as closed:
        raise CommandError(_became(store, asked, closed.earlier)) from closed


def _question(store: HomeStore, given: str) -> Asked:
    """The open question that an id names; otherwise raises with its outcome."""
    given = given.removeprefix("escalation:")
    rows = store.jobs()
    open_now = {asked.id: asked for asked in inbox(store, rows)}
    if given and not any(name.startswith(given) for name in open_now):
        for row in rows:
            closed = None
            with suppress(*DAMAGE):  # one damaged job does not hide the others
                closed = question_outcome.fate(store, row.job, given)
            if closed is not None:
                raise CommandError(f"{closed.words(time_text)}; {REMEDY}")
    return open_now[pick(given, open_now, "open question", "`parley inbox` lists them")]


def _became(store: HomeStore, asked: Asked, earlier: InputRow | None) -> str:
    """Why a question was closed a moment ago."""
    closed = (
        question_outcome.answered(asked.job, asked.id, earlier)
        if earlier
        else question_outcome.fate(store, asked.job, asked.id)
    )
    said = closed.words(time_text) if closed else f"question {asked.id} was asked again meanwhile"
    return f"{said}; {REMEDY}"


def _outcome(store: HomeStore, place: Workplace, asked: Asked, key: str, words: argparse.Namespace) -> int:
    """Print the answer's outcome. An answer that gives the job up is carried out even without an owner."""
    gives_up = words.verdict == "withdraw"
    meanwhile = agent_killer(store, asked.job) if gives_up else lambda: None
    taken = wait(store, asked.job, key, meanwhile) if store.owner_lives(asked.job) else None
    if taken is None and gives_up and not store.owner_lives(asked.job):
        taken = carried_out(store, place, asked.job, key)
    became = handled(taken) if taken else None
    note, in_vain = (became.words, became.in_vain) if became is not None else ("kept", False)
    if in_vain and not words.json:
        raise CommandError(_became(store, asked, None) if isinstance(became, Late) else note, FAILED)
    if words.json:
        print_json({"id": asked.id, "job": asked.job, "taken": taken is not None, "note": note})
    elif taken is None and store.owner_lives(asked.job):
        print(f"answered {asked.id}; the job's owner is busy and will take it")
    elif taken is None:
        print(f"answered {asked.id}; no process works on the job, go on with: parley resume {asked.job}")
    else:
        print(f"{note} {asked.id}{f': the whole job {asked.job} is given up' if gives_up else ''}")
    if asked.kind == "question" and words.verdict == "approve" and not words.json:
        print("your yes is the answer to what was asked; it approves no artifact")
    if asked.menu.words and not (words.verdict or words.backtrack or words.json):
        print(f"your words chose nothing: {asked.menu.words}")
    if asked.superseded and not words.json:
        print(f"{asked.artifact} was asserted again since: the verdict that counts is the one on {asked.superseded}")
    return FAILED if in_vain else OK
