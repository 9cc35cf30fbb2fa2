"""`parley ls`. It looks at the jobs' rows and nothing else, and imports as little as that takes."""

from __future__ import annotations

import argparse
import os
import sqlite3
import time
from importlib import import_module

from parley.adapters import bus_gate
from parley.adapters.glance import Glimpse, glance, is_owned
from parley.engine.vault import secrets_of
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.desk import Place, columns, lasting, one_line, place_of, print_json

GROUPS = ("needs you", "working", "paused", "interrupted", "finished")
FINISHED = {"DONE": "done", "WITHDRAWN": "withdrawn", "FAILURE": "failed"}
REMEDIES = {"needs you": "parley inbox", "paused": "parley resume JOB", "interrupted": "parley resume"}


def run(words: argparse.Namespace) -> int:
    """List the jobs."""
    place = place_of(words.repo)
    try:
        there = bus_gate.exists(place.home)
    except bus_gate.Refused as refused:
        raise Trouble(str(refused), FAILED) from refused
    if words.json:
        jobs = import_module("parley.faces.cli.documents").listing(place) if there else []
        print_json({"home": str(place.home), "jobs": jobs})
        return OK
    if not there:
        print(f"no jobs in {place.home} yet; start one with `parley run`")
        return OK
    groups: dict[str, list[Glimpse]] = {name: [] for name in GROUPS}
    secrets = secrets_of(place.root, os.environ)
    for glimpse in look(place):
        seen = glimpse._replace(request=secrets.redact(glimpse.request))
        owned = seen.state not in FINISHED and is_owned(place.home, seen.job)
        groups[group_of(seen, owned=owned)].append(seen if owned else seen._replace(stalled=0, waits=()))
    _print(groups)
    return OK


def look(place: Place) -> list[Glimpse]:
    """Every job, oldest first."""
    try:
        return glance(place.home)
    except (sqlite3.Error, OSError, ValueError):
        # the store takes longer to import, and can say what is wrong, or put it right
        found: list[Glimpse] = import_module("parley.faces.cli.documents").glimpses(place)
        return found


def group_of(seen: Glimpse, *, owned: bool) -> str:
    """Where a job is listed."""
    if seen.state in FINISHED:
        return "finished"
    if seen.waiting - (0 if owned else seen.alarms) > 0:  # what nobody works on is not stalled
        return "needs you"
    if seen.held:
        return "paused"
    return "working" if owned else "interrupted"


def _print(groups: dict[str, list[Glimpse]]) -> None:
    now, width = time.time(), columns()
    filled = {name: found for name, found in groups.items() if found}
    if not filled:
        print("no jobs yet; start one with `parley run`")
    for number, (name, found) in enumerate(filled.items()):
        if number:
            print()
        print(f"{name} ({REMEDIES[name]})" if name in REMEDIES else name)
        for seen in reversed(found):
            state = FINISHED.get(seen.state, seen.state)
            back = f"  {seen.backtracks} back" if seen.backtracks else ""
            stalled = f"{seen.stalled} stalled: " if seen.stalled else ""
            head = f"  {seen.job:<10}{state:<10}{lasting(now - seen.updated):>7} ago{back:<8} {stalled}"
            print(head + one_line(seen.request, max(20, width - len(head))))
            for words in _waits(seen, now):
                print(f"    {one_line(words, max(20, width - 4))}")


def _waits(seen: Glimpse, now: float) -> list[str]:
    """Who of a job waits for its provider, in words: seldom anybody, so the words are imported when needed."""
    if not seen.waits:
        return []
    read = import_module("parley.engine.holds").wait_of
    return [f"{wait.agent} {wait.words(now)}" for wait in map(read, seen.waits)]
