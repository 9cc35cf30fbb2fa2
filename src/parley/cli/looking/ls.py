"""`parley ls`: lists the jobs from their rows alone, with few imports."""

from __future__ import annotations

import argparse
import os
import sqlite3
import time
from importlib import import_module

from parley.base.wording import duration
from parley.bus.glimpses import Glimpse
from parley.bus.sqlite import safe_open
from parley.cli import FAILED, OK, CommandError, home_bus
from parley.cli.common import Workplace, columns, one_line, place_of, print_json
from parley.cli.job_filters import FINISHED, UNFINISHED, chosen, has_filter
from parley.features.secrets.secret_sources import secrets_of

BACK = 8  # columns for how often a job went back, where one did
GROUPS = (*UNFINISHED, "finished")
SHOWN = dict.fromkeys(UNFINISHED, 40) | {"finished": 10}  # jobs of each group, the newest; `--all` shows all
REMEDIES = {"needs you": "parley inbox", "paused": "parley resume JOB", "interrupted": "parley resume"}


def run(words: argparse.Namespace) -> int:
    """List the jobs."""
    place = place_of(words.repo)
    try:
        there = safe_open.exists(place.home)
    except safe_open.KeyRefused as refused:
        raise CommandError(str(refused), FAILED) from refused
    if words.jobs and not there:
        raise CommandError(f"there is no job {words.jobs[0]!r}, and none in {place.home} yet; see `parley ls --help`")
    if words.json:
        jobs = import_module("parley.cli.looking.json_documents").listing(place, words) if there else []
        print_json({"home": str(place.home), "jobs": jobs})
        return OK
    if not there:
        print(f"no jobs in {place.home} yet; start one with `parley run`")
        return OK
    secrets = secrets_of(place.root, os.environ)
    every = [glimpse._replace(request=secrets.redact(glimpse.request)) for glimpse in look(place)]
    owned = home_bus.owned_jobs(place.home, [seen.job for seen in every if seen.state not in FINISHED])
    picked = chosen(words, every, time.time(), lambda seen: status_of(seen, owned=seen.job in owned))
    groups: dict[str, list[Glimpse]] = {name: [] for name in GROUPS}
    for seen in picked:
        here = seen.job in owned
        groups[group_of(seen, owned=here)].append(seen if here else seen._replace(stalled=0, waits=()))
    if not every:
        print("no jobs yet; start one with `parley run`")
    elif not picked:
        print(f"no job matches, of {len(every)}; see them with `parley ls --all`")
    _print(groups, whole=words.all or bool(words.jobs) or has_filter(words))
    return OK


def look(place: Workplace) -> list[Glimpse]:
    """Every job, oldest first."""
    try:
        return home_bus.glance(place.home)
    except (sqlite3.Error, OSError, ValueError):
        # the store takes longer to import, but can repair the bus or say what is wrong
        found: list[Glimpse] = import_module("parley.cli.looking.json_documents").glimpses(place)
        return found


def status_of(seen: Glimpse, *, owned: bool) -> str:
    """Where a job stands, in one word or two."""
    return FINISHED.get(seen.state) or group_of(seen, owned=owned)


def group_of(seen: Glimpse, *, owned: bool) -> str:
    """Where a job is listed."""
    if seen.state in FINISHED:
        return "finished"
    if seen.waiting - (0 if owned else seen.alarms) > 0:  # a job without an owner is not stalled
        return "needs you"
    if seen.held:
        return "paused"
    return "working" if owned else "interrupted"


def _print(groups: dict[str, list[Glimpse]], *, whole: bool) -> None:
    now, width = time.time(), columns()
    filled = {name: found for name, found in groups.items() if found}
    room = BACK if any(seen.backtracks for found in filled.values() for seen in found) else 1
    for number, (name, found) in enumerate(filled.items()):
        if number:
            print()
        print(f"{name} ({REMEDIES[name]})" if name in REMEDIES else name)
        found.sort(key=lambda seen: seen.updated, reverse=True)
        shown = len(found) if whole else SHOWN[name]
        for seen in found[:shown]:
            state = FINISHED.get(seen.state, seen.state)
            back = f"  {seen.backtracks} back" if seen.backtracks else ""
            stalled = f"{seen.stalled} stalled: " if seen.stalled else ""
            head = f"  {seen.job:<10}{state:<10}{duration(now - seen.updated):>7} ago{back:<{room}} {stalled}"
            print(head + one_line(seen.request, max(20, width - len(head))))
            for words in _waits(seen, now):
                print(f"    {one_line(words, max(20, width - 4))}")
        if len(found) > shown:
            print(f"  … {len(found) - shown} more: parley ls --state {name.replace(' ', '-')}")


def _waits(seen: Glimpse, now: float) -> list[str]:
    """Which agents of a job wait for their provider; rarely needed, so imported only then."""
    if not seen.waits:
        return []
    read = import_module("parley.engine.values.hold_causes").wait_of
    try:
        return [f"{wait.agent} {wait.words(now)}" for wait in map(read, seen.waits)]
    except ValueError:  # not what the engine writes; one damaged job does not hide the others
        return [f"its record can't be read: parley audit {seen.job}"]
