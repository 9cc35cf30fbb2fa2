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

from parley.adapters import disk
from parley.adapters import outcome as outcomes
from parley.adapters.git import GitError
from parley.adapters.reserve import Reserve
from parley.adapters.worktrees import children as shown_children
from parley.adapters.worktrees import delivery, papers, sending, shown
from parley.adapters.worktrees.clones import Clones
from parley.adapters.worktrees.committed import Committed
from parley.adapters.worktrees.copying import bring, check_copies
from parley.adapters.worktrees.excludes import excludes
from parley.adapters.worktrees.filed import Filed
from parley.adapters.worktrees.history import BEGIN, SEED, START, History, begin, unknown_tree
from parley.adapters.worktrees.homecoming import Homecoming, bring_home
from parley.adapters.worktrees.lineage import record
from parley.adapters.worktrees.marks import Marks
from parley.adapters.worktrees.merging import Combined, bring_down, carried, combine, still_open
from parley.adapters.worktrees.private import Private
from parley.adapters.worktrees.quota import OVERGROWN, JobRoom, Quota
from parley.adapters.worktrees.removal import await_deletions, delete_later
from parley.adapters.worktrees.scan import open_up, path_text, told
from parley.adapters.worktrees.source import Source, find_source
from parley.adapters.worktrees.worktree import HandOver, Worktree
from parley.config import WorkspaceSettings
from parley.ports import (
    BoundaryError,
    Change,
    Kept,
    Merge,
    NoRoom,
    Outcome,
    OverQuota,
    Scope,
    Sent,
    Site,
    WorkspaceError,
    retired_ref,
    slug_of,
)

UNCOMMITTED = "its last turn did not commit it"
QUESTION = "escalation:"  # how the names of the clones begin
DELETION_SECONDS = 10.0
TREES_READ = 8  # committed trees of which something is remembered


def _question(name: str) -> str:
    """What the clone of a question is called in files' names; no workspace has a dot in its name."""
    return f"{slug_of(name)}.question"


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(self: Worktrees, *words: Any, **more: Any) -> Any:
        try:
            return method(self, *words, **more)
        except (OSError, BoundaryError, RecursionError, ValueError) as error:
            what = f"the files of {words[0]}" if words else "the files"
            remedy = f"see that the disk has room and that all below {self.home} is yours to change"
            raise WorkspaceError(f"{what} can't be worked with: {' '.join(str(error).split())}; {remedy}") from error

    return call


def _guard(made: type[Worktrees]) -> type[Worktrees]:
    """Let nothing but a WorkspaceError out of what is called from outside: no file of an agent's is to stop a job."""
    for name, method in list(vars(made).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(made, name, _guarded(method))
    return made


@_guard
class Worktrees:
    """One worktree for a job, and one for each dispatch of it.

    `root` is the user's folder, `title` tells what a job was asked for, `hand_over` gives files that were made here
    to whoever agents run as, `set_up` runs the user's set-up command in a site, `mark` is in the environment of
    git while it works for a job, and `given_up` tells whether the user has given the job up. `private` are
    folders of Parley's own besides the home.
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
    ) -> None:
        self.home = home.resolve()
        self.root = root
        self.settings = settings or WorkspaceSettings()
        self._title = title
        self._hand_over = hand_over
        self._set_up = set_up
        self._mark = mark
        self._given_up = given_up
        self._private = Private((self.home, *private), root)
        self._histories: dict[str, History] = {}
        self._trees: dict[tuple[str, str], Worktree] = {}
        self._quotas: dict[str, Quota] = {}
        self._rooms: dict[str, JobRoom] = {}
        self._clones: dict[str, Clones] = {}
        self._read = OrderedDict[tuple[str, str], Committed]()  # trees that were read lately

    # ---- where things are ----------------------------------------------------------------------

    def path(self, job: str, name: str) -> Path:
        """The folder of a workspace."""
        slug = slug_of(name)
        return self.home / "jobs" / job / (f"trees/{slug}" if slug else "work")

    def history(self, job: str) -> History:
        """The job's repository."""
        if job not in self._histories:
            given_up = functools.partial(self._given_up, job)
            self._histories[job] = History(self.home / "jobs" / job, self._mark(job), given_up)
        return self._histories[job]

    def source(self) -> Source | None:
        """The user's repository; None where the folder has none."""
        return find_source(self.root) if self.root is not None else None

    def tree(self, job: str, name: str) -> Worktree:
        """One workspace."""
        slug = slug_of(name)
        if (job, slug) not in self._trees:
            self._trees[job, slug] = Worktree(self.history(job), slug, self.path(job, name), self._hand_over)
        return self._trees[job, slug]

    def reclaim(self, job: str) -> None:
        """A job has a new owner: whatever its last one's git held locked is free."""
        self.history(job).unlock()

    # ---- making --------------------------------------------------------------------------------

    def prepare(
        self,
        job: str,
        name: str,
        parent: str,
        sealed: Iterable[str] = (),
        *,
        children: Sequence[str] | None = None,
        sent: Sequence[Sent] = (),
    ) -> Site:
        """Make a workspace ready (again). A new one starts as its parent's tree; sealed files can't be changed.

        `children` are the workspaces whose last commits are shown in it, read-only; None for an agent that dispatches
        no one.
        """
        if Reserve(self.home).is_short():
            await_deletions(DELETION_SECONDS)
        if Reserve(self.home).is_short():  # or turn after turn would be lost for it
            raise NoRoom(f"the disk of {self.home} is full; free some space, then go on with `parley resume`")
        here = self.tree(job, name)
        if not here.history.exists:
            self._begin(here.history, job)
        here.sealed = tuple(sealed)
        marks = here.marks
        if sent and not marks.sent:
            marks.sent = [list(one) for one in sent]
            marks.write()
        if not here.tip:
            self._make(here, parent, marks)
        elif not here.folder.is_dir():
            here.check_out(here.tip)
            self._bring(here, marks)
        below = None if children is None else [self.tree(job, child) for child in children]
        return Site(str(here.folder), binds=tuple(here.binds(here.tip, marks, below)), room=self._room(here.history))

    def clone(self, job: str, name: str, of: str, tree: str, children: Mapping[str, str]) -> Site:
        """A read-only clone of what a workspace had committed, for the question of that name; no tree: as it began."""
        history = self.history(job)
        if not history.exists:
            self._begin(history, job)
        below = {slug_of(child): (slug_of(child), held) for child, held in children.items()}
        return replace(self._clones_of(job).show(_question(name), slug_of(of), tree, below), room=self._room(history))

    def _clones_of(self, job: str) -> Clones:
        if job not in self._clones:
            self._clones[job] = Clones(self.history(job), self._hand_over)
        return self._clones[job]

    def _begin(self, history: History, job: str) -> None:
        check_copies(self.settings.copy)
        source = self.source()
        found = delivery.found_tree(source, self._private) if source and self.settings.dirty == "include" else None
        ignored = excludes(self.root, source)
        begin(history, source, job, self._title(job), self.home / "bases", found, ignored)

    def _make(self, here: Worktree, parent: str, marks: Marks) -> None:
        """A new workspace. Its branch comes last: where it stands, all before it was done."""
        history = here.history
        above = (history.tip(slug_of(parent)) if parent and here.slug else "") or history.tip("") or history.ref(BEGIN)
        if os.path.lexists(here.folder):
            here.aside(here.folder)
        here.check_out(above)
        self._bring(here, marks, again=False)
        if self.settings.setup and self._set_up is not None:
            site = Site(str(here.folder), binds=tuple(here.binds(above, marks)), room=self._room(history))
            self._set_up(site, self.settings.setup)
            marks.hidden = sorted({*marks.hidden, *here.new_paths()})
        marks.write()
        history.set_ref(f"{SEED}/{here.name}", above)
        history.set_tip(here.slug, above)

    def _bring(self, here: Worktree, marks: Marks, *, again: bool = True) -> None:
        """Copy what the copy list names, and what was sent with the task."""
        if self.root is not None and self.settings.copy:
            marks.hidden = sorted({*marks.hidden, *bring(self.root, self.settings.copy, here.folder, self._private)})
            here.handed_over()
        sending.put(here, marks, again=again)

    # ---- the outcome record and the artifacts --------------------------------------------------

    def pick(self, job: str, name: str, to: str, paths: Sequence[str], most: int) -> tuple[Sent, ...]:
        """Keep ordinary files of a workspace, ignored ones too, as they are now, for the workspace `to`."""
        return sending.pick(self.tree(job, name), slug_of(to), paths, most)

    def clear_outcome(self, job: str, name: str) -> None:
        """See to it that no outcome record is there when a turn starts."""
        self._open_up(job, name)
        outcomes.clear_outcome(self.path(job, name), self.tree(job, name).aside)

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """The outcome record, if a turn left one. Whatever else lies there is a problem, told as such."""
        self._open_up(job, name)
        return outcomes.read_outcome(self.path(job, name))

    def _open_up(self, job: str, name: str) -> None:
        """Whatever a turn did to its own rights, the place of the outcome record can be looked at and cleared."""
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
        return here.history.tree(tip) if (tip := here.tip) else ""

    def read_committed(self, job: str, tree: str, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file of a committed tree holds; None for anything else, or where it holds more."""
        return self._committed(job, tree).read(path, most)

    def list_committed(self, job: str, tree: str, folder: str) -> tuple[str, ...]:
        """The ordinary files of a committed tree below a folder, by their paths from its root, in order."""
        return self._committed(job, tree).listing(folder)

    def _committed(self, job: str, tree: str) -> Committed:
        if (job, tree) not in self._read:
            self._read[job, tree] = Committed(self.history(job), tree)
            while len(self._read) > TREES_READ:
                self._read.popitem(last=False)
        self._read.move_to_end((job, tree))
        return self._read[job, tree]

    def read(self, job: str, name: str, path: str, most: int = 1_000_000) -> str | None:
        """What an ordinary file of at most so many bytes holds; None for anything else. No link is followed."""
        return papers.read(self.tree(job, name), path, most)

    def write(self, job: str, name: str, files: Mapping[str, str | None]) -> None:
        """Put files of the protocol's own, None: take them away; they are committed at once, and nothing else is."""
        papers.write(self.tree(job, name), files)

    def draft(self, job: str, name: str, files: Mapping[str, str]) -> str:
        """Keep the tree that a workspace has committed last with these files in it; the workspace stays as it is."""
        return papers.draft(self.tree(job, name), files)

    def listing(self, job: str, name: str, folder: str) -> tuple[str, ...]:
        """The ordinary files below a folder, by their paths from the tree's root, in order. No link is followed."""
        return papers.listing(self.tree(job, name), folder)

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
        paths: tuple[str, ...] = ()
        ref = ""
        if scope is not None:
            paths, ref, found = here.keep_out(found, scope, left)
        tree = here.take(found, left, scope=scope)
        if any(path in left for path in here.sealed):
            here.seal(tip)
        here.history.set_tip(here.slug, here.history.commit(tree, (tip,), text))
        here.marks.remember(tree, here.folder)
        return Kept(tree, told(left), tuple(path_text(path) for path in paths), ref)

    def _limits(self, here: Worktree) -> tuple[int, int]:
        """How many files a workspace may have, and how many bytes the job leaves to it."""
        return self.settings.files, self._quota(here).left_to(here.name) - here.history.objects.written_bytes

    def _quota(self, here: Worktree) -> Quota:
        if here.job not in self._quotas:
            self._quotas[here.job] = Quota(here.history.folder, self.settings.quota_mb << 20)
        return self._quotas[here.job]

    def _room(self, history: History) -> JobRoom:
        job = history.folder.name
        if job not in self._rooms:
            self._rooms[job] = JobRoom(history.folder, self.settings.quota_mb << 20, self.settings.files)
        return self._rooms[job]

    def restore(self, job: str, name: str, tree: str, lost: str) -> None:
        """Put back what a tree holds; what was there instead stays under a ref, or aside where no ref can hold it.

        Without a tree it is put back to how it began.
        """
        here = self.tree(job, name)
        history, tip = here.history, here.tip
        if not tip:
            return
        tree = tree or history.tree(history.ref(f"{SEED}/{here.name}"))
        if not history.has(f"{tree}^{{tree}}"):
            raise unknown_tree(tree, job)
        self._clear_spoilt(here)
        now = here.lose(lost, self._limits(here)) if here.folder.is_dir() else ""
        self._room(history).thin_out()
        back = next((commit for commit, held in history.log(tip) if held == tree), "")
        if back != tip:
            history.set_ref(here.free(f"refs/parley/lost/{job}/{here.name}/{lost}-branch"), tip)
            history.set_tip(here.slug, back or history.commit(tree, (tip,), f"back to {tree}"))
        if not here.folder.is_dir():
            here.check_out(here.tip)
            self._bring(here, here.marks)
        elif now != tree:
            here.go_to(tree)
        here.marks.go_back(tree)

    def _clear_spoilt(self, here: Worktree) -> None:
        """Take away what a turn has filled the disk with: nothing of it is kept under a ref, which needs room too."""
        delete = self._room(here.history).spoilt(here.folder)
        if delete is None or not here.folder.is_dir():
            return
        gone = here.aside(here.folder, OVERGROWN)
        if delete:
            disk.remove(gone)

    def abandon(self, job: str, name: str, lost: str) -> None:
        """Keep what a turn that was cut short has left under a ref, and leave it there."""
        here = self.tree(job, name)
        if here.tip and here.folder.is_dir():
            here.copy_away(lost, self._limits(here))

    def retire(self, job: str, name: str) -> None:
        """Keep what a workspace holds under a ref, and take its folder away. The job's own stays: people look at it."""
        if name.startswith(QUESTION):
            self._clones_of(job).drop(_question(name))
            return
        here = self.tree(job, name)
        history, tip = here.history, here.tip
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
                self._room(history).thin_out()
            return
        kept = tip if tree == history.tree(tip) else history.commit(tree, (tip,), "retired")
        history.set_ref(retired_ref(job, name), kept)
        if not here.slug:
            return
        shown_children.forget(history, here.name)
        gone = here.aside(here.folder)
        self._quota(here).forget(here.name)
        if not left:  # all of it is under the ref: it may go, in its own time
            delete_later(gone)

    # ---- merging -------------------------------------------------------------------------------

    def merge(self, job: str, name: str, parent: str, scope: Scope | None = None) -> Merge:
        """Bring what a workspace committed since it began, or was last merged, into its parent's tree.

        The parent may also be one further up, when nobody is to touch the one in between: it is not looked at.
        """
        child, above = self.tree(job, name), self.tree(job, parent)
        if not child.tip or not above.tip or child.slug == above.slug:
            return Merge()
        left = dict.fromkeys(child.changed(), UNCOMMITTED) if child.folder.is_dir() else {}
        if above.folder.is_dir():
            self.snapshot(job, parent, f"before {name} is merged")
        return self._join(
            child, above, name, combine(child.history, child.slug, above.slug, name, scope, child.untouched()), left
        )

    def refresh(self, job: str, name: str, parent: str, *, clean: bool = False) -> Merge:
        """Bring what its parent has committed into a workspace, with `clean` only where that leaves no conflict."""
        child, above = self.tree(job, name), self.tree(job, parent)
        if not child.tip or not above.tip or child.slug == above.slug:
            return Merge()
        found = bring_down(child.history, child.slug, above.slug)
        if clean and found is not None and found.conflicts:
            return Merge((), found.conflicts)
        return self._join(above, child, parent, found, {})

    def _join(self, giver: Worktree, taker: Worktree, name: str, found: Combined | None, left: dict[str, str]) -> Merge:
        """Bring what two trees come to into one of them."""
        history, before = taker.history, taker.history.tree(taker.tip)
        tree = found.tree if found else before
        # what the one left open is open in the other
        left_open = still_open(history, tree, still_open(history, history.tree(giver.tip), giver.marks.conflicts))
        brought = {path: signs for path, signs in left_open.items() if found is None or path not in found.signs}
        conflicts = carried(history, before, tree, brought)
        if found is None:
            return Merge((), conflicts, told(left))
        if taker.folder.is_dir():
            taker.update(tree, self._limits(taker))
        marks = taker.marks
        marks.leave_open(left_open)
        marks.leave_open(found.signs)
        marks.write()
        parents = (taker.tip,) if found.apart else (taker.tip, giver.tip)
        commit = history.commit(tree, parents, f"merge {name}")
        if found.apart:
            record(history, giver.slug, taker.slug, commit)
        history.set_tip(taker.slug, commit)
        if taker.folder.is_dir():
            marks.remember(tree, taker.folder)
        commits = (giver.tip, commit)
        return Merge(found.paths, (*found.conflicts, *conflicts), told(left), commits, told(found.kept_out))

    def changed(self, job: str, name: str) -> tuple[str, ...]:
        """The paths that a workspace's commits have changed since it began."""
        return self.tree(job, name).made()

    def unresolved(self, job: str, name: str) -> list[str]:
        """The paths that a merge left in conflict and nobody has settled yet."""
        here = self.tree(job, name)
        return here.marks.settle(here.folder)

    # ---- the result ----------------------------------------------------------------------------

    def changes(self, job: str, tree: str = "", *, whole: bool = False) -> list[Change]:
        """What the job's tree, or the one given, has changed of what it started from, the protocol's own left out."""
        return delivery.changes(self.history(job), tree, whole=whole, named=delivery.named_here(self.root))

    def diff(self, job: str, tree: str = "", *, whole: bool = False, stat: bool = False) -> bytes:
        """The same, as git shows it."""
        return delivery.diff(self.history(job), tree, whole=whole, stat=stat)

    def shown(self, job: str, artifact: str, digest: str) -> str | None:
        """What an artifact contained when it was put forward; None if that is not kept."""
        return shown.shown(self.history(job), artifact, digest)

    def put_out(self, job: str, question: str, artifact: str, digest: str) -> Path | None:
        """A file with what an artifact contained when it was put forward; None if that is not kept."""
        return shown.put_out(self.history(job), question, artifact, digest)

    def since(self, job: str, artifact: str, before: str, after: str, *, stat: bool = False) -> str | None:
        """What has changed between two versions of an artifact; for the work in the whole tree."""
        return shown.since(self.history(job), artifact, before, after, stat=stat)

    def deliver(self, job: str) -> delivery.Delivered | None:
        """Make the result a branch of the user's repository, if there is one."""
        history = self.history(job)
        source = delivery.source_of(history, self.root) if history.exists else None
        return delivery.deliver(history, source) if source else None

    def bring_home(
        self,
        job: str,
        *,
        whole: bool = False,
        tell: Callable[[Homecoming], None] = lambda coming: None,
        dry: bool = False,
    ) -> Homecoming:
        """Merge the result into what the user has checked out. `tell` hears what will be done; `dry`: it is not."""
        if self.root is None or not self.history(job).exists:
            raise WorkspaceError(f"{job} has no files to bring home: `parley gc` has freed them; run another job")
        return bring_home(self.history(job), self.root, whole=whole, tell=tell, dry=dry, private=self._private)

    def uncommitted(self) -> list[str]:
        """The paths of the user's checkout that are not committed, and so not part of a job unless settings say so."""
        source = self.source()
        return delivery.uncommitted(source) if source and self.settings.dirty != "include" else []

    def filed(self, job: str) -> Filed:
        """The files of the job's workflow as they are now, to be held against the bus."""
        return Filed(self.history(job), self.path(job, f"job:{job}"))

    def anchors(self, job: str) -> list[dict[str, Any]]:
        """Where the bus stood at each turn's end, as the turns' commits say."""
        history = self.history(job)
        if not history.exists:
            return []
        found = []
        own = ("--all", "--not", START)  # nothing of what the job started from: anybody may have written that
        for line in os.fsdecode(history.git("log", "--format=%b", *own)).splitlines():
            if line.startswith('{"head":'):
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line)["head"])
        return [head for head in found if isinstance(head, dict)]
