"""The bus of a home that several hosts share: every host finds what a commit names before the commit counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from parley.bus.forwarding_store import ForwardingStore
from parley.bus.rows import BusError, Commit
from parley.bus.store import HomeStore
from parley.hosts.mirror.mirror_errors import MirrorError
from parley.hosts.shared.published_jobs import PublishedJobs
from parley.hosts.shared.shared_files import SharedFiles


class SharedStore(ForwardingStore):
    """The store of an engine. Owning a job brings its files and its state here; a commit publishes its state first."""

    def __init__(
        self,
        store: HomeStore,
        files: SharedFiles,
        published: PublishedJobs | None,
        taken: Callable[[str], None] = lambda job: None,
    ) -> None:
        """`published`: None where no git remote is configured; `taken` is called when a job's files were brought."""
        super().__init__(store)
        self._files = files
        self._published = published
        self._taken = taken
        self._owned: set[str] = set()

    def own(self, job: str) -> int:
        """Become the job's owner, with its files and its state on this host."""
        epoch = super().own(job)
        try:
            if self._published is not None:
                self._published.take(job, epoch)
            self._files.take(job)
            self._taken(job)
        except BaseException:
            self._let_go(job)
            super().disown(job)
            raise
        self._owned.add(job)
        return epoch

    def disown(self, job: str) -> None:
        """Let go of a job. What its end has left here is published, if that can be."""
        if job in self._owned and self._published is not None:
            with suppress(BusError, MirrorError):  # nothing that the bus names is missing there
                self._published.publish(job)
        self._let_go(job)
        super().disown(job)

    def _let_go(self, job: str) -> None:
        self._owned.discard(job)
        self._files.leave(job)
        if self._published is not None:
            self._published.leave(job)

    def commit(self, commits: Sequence[Commit]) -> None:
        """Write all or none, after all that they name is on the remote."""
        if self._published is not None:
            for commit in commits:
                self._published.publish(commit.job, turn_ended=bool(commit.ended))
        super().commit(commits)

    @property
    def ahead(self) -> int:
        """A commit waits for what it names to be published."""
        return super().ahead if self._published is None else 0

    def begin_commit(self, commits: Sequence[Commit]) -> None:
        """Begin to write all or none; not before all that they name is on the remote."""
        if self._published is not None:
            self.commit(commits)
        else:
            super().begin_commit(commits)

    def let_go(self) -> None:
        """Free the files of all jobs here; the bus itself is closed on its own."""
        for job in list(self._owned):
            self._let_go(job)
