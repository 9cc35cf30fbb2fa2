"""`parley withdraw`: nothing is reported before every process is dead and every workspace is quarantined."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from parley.adapters.marks import end_marked, gits_mark
from parley.adapters.reserve import Reserve
from parley.adapters.sqlite import SqliteStore
from parley.config import Settings
from parley.core.terms import EXECUTOR, Surface, job_thread, thread_kind
from parley.engine.audit import read_anchor
from parley.engine.projections import TERMINAL, Present, past, tree
from parley.engine.records import NOT_DONE
from parley.engine.session import find_input
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.bus import admitted, pick_thread
from parley.faces.cli.desk import Place, agrees, can_ask, check_text
from parley.faces.cli.inputs import POLL_SECONDS, WAIT_SECONDS, put_and_wait
from parley.faces.cli.resume import make_good
from parley.faces.cli.troubles import explain
from parley.faces.cli.urgent import OWNERS_SECONDS
from parley.faces.cli.workshop import engine_of
from parley.ports import BusError, InputRow, JobRow, Owned, WorkspaceError
from parley.wording import count

ROUND_SECONDS = 0.5  # between two looks whether the owner has taken it
QUARANTINE_SECONDS = 300.0  # a large workspace takes its time to be kept


def on_any_disk(place: Place, words: argparse.Namespace, step: Callable[[], int]) -> int:
    """Withdraw also where the disk is full or can't be written: agents are ended first, the reserve is let go of."""
    admitted(place)  # before anything there is let go of: it may have come with a clone
    reserve = Reserve(place.home)
    try:
        if reserve.is_needed():
            _end_agents(place, words)
            reserve.spend()
        return step()
    except (BusError, WorkspaceError, OSError) as first:
        _end_agents(place, words)
        error: Exception = first
        if reserve.spend():
            try:
                return step()
            except (BusError, WorkspaceError, OSError) as again:
                error = again
        whose = "its agents are ended" if words.thread is None else "its agents go on"
        raise Trouble(f"{words.job} is not withdrawn: {explain(error)[0]}; {whose}", FAILED) from error


def _end_agents(place: Place, words: argparse.Namespace) -> None:
    """End the agents of a whole job, as its folder names it: the bus may be out of reach."""
    if words.thread is None:
        given = words.job.removeprefix("job:")
        found = [path.name for path in (place.home / "jobs").glob("*") if given and path.name.startswith(given)]
        for job in [given] if given in found else found if len(found) == 1 else []:
            end_marked(f"{job}/")


def withdraw(store: SqliteStore, place: Place, row: JobRow, words: argparse.Namespace) -> tuple[str, int]:
    """Give a job up, or a part of it; what came of it, and the exit code."""
    if row.state in TERMINAL and not words.left:
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
    body: dict[str, str | None] = {"thread": thread, "reason": reason}
    taken = done(store, place, row.job, "withdraw", key, body, ending(store, row.job, "" if whole else thread))
    if taken is None:
        raise unanswered(store, row.job, "it is withdrawn as soon as that goes on", end=True)
    ended = store.load(row.job).row.state in TERMINAL
    if taken.note.startswith(NOT_DONE) and not ended:
        return f"{row.job}: {taken.note}", FAILED
    what = row.job if whole else thread
    try:
        _await(store, place, row.job, taken.taken)
        if ended:
            _finish(store, place, row.job)
    except (WorkspaceError, OSError) as error:
        _bury(store, row.job, "" if whole else thread)
        return f"{what} is withdrawn; its files could not be put in order: {explain(error)[0]}", OK
    _bury(store, row.job, "" if whole else thread)
    return f"{what} is withdrawn", OK


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
    store: SqliteStore,
    place: Place,
    job: str,
    kind: str,
    key: str,
    body: dict[str, str | None],
    meanwhile: Callable[[], object] = lambda: None,
) -> InputRow | None:
    """Have an input carried out: by the job's owner, or here if it has none. None: its owner does not answer.

    `meanwhile` is done again and again until then.
    """
    taken = put_and_wait(store, job, kind, key, body, meanwhile)
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
        engine.adopt(job, asleep=True, untouched=Reserve(place.home).is_needed())
        engine.crank(0.0)
        if why := engine.put_aside().get(job):
            raise Trouble(why)
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


def ending(store: SqliteStore, job: str, thread: str = "") -> Callable[[], None]:
    """What ends the agents of what is given up, again and again, unless the job's owner takes it up at once."""
    asked = time.monotonic()

    def end() -> None:
        if time.monotonic() - asked > OWNERS_SECONDS or store.owner_stopped(job):
            _kill(store, job, thread)

    return end


def _kill(store: SqliteStore, job: str, thread: str) -> None:
    """End the agents of what is withdrawn at once: the job's owner may be at something else, or stopped.

    Its git is left to it while it lives: it is what keeps the files; what might take long of it, the owner ends itself.
    """
    spared = "" if store.owner_stopped(job) or not store.owner_lives(job) else gits_mark(job)
    for mark in _marks(store, job, thread):
        end_marked(mark, spared=spared, seconds=ROUND_SECONDS)


def _marks(store: SqliteStore, job: str, thread: str) -> list[str]:
    """How the processes of a thread and of all below it are marked; without one, those of the whole job."""
    if not thread:
        return [f"{job}/"]
    below = {thread}
    present = Present(store, job)
    for _, each in tree(present.threads(), past(store, job).ended):
        if each.parent in below:
            below.add(each.id)
    turns = [turn for turn in store.turns(job) if turn.thread in below]
    return sorted({mark for turn in turns for mark in (f"{job}/{turn.turn}", f"{job}/{turn.agent}@{turn.thread}")})


def _bury(store: SqliteStore, job: str, thread: str) -> None:
    """See with our own eyes that no process of what was withdrawn is left."""
    for mark in _marks(store, job, thread):
        end_marked(mark)
