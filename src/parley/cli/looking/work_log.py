"""`parley log --work`: shows what a job's agents did, with the results of their tool calls."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable

from parley.base.text import cut, safe_lines
from parley.base.wording import count
from parley.bus.store import HomeStore
from parley.cli import OK
from parley.cli.common import Workplace, one_line, print_json, safe
from parley.cli.looking.log_window import Days, clock, earlier_line, window_of
from parley.cli.open_bus import pick
from parley.cli.pager import paged
from parley.cli.shared_home import job_files
from parley.views.job_view import TERMINAL, Present, past
from parley.views.work import WorkEvent, WorkFollower, WorkKind

POLL_SECONDS = 0.2
WORDS_SHOWN = 300  # characters of what a tool's use is about
LINES_SHOWN = 10  # of a result


def run(words: argparse.Namespace, store: HomeStore, place: Workplace, job: str, thread: str) -> int:
    """Show the work."""
    agent, window, printer = _agent(store, job, words.agent), window_of(words), WorkPrinter(job)
    files = job_files(place.home)
    follower = WorkFollower(files.home(job), thread=thread, agent=agent)
    over = store.load(job).row.state in TERMINAL  # before reading: nothing may be missed
    events, left_out = window.part(follower.events())
    if words.json and not words.follow:
        print_json({"id": job, "work": [event.document() for event in events]})
        return OK
    if not words.follow:
        with paged():
            if left_out:
                print(earlier_line(left_out, job, " --work"))
            for event in events:
                printer.print(event)
        return OK
    if left_out and not words.json:
        print(earlier_line(left_out, job, " --work"))
    while True:
        for event in events:
            if words.json:
                print(json.dumps(event.document(), ensure_ascii=True))  # one a line, as they come
            else:
                printer.print(event)
        print(end="", flush=True)
        if over:
            return OK
        time.sleep(POLL_SECONDS)
        over = store.load(job).row.state in TERMINAL
        files.home(job)  # what another host has written is brought
        events = follower.read()


def _agent(store: HomeStore, job: str, given: str | None) -> str:
    """The one agent that a name, or the beginning of one, means."""
    if given is None:
        return ""
    known = {thread.agent for thread in (*Present(store, job).threads(), *past(store, job).ended)}
    return pick(given, known, "agent", f"`parley tree {job}` lists them")


class WorkPrinter:
    """Prints the work of a job, one thing after the other."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._last: tuple[str, str] | None = None  # the use whose beginning was printed last, by turn and use
        self._days = Days()

    def print(self, event: WorkEvent) -> None:
        """Print an event."""
        for line in self.lines(event):
            print(line)

    def lines(self, event: WorkEvent) -> Iterable[str]:
        """An event as lines, with nothing that a terminal would obey."""
        if event.time and (heading := self._days.heading(event.time)):
            yield heading
        head = f"{clock(event.time)}  {safe(event.agent) or 'an agent'}"
        use, last = (event.turn, event.use), self._last
        self._last = use if event.kind is WorkKind.USE else None
        match event.kind:
            case WorkKind.START:
                yield f"{head} begins turn {event.turn} on {safe(event.thread)}"
            case WorkKind.SAYS:
                yield f"{head}: {one_line(event.words, WORDS_SHOWN)}"
            case WorkKind.USE:
                yield f"{head}  {_use(event)}"
            case WorkKind.RESULT:
                if use != last:
                    yield f"{head}  {_use(event)}"
                yield from self._result(event)
            case WorkKind.WAITS:
                yield f"{head} waits: {one_line(event.words, WORDS_SHOWN)}"
            case WorkKind.GOES_ON:
                yield f"{head} {one_line(event.words, WORDS_SHOWN) if event.host and event.words else 'goes on'}"
            case WorkKind.END:
                yield f"{head} ends its turn: {one_line(event.words, WORDS_SHOWN)}".removesuffix(": ")
            case WorkKind.LOST:
                yield f"{head} loses its turn: {one_line(event.words, WORDS_SHOWN)}"
            case WorkKind.CUT:
                yield f"-- {safe(event.words)}"

    def _result(self, event: WorkEvent) -> Iterable[str]:
        """What came of a use: that it failed, how long it took, and the beginning of its result."""
        took = f"{event.seconds:.1f} s" if event.seconds is not None and event.seconds >= 0.1 else ""  # noqa: PLR2004
        how = " after ".join(filter(None, ("failed" if event.failed else "done" if took else "", took)))
        said = [line for line in safe_lines(event.result).splitlines() if line.strip()]
        if how:
            yield f"    {how}"
        for line in said[:LINES_SHOWN]:
            yield f"    | {cut(line, WORDS_SHOWN)}"
        if len(said) > LINES_SHOWN:
            left = count(len(said) - LINES_SHOWN, "more line")
            yield f"    | … {left}: parley log {self._job} --work --json, or c and f in parley watch"


def _use(event: WorkEvent) -> str:
    return f"{safe(event.tool)} {one_line(event.words, WORDS_SHOWN)}".rstrip()
