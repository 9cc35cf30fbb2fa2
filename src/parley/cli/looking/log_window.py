"""Which part of a log is shown: the last events, those since a moment, or all; and a heading for each day."""

from __future__ import annotations

import argparse
import re
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeVar

from parley.base.wording import count
from parley.cli import CommandError
from parley.cli.job_filters import age

SHOWN = 500  # events, where neither `--all` nor `--tail` nor `--since` is given
_AGE = re.compile(r"\d{1,6}[smhdw]")
_FORMS = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S")
_OF_TODAY = ("%H:%M", "%H:%M:%S")


class Timed(Protocol):
    """Something that happened at a moment."""

    @property
    def time(self) -> float:
        """When."""


T = TypeVar("T", bound=Timed)


class Window(NamedTuple):
    """A part of a log."""

    since: float = 0.0
    most: int | None = None  # events, the last

    def part(self, events: Iterable[T]) -> tuple[list[T], int]:
        """The events in it, and how many came before these."""
        number = 0
        kept: deque[T] = deque(maxlen=self.most)
        for event in events:
            number += 1
            if event.time >= self.since:
                kept.append(event)
        return list(kept), number - len(kept)


def window_of(words: argparse.Namespace) -> Window:
    """What the options say. A program that asks for JSON gets all, unless it asks for less."""
    since = moment(words.since, time.time()) if words.since is not None else 0.0
    if words.tail is not None and words.tail < 1:
        raise CommandError(f"--tail {words.tail}: name how many events, 1 or more")
    bounded = not (words.all or words.json or words.since is not None)
    return Window(since, words.tail if words.tail is not None else SHOWN if bounded else None)


def moment(text: str, now: float) -> float:
    """A moment as people write it: 2h (ago), 14:30 (today), 2026-01-31, or that with a time."""
    if _AGE.fullmatch(text):
        return now - age(text, "--since")
    today = time.strftime("%Y-%m-%d ", time.localtime(now))
    for form, said in (*((form, text) for form in _FORMS), *((f"%Y-%m-%d {form}", today + text) for form in _OF_TODAY)):
        with suppress(ValueError, OverflowError):
            return time.mktime(time.strptime(said, form))
    raise CommandError(f"--since {text}: this is no moment; write 2h, 14:30, 2026-01-31 or '2026-01-31 14:30'")


def earlier_line(left_out: int, job: str, work: str = "") -> str:
    """The line that says what is not shown, and how to see it."""
    return f"… {count(left_out, 'earlier event')}: parley log {job}{work} --all, or --tail N, or --since 2h"


class Days:
    """The headings of a log: one where a day begins, none for today alone."""

    def __init__(self) -> None:
        self._day = time.localtime()[:3]

    def heading(self, moment: float) -> str:
        """The heading before something that happened then; empty: none."""
        then = time.localtime(moment)
        if then[:3] == self._day:
            return ""
        self._day = then[:3]
        return time.strftime("---- %A, %Y-%m-%d ----", then)


def clock(moment: float) -> str:
    """The time of a day."""
    return time.strftime("%H:%M:%S", time.localtime(moment))
