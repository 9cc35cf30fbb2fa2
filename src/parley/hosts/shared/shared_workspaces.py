"""The workspaces of jobs that several hosts own, one after the other: what another host published is brought first."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from parley.hosts.mirror.mirror_errors import MirrorError
from parley.hosts.shared.published_jobs import PublishedJobs
from parley.ports.turns import Site
from parley.ports.workspaces import SentFile, WorkspaceError
from parley.settings.schema import WorkspaceSettings
from parley.workspaces import JobWorkspaces
from parley.workspaces.job_repository import FormerResult, JobRepository

LOOK_SECONDS = 1.0  # between two questions about a job that is looked at all the time


class SharedWorkspaces(JobWorkspaces):
    """As JobWorkspaces; a job that another host works on is brought when it is looked at."""

    def __init__(
        self,
        home: Path,
        root: Path | None = None,
        settings: WorkspaceSettings | None = None,
        **more: Any,
    ) -> None:
        super().__init__(home, root, settings, **more)
        self.published: PublishedJobs | None = None  # it is told which repositories these are, and so comes later
        self._looked: dict[str, float] = {}
        self._bare: set[tuple[str, str]] = set()  # workspaces that were made again here, and lack what a set-up makes

    def repository(self, job: str) -> JobRepository:
        """The job's repository, with what another host has published of it."""
        now = time.monotonic()
        if self.published is not None and now - self._looked.get(job, -60.0) >= LOOK_SECONDS:
            self._looked[job] = now
            if self.published.bring(job):
                self.forget(job)
        return super().repository(job)

    def own_repository(self, job: str) -> JobRepository:
        """The same, as it is here."""
        return super().repository(job)

    def latest_anchors(self, job: str) -> list[dict[str, Any]]:
        """As `anchors`, of the state that the git remote has now; none where it can't be asked."""
        with suppress(MirrorError):
            if self.published is not None and self.published.bring(job, latest=True):
                self.forget(job)
            return self.anchors(job)
        return []

    def forget(self, job: str) -> None:
        """Forget what is remembered of a job's files: another host has changed them meanwhile."""
        for kept in (self._repositories, self._quotas, self._rooms, self._clones):
            kept.pop(job, None)
        for pairs in (self._trees, self._read):
            for key in [key for key in pairs if key[0] == job]:
                del pairs[key]

    def prepare(
        self,
        job: str,
        name: str,
        parent: str,
        sealed: Iterable[str] = (),
        *,
        children: Iterable[str] | None = None,
        sent: Sequence[SentFile] = (),
    ) -> Site:
        """As ever; the user's set-up command is also run in a workspace that was made on another host first."""
        if self.own_repository(job).exists and self.tree(job, name).tip and not self.path(job, name).is_dir():
            self._bare.add((job, name))
        site = super().prepare(job, name, parent, sealed, children=children, sent=sent)
        if (job, name) in self._bare:
            self._set_up_again(job, name, site)
            self._bare.discard((job, name))
        return site

    def restore(self, job: str, name: str, tree: str, lost: str) -> None:
        """As ever; it is noted where the folder had to be made.

        What a turn had written that another coordinator put out may lie here alone, with nothing to compare it with.
        """
        here = self.tree(job, name)
        if tree and not here.tip:  # it would begin anew, and what was done be lost
            raise WorkspaceError(
                f"the files of {job} are on the host that ran it; go on there, or have both hosts name the same git "
                "remote in [hosts] remote"
            )
        was_here = here.folder.is_dir() and here.index.is_file()
        if here.tip and here.folder.is_dir() and not was_here:
            here.repository.git("read-tree", here.tip, index=here.index)
        super().restore(job, name, tree, lost)
        if not was_here and here.folder.is_dir():
            self._bare.add((job, name))

    def _set_up_again(self, job: str, name: str, site: Site) -> None:
        if not self.settings.setup or self._set_up is None:
            return
        self._set_up(site, self.settings.setup)
        here = self.tree(job, name)
        marks = here.marks
        marks.hidden = sorted({*marks.hidden, *here.new_paths()})
        marks.write()

    def _begin(self, repository: JobRepository, job: str, former: FormerResult | None = None) -> None:
        super()._begin(repository, job, former)
        if self.published is not None:
            self.published.begun(job)
