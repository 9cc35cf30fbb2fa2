"""`parley resume`: go on with what was interrupted or paused."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable
from typing import Any

from parley.adapters.sqlite import SqliteStore
from parley.adapters.system import RandomIds
from parley.config import Settings, budget_amount, budget_words
from parley.engine.audit import read_anchor
from parley.engine.budgets import SLOT, Purse, day_of, standing
from parley.engine.projections import TERMINAL, Present
from parley.engine.records import LATE, REFUSED
from parley.engine.session import leave
from parley.faces.cli import FAILED, OK, WAITING, Trouble
from parley.faces.cli.audit import state_text, unsound
from parley.faces.cli.bus import bus, find_job
from parley.faces.cli.desk import Place, me, place_of, print_json
from parley.faces.cli.in_force import of_settings, tell
from parley.faces.cli.inputs import put_and_wait
from parley.faces.cli.ready import require
from parley.faces.cli.runners import check
from parley.faces.cli.trial import preflight
from parley.faces.cli.trust import Layers, layers_of
from parley.faces.cli.workshop import STATE_CODES, conduct, engine_of, put_as_branch, spent_words
from parley.ports import JobRow


def run(words: argparse.Namespace) -> int:
    """Go on."""
    place = place_of(words.repo)
    raised = _raised(words)
    with bus(place) as store:
        rows = store.jobs()
        make_good(store, place, rows)
        if words.job is None:
            idle = [row for row in rows if row.state not in TERMINAL and not store.owner_lives(row.job)]
            sound = _sound(place, [row.job for row in idle])
            jobs = [row.job for row in idle if row.job in sound and can_go_on(store, row)]
            if not jobs:
                return _nothing(words, [row.job for row in rows if row.held and row.state not in TERMINAL])
            layers = ready(place, [row for row in rows if row.job in jobs])
        else:
            row = find_job(rows, words.job)
            if row.state in TERMINAL:
                _say(words, row, f"{row.job} has ended: {row.state}")
                return STATE_CODES[row.state]
            jobs = [row.job]
            lives = store.owner_lives(row.job)
            if not lives:
                _sound(place, jobs)
            present = Present(store, row.job)
            if raised:
                _check_raise(present, raised)
            elif spent := present.spent():
                raise Trouble(spent_words(row.job, spent, place), WAITING)
            settled = None if lives else ready(place, [row])  # before a pause ends or a budget is raised
            if (present.paused or raised) and (note := _release(store, row, raised)):
                _say(words, row, f"{row.job} goes on" if note == "resumed" else f"{row.job}: {note}")
                return OK
            layers = settled or ready(place, [row])
            if lives and not words.json:
                print(f"another process works on {row.job}; it is taken over should that process end")
    widened = of_settings(place, layers)
    if not words.json:  # else the document has it
        tell(widened)
    with engine_of(place, layers.given) as engine:  # what was looked at is what is used, whatever the file says now
        return conduct(engine, place, jobs, words, stay=words.background, widened=widened)


def ready(place: Place, rows: Iterable[JobRow]) -> Layers:
    """Refuse in one line what the jobs lack here, before anything of them changes; else the settings to go on with."""
    require(place)
    layers = layers_of(place)
    for row in rows:
        check(cast_of(row), layers.given, place)
    preflight(layers.given.boundary, place)
    return layers


def _sound(place: Place, jobs: list[str]) -> list[str]:
    """The jobs whose record is whole, and that no other program has changed; each other one is told, and holds up none.

    Inputs are signed; but a program that can write to the file could write what follows from one: an approval, a
    message of the human's, less that was spent.
    """
    if not jobs:
        return []
    whole = layers_of(place).given.durability == "full"
    with bus(place, true=True) as store:
        told = {job: unsound(store, place, job, whole=whole) for job in jobs}
    sound = [job for job in jobs if not told[job]]
    lines = [f"{line}, or give it up with `parley withdraw {job}`" for job, line in told.items() if line]
    if not sound:
        raise Trouble(lines[0], FAILED)
    for line in lines:
        print(f"parley: {line}", file=sys.stderr)
    return sound


def make_good(store: SqliteStore, place: Place, rows: Iterable[JobRow]) -> None:
    """Finish what a crash has left undone of jobs that had just ended."""
    ended = [row for row in rows if row.state in TERMINAL and not store.owner_lives(row.job)]
    behind = [row for row in ended if _is_behind(store, place, row.job)]
    if behind:
        with bus(place, true=True) as true:  # whose end another program wrote has not ended
            behind = [row for row in behind if not unsound(true, place, row.job)]
    if not behind:
        return
    with engine_of(place, Settings()) as engine:  # no agent runs: whatever parley.toml says now does not matter
        for row in behind:
            engine.make_good(row.job)
            if row.state == "DONE":
                put_as_branch(place, row.job)


def _is_behind(store: SqliteStore, place: Place, job: str) -> bool:
    """Whether the job's own file tells of less than the bus does."""
    last = store.load(job).transaction
    anchor = read_anchor(state_text(place, job))
    return last is not None and (anchor or {}).get("transaction") != last.number


def cast_of(row: JobRow) -> list[dict[str, Any]]:
    """The roles that a job keeps, each with its runner."""
    return [{**role, "runner": role.get("runner") or row.agent} for role in json.loads(row.settings)["roles"]]


def can_go_on(store: SqliteStore, row: JobRow) -> bool:
    """Whether a job was interrupted, and neither paused by somebody nor held by a budget that is spent."""
    if row.state in TERMINAL or store.owner_lives(row.job):
        return False
    if not row.held:
        return True
    present = Present(store, row.job)
    return not present.paused and not present.spent()


# ---- budgets -------------------------------------------------------------------------------------


def _raised(words: argparse.Namespace) -> dict[str, str]:
    """What is to be raised, as an input says it."""
    found: dict[str, str] = {}
    for (what, scope), word in budget_words(",".join(words.budget)).items() if words.budget else ():
        budget_amount(what, word.removeprefix("+"), f"--budget {what}={word}")
        found[what if scope == "job" else f"{scope}.{what}"] = word
    if found and words.job is None:
        raise Trouble("name the job whose budget is to be raised: parley resume JOB --budget …")
    return found


def _check_raise(present: Present, raised: dict[str, str]) -> None:
    if me() != present.row.decider:
        raise Trouble(f"only {present.row.decider}, who started {present.job}, raises its budgets")
    purse = Purse.of(json.loads(present.row.settings), present.loaded.molecules.get(SLOT, ""))
    try:
        purse.lift(raised, day_of(time.time()))
    except ValueError as error:
        raise Trouble(f"{present.job}: {error}") from error
    for line in standing(present.store, present.loaded, time.time()):
        limit = purse.limit(line.what, line.scope, day_of(time.time()))
        option = line.what if line.scope == "job" else f"{line.scope}.{line.what}"
        if option in raised and line.what != "parallel" and limit is not None and limit <= line.used:
            raise Trouble(f"{present.job} has used {line.used:g} {line.what} already; name more than that: {option}=…")


def _release(store: SqliteStore, row: JobRow, raised: dict[str, str]) -> str:
    """End a pause, raise a budget. Where somebody else goes on with the job: what became of it."""
    key = f"resume:{RandomIds().new()}"
    body = {"budget": raised, "day": day_of(time.time())} if raised else {}
    if not store.owner_lives(row.job):
        leave(store, row.job, "resume", key, body=body, by=me())
        return ""
    taken = put_and_wait(store, row.job, "resume", key, body)
    if taken is None:
        raise Trouble(f"the owner of {row.job} does not answer; it is told, and `parley show {row.job}` tells more", 1)
    if taken.note.startswith((LATE, REFUSED)):
        raise Trouble(f"{row.job}: {taken.note}", FAILED)
    return taken.note


def _nothing(words: argparse.Namespace, paused: list[str]) -> int:
    if words.json:
        print_json({"jobs": []})
    elif paused:
        print(f"nothing was interrupted; held, and goes on when it is named: parley resume {' | '.join(paused)}")
    else:
        print("nothing was interrupted; `parley ls` lists the jobs")
    return OK


def _say(words: argparse.Namespace, row: JobRow, text: str) -> None:
    print_json({"id": row.job, "state": row.state, "note": text}) if words.json else print(text)
