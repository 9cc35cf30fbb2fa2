"""`parley intervene`, `pause` and `withdraw`: what people do to a job while it works."""

from __future__ import annotations

import argparse
from typing import Any

from parley.adapters.marks import end_marked
from parley.adapters.sqlite import SqliteStore
from parley.adapters.system import RandomIds
from parley.config import Settings
from parley.core.terms import job_thread, thread_kind
from parley.engine.projections import TERMINAL, Present, past, tree
from parley.engine.session import find_input
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.bus import bus, find_job, pick_thread
from parley.faces.cli.desk import Place, check_text, me, place_of, print_json
from parley.faces.cli.inputs import put_and_wait
from parley.faces.cli.workshop import engine_of
from parley.ports import InputRow, JobRow, Owned


def run(words: argparse.Namespace) -> int:
    """Do what was asked."""
    place = place_of(words.repo)
    with bus(place) as store:
        row = find_job(store.jobs(), words.job)
        steps = {"intervene": _intervene, "pause": _pause, "withdraw": _withdraw}
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
    if row.state in TERMINAL:
        raise Trouble(f"{row.job} has ended ({row.state}); start another job with `parley run`")
    if words.authoritative and me() != row.decider:
        raise Trouble(f"only {row.decider}, who started {row.job}, decides; leave out --authoritative")
    thread = _thread(store, row, words.thread)
    if thread_kind(thread) == "escalation":
        raise Trouble(f"{thread} is a question; answer it with `parley answer`")
    body = {"thread": thread, "text": words.text, "now": words.now, "authoritative": words.authoritative}
    taken = put_and_wait(store, row.job, "intervene", f"intervene:{RandomIds().new()}", body)
    if taken is None:
        return f"kept for {row.job}; nobody works on it now, go on with: parley resume {row.job}", OK
    return f"{row.job}: {taken.note}", FAILED if taken.note.startswith("too late") else OK


# ---- pause ---------------------------------------------------------------------------------------


def _pause(store: SqliteStore, place: Place, row: JobRow, words: argparse.Namespace) -> tuple[str, int]:
    if row.state in TERMINAL:
        raise Trouble(f"{row.job} has ended ({row.state}); there is nothing to pause")
    if row.held:
        return f"{row.job} is paused already; go on with: parley resume {row.job}", OK
    taken = _done(store, place, row.job, "pause", f"pause:{RandomIds().new()}", body={})
    if taken is None:
        raise Trouble(f"the owner of {row.job} does not answer; it will pause when it does", FAILED)
    return f"{row.job} is paused; go on with: parley resume {row.job}", OK


# ---- withdraw ------------------------------------------------------------------------------------


def _withdraw(store: SqliteStore, place: Place, row: JobRow, words: argparse.Namespace) -> tuple[str, int]:
    if row.state in TERMINAL:
        return f"{row.job} has ended: {row.state}", OK if row.state == "WITHDRAWN" else FAILED
    reason = check_text(words.text)
    thread = _known_thread(store, row, words.thread)
    if thread is None:
        return f"{words.thread} has ended", OK
    if thread_kind(thread) == "escalation":
        raise Trouble(f"{thread} is a question; answer it with `parley answer`")
    whole = thread_kind(thread) in ("job", "state")
    key = f"withdraw:{job_thread(row.job) if whole else thread}"
    taken = _done(store, place, row.job, "withdraw", key, body={"thread": thread, "reason": reason})
    if taken is None:
        raise Trouble(
            f"the owner of {row.job} does not answer; it is told, and `parley show {row.job}` tells more",
            FAILED,
        )
    if taken.note.startswith("too late") and store.load(row.job).row.state not in TERMINAL:
        return f"{row.job}: {taken.note}", FAILED
    _bury(store, row.job, "" if whole else thread)
    return f"{row.job if whole else thread} is withdrawn", OK


def _known_thread(store: SqliteStore, row: JobRow, given: str | None) -> str | None:
    """The thread to withdraw; None if it has ended before."""
    if given is None:
        return job_thread(row.job)
    now = {thread.id for thread in Present(store, row.job).threads()}
    ended = {thread.id for thread in past(store, row.job).ended}
    thread = pick_thread(given, now | ended, row.job)
    return thread if thread in now else None


def _bury(store: SqliteStore, job: str, thread: str) -> None:
    """Report nothing before every process of what was withdrawn is dead."""
    if not thread:
        end_marked(f"{job}/")
        return
    below = {thread}
    present = Present(store, job)
    for _, each in tree(present.threads(), past(store, job).ended):
        if each.parent in below:
            below.add(each.id)
    for turn in store.turns(job):
        if turn.thread in below:
            end_marked(f"{job}/{turn.turn}")


def _done(store: SqliteStore, place: Place, job: str, kind: str, key: str, *, body: dict[str, Any]) -> InputRow | None:
    """Have an input carried out: by the job's owner, or here if it has none."""
    taken = put_and_wait(store, job, kind, key, body)
    if taken is not None:
        return taken
    try:
        with engine_of(place, Settings()) as engine:  # whatever parley.toml says now: giving up must always work
            engine.adopt(job)
            engine.crank(0.0)
            engine.release(job)
    except Owned:
        return put_and_wait(store, job, kind, key, body)  # somebody has taken it meanwhile
    return find_input(store, job, key)
