"""The view without a terminal: messages and transitions as lines with times."""

from __future__ import annotations

import time
from collections.abc import Sequence

from parley.base.text import printable
from parley.bus.store import Store
from parley.views.history.chronicle import Follower, concerns, headline

WIDTH = 160


class PlainView:
    """Prints each message and transition once, as soon as it is committed."""

    def __init__(self, store: Store, jobs: Sequence[str], *, afresh: bool = True) -> None:
        self._store = store
        self._followers = {job: _follower(store, job, afresh=afresh) for job in jobs}
        self._begun = False

    def show(self) -> None:
        """Print what is new."""
        if self._begun and not self._store.changed():
            return
        self._begun = True
        for job, follower in self._followers.items():
            name = f"{job} " if len(self._followers) > 1 else ""
            for event in follower.read():
                if concerns(event):
                    moment = time.strftime("%H:%M:%S", time.localtime(event.time))
                    print(f"{moment} {name}{printable(headline(event, WIDTH))}")
        _flush()


def _follower(store: Store, job: str, *, afresh: bool) -> Follower:
    """From the beginning; or, with `afresh` false, from now on."""
    last = None if afresh else store.load(job).transaction
    return Follower(store, job, step=last.steps, message=last.messages) if last else Follower(store, job)


class SilentView:
    """Shows nothing: a program reads the result at the end."""

    def show(self) -> None:
        """Nothing."""


def _flush() -> None:
    print(end="", flush=True)
