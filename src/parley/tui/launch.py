"""The two programs of the terminal: a watch over all jobs, and the view of a job that this process works on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from parley.tui.job_screen import JobScreen
from parley.tui.overview import Others, Overview, left_out_words
from parley.tui.terminal.tty import Tty
from parley.tui.watch import Watch
from parley.views.repository_context import JobContext, RepositoryContext

FRAME_SECONDS = 0.1  # between two frames of a busy job


def watch_all(contexts: Sequence[RepositoryContext], others: Others = lambda: ((), 0), left_out: int = 0) -> None:
    """Watch all jobs until the user leaves; `others` finds the user's other repositories.

    `left_out`: how many of them can't be read, where all are watched from the beginning.
    """
    with Tty() as tty:
        watch = Watch(tty, contexts)
        if left_out:
            watch.say(left_out_words(left_out))
        try:
            watch.run(Overview(watch, lambda at: JobScreen(watch, at), others))
        finally:
            for context in watch.contexts[len(contexts) :]:
                context.close()


class RunView:
    """The view of a job that this process works on. `show` never waits, so that the work goes on."""

    def __init__(self, context: RepositoryContext, job: str, *, hands_off: str = "") -> None:
        self._at = JobContext(context, job)
        self._tty = Tty(owns=True)
        self._watch = Watch(self._tty, [context], owns=True, hands_off=hands_off)
        self._shown = 0.0

    def __enter__(self) -> Self:
        self._tty.__enter__()
        self._watch.begin(JobScreen(self._watch, self._at))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tty.__exit__(kind, error, trace)

    def show(self) -> None:
        """Handle keys, read what is new, and paint it; nothing where a frame has just been painted."""
        since = time.monotonic() - self._shown
        if since >= FRAME_SECONDS:
            self._watch.step(0.0)
            self._shown = time.monotonic()
