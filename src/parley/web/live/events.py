"""What is new, told to every open page: a thread watches the repositories, and each change becomes one small event.

An event says which job changed, not what it is like now: a page fetches the parts that it shows. Events are numbered,
so that a page which was away gets what it missed, or is told to read everything again.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from parley.base.json_codec import Unreadable
from parley.bus.attendant import read_problems
from parley.bus.rows import BusError
from parley.views.job_view import is_seen_owned
from parley.views.repository_context import RepositoryContext

POLL_SECONDS = 0.2
GLANCE_SECONDS = 5.0  # between two looks at the file itself: an open bus does not notice that it was damaged
TICK_SECONDS = 1.0  # between two looks at what is not on the bus: owners' deaths, agents' progress
KEPT = 2_000  # events that a page may have missed
BEAT_SECONDS = 5.0  # between two signs of life: a page that hears none for longer knows that it is cut off
CHECK_SECONDS = 1.0  # after which at the latest a stream ends whose visitor was taken their pass
_MARK = re.compile(r"[0-9a-f]{8}\.[0-9]{1,18}")
RECORD, WORK, OWNER, CHECKOUT, PLACE = "record", "work", "owner", "checkout", "place"


class LiveChange(NamedTuple):
    """One event: what changed of a job; without a job, something about its repository."""

    number: int
    repository: str
    job: str
    # record: its rows; work: what its agents do; owner: whether a process works on it; checkout: what the user has
    # checked out, so perhaps a merge; place: whether its repository can be read, and what is hidden in it
    what: str


class Missed(NamedTuple):
    """What a page has missed since a number: the changes, or that it has to read everything again."""

    changes: tuple[LiveChange, ...]
    reset: bool
    mark: str  # how far it has come with these


class Hub:
    """Numbers the changes, keeps the last, and wakes who waits for more. Changes come from any thread."""

    def __init__(self) -> None:
        self.boot = secrets.token_hex(4)  # numbers of another run of the server mean nothing here
        self._lock = threading.Lock()
        self._kept: deque[LiveChange] = deque(maxlen=KEPT)
        self._number = 0
        self._last: dict[tuple[str, str], int] = {}  # the number of the last change of each job, and repository
        self._places: dict[str, int] = {}  # the same of changes that concern all jobs of a repository
        self._waiting: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self._closed = False

    @property
    def mark(self) -> str:
        """How far the changes have come: a page that is made now has seen all up to this."""
        return f"{self.boot}.{self._number}"

    @property
    def closed(self) -> bool:
        """Whether the server is ending."""
        return self._closed

    def publish(self, changes: Iterable[tuple[str, str, str]]) -> None:
        """Tell of changes: repository, job, what."""
        with self._lock:
            before = self._number
            for repository, job, what in changes:
                self._number += 1
                self._kept.append(LiveChange(self._number, repository, job, what))
                self._last[repository, job] = self._last[repository, ""] = self._last["", ""] = self._number
                if not job:
                    self._places[repository] = self._number
            if self._number != before:
                self._wake()

    def version(self, repository: str = "", job: str = "") -> int:
        """The number of the last change of a job or its repository itself, of a repository's jobs, or of all."""
        with self._lock:
            return max(self._last.get((repository, job), 0), self._places.get(repository, 0))

    def versions(self, repository: str) -> dict[str, int]:
        """The number of the last change of each job of a repository that has changed since the server started."""
        with self._lock:
            least = self._places.get(repository, 0)
            return {job: max(at, least) for (place, job), at in self._last.items() if place == repository}

    @property
    def listening(self) -> int:
        """How many streams are open."""
        return len(self._waiting)

    def close(self) -> None:
        """End all streams."""
        with self._lock:
            self._closed = True
            self._wake()

    def since(self, mark: str) -> Missed:
        """What came after a mark."""
        boot, _, number = mark.partition(".")
        with self._lock:
            now = self.mark
            if _MARK.fullmatch(mark) is None or boot != self.boot or int(number) > self._number:
                return Missed((), reset=True, mark=now)
            first = self._kept[0].number if self._kept else self._number + 1
            if int(number) + 1 < first and int(number) != self._number:
                return Missed((), reset=True, mark=now)
            newer = list(takewhile(lambda one: one.number > int(number), reversed(self._kept)))
            return Missed(tuple(reversed(newer)), reset=False, mark=now)

    async def stream(
        self, mark: str, may_see: Callable[[LiveChange], bool], lives: Callable[[], bool]
    ) -> AsyncIterator[str]:
        """Server-sent events from a mark on, until the server ends or the visitor may not see them any more."""
        woken = asyncio.Event()
        entry = (asyncio.get_running_loop(), woken)
        with self._lock:
            self._waiting.add(entry)
        try:
            if not mark:
                mark = self.mark
            elif _MARK.fullmatch(mark) is None:
                mark = "0" * 8 + ".0"  # it reads everything again
            beat = time.monotonic() + BEAT_SECONDS
            yield f"retry: 1000\nid: {mark}\nevent: hello\ndata: {self.boot}\n\n"
            while not self._closed and lives():
                missed = self.since(mark)
                if missed.reset:
                    yield f"id: {missed.mark}\nevent: reset\ndata: \n\n"
                elif shown := [one for one in missed.changes if may_see(one)]:
                    yield f"id: {missed.mark}\nevent: change\ndata: {_told(shown)}\n\n"
                mark = missed.mark
                woken.clear()
                if self.mark != mark:
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), CHECK_SECONDS)
                if time.monotonic() >= beat:
                    beat = time.monotonic() + BEAT_SECONDS
                    yield "event: beat\ndata: \n\n"
        finally:
            with self._lock:
                self._waiting.discard(entry)

    def _wake(self) -> None:
        waiting: dict[asyncio.AbstractEventLoop, list[asyncio.Event]] = {}
        for loop, woken in self._waiting:
            waiting.setdefault(loop, []).append(woken)
        for loop, all_of_it in waiting.items():
            loop.call_soon_threadsafe(_set, all_of_it)


def _set(events: Iterable[asyncio.Event]) -> None:
    for one in events:
        one.set()


def _told(changes: Iterable[LiveChange]) -> str:
    """The changes as a page reads them, each pair of job and kind once."""
    return json.dumps(list(dict.fromkeys((one.repository, one.job, one.what) for one in changes)))


# ---- watching --------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Seen:
    """What was last seen of a repository."""

    versions: dict[str, tuple[int, int]] = field(default_factory=dict)
    owned: dict[str, bool] = field(default_factory=dict)
    streams: dict[str, int] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)  # why the engine can't go on with jobs
    checkout: int = 0
    hidden: int = 0
    problem: str = ""
    glanced: float = 0.0


class Watcher:
    """A thread that looks at the buses and tells the hub what changed."""

    def __init__(self, hub: Hub, contexts: dict[str, RepositoryContext]) -> None:
        self._hub, self._contexts = hub, contexts
        self._seen = {key: _Seen() for key in contexts}
        self._ended = threading.Event()
        self._nudged = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watcher", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait for it."""
        self._ended.set()
        self._nudged.set()
        self._thread.join(5.0)

    def nudge(self) -> None:
        """Look now: this process has written something itself, of which its own bus tells nothing."""
        self._nudged.set()

    def problem(self, key: str) -> str:
        """Why a repository's jobs can't be read now; empty if they can."""
        return self._seen[key].problem

    def _watch(self) -> None:
        tick = 0.0
        while not self._ended.is_set():
            nudged = self._nudged.is_set()
            self._nudged.clear()
            due = time.monotonic() >= tick
            for key, context in self._contexts.items():
                try:
                    self._hub.publish(self._look(key, context, due=due, anyway=nudged or due))
                    found = ""
                except (BusError, OSError, Unreadable) as error:
                    found = self._renewed(context) or str(error)
                except Exception as error:  # noqa: BLE001 - this thread's end would leave all pages as they are, unsaid
                    found = f"the server failed in looking at it ({type(error).__name__}: {error})"
                    if found != self._seen[key].problem:
                        traceback.print_exc(file=sys.stderr)
                if found != self._seen[key].problem:
                    self._seen[key].problem = found
                    self._hub.publish([(key, "", PLACE)])
            if due:
                tick = time.monotonic() + TICK_SECONDS
            self._nudged.wait(POLL_SECONDS)

    @staticmethod
    def _renewed(context: RepositoryContext) -> str:
        """Open a bus anew that was put back as another file, such as from a backup; why that fails, if it does.

        Empty: there is nothing to open. The next look reads it.
        """
        try:
            context.renew()
        except (BusError, OSError, Unreadable) as error:
            return str(error)
        return ""

    def _look(self, key: str, context: RepositoryContext, *, due: bool, anyway: bool) -> list[tuple[str, str, str]]:
        if not Path(context.root).is_dir():
            raise NotADirectoryError(f"{context.root} is gone: it was deleted or moved")
        if not context.there():
            return []
        seen = self._seen[key]
        found: list[tuple[str, str, str]] = []
        if (version := context.checkout_version()) != seen.checkout:
            found.append((key, "", CHECKOUT))
            seen.checkout = version
        if (hidden := context.hidden_version()) != seen.hidden:
            if seen.hidden:  # something that is shown became a secret
                found.append((key, "", PLACE))
            seen.hidden = hidden
        if seen.problem or (due and time.monotonic() - seen.glanced > GLANCE_SECONDS):
            context.glance()
            seen.glanced = time.monotonic()
        if context.changed() or anyway or not seen.versions:
            versions = context.store.versions()
            found += [(key, job, RECORD) for job, at in versions.items() if seen.versions.get(job) != at]
            seen.versions = versions
        if due:
            owned = {job: is_seen_owned(context.store, job) for job in context.store.unfinished()}
            found += [(key, job, OWNER) for job, lives in owned.items() if seen.owned.get(job, lives) != lives]
            streams = {job: _size(context.files.home(job)) for job, lives in owned.items() if lives}
            found += [(key, job, WORK) for job, size in streams.items() if seen.streams.get(job, size) != size]
            problems = read_problems(Path(context.home))
            found += [(key, job, OWNER) for job, _ in problems.items() ^ seen.problems.items()]
            seen.owned, seen.streams, seen.problems = owned, streams, problems
        return found


def _size(folder: Path) -> int:
    """How much a job's agents have written about what they do."""
    size = 0
    for place in (folder, folder / "streams"):
        try:
            with os.scandir(place) as entries:
                size += sum(
                    entry.stat(follow_symlinks=False).st_size for entry in entries if entry.name.endswith(".jsonl")
                )
        except OSError:
            continue
    return size
