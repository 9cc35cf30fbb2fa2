"""Checks jobs in a thread before they are taken over: a long record takes seconds to verify, and other jobs go on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from parley.settings.schema import Settings


class CheckVerdict(NamedTuple):
    """Whether a job can go on here: what keeps it from that, or the settings to go on with."""

    job: str
    problem: str = ""
    settings: Settings = Settings()


class CheckThread:
    """Gives jobs to `check` in a thread that dies with the process, and hands out its verdicts."""

    def __init__(self, check: Callable[[Sequence[str]], Iterator[CheckVerdict]]) -> None:
        self.asked: set[str] = set()  # the jobs whose verdicts have not been handed out
        self._check = check
        self._jobs: queue.SimpleQueue[Sequence[str]] = queue.SimpleQueue()
        self._verdicts: queue.SimpleQueue[CheckVerdict] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="parley-checks", daemon=True).start()

    def ask(self, jobs: Iterable[str]) -> None:
        """Have jobs checked, all of them together."""
        fresh = [job for job in jobs if job not in self.asked]
        if fresh:
            self.asked.update(fresh)
            self._jobs.put(fresh)

    def verdicts(self, timeout_seconds: float) -> Iterator[CheckVerdict]:
        """The verdicts that are there; where there is none, wait so long for one."""
        try:
            found = self._verdicts.get(timeout=timeout_seconds) if timeout_seconds else self._verdicts.get_nowait()
            while True:
                self.asked.discard(found.job)
                yield found
                found = self._verdicts.get_nowait()
        except queue.Empty:
            return

    def _work(self) -> None:
        while True:
            for verdict in self._check(self._jobs.get()):
                self._verdicts.put(verdict)
