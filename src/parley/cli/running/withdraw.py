"""`parley withdraw`: gives up a job or a thread; reports only when all processes are dead and all workspaces kept."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from parley.actions.leave import find_input
from parley.audit.audit import read_anchor
from parley.base.wording import count
from parley.bus.rows import BusError, InputRow, JobRow, Owned
from parley.bus.store import HomeStore
from parley.cli import FAILED, OK, CommandError
from parley.cli.common import Workplace, acting_person, agrees, can_ask, check_text
from parley.cli.error_lines import explain
from parley.cli.leave_input import POLL_SECONDS, WAIT_SECONDS, put_and_wait
from parley.cli.open_bus import pick_thread, refuse_foreign_home
from parley.cli.running.bootstrap import engine_of, withdrawing_settings
from parley.cli.running.resume import finish_ended_jobs
from parley.cli.running.urgent_withdraw import OWNERS_SECONDS
from parley.engine.values.human_inputs import Denied, Input, Unsigned, WithdrawInput, handled, is_in_vain, note_words
from parley.engine.values.people import people_of
from parley.engine.values.permissions import objection
from parley.machine.disk_reserve import DiskReserve
from parley.machine.process_tags import end_marked, gits_mark
from parley.ports.workspaces import WorkspaceError
from parley.protocol.molecules import Surface, job_thread, thread_kind
from parley.views.job_view import TERMINAL, Present, past, tree
from parley.views.turn_hosts import lost_hosts
from parley.workflow.model.terms import EXECUTOR

ROUND_SECONDS = 0.5  # between two checks whether the owner has taken it
QUARANTINE_SECONDS = 300.0  # a large workspace takes its time to be kept


def on_any_disk(place: Workplace, words: argparse.Namespace, step: Callable[[], int]) -> int:
    """Withdraw even where the disk is full or read-only: agents are killed first, the disk reserve is freed."""
    refuse_foreign_home(place)  # first: the home may have come with a clone
    reserve = DiskReserve(place.home)
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
        raise CommandError(f"{words.job} is not withdrawn: {explain(error)[0]}; {whose}", FAILED) from error


def _end_agents(place: Workplace, words: argparse.Namespace) -> None:
    """Kill the agents of a whole job, found by its folder: the bus may be unreadable."""
    if words.thread is None:
        given = words.job.removeprefix("job:")
        found = [path.name for path in (place.home / "jobs").glob("*") if given and path.name.startswith(given)]
        for job in [given] if given in found else found if len(found) == 1 else []:
            end_marked(f"{job}/")


def withdraw(store: HomeStore, place: Workplace, row: JobRow, words: argparse.Namespace) -> tuple[str, int]:
    """Give a job up, or a part of it; returns the line for the user and the exit code."""
    if row.state in TERMINAL and not words.left:
        _finish(store, place, row.job)
        return f"{row.job} has ended: {row.state}", OK if row.state == "WITHDRAWN" else FAILED
    reason = check_text(words.text)
    thread = _known_thread(store, row, words.thread)
    if thread is None:
        return f"{words.thread} has ended", OK
    if thread_kind(thread) == "escalation":
        raise CommandError(f"{thread} is a question; answer it with `parley answer`")
    if thread_kind(thread) == "state":
        raise CommandError(
            f"{thread} is where the job's {row.state} is led, and the job can't go on without it; withdraw the whole"
            f" job with `parley withdraw {row.job}`, or redirect its lead with `parley intervene {row.job} TEXT`"
        )
    if not agreed(Present(store, row.job), thread):
        return f"{thread} is left as it is", OK
    whole = thread_kind(thread) == "job"
    given = WithdrawInput(thread=thread, reason=reason)
    taken = _withdrawn(store, place, row.job, given, acting_person(words))
    if taken is None:
        raise unanswered(store, row.job, "it is withdrawn as soon as that goes on", end=True)
    ended = store.load(row.job).row.state in TERMINAL
    if is_in_vain(taken) and not ended:
        return f"{row.job}: {note_words(taken)}", FAILED
    what, unkept = row.job if whole else thread, ""
    try:
        _await(store, place, row.job, taken.taken)
        if ended:
            _finish(store, place, row.job)
    except (WorkspaceError, OSError) as error:
        unkept = f"its files could not be kept: {explain(error)[0]}"
    _check_all_dead(store, row.job, "" if whole else thread)
    lost = [host.words for host in lost_hosts(store, row.job, taken.number)]
    return "; ".join(filter(None, (f"{what} is withdrawn", *lost, unkept))), OK


def _withdrawn(store: HomeStore, place: Workplace, job: str, given: WithdrawInput, by: str) -> InputRow | None:
    """Have a withdrawal carried out. One that was refused before, in another's name perhaps, stands in no one's way."""
    thread = given.thread if thread_kind(given.thread) != "job" else ""
    first, again = f"withdraw:{thread or job_thread(job)}", 0
    while True:
        key = f"{first}:{again}" if again else first
        known = find_input(store, job, key) is not None
        taken = done(store, place, job, key, given, agent_killer(store, job, thread), by=by)
        refused = known and taken is not None and isinstance(handled(taken), Denied | Unsigned)
        if not refused or objection(people_of(store.load(job)), by, given):
            return taken
        again += 1


def agreed(present: Present, thread: str) -> bool:
    """Warn that a whole workflow ends with its executor, and ask the user if there is a terminal."""
    surface = present.soup.get(Surface, thread)
    if surface is None or surface.agent != EXECUTOR:
        return True
    below = sum(present.soup.get(Surface, child) is not None for child in present.soup.children(thread))
    open_ = count(below, "open conversation")
    told = f"{thread} is the workflow executor: the whole workflow ends with it, and its {open_}"
    print(f"parley: {told}", file=sys.stderr)
    return agrees(f"withdraw {thread}?") if can_ask() else True


def _known_thread(store: HomeStore, row: JobRow, given: str | None) -> str | None:
    """The thread to withdraw; None if it has ended before."""
    if given is None:
        return job_thread(row.job)
    now = {thread.id for thread in Present(store, row.job).threads()}
    ended = {thread.id for thread in past(store, row.job).ended}
    thread = pick_thread(given, now | ended, row.job)
    return thread if thread in now else None


def done(
    store: HomeStore,
    place: Workplace,
    job: str,
    key: str,
    given: Input,
    meanwhile: Callable[[], object] = lambda: None,
    *,
    by: str = "",
) -> InputRow | None:
    """Have an input carried out: by the job's owner, or here if it has none. None: its owner does not answer.

    `meanwhile` is called repeatedly until then.
    """
    taken = put_and_wait(store, job, key, given, meanwhile, by=by)
    if taken is None and not store.owner_lives(job):
        try:
            _carry_out(place, job)
        except Owned:
            return put_and_wait(store, job, key, given, by=by)  # another process has taken the job meanwhile
        return find_input(store, job, key)
    return taken


def carried_out(store: HomeStore, place: Workplace, job: str, key: str) -> InputRow | None:
    """Carry out an input that gives up a job without an owner; None: another process has taken it since."""
    try:
        _carry_out(place, job)
    except Owned:
        return None
    _finish(store, place, job)
    end_marked(f"{job}/")
    return find_input(store, job, key)


def _carry_out(place: Workplace, job: str) -> None:
    """Own the job, carry out its inputs, and release it: it has no owner, or its owner died."""
    with engine_of(place, withdrawing_settings()) as engine:
        try:
            engine.adopt(job, asleep=True, untouched=DiskReserve(place.home).is_needed())
        except WorkspaceError:  # its files can't be put back: to give it up they need not be
            engine.adopt(job, asleep=True, untouched=True)
        engine.crank(0.0)
        if why := engine.put_aside().get(job):
            raise CommandError(why)
        engine.release(job)


def unanswered(store: HomeStore, job: str, then: str, *, end: bool = False) -> CommandError:
    """The error for an owner that lives and does not answer. Only the user may kill it; its agents may be killed."""
    if end:
        end_marked(f"{job}/")
    pid = store.owner_process(job)
    who = f"process {pid}, which works on {job}," if pid else f"the owner of {job}"
    stopped = store.owner_stopped(job)
    how = "is stopped" if stopped else f"has not answered for {WAIT_SECONDS:.0f} s"
    agents = "; its agents are ended" if end else ""
    wake = f" (kill -CONT {pid})" if stopped else ""
    again = f"{wake}, or end it (kill -9 {pid}) and ask again" if pid else ""
    return CommandError(f"{who} {how}{agents}; {then}{again}", FAILED)


# ---- waiting for effects -----------------------------------------------------------------------------


def _await(store: HomeStore, place: Workplace, job: str, transaction: int) -> None:
    """Wait until the effects of a transaction are done, by its owner or here if the owner dies."""
    deadline = time.monotonic() + QUARANTINE_SECONDS
    while _anchored(place, job) < transaction:
        if not store.owner_lives(job):
            if store.load(job).row.state not in TERMINAL:  # `_finish` handles ended jobs
                _carry_out(place, job)
            return
        if time.monotonic() > deadline:
            raise unanswered(store, job, "it is recorded, and carried out as soon as that goes on", end=True)
        time.sleep(POLL_SECONDS)


def _finish(store: HomeStore, place: Workplace, job: str) -> None:
    """Finish the effects of an ended job, even where its owner died before doing so."""
    transaction = store.load(job).transaction
    deadline = time.monotonic() + WAIT_SECONDS
    while transaction and _anchored(place, job) < transaction.number and time.monotonic() < deadline:
        if not store.owner_lives(job):
            break
        time.sleep(POLL_SECONDS)
    finish_ended_jobs(store, place, [store.load(job).row])


def _anchored(place: Workplace, job: str) -> int:
    path = place.home / "jobs" / job / "state.json"
    anchor = read_anchor(path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None) or {}
    number = anchor.get("transaction", 0)
    return number if isinstance(number, int) else 0


def agent_killer(store: HomeStore, job: str, thread: str = "") -> Callable[[], None]:
    """A function that kills the agents of what is given up, repeatedly, unless the owner does so at once."""
    asked = time.monotonic()

    def end() -> None:
        if time.monotonic() - asked > OWNERS_SECONDS or store.owner_stopped(job):
            _kill(store, job, thread)

    return end


def _kill(store: HomeStore, job: str, thread: str) -> None:
    """Kill the agents of what is withdrawn at once: the job's owner may be busy or stopped.

    A living owner's git is left alone: it keeps the files; the owner itself ends a git that takes long.
    """
    spared = "" if store.owner_stopped(job) or not store.owner_lives(job) else gits_mark(job)
    for mark in _marks(store, job, thread):
        end_marked(mark, spared=spared, seconds=ROUND_SECONDS)


def _marks(store: HomeStore, job: str, thread: str) -> list[str]:
    """The process tags of a thread and of all below it; without one, of the whole job."""
    if not thread:
        return [f"{job}/"]
    below = {thread}
    present = Present(store, job)
    for _, each in tree(present.threads(), past(store, job).ended):
        if each.parent in below:
            below.add(each.id)
    turns = [turn for turn in store.turns(job) if turn.thread in below]
    return sorted({mark for turn in turns for mark in (f"{job}/{turn.turn}", f"{job}/{turn.agent}@{turn.thread}")})


def _check_all_dead(store: HomeStore, job: str, thread: str) -> None:
    """Verify that no process of what was withdrawn is left. The git of a living owner publishes what came of it."""
    spared = gits_mark(job) if store.owner_lives(job) else ""
    for mark in _marks(store, job, thread):
        end_marked(mark, spared=spared)
