"""`parley log`: a job's messages and transitions, readable."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

from parley.adapters.sqlite import SqliteStore
from parley.engine.chronicle import Event, Follower
from parley.engine.projections import TERMINAL, Present, past
from parley.faces.cli import OK
from parley.faces.cli.bus import bus, find_job, pick_thread
from parley.faces.cli.desk import clock, place_of, print_json, safe
from parley.faces.cli.documents import lost_refs
from parley.text import safe_lines

POLL_SECONDS = 0.2


def run(words: argparse.Namespace) -> int:
    """Show the log."""
    place = place_of(words.repo)
    with bus(place) as store:
        job = find_job(store.jobs(), words.job).job
        thread = _thread(store, job, words.thread)
        follower = Follower(store, job)
        events = _with_refs(_of_thread(follower.read(), thread), place.home, job)
        if words.json and not words.follow:
            print_json({"id": job, "events": [event.document() for event in events]})
            return OK
        while True:
            for event in events:
                if words.json:
                    print(json.dumps(event.document(), ensure_ascii=True))  # one a line, as they come
                else:
                    _print(event)
            print(end="", flush=True)
            if not words.follow or _is_over(store, job, follower):
                return OK
            while not store.changed():
                time.sleep(POLL_SECONDS)
            events = _with_refs(_of_thread(follower.read(), thread), place.home, job)


def _thread(store: SqliteStore, job: str, given: str | None) -> str | None:
    if given is None:
        return None
    known = [thread.id for thread in (*Present(store, job).threads(), *past(store, job).ended)]
    return pick_thread(given, known, job)


def _of_thread(events: list[Event], thread: str | None) -> list[Event]:
    return [event for event in events if thread in (None, event.thread, event.sender_thread)]


def _with_refs(events: list[Event], home: Path, job: str) -> list[Event]:
    """What was abandoned, with where its files are."""
    cut = [event for event in events if "abandoned" in event.about]
    if not cut:
        return events
    kept = lost_refs(home, job)
    refs = {event.number: kept.get(str(event.about["abandoned"]), []) for event in cut}
    told = {
        event.number: replace(event, text=f"{event.text}; its files: {', '.join(refs[event.number])}")
        for event in cut
        if refs[event.number]
    }
    return [told.get(event.number, event) if "abandoned" in event.about else event for event in events]


def _is_over(store: SqliteStore, job: str, follower: Follower) -> bool:
    loaded = store.load(job)
    last = loaded.transaction
    return loaded.row.state in TERMINAL and last is not None and follower.step >= last.steps


def _print(event: Event) -> None:
    if event.kind == "message":
        by = f", in the {event.about['author']}'s name" if "author" in event.about else ""
        print(f"{clock(event.time)}  {event.by or event.who} -> {event.to}  [{event.thread}]{by}")
        for line in safe_lines(event.text).splitlines():
            print(f"    {line}")
        if by and "weighed" in event.about:
            print(f"  (not asked: {safe(str(event.about['weighed']['why']))})")
    else:
        mark = "==" if event.kind == "transition" else "--"
        print(f"{clock(event.time)}  {mark} {safe(event.text)}")
