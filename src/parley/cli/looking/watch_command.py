"""`parley watch`: all jobs on one screen."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from parley.base.json_codec import Unreadable
from parley.bus.rows import BusError
from parley.cli import OK
from parley.cli.common import Workplace, columns, hide_home_from_git, on_terminal, place_of
from parley.cli.looking.repository_contexts import context_of, titles_of
from parley.cli.user_homes import known
from parley.machine.stop_signals import Stopped
from parley.tui import left_out_words, plain_list, watch_all
from parley.views.repository_context import RepositoryContext


def run(words: argparse.Namespace) -> int:
    """Watch until the user leaves; without a terminal, print the state of the jobs once."""
    place = place_of(words.repo)
    here, left_out = [context_of(place)], 0
    if words.everywhere:
        more, left_out = _others(place)
        here += more
    try:
        if place.home.is_dir():
            hide_home_from_git(place.home)
        if on_terminal():
            watch_all(here, lambda: _others(place), left_out)
        else:
            _print(here, left_out)
    except Stopped as ended:
        return ended.code
    finally:
        for context in here:
            context.close()
    return OK


def _others(place: Workplace) -> tuple[list[RepositoryContext], int]:
    """The user's other repositories that have jobs, and how many more can't be read."""
    others = [other for other in known() if other.home != place.home]
    titles = titles_of([place, *others])[1:]
    found = [context_of(other, title) for other, title in zip(others, titles, strict=True)]
    usable = [context for context in found if _is_readable(context)]
    return usable, len(found) - len(usable)


def _is_readable(context: RepositoryContext) -> bool:
    try:
        context.jobs()
    except (BusError, OSError, Unreadable):  # one elsewhere does not hide the others
        context.close()
        return False
    return True


def _print(contexts: Sequence[RepositoryContext], left_out: int) -> None:
    for line in plain_list(contexts, columns()):
        print(line)
    if left_out:
        print(left_out_words(left_out))
    print("\nno terminal to draw on: `parley inbox` shows how to answer, `parley log JOB --follow` follows a job")
