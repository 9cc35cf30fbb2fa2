"""Real worktrees for a few instances of a huge job, and none for the rest: two thousand would take all the time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bench.conversations import NoWorkspace
from parley.ports.turns import Site
from parley.ports.workspaces import Change, Kept, Merge, Outcome, Scope, SentFile
from parley.workspaces import JobWorkspaces


class FewTrees(NoWorkspace):
    """The leads have their real worktree, and so have the instances that `has_tree` names by their threads."""

    def __init__(self, trees: JobWorkspaces, has_tree: Callable[[str], bool]) -> None:
        self.trees = trees
        self._has_tree = has_tree

    def _is_real(self, name: str) -> bool:
        return name.startswith("job:") or self._has_tree(name)

    def reclaim(self, job: str) -> None:
        """Free what an owner that died may have left locked."""
        self.trees.reclaim(job)

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
        """A worktree where one is real."""
        if not self._is_real(name):
            return Site("/")
        below = None if children is None else [child for child in children if self._is_real(child)]
        return self.trees.prepare(job, name, parent, sealed, children=below, sent=sent)

    def committed(self, job: str, name: str) -> str:
        """The tree that a worktree has committed last."""
        return self.trees.committed(job, name) if self._is_real(name) else ""

    def read_committed(self, job: str, tree: str, path: str, most: int = 1_000_000) -> str | None:
        """What a file of a committed tree holds."""
        return self.trees.read_committed(job, tree, path, most) if tree else None

    def list_committed(self, job: str, tree: str, folder: str) -> tuple[str, ...]:
        """The files of a committed tree below a folder."""
        return self.trees.list_committed(job, tree, folder) if tree else ()

    def clear_outcome(self, job: str, name: str) -> None:
        """No outcome record is there when a turn starts."""
        if self._is_real(name):
            self.trees.clear_outcome(job, name)

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """The outcome record that a lead left."""
        return self.trees.read_outcome(job, name) if self._is_real(name) else None

    def snapshot(self, job: str, name: str, text: str, scope: Scope | None = None) -> Kept:
        """Commit what is in a worktree."""
        return self.trees.snapshot(job, name, text, scope) if self._is_real(name) else Kept("")

    def contents(self, job: str, tree: str, artifacts: Iterable[str]) -> dict[str, str]:
        """The digests of a committed tree's artifacts."""
        return self.trees.contents(job, tree, artifacts) if tree else {}

    def restore(self, job: str, name: str, tree: str, lost: str) -> None:
        """Put back what a tree holds."""
        if self._is_real(name):
            self.trees.restore(job, name, tree, lost)

    def abandon(self, job: str, name: str, lost: str) -> None:
        """Keep what is there under a ref."""
        if self._is_real(name):
            self.trees.abandon(job, name, lost)

    def read(self, job: str, name: str, path: str, most: int = 1_000_000) -> str | None:
        """What a file of a worktree holds."""
        return self.trees.read(job, name, path, most) if self._is_real(name) else None

    def write(self, job: str, name: str, files: Mapping[str, str | None]) -> None:
        """Write the protocol's own files."""
        if self._is_real(name):
            self.trees.write(job, name, files)

    def listing(self, job: str, name: str, folder: str) -> tuple[str, ...]:
        """The files of a worktree below a folder."""
        return self.trees.listing(job, name, folder) if self._is_real(name) else ()

    def merge(self, job: str, name: str, parent: str, scope: Scope | None = None) -> Merge:
        """Merge a worktree into its parent's."""
        both = self._is_real(name) and self._is_real(parent)
        return self.trees.merge(job, name, parent, scope) if both else Merge()

    def beginning(self, job: str, tree: str, artifact: str, length: int) -> str:
        """How an artifact begins."""
        return self.trees.beginning(job, tree, artifact, length) if tree else ""

    def changed(self, job: str, name: str) -> tuple[str, ...]:
        """The paths that a worktree's commits have changed."""
        return self.trees.changed(job, name) if self._is_real(name) else ()

    def unresolved(self, job: str, name: str) -> list[str]:
        """The paths in conflict."""
        return self.trees.unresolved(job, name) if self._is_real(name) else []

    def retire(self, job: str, name: str) -> None:
        """Keep what a worktree holds under a ref."""
        if self._is_real(name):
            self.trees.retire(job, name)

    def changes(self, job: str, tree: str = "") -> list[Change]:
        """What the job has changed."""
        return self.trees.changes(job, tree)
