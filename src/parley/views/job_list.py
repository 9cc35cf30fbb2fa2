"""The jobs of one repository or of several, in groups: those that need the user first.

The list is made from the jobs' rows alone; only jobs on the screen are read further.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from parley.base.wording import count
from parley.bus.glimpses import Glimpse
from parley.bus.rows import Spent, sum_of
from parley.engine.protocol_messages import excerpt
from parley.protocol.molecules import ORCHESTRATOR
from parley.views.job_view import BEGIN_SECONDS, DAMAGE, TERMINAL, Present, Thread, begins, damage_words, with_progress
from parley.views.questions.needs import GATE, HEADLINE, QUESTION, Need, needs, words_of
from parley.views.repository_context import JobContext, RepositoryContext

NEEDS, PAUSED, FAILED, WORKING, DONE = "needs you", "paused", "failed", "working", "done"
GROUPS = (NEEDS, PAUSED, FAILED, WORKING, DONE)
FRESH_SECONDS = 86_400  # how long a failed job is listed among the problems
STARTS = "is being started"
ENDS = {"DONE": "done", "WITHDRAWN": "withdrawn", "FAILURE": "failed"}


class JobEntry(NamedTuple):
    """A job in the list."""

    at: JobContext
    request: str
    state: str
    group: str
    updated: float
    since: float  # since when it needs the user; else when it last changed
    asks: bool = False  # whether a question waits for the user
    held: bool = False
    decider: str = ""  # who started it
    created: float = 0.0
    backtracks: int = 0

    @property
    def unpaid(self) -> bool:
        """Whether it is held by a budget that is spent: nothing else that holds a job needs the user."""
        return self.group == NEEDS and self.held and not self.asks

    @property
    def job(self) -> str:
        """Its id."""
        return self.at.id

    @property
    def key(self) -> tuple[str, str]:
        """By what it is found again when the list has been read anew."""
        return self.at.context.home, self.at.id

    def has(self, words: str) -> bool:
        """Whether all of some words are in what the list says of it."""
        text = f"{self.job} {self.request} {self.group} {self.state} {self.at.context.title}".casefold()
        return all(word in text for word in words.casefold().split())


class ListPlace(NamedTuple):
    """Where a job stands in the list: its group, and since when."""

    group: str
    since: float


@dataclass(frozen=True, slots=True)
class Detail:
    """More about a job that is on the screen."""

    words: str
    since: float
    cost: str


class JobList:
    """The list, read again when something may have changed."""

    def __init__(self) -> None:
        self.entries: list[JobEntry] = []
        self._details: dict[tuple[str, str], Detail] = {}
        self._standings: dict[tuple[str, Glimpse], ListPlace] = {}

    def read(self, contexts: Iterable[RepositoryContext]) -> None:
        """Read the jobs' rows; details are read when a job is drawn."""
        self._details.clear()
        known, self._standings = self._standings, {}
        found = [(JobContext(context, seen.job), seen) for context in contexts for seen in context.jobs()]
        self.entries = grouped(found, lambda at, seen: self._standing(at, seen, known), time.time())

    def _standing(self, at: JobContext, seen: Glimpse, known: dict[tuple[str, Glimpse], ListPlace]) -> ListPlace:
        """Where a job stands. One that asks, or is held, is read once after each of its changes."""
        if seen.waiting <= 0 and not seen.held:
            fresh = time.time() - seen.updated < BEGIN_SECONDS  # of the others none is read
            works = at.owned or (fresh and begins(at.context.store.load(at.id)))
            return ListPlace(WORKING if works else NEEDS, seen.updated)
        which = (at.context.home, seen)
        self._standings[which] = known.get(which) or _standing(at, seen)
        return self._standings[which]

    def detail(self, entry: JobEntry) -> Detail:
        """The details of a job that is drawn."""
        if entry.key not in self._details:
            try:
                self._details[entry.key] = _looked(entry)
            except DAMAGE:  # one damaged job does not hide the others
                self._details[entry.key] = Detail(damage_words(entry.job), entry.updated, "")
        return self._details[entry.key]


def _standing(at: JobContext, seen: Glimpse) -> ListPlace:
    if found := at.needs():
        return ListPlace(NEEDS, found[0].since)
    return ListPlace(NEEDS if seen.waiting > 0 else PAUSED, seen.updated)


def grouped(
    found: Iterable[tuple[JobContext, Glimpse]], standing: Callable[[JobContext, Glimpse], ListPlace], now: float
) -> list[JobEntry]:
    """The list. `standing` says of a job that has not ended whether it needs the user, is paused, or works."""
    groups: dict[str, list[JobEntry]] = {name: [] for name in GROUPS}
    for at, seen in found:
        group, since = _ended(seen, now) if seen.state in TERMINAL else standing(at, seen)
        groups[group].append(
            JobEntry(
                at=at,
                request=seen.request,
                state=seen.state,
                group=group,
                updated=seen.updated,
                since=since,
                asks=seen.waiting > 0,
                held=seen.held > 0,
                decider=seen.decider,
                created=seen.created,
                backtracks=seen.backtracks,
            )
        )
    groups[NEEDS].sort(key=lambda entry: entry.since)  # the longest waiting first
    for name in (PAUSED, FAILED, DONE):
        groups[name].sort(key=lambda entry: -entry.updated)
    groups[WORKING].reverse()  # an order that does not change
    return [entry for name in GROUPS for entry in groups[name]]


def _ended(seen: Glimpse, now: float) -> ListPlace:
    fresh = seen.state == "FAILURE" and now - seen.updated < FRESH_SECONDS
    return ListPlace(FAILED if fresh else DONE, seen.updated)


# ---- a job's details -----------------------------------------------------------------------------


def _looked(entry: JobEntry) -> Detail:
    """Read the details of a job that is on the screen."""
    if entry.group == DONE:
        return Detail("", entry.updated, "")
    context = entry.at.context
    present = entry.at.present()
    cost = cost_of(present)
    if entry.group == FAILED:
        return Detail(end_words(present), entry.updated, cost)
    if entry.group == PAUSED:
        return Detail(pause_words(team(present)), entry.updated, cost)
    needed = needs(context.store, context.files, [present.row])
    if needed:
        return Detail(need_words(needed), needed[0].since, cost)
    threads = [with_progress(present, thread, context.files, context.redact) for thread in team(present)]
    words = STARTS if present.begins and not present.owned else work_words(threads)
    return Detail(words, present.row.created, cost)


def team(present: Present) -> list[Thread]:
    """Everyone but the orchestrator, whose turns take no time."""
    return [thread for thread in present.threads() if thread.agent != ORCHESTRATOR]


def need_words(needs: Sequence[Need]) -> str:
    """A job's first need in one line."""
    need = needs[0]
    more = f" (and {len(needs) - 1} more)" if len(needs) > 1 else ""
    if need.kind == GATE and need.asked:
        stat = f" {need.asked.stat.short}:" if need.asked.stat else ""
        return f"approve {need.artifact}?{more}{stat} {excerpt(words_of(need.asked), HEADLINE)}"
    if need.kind == QUESTION:
        return f"{need.who} asks{more}: {need.headline}"
    return f"{need.headline}{more}"


def work_words(threads: Sequence[Thread]) -> str:
    """Who does what, in one line."""
    busy = [thread for thread in threads if thread.state == "stalled"]
    busy += [thread for thread in threads if thread.waits]
    busy += [thread for thread in threads if thread.state == "running"]
    if busy and busy[0].waits:
        more = f" (and {len(busy) - 1} more)" if len(busy) > 1 else ""
        return f"{busy[0].agent} {busy[0].doing}{more}"
    if not busy:
        return "no agent is at work just now"
    more = f" (and {len(busy) - 1} more at work)" if len(busy) > 1 else ""
    return f"{busy[0].agent}: {busy[0].doing}{more}"


def pause_words(threads: Sequence[Thread]) -> str:
    """What is left of the work while a job is paused."""
    busy = [thread.agent for thread in threads if thread.state == "running"]
    waiting = next((f"; {thread.agent} {thread.doing}" for thread in threads if thread.waits), "")
    if not busy:
        return f"paused{waiting}"
    return f"paused; {' and '.join(busy[:2])} still {'ends its turn' if len(busy) == 1 else 'end their turns'}"


def end_words(present: Present) -> str:
    """Why a job ended."""
    history = present.record.history if present.record else ()
    return history[-1].reason or ENDS.get(present.row.state, "") if history else ""


def cost_of(present: Present) -> str:
    """What a job has used so far."""
    turns = sum(turn.status == "ended" for turn in present.store.turns(present.job))
    return cost_words(turns, sum_of((present.loaded.spent or {}).values()))


def cost_words(turns: int, used: Spent) -> str:
    """What a job has used: its turns, and their cost where the agents report it."""
    found = [count(turns, "turn")]
    if used.micros:
        found.append(f"{used.micros / 1e6:.2f} USD")
    elif used.tokens:
        found.append(count(used.tokens, "token"))
    return ", ".join(found)
