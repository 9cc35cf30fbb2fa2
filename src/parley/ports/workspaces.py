"""Workspaces: where agents work, and what the engine needs to know of the files there. Nothing in them is trusted."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Protocol

from parley.base.unportable import NameTrouble
from parley.ports.turns import Site


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome record that a turn left: what it says, or what is wrong with it."""

    outcome: str = ""
    reason: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a workspace held at a turn's end: the id of its tree, and what was left out of it, with the reason."""

    tree: str
    left_out: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()  # the paths that a scope did not allow, and that were put back
    ref: str = ""  # what holds what was there, with its commit


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose the paths of a workspace are, for the agent that works there."""

    allowed: Callable[[str], str]  # of a path from the tree's root: empty, or why it is not its to change, said of it
    design: bool = False  # whether they design a workflow together: its files are merged like any others


class Clash(StrEnum):
    """How a conflict lies in the parent's tree."""

    MARKED = "marked"  # both sides are in the file, between markers
    BOTH = "both"  # ours is in place, theirs lies beside it
    DELETED_HERE = "deleted here"  # we deleted it, theirs lies beside
    DELETED_THERE = "deleted there"  # ours is in place, a note that they deleted it lies beside
    RENAMED = "renamed"  # both renamed one file: ours has its own name, theirs lies beside its new one
    FILE_HERE = "file here"  # they have a folder of that name, our file lies beside it
    FILE_THERE = "file there"  # we have a folder of that name, their file lies beside it
    OPEN = "open"  # the child left it open; how it lies there is not known here


@dataclass(frozen=True, slots=True)
class Conflict:
    """A path that both sides changed. Each side is shown as far as there is room; absent: deleted there.

    `beside` is the file that lies beside it until the conflict is settled.
    """

    path: str
    ours: str | None
    theirs: str | None
    how: Clash = Clash.MARKED
    beside: str = ""
    labels: tuple[str, ...] = ()  # what the two sides are called in its markers


@dataclass(frozen=True, slots=True)
class Merge:
    """What a merge brought into the parent's tree, what it left as conflicts there, and what it had to leave out."""

    paths: tuple[str, ...] = ()
    conflicts: tuple[Conflict, ...] = ()
    left_out: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()  # what was merged, and the result; none if there was nothing new
    kept_out: tuple[str, ...] = ()  # paths that the scope does not allow, a line each with the reason


@dataclass(frozen=True, slots=True)
class Change:
    """What a job did to one file, in lines; None where it is not text. `obeyed`: what runs or obeys it, if anything.

    `unportable`: why another system can't hold a new name as it is.
    """

    path: str
    added: int | None
    removed: int | None
    obeyed: str = ""
    unportable: NameTrouble | None = None

    @property
    def words(self) -> str:
        """How many lines came and went, for people."""
        return "not text" if self.added is None or self.removed is None else f"+{self.added} -{self.removed}"


class WorkspaceError(Exception):
    """A workspace can't be made or kept: the text says why and what to do."""


class NoRoom(WorkspaceError):
    """The machine's disk is full: no job can go on, whichever program filled it."""


class SetUpFailed(WorkspaceError):
    """The user's set-up command did not do its work in a fresh workspace: no turn can begin there."""

    unconfined = False


class SetUpUnconfined(SetUpFailed):
    """The set-up command could not be confined, and was not started."""

    unconfined = True


class OverQuota(WorkspaceError):
    """The job's files have outgrown what they may take of the disk."""


def slug_of(name: str) -> str:
    """A workspace's name as part of a file's or a branch's name; empty for a job's own."""
    kind, _, rest = name.partition(":")
    if kind == "job":
        return ""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", rest)
    return plain if plain == rest and rest else f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def retired_ref(job: str, name: str) -> str:
    """The ref of a job's `snapshots.git` under which the last files of a closed workspace are kept."""
    return f"refs/parley/retired/{job}/{slug_of(name) or 'job'}"


REPORTS = ".parley-reports"  # in a worker's workspace: final texts that are too long for a message
CHILDREN = ".parley/children"  # in a dispatcher's workspace: the last commits of those that it dispatched


class SentFile(NamedTuple):
    """A file that goes along with a task: its path in both workspaces, and what it held when it was sent."""

    path: str
    blob: str  # in the job's repository, by git's own digest
    mode: str  # as git writes it
    size: int


class Workspace(Protocol):
    """Where agents work, and what the engine needs to know of it. Nothing in it is trusted.

    A name is a thread: the job's own for its leads, a dispatch's for the agent that was dispatched.
    """

    def reclaim(self, job: str) -> None:
        """Free what an owner that died may have left locked."""

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
        """Make a workspace ready (again). A new one starts as its parent's tree; sealed files can't be changed.

        `sent` came along with its task: a new workspace has them, in the place of files of the same names; one
        that is made again has those of them again that no commit holds.

        Any workspace can be the parent. `children` are the workspaces whose last commits are shown, read-only, in
        CHILDREN; None for an agent that dispatches no one.
        """

    def clone(self, job: str, name: str, of: str, tree: str, children: Mapping[str, str]) -> Site:
        """A read-only clone for the proxy of a question: a tree that the workspace `of` had committed, and no more.

        The clone stays as it is when that workspace changes. `children` are the workspaces of those whom the
        asker had dispatched, each with the tree that is shown of it in CHILDREN. No tree: what the job began with.
        """

    def pick(self, job: str, name: str, to: str, paths: Sequence[str], most: int) -> tuple[SentFile, ...]:
        """Keep ordinary files of a workspace, ignored ones too, as they are now, for the workspace `to`.

        WorkspaceError, in one line, for what is no ordinary file below it, or more than so many bytes in all.
        """

    def clear_outcome(self, job: str, name: str) -> None:
        """See to it that no outcome record is there when a turn starts."""

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """The outcome record, if a turn left one."""

    def snapshot(self, job: str, name: str, text: str, scope: Scope | None = None) -> Kept:
        """Commit what is there now, with this message. OverQuota if there is too much of it.

        What the scope does not allow is kept under a ref, put back as it was, and told as left out.
        """

    def read(self, job: str, name: str, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file of at most so many bytes holds; None for anything else. No link is followed."""

    def write(self, job: str, name: str, files: Mapping[str, str | None]) -> None:
        """Put files of the protocol's own, None: take them away; they are committed at once, and nothing else is.

        What stands in the way is moved aside. Nothing happens where there is no workspace.
        """

    def draft(self, job: str, name: str, files: Mapping[str, str]) -> str:
        """Keep the tree that a workspace has committed last with these files of the protocol's own in it; its name.

        The workspace stays as it is. WorkspaceError where it has committed nothing.
        """

    def listing(self, job: str, name: str, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder, by their paths from the tree's root, in order. No link is followed."""

    def committed(self, job: str, name: str) -> str:
        """The tree that a workspace has committed last; empty where there is none."""

    def read_committed(self, job: str, tree: str, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file of a committed tree holds, if it holds no more than that; None for anything else."""

    def list_committed(self, job: str, tree: str, folder: str) -> tuple[str, ...]:
        """The ordinary files of a committed tree below a folder, by their paths from its root, in order."""

    def contents(self, job: str, tree: str, artifacts: Iterable[str]) -> dict[str, str]:
        """The digest of each artifact that a committed tree has as an ordinary file."""

    def restore(self, job: str, name: str, tree: str, lost: str) -> None:
        """Put back what a tree holds, and keep what was there instead under the name of what was lost."""

    def abandon(self, job: str, name: str, lost: str) -> None:
        """Keep what is there under the name of what was abandoned, and leave it there for the next turn."""

    def merge(self, job: str, name: str, parent: str, scope: Scope | None = None) -> Merge:
        """Bring what a workspace committed since it began, or was last merged, into its parent's tree.

        Of what the scope does not allow nothing is brought. Of the protocol's own files only the outputs are that the
        scope allows, and none without a scope.
        """

    def refresh(self, job: str, name: str, parent: str, *, clean: bool = False) -> Merge:
        """Bring what its parent has committed into a workspace; what it changed itself stays.

        With `clean` nothing is brought where that would leave conflicts: they are told, and nothing has changed.
        """

    def beginning(self, job: str, tree: str, artifact: str, length: int) -> str:
        """The first characters of an artifact of a committed tree; empty where there is none."""

    def changed(self, job: str, name: str) -> tuple[str, ...]:
        """The paths that a workspace's commits have changed since it began."""

    def unresolved(self, job: str, name: str) -> list[str]:
        """The paths that a merge left in conflict and that are not settled yet."""

    def retire(self, job: str, name: str) -> None:
        """No agent works there any more: keep what it holds under a ref, and delete the folder; a clone just goes."""

    def changes(self, job: str, tree: str = "") -> list[Change]:
        """What the job's tree, or the one given, has changed of what it started from, the protocol's own left out."""


FOLDER_VIEW, TIP_VIEW = "folder", "tip"  # where a job's own files lie: in its workspace, and in its last commit
UNKEPT = "unkept"  # what a file is known by that no commit ever holds


class Papers(Protocol):
    """The files below `orchestration/` in a job's own workspace and in its commits, to be compared and not changed.

    A view is FOLDER_VIEW, TIP_VIEW, or a tree that the bus names.
    """

    def listed(self, view: str) -> Mapping[str, str] | None:
        """What is there, by path, with what each is known by; None: there is no such view any more."""

    def data(self, view: str, path: str) -> bytes | None:
        """What an ordinary file holds; None for anything else."""

    def name(self, data: bytes) -> str:
        """What an ordinary file with this content is known by."""
