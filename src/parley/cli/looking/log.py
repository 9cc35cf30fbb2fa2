"""`parley log`: shows a job's messages and transitions; with `--work`, what its agents did."""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from parley.base.text import safe_lines
from parley.bus.store import HomeStore
from parley.cli import OK, CommandError
from parley.cli.common import place_of, print_json, safe
from parley.cli.looking import work_log
from parley.cli.looking.json_documents import lost_refs
from parley.cli.looking.log_window import Days, clock, earlier_line, window_of
from parley.cli.open_bus import find_job, open_bus, pick_thread
from parley.cli.pager import paged
from parley.engine.values.message_meta import Answered
from parley.views.history.chronicle import Follower, LogEvent
from parley.views.job_view import TERMINAL, Present, past

POLL_SECONDS = 0.2


def run(words: argparse.Namespace) -> int:
    """Show the log."""
    place = place_of(words.repo)
    with open_bus(place) as store:
        job = find_job(store.jobs(), words.job).job
        thread = _thread(store, job, words.thread)
        if words.work:
            return work_log.run(words, store, place, job, thread or "")
        if words.agent is not None:
            raise CommandError(f"--agent goes with --work: `parley log {job} --work --agent {words.agent}`")
        window, days, follower = window_of(words), Days(), Follower(store, job)
        found, left_out = window.part(_of_thread(follower.read(), thread))
        events = _with_refs(found, place.home, job)
        if words.json and not words.follow:
            print_json({"id": job, "events": [event.document() for event in events]})
            return OK
        if not words.follow:
            with paged():
                if left_out:
                    print(earlier_line(left_out, job))
                for event in events:
                    _print(event, days)
            return OK
        if left_out and not words.json:
            print(earlier_line(left_out, job))
        while True:
            for event in events:
                if words.json:
                    print(json.dumps(event.document(), ensure_ascii=True))  # one a line, as they come
                else:
                    _print(event, days)
            print(end="", flush=True)
            if _is_over(store, job, follower):
                return OK
            while not store.changed():
                store.wait(POLL_SECONDS)
            events = _with_refs(_of_thread(follower.read(), thread), place.home, job)


def _thread(store: HomeStore, job: str, given: str | None) -> str | None:
    if given is None:
        return None
    known = [thread.id for thread in (*Present(store, job).threads(), *past(store, job).ended)]
    return pick_thread(given, known, job)


def _of_thread(events: list[LogEvent], thread: str | None) -> list[LogEvent]:
    return [event for event in events if thread in (None, event.thread, event.sender_thread)]


def _with_refs(events: list[LogEvent], home: Path, job: str) -> list[LogEvent]:
    """Events of abandoned turns, with the refs of their files."""
    cut = [event for event in events if event.abandoned]
    if not cut:
        return events
    kept = lost_refs(home, job)
    refs = {event.number: kept.get(event.abandoned, []) for event in cut}
    told = {
        event.number: replace(event, text=f"{event.text}; its files: {', '.join(refs[event.number])}")
        for event in cut
        if refs[event.number]
    }
    return [told.get(event.number, event) if event.abandoned else event for event in events]


def _is_over(store: HomeStore, job: str, follower: Follower) -> bool:
    loaded = store.load(job)
    last = loaded.transaction
    return loaded.row.state in TERMINAL and last is not None and follower.step >= last.steps


def _print(event: LogEvent, days: Days) -> None:
    if heading := days.heading(event.time):
        print(heading)
    if event.kind == "message":
        by = f", in the {event.author}'s name" if event.author else ""
        host = f", on {safe(event.host)}" if event.host else ""
        print(f"{clock(event.time)}  {event.by or event.who} -> {event.to}  [{event.thread}]{host}{by}")
        for line in safe_lines(event.text).splitlines():
            print(f"    {line}")
        if isinstance(event.meta, Answered) and event.meta.view.weighed is not None:
            print(f"  (not asked: {safe(event.meta.view.weighed.why)})")
    else:
        mark = "==" if event.kind == "transition" else "--"
        print(f"{clock(event.time)}  {mark} {safe(event.text)}")
