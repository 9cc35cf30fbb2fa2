"""Which jobs a command is about: by their ids, states, ages, and words of their requests.

`add_filters` gives a command the options, `chosen` applies them to rows. Few imports: `parley ls` starts with it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Protocol, TypeVar

from parley.base.wording import advice
from parley.cli import CommandError

FINISHED = {"DONE": "done", "WITHDRAWN": "withdrawn", "FAILURE": "failed"}
UNFINISHED = ("needs you", "working", "paused", "interrupted")
STATES = (*UNFINISHED, *FINISHED.values())  # as `parley ls` lists jobs
_SETS = {
    "all": STATES,
    "finished": tuple(FINISHED.values()),
    "unfinished": UNFINISHED,
    "waiting": ("needs you",),  # what other programs call these two
    "running": ("working",),
}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


class Listed(Protocol):
    """What a filter looks at: a job's row, or what a listing shows of it."""

    @property
    def job(self) -> str:
        """Its id."""

    @property
    def request(self) -> str:
        """What was asked for."""

    @property
    def state(self) -> str:
        """INTENT, PLAN, EXECUTE, or how it ended."""

    @property
    def updated(self) -> float:
        """When something last happened in it."""


J = TypeVar("J", bound=Listed)


def add_filters(parser: argparse.ArgumentParser, *, ids: bool = True) -> None:
    """Give a command the options; `ids`: also several jobs as its arguments."""
    if ids:
        parser.add_argument("jobs", metavar="JOB", nargs="*", help="only these (default: all)")
    parser.add_argument(
        "--state",
        metavar="S",
        action="append",
        default=[],
        help="only jobs in this state: needs-you, working, paused, interrupted, done, failed, withdrawn; or finished,"
        " unfinished, all; also several: done,failed",
    )
    parser.add_argument("--older-than", metavar="AGE", help="only jobs in which nothing has happened for so long: 7d")
    parser.add_argument("--newer-than", metavar="AGE", help="only jobs in which something has happened since: 2h")
    parser.add_argument("--grep", metavar="WORDS", help="only jobs whose request contains these words")


def has_filter(words: argparse.Namespace) -> bool:
    """Whether an option is given that chooses among jobs. Ids name jobs, and are none."""
    given = (words.older_than, words.newer_than, words.grep)
    return bool(words.state) or any(value is not None for value in given)


def status(row: Listed) -> str:
    """Where a job stands, as far as its row tells. Whether a process works on it is known to its home alone."""
    return FINISHED.get(row.state, "working")


def chosen(words: argparse.Namespace, rows: Iterable[J], now: float, status_of: Callable[[J], str] = status) -> list[J]:
    """The rows that the options choose, in the order in which they came; with ids, in the order of these.

    `status_of` says where a job stands, as one of STATES.
    """
    found = _named(list(rows), getattr(words, "jobs", []))
    states = _states(words.state)
    oldest = now - age(words.newer_than, "--newer-than") if words.newer_than is not None else 0.0
    newest = now - age(words.older_than, "--older-than") if words.older_than is not None else float("inf")
    if oldest > newest:
        raise CommandError(
            f"no job is older than {words.older_than} and newer than {words.newer_than}; swap the two ages"
        )
    said = " ".join((words.grep or "").casefold().split())
    if words.grep is not None and not said:
        raise CommandError("--grep is empty: every job matches that; say which words, or leave it out")
    return [
        row
        for row in found
        if oldest <= row.updated <= newest
        and said in " ".join(row.request.casefold().split())
        and (not states or status_of(row) in states)
    ]


def age(text: str, option: str) -> float:
    """An age such as 30d or 12h, in seconds."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if found is None:
        raise CommandError(f"{option} {text or 'is empty'}: this is no age; write one such as 30d or 12h")
    return float(found[1]) * _UNITS[found[2]]


def _named(rows: list[J], ids: Sequence[str]) -> list[J]:
    if not ids:
        return rows
    pick = import_module("parley.cli.open_bus").pick  # for start-up: a plain listing names none
    by_id = {row.job: row for row in rows}
    picked = [pick(given.removeprefix("job:"), by_id, "job", "`parley ls` lists them") for given in ids]
    return [by_id[job] for job in dict.fromkeys(picked)]


def _states(given: Iterable[str]) -> set[str]:
    """The states that the words of `--state` mean; none: any."""
    found: set[str] = set()
    for word in (word.strip().casefold().replace("-", " ") for said in given for word in said.split(",")):
        if word not in STATES and word not in _SETS:
            known = [state.replace(" ", "-") for state in (*STATES, *_SETS)]
            raise CommandError(f"--state: there is no state {word!r}; {advice(word, known)}")
        found.update(_SETS.get(word, (word,)))
    return found
