"""`parley intervene`, `pause` and `withdraw`: what a user does to a running job."""

from __future__ import annotations

import argparse

from parley.bus.rows import JobRow
from parley.bus.store import HomeStore
from parley.cli import FAILED, OK, CommandError
from parley.cli.common import Workplace, acting_person, check_text, place_of, print_json
from parley.cli.leave_input import put_and_wait
from parley.cli.open_bus import find_job, open_bus, pick_thread
from parley.cli.running.withdraw import done, on_any_disk, unanswered, withdraw
from parley.engine.values.hold_causes import PAUSE
from parley.engine.values.human_inputs import InterveneInput, PauseInput, is_in_vain, note_words
from parley.engine.values.people import people_of
from parley.engine.values.permissions import objection
from parley.machine.clock import RandomIds
from parley.protocol.molecules import Hold, job_thread, thread_kind
from parley.views.history.interventions import said_of
from parley.views.job_view import TERMINAL, Present
from parley.views.turn_hosts import lost_hosts


def run(words: argparse.Namespace) -> int:
    """Run the command."""
    place = place_of(words.repo)
    if words.command == "withdraw":
        return on_any_disk(place, words, lambda: _step(place, words))
    return _step(place, words)


def _step(place: Workplace, words: argparse.Namespace) -> int:
    with open_bus(place) as store:
        row = find_job(store.jobs(), words.job)
        steps = {"intervene": _intervene, "pause": _pause, "withdraw": withdraw}
        note, code = steps[words.command](store, place, row, words)
        state = store.load(row.job).row.state
        lost = lost_hosts(store, row.job)
    if words.json:
        print_json({"id": row.job, "state": state, "note": note, "lost_hosts": [host.document() for host in lost]})
    else:
        print(note)
    return code


def _thread(store: HomeStore, row: JobRow, given: str | None) -> str:
    """The thread that was named; the job's own if none was."""
    if given is None:
        return job_thread(row.job)
    return pick_thread(given, (thread.id for thread in Present(store, row.job).threads()), row.job)


# ---- intervene -----------------------------------------------------------------------------------


def _intervene(store: HomeStore, place: Workplace, row: JobRow, words: argparse.Namespace) -> tuple[str, int]:
    if not check_text(words.text).strip():
        raise CommandError("there is nothing to say; give the job some words")
    _refuse_ended(row, "start another job with `parley run`")
    thread = _thread(store, row, words.thread)
    if thread_kind(thread) == "escalation":
        raise CommandError(f"{thread} is a question; answer it with `parley answer`")
    given = InterveneInput(thread=thread, text=words.text, now=words.now, authoritative=words.authoritative)
    if why := objection(people_of(store.load(row.job)), acting_person(words), given):
        raise CommandError(f"{row.job}: {why}{'; leave out --authoritative' if words.authoritative else ''}")
    key = f"intervene:{RandomIds().new()}"
    taken = put_and_wait(store, row.job, key, given, by=acting_person(words))
    if taken is None and store.owner_lives(row.job):
        raise unanswered(store, row.job, "your words are kept, and reach the job as soon as that goes on")
    if taken is None:
        _refuse_ended(store.load(row.job).row, "start another job with `parley run`")
        return f"kept for {row.job}; no process works on it, go on with: parley resume {row.job}", OK
    if is_in_vain(taken):
        return f"{row.job}: {note_words(taken)}", FAILED
    return f"{row.job}: {said_of(store, row.job, taken)}", OK


def _refuse_ended(row: JobRow, remedy: str) -> None:
    if row.state in TERMINAL:
        raise CommandError(f"{row.job} has ended ({row.state}); {remedy}")


# ---- pause ---------------------------------------------------------------------------------------


def _pause(store: HomeStore, place: Workplace, row: JobRow, words: argparse.Namespace) -> tuple[str, int]:
    _refuse_ended(row, "there is nothing to pause")
    if _is_paused(store, row.job):
        return f"{row.job} is paused already; go on with: parley resume {row.job}", OK
    taken = done(store, place, row.job, f"pause:{RandomIds().new()}", PauseInput(), by=acting_person(words))
    if taken is None:
        raise unanswered(store, row.job, "it pauses as soon as that goes on")
    if not _is_paused(store, row.job):  # it has ended meanwhile, or another user has resumed it
        return f"{row.job}: {note_words(taken)}", FAILED
    return f"{row.job} is paused; go on with: parley resume {row.job}", OK


def _is_paused(store: HomeStore, job: str) -> bool:
    return Hold(job_thread(job), PAUSE.text) in Present(store, job).soup
