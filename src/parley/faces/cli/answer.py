"""`parley answer`: the human's word on a question."""

from __future__ import annotations

import argparse
import json
from typing import Any

from parley.adapters.sqlite import SqliteStore
from parley.engine.projections import TERMINAL, Asked, inbox
from parley.engine.session import Closed, give_answer
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.bus import bus, pick
from parley.faces.cli.desk import check_text, clock, me, place_of, print_json
from parley.faces.cli.inputs import wait
from parley.ports import InputRow

REMEDY = "`parley inbox` lists the open ones"


def run(words: argparse.Namespace) -> int:
    """Answer a question."""
    ruling = f"backtrack {words.backtrack}" if words.backtrack else words.verdict
    if not check_text(words.text).strip() and ruling is None:
        raise Trouble("an answer needs words or a verdict; give TEXT, --approve, --revise, --backtrack or --withdraw")
    place = place_of(words.repo)
    with bus(place) as store:
        asked = _question(store, words.id)
        if words.backtrack and words.backtrack not in asked.backtracks:
            where = (
                f"it can go back to {' or '.join(asked.backtracks)}" if asked.backtracks else "it is the first state"
            )
            raise Trouble(f"{asked.state} can't go back to {words.backtrack}: {where}; choose another verdict")
        key = _given(store, asked, ruling, words.text)
        return _outcome(store, asked, key, words)


def _given(store: SqliteStore, asked: Asked, ruling: str | None, text: str) -> str:
    try:
        return give_answer(store, asked, ruling, text, me())
    except Closed as closed:
        raise Trouble(_answered(asked.id, closed.earlier) if closed.earlier else f"{closed}; {REMEDY}") from closed


def _question(store: SqliteStore, given: str) -> Asked:
    """The open question that an id names; otherwise what became of it."""
    given = given.removeprefix("escalation:")
    rows = store.jobs()
    open_now = {asked.id: asked for asked in inbox(store, rows)}
    if given and not any(name.startswith(given) for name in open_now):
        for row in rows:
            closed = _closed(store, row.job, row.state, given)
            if closed:
                raise Trouble(closed)
    return open_now[pick(given, open_now, "open question", "`parley inbox` lists them")]


def _closed(store: SqliteStore, job: str, state: str, given: str) -> str:
    """Why a question of a job can't be answered any more; empty if the job never had it."""
    for row in reversed(store.inputs(job, waiting=False)):
        name = json.loads(row.body).get("question", "") if row.kind == "answer" else ""
        if name.startswith(given):
            return _answered(name, row)
    for message in store.messages(job):
        about: dict[str, Any] = json.loads(message.meta) if message.meta else {}
        name = str(about.get("question", ""))
        if name.startswith(given):
            why = f"job {job} has ended ({state})" if state in TERMINAL else "it was answered, or nobody asks any more"
            return f"question {name} is closed: {why}; {REMEDY}"
    return ""


def _answered(question: str, row: InputRow) -> str:
    body = json.loads(row.body)
    said = body.get("ruling") or "an answer"
    return f"question {question} was answered before: {said}, by {row.by} at {clock(row.time)}; {REMEDY}"


def _outcome(store: SqliteStore, asked: Asked, key: str, words: argparse.Namespace) -> int:
    """Say what became of the answer."""
    taken = wait(store, asked.job, key) if store.owner_lives(asked.job) else None
    note = taken.note if taken else "kept"
    if words.json:
        print_json({"id": asked.id, "job": asked.job, "taken": taken is not None, "note": note})
    elif taken is None and store.owner_lives(asked.job):
        print(f"answered {asked.id}; whoever works on the job is busy and will take it")
    elif taken is None:
        print(f"answered {asked.id}; nobody works on the job now, go on with: parley resume {asked.job}")
    else:
        print(f"{note} {asked.id}")
    if note.startswith("too late"):
        return FAILED
    return OK
