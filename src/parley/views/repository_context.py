"""What the screens use from outside: each repository's bus, its jobs' files, and commands that run there."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from parley.bus.glimpses import Glimpse
from parley.bus.rows import BusError, JobRow
from parley.bus.store import HomeStore
from parley.ports.machine import Files
from parley.views.host_lines import HostLine
from parley.views.job_diffs import JobDiffs
from parley.views.job_view import Present, is_seen_owned
from parley.views.questions.gate_view import GatePage
from parley.views.questions.needs import GateView, Need, needs


class CommandEnd(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """Its error in one line."""
        lines = [line for line in self.err.splitlines() if line.strip()]
        return lines[-1].removeprefix("parley: ") if lines else f"the command ended with {self.code}"


@dataclass(frozen=True)
class RepositoryContext:
    """One repository: its redacted bus, and functions that start processes in it. It owns no job."""

    home: str  # where the jobs are: no two contexts have the same
    title: str  # the repository
    by: str  # the user's account
    files: Files
    exists: Callable[[], bool]  # whether there is a bus yet
    open_store: Callable[[], HomeStore]
    glance: Callable[[], list[Glimpse]]  # every job, oldest first, from their rows alone
    exhibit: Callable[[Need], GateView]  # what a gate is about
    gate: Callable[[Need], GatePage | None]  # all that a page needs to answer a question; None where it is none
    diff: Callable[[str], str]  # a job's diff; empty if none yet
    diffs: JobDiffs  # the same file by file, and of each instance
    artifacts: Callable[[str], Sequence[tuple[str, str]]]  # a job's INTENT.md, PLAN.md and so on, the newest first
    merged: Callable[[str], bool]  # whether the user has a job's result; asks git
    command: Callable[[Sequence[str]], subprocess.Popen[str]]  # `parley` with these words
    program: Callable[
        [Sequence[str]], Sequence[str]
    ]  # the same as a command line, for a program that needs the terminal
    go_on: Callable[[str, Sequence[str]], subprocess.Popen[bytes]]  # starts a process that owns a job
    redact: Callable[[str], str] = str  # hides secrets in what no other callable gives
    hidden_version: Callable[[], int] = int  # grows when there are more secrets to hide
    # A version of an artifact: of a job, a question, an artifact's name and its digest; None if it is not kept.
    artifact_text: Callable[[str, str, str, str], str | None] = lambda job, question, artifact, digest: None
    # The diff between two versions: of a job, an artifact's name, and two digests.
    artifact_diff: Callable[[str, str, str, str], str | None] = lambda job, artifact, before, after: None
    root: str = ""  # the user's folder
    checkout_version: Callable[[], int] = int  # grows when the user may have a job's result; it asks no git
    agents: Callable[[], Sequence[tuple[str, str]]] = tuple  # a job's possible agents, each with what it lacks here
    run_to_end: Callable[[Sequence[str], str], CommandEnd] = lambda words, text: CommandEnd(1, "", "")  # with a text
    on_server: Callable[[], bool] = bool  # whether the bus is on a server, so that turns can run on other hosts
    hosts: Callable[[], Sequence[HostLine]] = tuple  # these
    guest: bool = False  # whether `by` is another person than the user whose account it is

    @cached_property
    def store(self) -> HomeStore:
        """The bus, opened when it is first looked at: before the first job there is none."""
        return self.open_store()

    def changed(self) -> bool:
        """Whether the bus may have changed since the last call. Raises if it is gone."""
        if "store" not in self.__dict__:
            return self.exists()
        self.store.check()
        return self.store.changed()

    def there(self) -> bool:
        """Whether there is a bus. Raises if there was one, and it is gone."""
        if self.exists():
            return True
        if "store" in self.__dict__:
            self.store.check()
        return False

    def renew(self) -> None:
        """Open the bus anew where another file has taken its place. Who still reads the former one ends with it."""
        if "store" not in self.__dict__ or not self.exists():
            return
        try:
            self.store.check()
        except BusError:
            self.__dict__["store"] = self.open_store()

    def jobs(self) -> list[Glimpse]:
        """Every job, oldest first."""
        if not self.there():
            return []
        _ = self.store  # from now on it is told when it changes, or is gone
        return self.glance()

    def in_name_of(self, person: str) -> RepositoryContext:
        """The same repository, and the same open bus, for another person than the user whose account it is."""
        made = replace(self, by=person, guest=self.guest or person != self.by)
        if "store" in self.__dict__:
            made.__dict__["store"] = self.store
        return made

    def close(self) -> None:
        """Close the bus."""
        if "store" in self.__dict__:
            self.store.close()


@dataclass(frozen=True)
class JobContext:
    """A job on a screen, in its repository."""

    context: RepositoryContext
    id: str

    @property
    def row(self) -> JobRow:
        """The job's row."""
        return self.context.store.load(self.id).row

    @property
    def owned(self) -> bool:
        """Whether a process works on it."""
        return is_seen_owned(self.context.store, self.id)

    def present(self) -> Present:
        """The job as the bus has it now."""
        return Present(self.context.store, self.id)

    def needs(self) -> list[Need]:
        """All of it that needs the user."""
        return needs(self.context.store, self.context.files, [self.row])


def repository_key(home: Path) -> str:
    """What a repository is called in addresses: short, and the same as long as its home stays where it is."""
    return hashlib.sha256(str(home).encode("utf-8", "surrogateescape")).hexdigest()[:8]
