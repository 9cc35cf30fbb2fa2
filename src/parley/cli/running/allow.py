"""`parley allow`: who started a job says what another person may do in it."""

from __future__ import annotations

import argparse

from parley.bus.store import HomeStore
from parley.cli import FAILED, OK, CommandError
from parley.cli.common import acting_person, person, place_of, print_json
from parley.cli.leave_input import put_and_wait
from parley.cli.open_bus import find_job, open_bus
from parley.cli.running.withdraw import unanswered
from parley.engine.values.human_inputs import NameInput, is_in_vain, note_words
from parley.engine.values.people import DOES, May, people_of
from parley.engine.values.permissions import objection
from parley.machine.clock import RandomIds
from parley.views.job_view import TERMINAL


def run(words: argparse.Namespace) -> int:
    """Name a person, and say what became of it."""
    by = acting_person(words)
    given = NameInput(person=person(words.person), may=May(words.may))
    with open_bus(place_of(words.repo)) as store:
        row = find_job(store.jobs(), words.job)
        if row.state in TERMINAL:
            raise CommandError(f"{row.job} has ended ({row.state}): nothing in it is left to answer")
        if why := objection(people_of(store.load(row.job)), by, given):
            raise CommandError(f"{row.job}: {why}")
        note, kept, code = _leave(store, row.job, given, by)
        people = people_of(store.load(row.job)).document()
    if words.json:
        named = {"person": given.person, "may": given.may}
        print_json({"id": row.job, **named, "kept": kept, "note": note, "people": people})
    else:
        print(f"{row.job}: {note}")
    return code


def _leave(store: HomeStore, job: str, given: NameInput, by: str) -> tuple[str, bool, int]:
    """Leave the naming: what became of it, whether it is kept for the next owner, and the exit code."""
    taken = put_and_wait(store, job, f"{given.kind}:{RandomIds().new()}", given, by=by)
    if taken is None and store.owner_lives(job):
        raise unanswered(store, job, "the naming is kept, and holds as soon as that goes on")
    if taken is None:
        does = f"{given.person} {DOES[given.may]}"
        return f"kept: {does} as soon as a process works on it; go on with: parley resume {job}", True, OK
    return note_words(taken), False, FAILED if is_in_vain(taken) else OK
