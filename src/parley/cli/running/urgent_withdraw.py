"""The first step of `parley withdraw`: tell the owner and kill the agents, before the rest is imported.

Agents may take the whole machine, and the modules that `withdraw` needs take a while to load.
"""

from __future__ import annotations

import argparse
import sqlite3
import time
from importlib import import_module

from parley.bus.sqlite.urgent_input import leave_withdrawal
from parley.cli import CommandError, home_bus
from parley.cli.common import Workplace, acting_person, check_text, place_of
from parley.cli.job_filters import FINISHED, has_filter
from parley.machine.process_tags import any_marked, end_marked, gits_mark

OWNERS_SECONDS = 0.5  # for the owner to end its agents itself: then their deaths are no crashes
ROUND_SECONDS = 0.5
LOOK_SECONDS = 0.05


SHORTEST_ID = 3  # characters of a job's id by which it may be named where a reason may stand as well


def run(words: argparse.Namespace) -> int:
    """Withdraw a job or a thread of it: the whole job at once, the rest in order."""
    place = place_of(words.repo)
    words.jobs, words.text = _jobs_and_reason(place, words)
    if len(words.jobs) > 1 or has_filter(words):
        return int(import_module("parley.cli.running.withdraw_many").run(words))
    if not words.jobs:
        raise CommandError("name a JOB, or choose some with --state, --older-than or --grep; see `parley ls`")
    [words.job] = words.jobs
    words.left = words.thread is None and _begin(place, words)
    return int(import_module("parley.cli.running.steer").run(words))


def _jobs_and_reason(place: Workplace, words: argparse.Namespace) -> tuple[list[str], str]:
    """What the arguments say: jobs, and after them the reason, where the last one names no job."""
    given: list[str] = words.what
    if words.reason is not None or len(given) + has_filter(words) < 2 or _names_job(place, given[-1:]):  # noqa: PLR2004
        return given, words.reason or ""
    return given[:-1], given[-1]


def _names_job(place: Workplace, given: list[str]) -> bool:
    try:
        known = [seen.job for seen in home_bus.glance(place.home)] if given else []
    except (sqlite3.Error, OSError, ValueError):
        return False  # what is wrong with the bus is said later
    start = given[0].removeprefix("job:") if given else ""
    return start in known or (len(start) >= SHORTEST_ID and any(job.startswith(start) for job in known))


def _begin(place: Workplace, words: argparse.Namespace) -> bool:
    """Leave the input on the bus and kill the job's agents. Whether it was left: if not, `withdraw` says why."""
    left = leave_withdrawal(
        place.home, words.job.removeprefix("job:"), acting_person(words), check_text(words.text), FINISHED
    )
    if not left.job:
        return False
    mark, spared = f"{left.job}/", gits_mark(left.job)
    deadline = time.monotonic() + OWNERS_SECONDS * left.taken  # no wait for an owner that was not told
    while home_bus.is_owned(place.home, left.job) and time.monotonic() < deadline:
        if not any_marked(mark, spared=spared):
            return True
        time.sleep(LOOK_SECONDS)
    end_marked(mark, spared=spared if home_bus.is_owned(place.home, left.job) else "", seconds=ROUND_SECONDS)
    return left.taken
