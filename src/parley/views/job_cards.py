"""A job as a card on a list: where it stands, what happens in it right now, what it needs, what it has used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parley.bus.rows import Spent, sum_of
from parley.protocol.states import LIVE
from parley.views.job_list import DONE, ENDS, STARTS, JobEntry, end_words, need_words, pause_words, team, work_words
from parley.views.job_view import DAMAGE, TERMINAL, Present, Thread, damage_words, lasted, with_progress
from parley.views.questions.needs import FAILURE, GATE, QUESTION, Need, needs

PHASES = tuple(state.value for state in LIVE)
NOTHING = Spent()
DONE_STEP, NOW_STEP, TODO_STEP, BROKEN_STEP = "done", "now", "todo", "broken"


@dataclass(frozen=True, slots=True)
class JobCard:
    """What a card shows of a job."""

    words: str  # what it needs, who does what, or why it ended
    phases: tuple[tuple[str, str], ...] = ()  # INTENT, PLAN, EXECUTE, each with: done, now, todo, broken
    since: float = 0.0  # since when it needs the user; else when it last changed
    seconds: float = 0.0  # how long it has lasted
    runs: bool = False  # whether that still grows
    spent: Spent = NOTHING
    question: Need | None = None  # the first question that waits for an answer
    more: int = 0  # what it needs besides
    damaged: bool = False


def card_of(entry: JobEntry, now: float) -> JobCard:
    """Read what a card shows. One damaged job does not hide the others."""
    try:
        return _card(entry, now)
    except DAMAGE:
        return JobCard(damage_words(entry.job), since=entry.updated, damaged=True)


def _card(entry: JobEntry, now: float) -> JobCard:
    context, present = entry.at.context, entry.at.present()
    ended = present.row.state in TERMINAL
    found = [] if ended else needs(context.store, context.files, [present.row])
    asked = [need for need in found if need.kind in (GATE, QUESTION, FAILURE)]
    return JobCard(
        words=_words(entry, present, found),
        phases=phases_of(present),
        since=found[0].since if found else entry.updated,
        seconds=lasted(present, context.files, now),
        runs=present.owned and not ended,
        spent=sum_of((present.loaded.spent or {}).values()),
        question=asked[0] if asked else None,
        more=max(0, len(found) - 1),
    )


def _words(entry: JobEntry, present: Present, found: Sequence[Need]) -> str:
    if present.row.state in TERMINAL:
        return ENDS[present.row.state] if entry.group == DONE else end_words(present)
    if found:
        return need_words(found)
    threads = team(present)
    if present.paused:
        return pause_words(threads)
    if present.begins and not present.owned:
        return STARTS
    return work_words(_told(present, threads, entry))


def _told(present: Present, threads: Sequence[Thread], entry: JobEntry) -> list[Thread]:
    """The threads; of those that work, only the one that will be named is asked for its progress: there may be many."""
    first = next((thread for thread in threads if thread.state == "stalled"), None)
    first = first or next((thread for thread in threads if thread.waits), None)
    first = first or next((thread for thread in threads if thread.state == "running"), None)
    context = entry.at.context
    return [
        with_progress(present, thread, context.files, context.redact) if thread is first else thread
        for thread in threads
    ]


def phases_of(present: Present) -> tuple[tuple[str, str], ...]:
    """The three phases, each with how far the job has come in it."""
    record, state = present.record, present.row.state
    at = LIVE[0] if record is None else record.state if record.live else record.history[-1].state
    here = LIVE.index(at)
    if state == "DONE":
        return tuple((name, DONE_STEP) for name in PHASES)
    now = BROKEN_STEP if state in TERMINAL else NOW_STEP
    steps = [DONE_STEP] * here + [now] + [TODO_STEP] * (len(PHASES) - here - 1)
    return tuple(zip(PHASES, steps, strict=True))
