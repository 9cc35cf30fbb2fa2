"""What the screens use from outside: each repository's bus, its jobs' files, and commands that run there."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from parley.bus.rows import JobRow
from parley.bus.sqlite.quick_read import Glimpse
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.ports.machine import Files
from parley.views.job_view import Present
from parley.views.needs import GateView, Need, needs


@dataclass(frozen=True)
class WatchContext:
    """One repository: its redacted bus, and functions that start processes in it. It owns no job."""

    home: str  # where the jobs are: no two contexts have the same
    title: str  # the repository
    by: str  # the user's account
    files: Files
    exists: Callable[[], bool]  # whether there is a bus yet
    open_store: Callable[[], SqliteStore]
    glance: Callable[[], list[Glimpse]]  # every job, oldest first, from their rows alone
    exhibit: Callable[[Need], GateView]  # what a gate is about
    diff: Callable[[str], str]  # a job's diff; empty if none yet
    artifacts: Callable[[str], Sequence[tuple[str, str]]]  # a job's INTENT.md, PLAN.md and so on, the newest first
    merged: Callable[[str], bool]  # whether the user has a job's result; asks git
    command: Callable[[Sequence[str]], subprocess.Popen[str]]  # `parley` with these words
    program: Callable[
        [Sequence[str]], Sequence[str]
    ]  # the same as a command line, for a program that needs the terminal
    go_on: Callable[[str, Sequence[str]], subprocess.Popen[bytes]]  # starts a process that owns a job

    @cached_property
    def store(self) -> SqliteStore:
        """The bus, opened when it is first looked at: before the first job there is none."""
        return self.open_store()

    def changed(self) -> bool:
        """Whether the bus may have changed since the last call. Raises if it is gone."""
        if "store" not in self.__dict__:
            return self.exists()
        self.store.check()
        return self.store.changed()

    def jobs(self) -> list[Glimpse]:
        """Every job, oldest first."""
        if not self.exists():
            return []
        _ = self.store  # from now on it is told when it changes, or is gone
        return self.glance()

    def close(self) -> None:
        """Close the bus."""
        if "store" in self.__dict__:
            self.store.close()


@dataclass(frozen=True)
class WatchedJob:
    """A job on a screen, in its repository."""

    context: WatchContext
    id: str

    @property
    def row(self) -> JobRow:
        """The job's row."""
        return self.context.store.load(self.id).row

    @property
    def owned(self) -> bool:
        """Whether a process works on it."""
        return self.context.store.owner_lives(self.id)

    def present(self) -> Present:
        """The job as the bus has it now."""
        return Present(self.context.store, self.id)

    def needs(self) -> list[Need]:
        """All of it that needs the user."""
        return needs(self.context.store, self.context.files, [self.row])
