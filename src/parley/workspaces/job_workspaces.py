"""The workspaces of a home's jobs, as the engine knows them: by a job and a thread."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from parley.machine import disk
from parley.machine.disk_reserve import DiskReserve
from parley.ports.turns import BoundaryError, Site
from parley.ports.workspaces import (
    Change,
    Kept,
    Merge,
    NoRoom,
    Outcome,
    OverQuota,
    Scope,
    SentFile,
    WorkspaceError,
    retired_ref,
    slug_of,
)
from parley.settings.schema import WorkspaceSettings
from parley.workspaces import children_view as shown_children
from parley.workspaces import outcome_record as outcomes
from parley.workspaces import protocol_files, sent_files
from parley.workspaces.checkout.source_repository import SourceRepository, find_source
from parley.workspaces.copy_list import bring, check_copies
from parley.workspaces.delivery import artifact_versions, instance_diff, result_branch
from parley.workspaces.delivery.former_result import missing_result
from parley.workspaces.delivery.instance_diff import LAST, WorkVersion
from parley.workspaces.delivery.merge_to_checkout import CheckoutMerge, is_merged, merge_to_checkout
from parley.workspaces.files.excludes import excludes
from parley.workspaces.files.safe_delete import await_deletions, delete_later
from parley.workspaces.files.scan import left_out_lines, open_up, path_text
from parley.workspaces.home.private_folders import PrivateFolders
from parley.workspaces.job_repository import (
    BEGIN,
    FORMER,
    SEED,
    START,
    FormerResult,
    JobRepository,
    begin,
    unknown_tree,
)
from parley.workspaces.merge.committed_tree import CommittedTree
from parley.workspaces.merge.merge_base import record
from parley.workspaces.merge.tree_merge import MergedTree, bring_down, carried, combine, still_open
from parley.workspaces.orchestration_view import OrchestrationView
from parley.workspaces.proxy_clone import ProxyClones
from parley.workspaces.quota import OVERGROWN, Quota, RunningJobQuota
from parley.workspaces.safe_git import GitError
from parley.workspaces.workspace_marks import WorkspaceMarks
from parley.workspaces.worktree import HandOver, KeptOut, Worktree

UNCOMMITTED = "its last turn did not commit it"
QUESTION = "escalation:"  # how the names of the clones begin
DELETION_SECONDS = 10.0
TREES_READ = 8  # committed trees of which something is remembered


def _question(name: str) -> str:
    """The name of a question's clone in file names; no workspace has a dot in its name."""
    return f"{slug_of(name)}.question"


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: JobWorkspaces, *words: Any, **more: Any) -> Any:
        try:
            return method(self, *words, **more)
        except (OSError, BoundaryError, RecursionError, ValueError) as error:
            what = f"the files of {words[0]}" if words else "the files"
            remedy = f"see that the disk has room and that all below {self.home} is yours to change"
            raise WorkspaceError(f"{what} can't be worked with: {' '.join(str(error).split())}; {remedy}") from error

    return call


def _guard(made: type[JobWorkspaces]) -> type[JobWorkspaces]:
    """Make every public method raise only WorkspaceError: no file of an agent's may stop a job."""
    for name, method in list(vars(made).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(made, name, _guarded(method))
    return made


@_guard
class JobWorkspaces:
    """One worktree for a job, and one for each dispatch of it.

    `root` is the user's folder, `title` returns a job's request, `hand_over` gives files to the user that agents
    run as, `set_up` runs the user's set-up command in a site, `mark` is put into the environment of git while it
    works for a job, and `given_up` tells whether the user has given the job up. `private` are folders of Parley's
    own besides the home. `redact` takes secrets out of the messages of the user's commits.
    """

    def __init__(
        self,
        home: Path,
        root: Path | None = None,
        settings: WorkspaceSettings | None = None,
        *,
        title: Callable[[str], str] = lambda job: "",
        hand_over: HandOver | None = None,
        set_up: Callable[[Site, str], None] | None = None,
        mark: Callable[[str], Mapping[str, str]] = lambda job: {},
        given_up: Callable[[str], bool] = lambda job: False,
        private: Iterable[Path] = (),
        redact: Callable[[str], str] = str,
    ) -> None:
        self.home = home.resolve()
        self.root = root
        self.settings = settings or WorkspaceSettings()
        self._title = title
        self._hand_over = hand_over
        self._set_up = set_up
        self._mark = mark
        self._given_up = given_up
        self._private = PrivateFolders((self.home, *private), root)
        self.redact = redact
        self._repositories: dict[str, JobRepository] = {}
        self._trees: dict[tuple[str, str], Worktree] = {}
        self._quotas: dict[str, Quota] = {}
        self._rooms: dict[str, RunningJobQuota] = {}
        self._clones: dict[str, ProxyClones] = {}
        self._read = OrderedDict[tuple[str, str], CommittedTree]()  # trees that were read lately

    # ---- where things are ----------------------------------------------------------------------

    def path(self, job: str, name: str) -> Path:
        """The folder of a workspace."""
        slug = slug_of(name)
        return self.home / "jobs" / job / (f"trees/{slug}" if slug else "work")

    def repository(self, job: str) -> JobRepository:
        """The job's repository."""
        if job not in self._repositories:
            given_up = functools.partial(self._given_up, job)
            self._repositories[job] = JobRepository(self.home / "jobs" / job, self._mark(job), given_up)
        return self._repositories[job]

    def source(self) -> SourceRepository | None:
        """The user's repository; None where the folder has none."""
        return find_source(self.root) if self.root is not None else None

    def tree(self, job: str, name: str) -> Worktree:
        """One workspace."""
        slug = slug_of(name)
        if (job, slug) not in self._trees:
            self._trees[job, slug] = Worktree(self.repository(job), slug, self.path(job, name), self._hand_over)
        return self._trees[job, slug]

    def reclaim(self, job: str) -> None:
        """A job has a new owner: delete the locks that its last owner's git left."""
        self.repository(job).unlock()

    # ---- making --------------------------------------------------------------------------------

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

        `children` are the workspaces whose last commits are shown in it, read-only; None for an agent that can't
        dispatch.
        """
        if DiskReserve(self.home).is_short():
            await_deletions(DELETION_SECONDS)
        if DiskReserve(self.home).is_short():  # or turn after turn would be lost
            raise NoRoom(f"the disk of {self.home} is full; free some space, then go on with `parley resume`")
        here = self.tree(job, name)
        if not here.repository.exists:
            self._begin(here.repository, job)
        here.sealed = tuple(sealed)
        marks = here.marks
        if sent and not marks.sent:
            marks.sent = list(sent)
            marks.write()
        if not here.tip:
            self._make(here, parent, marks)
        elif not here.folder.is_dir():
            here.check_out(here.tip)
            self._bring(here, marks)
        below = None if children is None else [self.tree(job, child) for child in children]
        return Site(str(here.folder), binds=tuple(here.binds(here.tip, marks, below)), room=self._room(here.repository))

    def clone(self, job: str, name: str, of: str, tree: str, children: Mapping[str, str]) -> Site:
        """A read-only clone of what a workspace had committed, for the question of that name; no tree: as it began."""
        repository = self.repository(job)
        if not repository.exists:
            self._begin(repository, job)
        below = {slug_of(child): (slug_of(child), held) for child, held in children.items()}
        return replace(
            self._clones_of(job).show(_question(name), slug_of(of), tree, below), room=self._room(repository)
        )

    def _clones_of(self, job: str) -> ProxyClones:
        if job not in self._clones:
            self._clones[job] = ProxyClones(self.repository(job), self._hand_over)
        return self._clones[job]

    def missing_result(self, job: str) -> FormerResult | None:
        """What of a finished job's result the user's checkout lacks; None where it lacks nothing."""
        if self.root is None or not self.repository(job).exists:
            raise WorkspaceError(
                f"the result of {job} is gone: `parley gc` has deleted it; start afresh with `parley run`"
            )
        return missing_result(self.repository(job), self.root, self.redact)

    def begin_with(self, job: str, former: FormerResult) -> None:
        """Make the repository of a new job, which begins with another job's result."""
        self._begin(self.repository(job), job, former)

    def _begin(self, repository: JobRepository, job: str, former: FormerResult | None = None) -> None:
        check_copies(self.settings.copy)
        source = self.source()
        found = result_branch.found_tree(source, self._private) if source and self.settings.dirty == "include" else None
        ignored = excludes(self.root, source)
        begin(repository, source, job, self._title(job), self.home / "bases", found, ignored, former)

    def _make(self, here: Worktree, parent: str, marks: WorkspaceMarks) -> None:
        """Make a new workspace. Its branch comes last: where the branch exists, all steps before it were done."""
        repository = here.repository
        above = (
            (repository.tip(slug_of(parent)) if parent and here.slug else "")
            or repository.tip("")
            or repository.ref(BEGIN)
        )
        if os.path.lexists(here.folder):
            here.aside(here.folder)
        here.check_out(above)
        self._bring(here, marks, again=False)
        if self.settings.setup and self._set_up is not None:
            site = Site(str(here.folder), binds=tuple(here.binds(above, marks)), room=self._room(repository))
            self._set_up(site, self.settings.setup)
            marks.hidden = sorted({*marks.hidden, *here.new_paths()})
        marks.write()
        repository.set_ref(f"{SEED}/{here.name}", above)
        repository.set_tip(here.slug, above)

    def _bring(self, here: Worktree, marks: WorkspaceMarks, *, again: bool = True) -> None:
        """Copy what the copy list names, and what was sent with the task."""
        if self.root is not None and self.settings.copy:
            marks.hidden = sorted({*marks.hidden, *bring(self.root, self.settings.copy, here.folder, self._private)})
            here.handed_over()
        sent_files.put(here, marks, again=again)

    def pick(self, job: str, name: str, to: str, paths: Sequence[str], most: int) -> tuple[SentFile, ...]:
        """Keep ordinary files of a workspace, ignored ones too, as they are now, for the workspace `to`."""
        return sent_files.pick(self.tree(job, name), slug_of(to), paths, most)

    # ---- the outcome record and the artifacts --------------------------------------------------

    def clear_outcome(self, job: str, name: str) -> None:
        """Delete the outcome record before a turn starts."""
        self._open_up(job, name)
        outcomes.clear_outcome(self.path(job, name), self.tree(job, name).aside)

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """The outcome record, if a turn left one. Anything else that lies there is reported as a problem."""
        self._open_up(job, name)
        return outcomes.read_outcome(self.path(job, name))

    def _open_up(self, job: str, name: str) -> None:
        """Make the folder of the outcome record readable, also after a turn changed its mode."""
        for path in (".", ".parley"):
            open_up(self.path(job, name), path)

    def contents(self, job: str, tree: str, artifacts: Iterable[str]) -> dict[str, str]:
        """The digest of each artifact that a committed tree has as an ordinary file."""
        return self._committed(job, tree).contents(artifacts)

    def beginning(self, job: str, tree: str, artifact: str, length: int) -> str:
        """The first characters of an artifact of a committed tree; empty where there is none."""
        return self._committed(job, tree).beginning(artifact, length)

    def committed(self, job: str, name: str) -> str:
        """The tree that a workspace has committed last; empty where there is none."""
        here = self.tree(job, name)
        return here.repository.tree(tip) if (tip := here.tip) else ""

    def read_committed(self, job: str, tree: str, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file of a committed tree holds; None for anything else, or where it holds more."""
        return self._committed(job, tree).read(path, most)

    def list_committed(self, job: str, tree: str, folder: str) -> tuple[str, ...]:
        """The ordinary files of a committed tree below a folder, by their paths from its root, in order."""
        return self._committed(job, tree).listing(folder)

    def _committed(self, job: str, tree: str) -> CommittedTree:
        if (job, tree) not in self._read:
            self._read[job, tree] = CommittedTree(self.repository(job), tree)
            while len(self._read) > TREES_READ:
                self._read.popitem(last=False)
        self._read.move_to_end((job, tree))
        return self._read[job, tree]

    def read(self, job: str, name: str, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file of at most so many bytes holds; None for anything else. No link is followed."""
        return protocol_files.read(self.tree(job, name), path, most)

    def write(self, job: str, name: str, files: Mapping[str, str | None]) -> None:
        """Write files of the protocol's own, None: delete; they are committed at once, and nothing else is."""
        protocol_files.write(self.tree(job, name), files)

    def draft(self, job: str, name: str, files: Mapping[str, str]) -> str:
        """Keep the tree that a workspace has committed last with these files in it; the workspace stays as it is."""
        return protocol_files.draft(self.tree(job, name), files)

    def listing(self, job: str, name: str, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder, by their paths from the tree's root, in order. No link is followed."""
        return protocol_files.listing(self.tree(job, name), folder)

    # ---- keeping -------------------------------------------------------------------------------

    def snapshot(self, job: str, name: str, text: str, scope: Scope | None = None) -> Kept:
        """Commit what is there now, with this message. OverQuota if there is too much of it.

        What the scope does not allow is kept under a ref, put back as it was, and told as left out.
        """
        here = self.tree(job, name)
        tip = here.tip
        if not tip or not here.folder.is_dir():
            return Kept("")
        found, left = here.look(*self._limits(here))
        self._quota(here).keep(here.name, found.bytes)
        out = here.keep_out(found, scope, left) if scope is not None else KeptOut((), "", found)
        tree = here.take(out.found, left, scope=scope)
        if any(path in left for path in here.sealed):
            here.seal(tip)
        here.repository.set_tip(here.slug, here.repository.commit(tree, (tip,), text))
        here.marks.remember(tree, here.folder)
        return Kept(tree, left_out_lines(left), tuple(path_text(path) for path in out.paths), out.ref)

    def _limits(self, here: Worktree) -> tuple[int, int]:
        """How many files a workspace may have, and how many bytes the job leaves to it."""
        return self.settings.files, self._quota(here).left_to(here.name) - here.repository.objects.written_bytes

    def _quota(self, here: Worktree) -> Quota:
        if here.job not in self._quotas:
            self._quotas[here.job] = Quota(here.repository.folder, self.settings.quota_mb << 20)
        return self._quotas[here.job]

    def _room(self, repository: JobRepository) -> RunningJobQuota:
        job = repository.folder.name
        if job not in self._rooms:
            self._rooms[job] = RunningJobQuota(repository.folder, self.settings.quota_mb << 20, self.settings.files)
        return self._rooms[job]

    def restore(self, job: str, name: str, tree: str, lost: str) -> None:
        """Restore a tree; what was there instead is kept under a ref, or moved aside where no ref can hold it.

        Without a tree the workspace is restored to how it began.
        """
        here = self.tree(job, name)
        repository, tip = here.repository, here.tip
        if not tip:
            return
        tree = tree or repository.tree(repository.ref(f"{SEED}/{here.name}"))
        if not repository.has(f"{tree}^{{tree}}"):
            raise unknown_tree(tree, job)
        self._clear_spoilt(here)
        now = here.lose(lost, self._limits(here)) if here.folder.is_dir() else ""
        self._room(repository).thin_out()
        back = next((commit for commit, held in repository.log(tip) if held == tree), "")
        if back != tip:
            repository.set_ref(here.free(f"refs/parley/lost/{job}/{here.name}/{lost}-branch"), tip)
            repository.set_tip(here.slug, back or repository.commit(tree, (tip,), f"back to {tree}"))
        if not here.folder.is_dir():
            here.check_out(here.tip)
            self._bring(here, here.marks)
        elif now != tree:
            here.go_to(tree)
        here.marks.go_back(tree)

    def _clear_spoilt(self, here: Worktree) -> None:
        """Delete what a turn has filled the disk with; a ref would need disk space too."""
        delete = self._room(here.repository).spoilt(here.folder)
        if delete is None or not here.folder.is_dir():
            return
        gone = here.aside(here.folder, OVERGROWN)
        if delete:
            disk.remove(gone)

    def abandon(self, job: str, name: str, lost: str) -> None:
        """Keep the files of an interrupted turn under a ref, and leave the workspace as it is."""
        here = self.tree(job, name)
        if here.tip and here.folder.is_dir():
            here.copy_away(lost, self._limits(here))

    def retire(self, job: str, name: str) -> None:
        """Keep what a workspace holds under a ref, and delete its folder. The job's own stays: people look at it."""
        if name.startswith(QUESTION):
            self._clones_of(job).drop(_question(name))
            return
        here = self.tree(job, name)
        repository, tip = here.repository, here.tip
        if not here.slug:
            self._clones_of(job).clear()
        if not tip or not here.folder.is_dir():
            return
        try:
            found, left = here.look(*self._limits(here))
            tree = here.take(found, left, here.index)
        except (OverQuota, GitError) as error:
            if here.slug:
                here.aside(here.folder, OVERGROWN if isinstance(error, OverQuota) else "")
                self._room(repository).thin_out()
            return
        kept = tip if tree == repository.tree(tip) else repository.commit(tree, (tip,), "retired")
        repository.set_ref(retired_ref(job, name), kept)
        if not here.slug:
            return
        shown_children.forget(repository, here.name)
        gone = here.aside(here.folder)
        self._quota(here).forget(here.name)
        if not left:  # all of it is under the ref: delete it in the background
            delete_later(gone)

    # ---- merging -------------------------------------------------------------------------------

    def merge(self, job: str, name: str, parent: str, scope: Scope | None = None) -> Merge:
        """Bring what a workspace committed since it began, or was last merged, into its parent's tree.

        The parent may also be one further up; then the workspace in between is neither read nor changed.
        """
        child, above = self.tree(job, name), self.tree(job, parent)
        if not child.tip or not above.tip or child.slug == above.slug:
            return Merge()
        left = dict.fromkeys(child.changed(), UNCOMMITTED) if child.folder.is_dir() else {}
        if above.folder.is_dir():
            self.snapshot(job, parent, f"before {name} is merged")
        return self._join(
            child, above, name, combine(child.repository, child.slug, above.slug, name, scope, child.untouched()), left
        )

    def refresh(self, job: str, name: str, parent: str, *, clean: bool = False) -> Merge:
        """Bring what its parent has committed into a workspace, with `clean` only where that leaves no conflict."""
        child, above = self.tree(job, name), self.tree(job, parent)
        if not child.tip or not above.tip or child.slug == above.slug:
            return Merge()
        found = bring_down(child.repository, child.slug, above.slug)
        if clean and found is not None and found.conflicts:
            return Merge((), found.conflicts)
        return self._join(above, child, parent, found, {})

    def _join(
        self, giver: Worktree, taker: Worktree, name: str, found: MergedTree | None, left: dict[str, str]
    ) -> Merge:
        """Write the merged tree into the taker's workspace."""
        repository, before = taker.repository, taker.repository.tree(taker.tip)
        tree = found.tree if found else before
        # a conflict that is open in the giver is open in the taker too
        left_open = still_open(
            repository, tree, still_open(repository, repository.tree(giver.tip), giver.marks.conflicts)
        )
        brought = {path: signs for path, signs in left_open.items() if found is None or path not in found.signs}
        conflicts = carried(repository, before, tree, brought)
        if found is None:
            return Merge((), conflicts, left_out_lines(left))
        if taker.folder.is_dir():
            taker.update(tree, self._limits(taker))
        marks = taker.marks
        marks.leave_open(left_open)
        marks.leave_open(found.signs)
        marks.write()
        parents = (taker.tip,) if found.apart else (taker.tip, giver.tip)
        commit = repository.commit(tree, parents, f"merge {name}")
        if found.apart:
            record(repository, giver.slug, taker.slug, commit)
        repository.set_tip(taker.slug, commit)
        if taker.folder.is_dir():
            marks.remember(tree, taker.folder)
        commits = (giver.tip, commit)
        return Merge(
            paths=found.paths,
            conflicts=(*found.conflicts, *conflicts),
            left_out=left_out_lines(left),
            commits=commits,
            kept_out=left_out_lines(found.kept_out),
        )

    def changed(self, job: str, name: str) -> tuple[str, ...]:
        """The paths that a workspace's commits have changed since it began."""
        return self.tree(job, name).made()

    def unresolved(self, job: str, name: str) -> list[str]:
        """The paths that a merge left in conflict and no agent has settled yet."""
        here = self.tree(job, name)
        return here.marks.settle(here.folder)

    # ---- the result ----------------------------------------------------------------------------

    def changes(self, job: str, tree: str = "", *, whole: bool = False) -> list[Change]:
        """What the job's tree, or the one given, changed since the job's start; without the protocol's own files."""
        return result_branch.changes(self.repository(job), tree, whole=whole, named=result_branch.named_here(self.root))

    def diff(self, job: str, tree: str = "", *, whole: bool = False, stat: bool = False) -> bytes:
        """The same, as git shows it."""
        return result_branch.diff(self.repository(job), tree, whole=whole, stat=stat)

    def file_diff(self, job: str, path: str, tree: str = "", *, whole: bool = False, spaces: bool = True) -> bytes:
        """The same of one file, bounded; WorkspaceError for a path that `changes` does not list."""
        repository = self.repository(job)
        if not repository.exists:
            raise WorkspaceError(f"the files of {job} are deleted")
        return instance_diff.file_diff(
            repository, repository.ref(START), result_branch.result(repository, tree, whole=whole), path, spaces=spaces
        )

    def instance_versions(self, job: str, name: str) -> list[WorkVersion]:
        """The versions of a workspace that are kept: its last, and what lost and interrupted turns had come to."""
        return instance_diff.versions(self.repository(job), job, name, slug_of(name))

    def instance_changes(self, job: str, name: str, version: str = LAST) -> list[Change]:
        """What a workspace has changed since it began, or what a lost turn of it had: the agent's own work."""
        sent = self._sent(job, name)
        named = result_branch.named_here(self.root)
        found = instance_diff.changes(self.repository(job), job, name, slug_of(name), version, named)
        return [one for one in found if one.path not in sent]

    def instance_diff(self, job: str, name: str, path: str = "", version: str = LAST, *, spaces: bool = True) -> bytes:
        """The same, as git shows it, bounded; of one file that `instance_changes` lists, or of all."""
        sent = self._sent(job, name)
        if path in sent:
            raise WorkspaceError(f"{path_text(path)} came along with the task, and was not changed")
        return instance_diff.diff(self.repository(job), job, name, slug_of(name), version, path, sent, spaces=spaces)

    def _sent(self, job: str, name: str) -> set[str]:
        """What came along with the task of a workspace, and is as it came."""
        here = self.tree(job, name)
        return set(here.untouched()) if here.tip else set()

    def shown(self, job: str, question: str, artifact: str, digest: str) -> str | None:
        """An artifact's text as a question asserts it; None if that is not kept."""
        return artifact_versions.shown(self.repository(job), question, artifact, digest)

    def put_out(self, job: str, question: str, artifact: str, digest: str) -> Path | None:
        """A file with an artifact's text as it was asserted; None if that is not kept."""
        return artifact_versions.put_out(self.repository(job), question, artifact, digest)

    def since(self, job: str, artifact: str, before: str, after: str, *, stat: bool = False) -> str | None:
        """The diff between two versions of an artifact; for WORK_SUMMARY.md of the whole tree."""
        return artifact_versions.since(self.repository(job), artifact, before, after, stat=stat)

    def is_merged(self, job: str) -> bool:
        """Whether the user has the result of a job that has changed files: it takes git to tell."""
        repository = self.repository(job)
        if self.root is None or not repository.exists:
            return False
        return is_merged(repository, self.root) and bool(self.changes(job))

    def has_remote(self) -> bool:
        """Whether the user's repository has a remote to push a result to."""
        source = self.source()
        return source is not None and source.has_remote()

    def deliver(self, job: str, *, signs: bool = False) -> result_branch.ResultBranch | None:
        """Make the result a branch of the user's repository, if there is one; `signs`: as their git signs."""
        repository = self.repository(job)
        source = result_branch.source_of(repository, self.root) if repository.exists else None
        return result_branch.deliver(repository, source, signs=signs, redact=self.redact) if source else None

    def merge_to_checkout(
        self,
        job: str,
        *,
        whole: bool = False,
        tell: Callable[[CheckoutMerge], None] = lambda coming: None,
        dry: bool = False,
    ) -> CheckoutMerge:
        """Merge the result into what the user has checked out. `tell` is called first; `dry`: nothing changes."""
        if self.root is None or not self.repository(job).exists:
            raise WorkspaceError(f"{job} has no files to merge: `parley gc` has deleted them; run another job")
        return merge_to_checkout(
            self.repository(job),
            self.root,
            whole=whole,
            tell=tell,
            dry=dry,
            private=self._private,
            redact=self.redact,
        )

    def uncommitted(self) -> list[str]:
        """The paths of the user's checkout that are not committed, and so not part of a job unless settings say so."""
        source = self.source()
        return result_branch.uncommitted(source) if source and self.settings.dirty != "include" else []

    def orchestration_view(self, job: str) -> OrchestrationView:
        """The files of the job's workflow as they are now, to be compared with the bus."""
        return OrchestrationView(self.repository(job), self.path(job, f"job:{job}"))

    def anchors(self, job: str) -> list[dict[str, Any]]:
        """The bus's head at each turn's end, as the turns' commits record it."""
        repository = self.repository(job)
        if not repository.exists:
            return []
        found = []
        # not the commits that the job started from: their texts are not this job's, and the user's may say anything
        own = ("--all", "--not", START, *((FORMER,) if repository.ref(FORMER) else ()))
        for line in os.fsdecode(repository.git("log", "--format=%b", *own)).splitlines():
            if line.startswith('{"head":'):
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line)["head"])
        return [head for head in found if isinstance(head, dict)]

    def latest_anchors(self, job: str) -> list[dict[str, Any]]:
        """The same, as another coordinator of the home may have written them; on one machine there is no other."""
        return []
