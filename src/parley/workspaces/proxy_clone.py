"""The clones that the proxy reads: for each question, the tree that its asker had committed when it asked.

A clone is made from the job's repository alone, lies where no agent can write, and is bound read-only. Questions about
the same tree share one. A clone that no question needs any more is turned into the next one: only what differs between
the two trees is written, so that a gate on a large repository costs what has changed and not all of it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from parley.ports.turns import Bind, Site
from parley.ports.workspaces import CHILDREN
from parley.workspaces.agent_git import AgentRepository
from parley.workspaces.files.changed_paths import ComparedFolder, spoilt
from parley.workspaces.files.known_blobs import KnownBlobs
from parley.workspaces.files.safe_delete import delete, discard
from parley.workspaces.files.scan import PRIVATE, survey
from parley.workspaces.job_repository import BEGIN, DRAFTS, JobRepository, unknown_tree
from parley.workspaces.safe_git import LONG_SECONDS, GitError
from parley.workspaces.workspace_marks import read_marks

FOLDER, KNOWN = "clones", "clones.known"  # the clones, and their indexes and marks
START = "refs/tags/start"  # in the proxy's repository: what the job began with


class ProxyClones:
    """The clones of one job. They can be made again from the bus at any time: nothing here has to survive a crash."""

    def __init__(self, repository: JobRepository, hand_over: Callable[[Path], None] | None) -> None:
        self._repository = repository
        self._hand_over = hand_over
        self._used: dict[str, set[str]] = {}  # question's workspace -> the trees that it reads

    def show(self, name: str, slug: str, tree: str, children: Mapping[str, tuple[str, str]]) -> Site:
        """A clone for a question of the workspace `slug`; `children`: by name, the workspace and the tree of each."""
        repository = self._repository
        tree = tree or repository.tree(repository.ref(BEGIN))
        for one in (tree, *(child for _, child in children.values())):
            if not repository.has(f"{one}^{{tree}}"):
                raise unknown_tree(one, repository.folder.name)
        self._used[name] = {tree, *(child for _, child in children.values())}
        folder = self._clone(tree)
        commits = {child: self._commit(of, there) for child, (of, there) in children.items()}
        below = [Bind(str(self._clone(there)), f"{folder}/{CHILDREN}/{n}") for n, (_, there) in children.items()]
        marks = read_marks(repository.folder / "marks" / f"{name}.json")
        inside = AgentRepository(
            repository, slug, name, self._hand_over, index=self._index(tree), refs={START: repository.ref(BEGIN)}
        )
        binds = inside.binds(folder, self._commit(slug, tree), marks, delete, commits)
        return Site(str(folder), writable=False, binds=(*binds, *below))

    def drop(self, name: str) -> None:
        """The question is answered: free its clones. One is kept for the next question to start from."""
        if self._used.pop(name, None) is None:
            return
        for suffix in ("git", "file", "turns"):
            discard(self._repository.folder / "gitdirs" / f"{name}.{suffix}")
        (self._repository.folder / "marks" / f"{name}.json").unlink(missing_ok=True)
        for tree in self._free()[1:]:
            self._forget(tree)

    def clear(self) -> None:
        """The job is over: no question of it is open."""
        self._used.clear()
        for tree in self._free():
            self._forget(tree)

    # ---- the folders ---------------------------------------------------------------------------

    def _place(self, tree: str) -> Path:
        return self._repository.folder / FOLDER / tree

    def _index(self, tree: str) -> Path:
        return self._repository.folder / KNOWN / f"{tree}.index"

    def _mark(self, tree: str) -> Path:
        """A file that exists while the clone is complete."""
        return self._repository.folder / KNOWN / f"{tree}.whole"

    def _free(self) -> list[str]:
        """The clones that no question reads, the newest first."""
        needed = {tree for trees in self._used.values() for tree in trees}
        place = self._repository.folder / FOLDER
        found = [path for path in place.iterdir() if path.name not in needed] if place.is_dir() else []
        return [path.name for path in sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)]

    def _clone(self, tree: str) -> Path:
        """The folder with exactly what a tree holds."""
        folder, index, mark = self._place(tree), self._index(tree), self._mark(tree)
        for path in (folder, mark):
            path.parent.mkdir(parents=True, exist_ok=True)
        if folder.is_dir() and mark.is_file() and not self._spoilt(folder, index):
            return folder
        if not folder.is_dir() and (free := self._free()) and self._mark(free[0]).is_file():
            self._mark(free[0]).unlink()
            self._place(free[0]).rename(folder)
            self._index(free[0]).rename(index)
            self._index(free[0]).with_suffix(".known").unlink(missing_ok=True)
            discard(folder / PRIVATE[0])  # places for the last question's binds
            with contextlib.suppress(GitError):
                self._fill(folder, index, tree)
                if not self._spoilt(folder, index):
                    mark.touch()
                    return folder
        self._forget(tree)
        self._fill(folder, index, tree)
        mark.touch()
        return folder

    def _fill(self, folder: Path, index: Path, tree: str) -> None:
        folder.mkdir(exist_ok=True)
        words = ("read-tree", "--reset", "-u", tree)
        self._repository.git(*words, work=folder, index=index, seconds=LONG_SECONDS)
        (folder / ".git").touch()  # where the proxy's own repository is bound; outside the folder is no repository
        if self._hand_over is not None:
            self._hand_over(folder)
            # else git writes every file again next time; agents can't change a clone
            self._repository.git("update-index", "--refresh", work=folder, index=index, fine=(0, 1))
        KnownBlobs(index.with_suffix(".known")).take_for(folder, self._repository.indexed(index))

    def _spoilt(self, folder: Path, index: Path) -> bool:
        """Whether something in a clone differs from its tree: a proxy that runs without a boundary may have written."""
        if not index.is_file():
            return True
        repository, known = self._repository, KnownBlobs(index.with_suffix(".known"))
        known.begin()
        place = ComparedFolder(
            git=repository.git,
            folder=folder,
            beside=repository.folder,
            object_format=repository.beginning.object_format,
            known=known,
        )
        found = survey(folder, sys.maxsize, sys.maxsize)
        differs = spoilt(place, found, repository.indexed(index))
        known.keep(found.held)
        return differs

    def _forget(self, tree: str) -> None:
        self._mark(tree).unlink(missing_ok=True)
        for path in (self._index(tree), self._index(tree).with_suffix(".known")):
            path.unlink(missing_ok=True)
        if os.path.lexists(self._place(tree)):
            delete(self._place(tree))

    def _commit(self, slug: str, tree: str) -> str:
        """The workspace's commit with this tree, so that its log is there; else a new commit of the tree alone."""
        repository, tip = self._repository, self._repository.tip(slug)
        found = next((commit for commit, held in repository.log(tip) if held == tree), "") if tip else ""
        found = found or repository.ref(f"{DRAFTS}/{tree}")
        return found or repository.commit(tree, (repository.ref(BEGIN),), "what was asked about", 0.0)
