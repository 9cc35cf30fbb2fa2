"""`parley intervene`, `pause` and `withdraw`: what people do to a job while it works."""

from __future__ import annotations

import argparse

from parley.adapters.sqlite import SqliteStore
from parley.adapters.system import RandomIds
from parley.core.terms import Hold, job_thread, thread_kind
from parley.engine.holds import PAUSE
from parley.engine.interventions import said_of
from parley.engine.projections import TERMINAL, Present
from parley.engine.records import NOT_DONE
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.bus import bus, find_job, pick_thread
from parley.faces.cli.desk import Place, check_text, me, place_of, print_json
from parley.faces.cli.inputs import put_and_wait
from parley.faces.cli.withdrawal import done, on_any_disk, unanswered, withdraw
from parley.ports import JobRow


def run(words: argparse.Namespace) -> int:
    """Do what was asked."""
    place = place_of(words.repo)
    if words.command == "withdraw":
        return on_any_disk(place, words, lambda: _step(place, words))
    return _step(place, words)


def _step(place: Place, words: argparse.Namespace) -> int:
    with bus(place) as store:
        row = find_job(store.jobs(), words.job)
        steps = {"intervene": _intervene, "pause": _pause, "withdraw": withdraw}
        note, code = steps[words.command](store, place, row, words)
        state = store.load(row.job).row.state
    if words.json:
        print_json({"id": row.job, "state": state, "note": note})
    else:
        print(note)
    return code


def _thread(store: SqliteStore, row: JobRow, given: str | None) -> str:
    """The thread that was named; the job's own if none was."""
    if given is None:
        return job_thread(row.job)
    return pick_thread(given, (thread.id for thread in Present(store, row.job).threads()), row.job)


# ---- intervene -----------------------------------------------------------------------------------


def _intervene(store: SqliteStore, place: Place, row: JobRow, words: argparse.Namespace) -> tuple[str, int]:
    if not check_text(words.text).strip():
        raise Trouble("there is nothing to say; give the job some words")
    _refuse_ended(row, "start another job with `parley run`")
    if words.authoritative and me() != row.decider:
        raise Trouble(f"only {row.decider}, who started {row.job}, decides; leave out --authoritative")
    thread = _thread(store, row, words.thread)
    if thread_kind(thread) == "escalation":
        raise Trouble(f"{thread} is a question; answer it with `parley answer`")
    body = {"thread": thread, "text": words.text, "now": words.now, "authoritative": words.authoritative}
    key = f"intervene:{RandomIds().new()}"
    taken = put_and_wait(store, row.job, "intervene", key, body)
    if taken is None and store.owner_lives(row.job):
        raise unanswered(store, row.job, "your words are kept, and are heard as soon as that goes on")
    if taken is None:
        _refuse_ended(store.load(row.job).row, "start another job with `parley run`")
        return f"kept for {row.job}; nobody works on it now, go on with: parley resume {row.job}", OK
    if taken.note.startswith(NOT_DONE):
        return f"{row.job}: {taken.note}", FAILED
    return f"{row.job}: {said_of(store, row.job, taken)}", OK


def _refuse_ended(row: JobRow, remedy: str) -> None:
    if row.state in TERMINAL:
        raise Trouble(f"{row.job} has ended ({row.state}); {remedy}")


# ---- pause ---------------------------------------------------------------------------------------


def _pause(store: SqliteStore, place: Place, row: JobRow, words: argparse.Namespace) -> tuple[str, int]:
    _refuse_ended(row, "there is nothing to pause")
    if _is_paused(store, row.job):
        return f"{row.job} is paused already; go on with: parley resume {row.job}", OK
    taken = done(store, place, row.job, "pause", f"pause:{RandomIds().new()}", {})
    if taken is None:
        raise unanswered(store, row.job, "it pauses as soon as that goes on")
    if not _is_paused(store, row.job):  # it has ended meanwhile, or somebody else was there and went on
        return f"{row.job}: {taken.note}", FAILED
    return f"{row.job} is paused; go on with: parley resume {row.job}", OK


def _is_paused(store: SqliteStore, job: str) -> bool:
    return Hold(job_thread(job), PAUSE) in Present(store, job).soup
