"""`parley withdraw`: nothing is reported before every process is dead and every workspace is quarantined."""

from __future__ import annotations

import argparse
import sys
import time

from parley.adapters.marks import end_marked
from parley.adapters.sqlite import SqliteStore
from parley.config import Settings
from parley.core.terms import EXECUTOR, Surface, job_thread, thread_kind
from parley.engine.audit import read_anchor
from parley.engine.projections import TERMINAL, Present, past, tree
from parley.engine.records import NOT_DONE
from parley.engine.session import find_input
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.bus import pick_thread
from parley.faces.cli.desk import Place, agrees, can_ask, check_text
from parley.faces.cli.inputs import POLL_SECONDS, WAIT_SECONDS, put_and_wait
from parley.faces.cli.resume import make_good
from parley.faces.cli.workshop import engine_of
from parley.ports import InputRow, JobRow, Owned
from parley.wording import count

QUARANTINE_SECONDS = 300.0  # a large workspace takes its time to be kept


def withdraw(store: SqliteStore, place: Place, row: JobRow, words: argparse.Namespace) -> tuple[str, int]:
    """Give a job up, or a part of it; what came of it, and the exit code."""
    if row.state in TERMINAL:
        _finish(store, place, row.job)
        return f"{row.job} has ended: {row.state}", OK if row.state == "WITHDRAWN" else FAILED
    reason = check_text(words.text)
    thread = _known_thread(store, row, words.thread)
    if thread is None:
        return f"{words.thread} has ended", OK
    if thread_kind(thread) == "escalation":
        raise Trouble(f"{thread} is a question; answer it with `parley answer`")
    if thread_kind(thread) == "state":
        raise Trouble(
            f"{thread} is where the job's {row.state} is led, and the job can't go on without it; withdraw the whole"
            f" job with `parley withdraw {row.job}`, or redirect its lead with `parley intervene {row.job} TEXT`"
        )
    if not agreed(Present(store, row.job), thread):
        return f"{thread} is left as it is", OK
    whole = thread_kind(thread) == "job"
    key = f"withdraw:{job_thread(row.job) if whole else thread}"
    taken = done(store, place, row.job, "withdraw", key, {"thread": thread, "reason": reason})
    if taken is None:
        raise unanswered(store, row.job, "it is withdrawn as soon as that goes on", end=True)
    ended = store.load(row.job).row.state in TERMINAL
    if taken.note.startswith(NOT_DONE) and not ended:
        return f"{row.job}: {taken.note}", FAILED
    _await(store, place, row.job, taken.taken)
    if ended:
        _finish(store, place, row.job)
    _bury(store, row.job, "" if whole else thread)
    return f"{row.job if whole else thread} is withdrawn", OK


def agreed(present: Present, thread: str) -> bool:
    """Say in advance that a whole workflow goes with its executor; the user may change their mind, if one is there."""
    surface = present.soup.get(Surface, thread)
    if surface is None or surface.agent != EXECUTOR:
        return True
    below = sum(present.soup.get(Surface, child) is not None for child in present.soup.children(thread))
    open_ = count(below, "open conversation")
    told = f"{thread} is the workflow executor: the whole workflow ends with it, and its {open_}"
    print(f"parley: {told}", file=sys.stderr)
    return agrees(f"withdraw {thread}?") if can_ask() else True


def _known_thread(store: SqliteStore, row: JobRow, given: str | None) -> str | None:
    """The thread to withdraw; None if it has ended before."""
    if given is None:
        return job_thread(row.job)
    now = {thread.id for thread in Present(store, row.job).threads()}
    ended = {thread.id for thread in past(store, row.job).ended}
    thread = pick_thread(given, now | ended, row.job)
    return thread if thread in now else None


def done(
    store: SqliteStore, place: Place, job: str, kind: str, key: str, body: dict[str, str | None]
) -> InputRow | None:
    """Have an input carried out: by the job's owner, or here if it has none. None: its owner does not answer."""
    taken = put_and_wait(store, job, kind, key, body)
    if taken is None and not store.owner_lives(job):
        try:
            _carry_out(place, job)
        except Owned:
            return put_and_wait(store, job, kind, key, body)  # somebody has taken it meanwhile
        return find_input(store, job, key)
    return taken


def carried_out(store: SqliteStore, place: Place, job: str, key: str) -> InputRow | None:
    """Have an input carried out that gives up a job which no process has in hand; None: another has taken it since."""
    try:
        _carry_out(place, job)
    except Owned:
        return None
    _finish(store, place, job)
    end_marked(f"{job}/")
    return find_input(store, job, key)


def _carry_out(place: Place, job: str) -> None:
    """Take the job, do what is asked of it, and let it go: with no owner, or after the death of the one it had."""
    with engine_of(place, Settings()) as engine:  # whatever parley.toml says now: giving up must always work
        engine.adopt(job, asleep=True)
        engine.crank(0.0)
        engine.release(job)


def unanswered(store: SqliteStore, job: str, then: str, *, end: bool = False) -> Trouble:
    """The job's owner lives and does nothing. It is nobody's to kill but the user's; the job's agents are the job's."""
    if end:
        end_marked(f"{job}/")
    pid = store.owner_process(job)
    who = f"process {pid}, which works on {job}," if pid else f"whoever works on {job}"
    how = "is stopped" if store.owner_stopped(job) else f"has not answered for {WAIT_SECONDS:.0f} s"
    agents = "; its agents are ended" if end else ""
    again = f" (kill -CONT {pid}), or end it (kill -9 {pid}) and ask again" if pid else ""
    return Trouble(f"{who} {how}{agents}; {then}{again}", FAILED)


# ---- when it is true -----------------------------------------------------------------------------


def _await(store: SqliteStore, place: Place, job: str, transaction: int) -> None:
    """Wait until the effects of a transaction are there: its owner's, or ours where that dies over them."""
    deadline = time.monotonic() + QUARANTINE_SECONDS
    while _anchored(place, job) < transaction:
        if not store.owner_lives(job):
            if store.load(job).row.state not in TERMINAL:  # what has ended is finished by `_finish`
                _carry_out(place, job)
            return
        if time.monotonic() > deadline:
            raise unanswered(store, job, "it is recorded, and carried out as soon as that goes on", end=True)
        time.sleep(POLL_SECONDS)


def _finish(store: SqliteStore, place: Place, job: str) -> None:
    """A job that has ended is left in order also where whoever ended it died over that."""
    transaction = store.load(job).transaction
    deadline = time.monotonic() + WAIT_SECONDS
    while transaction and _anchored(place, job) < transaction.number and time.monotonic() < deadline:
        if not store.owner_lives(job):
            break
        time.sleep(POLL_SECONDS)
    make_good(store, place, [store.load(job).row])


def _anchored(place: Place, job: str) -> int:
    path = place.home / "jobs" / job / "state.json"
    anchor = read_anchor(path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None) or {}
    number = anchor.get("transaction", 0)
    return number if isinstance(number, int) else 0


def _bury(store: SqliteStore, job: str, thread: str) -> None:
    """See with our own eyes that no process of what was withdrawn is left."""
    if not thread:
        end_marked(f"{job}/")
        return
    below = {thread}
    present = Present(store, job)
    for _, each in tree(present.threads(), past(store, job).ended):
        if each.parent in below:
            below.add(each.id)
    marks = {f"{job}/{turn.turn}" for turn in store.turns(job) if turn.thread in below}
    marks |= {f"{job}/{turn.agent}@{turn.thread}" for turn in store.turns(job) if turn.thread in below}
    for mark in sorted(marks):
        end_marked(mark)
