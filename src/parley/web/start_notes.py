"""What `parley run` said when a person started a job from the page: what is not part of it, and what it begins from."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from parley.base.wording import count
from parley.views.repository_context import CommandEnd

PREFIX = "parley: "
MOST_JOBS, MOST_LINES = 200, 20


class StartNotes:
    """The lines of the jobs that were started last, each for the visitor who started it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, str, str], Sequence[str]] = OrderedDict()

    def keep(self, visitor: str, repository: str, job: str, ended: CommandEnd) -> None:
        """Keep what the command said besides the job's id."""
        lines = [line.removeprefix(PREFIX) for line in ended.err.splitlines() if line.strip()]
        if not lines:
            return
        with self._lock:
            self._kept[visitor, repository, job] = _first(lines)
            while len(self._kept) > MOST_JOBS:
                self._kept.popitem(last=False)

    def of(self, visitor: str, repository: str, job: str) -> Sequence[str]:
        """What was said to a visitor who started a job."""
        with self._lock:
            return self._kept.get((visitor, repository, job), ())


def _first(lines: Sequence[str]) -> Sequence[str]:
    """The first lines, and how many are left out."""
    left = len(lines) - MOST_LINES
    return lines if left <= 0 else [*lines[:MOST_LINES], f"… and {count(left, 'more line')}"]
