"""What a job or an instance of it has changed, without secrets, for the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from parley.base.redaction import MARKED
from parley.bus.store import Store
from parley.cli.looking.need_texts import work_at_gate
from parley.ports.workspaces import Change
from parley.views.job_diffs import DiffOf
from parley.views.job_result import redacted_change
from parley.workspaces import JobWorkspaces
from parley.workspaces.delivery.instance_diff import WorkVersion


class RedactedDiffs:
    """The changes of a repository's jobs. The bus and the secrets are looked up when they are first needed."""

    def __init__(
        self, trees: JobWorkspaces, store: Callable[[], Store], redact: Callable[[], Callable[[str], str]]
    ) -> None:
        self._trees, self._store, self._redact = trees, store, redact

    def question(self, job: str) -> str:
        """The open question that puts the job's work forward."""
        gate = work_at_gate(self._store(), job)
        return gate.id if gate is not None else ""

    def versions(self, of: DiffOf) -> Sequence[WorkVersion]:
        """The versions of a workspace that are kept."""
        return self._trees.instance_versions(of.job, of.workspace) if of.workspace else []

    def changes(self, of: DiffOf) -> Sequence[Change]:
        """What was changed; nothing where a job has no files yet."""
        return [shown for shown, _ in self._shown(of)]

    def _shown(self, of: DiffOf) -> list[tuple[Change, str]]:
        """What was changed as it is shown, each with its path as it is. Paths that look the same then are numbered."""
        found, redact = self._changes(of), self._redact()
        names = "\n".join(f"{one.path}\n{one.unportable.why if one.unportable else ''}" for one in found)
        if redact(names) == names:  # as in nearly all: thousands of files are looked at in one go
            return [(one, one.path) for one in found]
        listed: dict[str, tuple[Change, str]] = {}
        numbers = Counter[str]()
        for one in found:
            shown = redacted_change(one, redact)
            path = shown.path
            while path in listed:
                numbers[shown.path] += 1
                path = f"{shown.path} ({numbers[shown.path] + 1})"
            listed[path] = (replace(shown, path=path), one.path)
        return list(listed.values())

    def _changes(self, of: DiffOf) -> Sequence[Change]:
        if not self._trees.repository(of.job).exists:
            return []
        if of.workspace:
            return self._trees.instance_changes(of.job, of.workspace, of.version)
        return self._trees.changes(of.job, self._tree(of.job))

    def file_diff(self, of: DiffOf, path: str, *, spaces: bool = True) -> str:
        """The diff of one file, by its path as it is shown, bounded; with or without changes of white space alone."""
        if MARKED in path:
            path = next((true for shown, true in self._shown(of) if shown.path == path), path)
        if of.workspace:
            data = self._trees.instance_diff(of.job, of.workspace, path, of.version, spaces=spaces)
        else:
            data = self._trees.file_diff(of.job, path, self._tree(of.job), spaces=spaces)
        return self._redact()(data.decode("utf-8", "replace"))

    def _tree(self, job: str) -> str:
        """The work as a gate puts it forward; empty: as it is now."""
        gate = work_at_gate(self._store(), job)
        return gate.digest if gate is not None else ""
