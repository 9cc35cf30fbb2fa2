"""Merges a job's result into the user's checkout: only without conflicts, and without losing the user's changes.

No hook runs, and no program that lies in the checkout: it may be an agent's, or call what an agent has changed. The
merge is computed beside the checkout; the files are prepared, then moved into place, all or none.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from parley.base.obeyed import Obeyed, obeyed
from parley.base.text import printable
from parley.base.unportable import unportable
from parley.base.unportable import words as unportable_words
from parley.ports.workspaces import WorkspaceError
from parley.workspaces.checkout.source_repository import SourceRepository
from parley.workspaces.checkout.users_checkout import Difference, Index, UsersCheckout
from parley.workspaces.checkout.users_git import PARLEY, Identities
from parley.workspaces.checkout.users_git_settings import UsersGitSettings
from parley.workspaces.delivery import result_branch
from parley.workspaces.delivery.commit_message import CommitMessage
from parley.workspaces.delivery.file_placement import (
    PLAN,
    InTheWay,
    Placement,
    PlacementPlan,
    above,
    discard,
    give,
    locked_checkout,
    staged,
)
from parley.workspaces.files.known_blobs import LINK, PROGRAM
from parley.workspaces.files.safe_fs import open_parent
from parley.workspaces.files.scan import CannotKeep, refuse_name
from parley.workspaces.home.private_folders import NAME, PrivateFolders
from parley.workspaces.job_repository import FOLDER, FORMER, GITLINK, JobRepository
from parley.workspaces.safe_git import GitError, ObjectReader, last_line

SHOWN = 5
LOCKED = "locked"  # holds the identity of our lock of the index
RECORD = "parley-merge"  # beside the index: the prepared files, and the plan to undo a merge
_UNDER_WAY = {
    "MERGE_HEAD": "a merge",
    "CHERRY_PICK_HEAD": "a cherry-pick",
    "REVERT_HEAD": "a revert",
    "rebase-merge": "a rebase",
    "rebase-apply": "a rebase",
    "sequencer": "a cherry-pick or a revert",
    "BISECT_LOG": "a bisection",  # `git bisect reset` would leave the merge behind
}


class WontMerge(WorkspaceError):
    """The result can't be merged. Nothing was changed; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class CheckoutMerge:
    """A merge into the checkout: the branch, the paths that it changes, and whether it was merged before."""

    branch: str  # empty in a folder without a repository
    commit: str
    paths: tuple[str, ...]
    before: bool = False
    obeyed: tuple[Obeyed, ...] = ()  # what of it tools on this machine run or obey
    hooks: tuple[str, ...] = ()  # of the user's: git would run them for a merge, Parley does not
    unfiltered: tuple[str, ...] = ()  # filters of the user's that do not run, because they may lie in the checkout
    remarks: tuple[str, ...] = ()  # what else the user has to know


Tell = Callable[[CheckoutMerge], None]


def merge_to_checkout(
    repository: JobRepository,
    root: Path,
    *,
    whole: bool = False,
    tell: Tell,
    dry: bool = False,
    private: PrivateFolders | None = None,
    redact: Callable[[str], str] = str,
) -> CheckoutMerge:
    """Merge a job's result into what the user has checked out.

    `tell` is called before anything is changed; `dry`: nothing is. `private`: where no result may be written. `redact`
    takes secrets out of the commits' messages.
    """
    source = result_branch.source_of(repository, root)
    private = private or PrivateFolders()
    try:
        if source is None:
            return _copy(repository, root, private, whole=whole, tell=tell, dry=dry)
        with locked_checkout(source.git_dir):
            remarks = _recover(source)
            found = result_branch.deliver(repository, source, whole=whole, signs=not dry, redact=redact)
            message = partial(CommitMessage, repository, redact)
            with staged(source.git_dir / RECORD, source.root) as place:
                return _Merge(source, found, message, place, remarks=remarks, private=private).run(tell, dry=dry)
    except InTheWay as error:
        raise WontMerge(
            f"{_some([str(error)])} is in the way; nothing was changed: look at it, then merge again"
        ) from error


def is_merged(repository: JobRepository, root: Path) -> bool:
    """Whether the user's checkout has the result."""
    source = result_branch.source_of(repository, root)
    if source is None:
        return repository.ref(result_branch.HOME) != ""
    there = repository.ref(result_branch.DELIVERED)
    return bool(there) and result_branch.is_taken(repository, source, there)


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN} more" if len(paths) > SHOWN else ""
    return ", ".join(printable(path) for path in paths[:SHOWN]) + more


def _displaced(changes: dict[str, Difference], index: Index) -> set[str]:
    """Staged paths where a file would become a folder, or a folder a file: the index may hold the only copy."""
    new = {path for path, change in changes.items() if change.new.mode and not change.old.mode}
    below = {path for path in index.entries if not new.isdisjoint(above(path))} if new else set()
    return (below | {folder for path in new for folder in above(path) if folder in index.entries}) - changes.keys()


def _refuse_names(paths: Iterable[str], root: Path, private: PrivateFolders) -> None:
    """Refuse names that are git's own or Parley's."""
    for path in paths:
        try:
            refuse_name(path, users_own=True)
        except CannotKeep as why:
            raise WontMerge(f"{printable(path)}: {why}; ask for another name in another job") from why
        if path.split("/", maxsplit=1)[0].lower() == NAME or private.holds(root / path):
            raise WontMerge(f"{printable(path)} is Parley's own place; ask for another name in another job")


# ---- a repository ------------------------------------------------------------------------------------


class _Merge:
    """One merge into a work tree, from a commit that is in the repository."""

    def __init__(
        self,
        source: SourceRepository,
        found: result_branch.ResultBranch,
        message: Callable[[], CommitMessage],
        place: Path,
        remarks: list[str],
        private: PrivateFolders,
    ) -> None:
        self._source = source
        self._private = private
        self._found = found
        self._message = message
        self._record = source.git_dir / RECORD
        self._remarks = remarks
        self._settings = UsersGitSettings(source)
        self._checkout = UsersCheckout(source, self._settings, self._record)
        self._place = place
        self._files = Placement(source.root, place, self._checkout.owner)
        self._checkout.own(place)

    def run(self, tell: Tell, *, dry: bool) -> CheckoutMerge:
        """Merge it, or raise WontMerge with the reason."""
        self._refuse_state()
        head = self._source.head()
        before = CheckoutMerge(self._found.branch, self._found.commit, (), before=True, remarks=tuple(self._remarks))
        if self._found.taken or (head and self._checkout.is_ancestor(self._found.commit, head)):
            return before
        tree = self._tree(head) if head else self._found.commit
        changes = self._checkout.differences(head, tree)
        if head and not changes:  # squashed, rebased or picked, perhaps by a forge
            return before
        _refuse_names(changes, self._source.root, self._private)
        if links := [path for path, change in changes.items() if GITLINK in (change.old.mode, change.new.mode)]:
            raise WontMerge(f"it changes the submodule {_some(links)}; merge {self._found.branch} by hand")
        named = self._settings.git.identities()
        if head and not named and not self._checkout.is_ancestor(head, self._found.commit):
            raise WontMerge('git does not know who you are; tell it with `git config user.name "…"` and user.email')
        signs = head != "" and named is not None and self._settings.signs()
        unfiltered = self._unfiltered(tree, changes)
        if odd := unportable_words(self._checkout.unportable(tree, changes)):
            self._remarks.append(odd)
        if head and not self._source.branch():
            self._remarks.append("you have no branch checked out: give the merge one with `git switch -c NAME`")
        with self._index_locked() as lock:
            index = self._checkout.take_index()
            plan = self._plan(tree, changes, index)
            coming = CheckoutMerge(
                self._found.branch,
                self._found.commit,
                tuple(changes),
                obeyed=self._obeyed(changes),
                hooks=tuple(self._settings.hooks()),
                unfiltered=tuple(unfiltered),
                remarks=tuple(self._remarks),
            )
            tell(coming)
            if not dry:
                commit = self._commit(tree, head, named, signs=signs) if head and named else self._found.commit
                self._carry_out(plan, commit, head, named, lock)
        return coming

    def _refuse_state(self) -> None:
        """Refuse a checkout that is in the middle of something, or is not this folder."""
        for name, what in _UNDER_WAY.items():
            if (self._source.git_dir / name).exists():
                raise WontMerge(f"{what} is under way in {self._source.root}; finish or abort it, then merge again")
        elsewhere = self._settings.get("core.worktree")
        if elsewhere and (self._source.git_dir / elsewhere).resolve() != self._source.root.resolve():
            raise WontMerge(
                f"core.worktree says that its files are in {printable(elsewhere)}; merge {self._found.branch} there"
            )
        if self._settings.has("merge.verifysignatures"):
            raise WontMerge(
                "merge.verifySignatures is set, and Parley verifies no signature; merge "
                f"{self._found.branch} by hand with `git merge`"
            )

    def _tree(self, head: str) -> str:
        """The merged tree. WontMerge where the two conflict."""
        base = self._checkout.common(head, self._found.commit)
        if not base:
            raise WontMerge(f"HEAD has nothing in common with {self._found.branch}; check out a branch that has")
        tree, clashes = self._checkout.merged(head, self._found.commit)
        if clashes:
            raise WontMerge(
                f"it conflicts with what is checked out in {_some(clashes)}; merge {self._found.branch} by hand"
            )
        if driven := self._checkout.driven(base, head, self._found.commit):
            raise WontMerge(
                f"you and the job have both changed {_some(list(driven))}, which your attributes give to the merge "
                f"driver {_some(sorted(set(driven.values())))}; none runs here: merge {self._found.branch} by hand"
            )
        return tree

    def _unfiltered(self, tree: str, changes: dict[str, Difference]) -> list[str]:
        """The filters that do not run here. WontMerge where a file requires one."""
        found = self._checkout.unfiltered(tree, changes)
        for name, paths in found.items():
            if self._checkout.needs(name):
                raise WontMerge(
                    f"{_some(paths)} can't be written without your filter {printable(name)}, and its program may be an "
                    f"agent's; look at it, then merge {self._found.branch} by hand"
                )
        return [f"{name} ({_some(paths)})" for name, paths in found.items()]

    def _plan(self, tree: str, changes: dict[str, Difference], index: Index) -> PlacementPlan:
        """The plan of what is moved. WontMerge where something of the user's would be lost."""
        if index.unmerged:
            raise WontMerge(f"{_some(index.unmerged)} is in conflict; settle and commit it, then merge again")
        modified = self._checkout.modified(index)
        root = self._source.root
        absent = {path for path in index.skipped & changes.keys() if not os.path.lexists(root / path)}
        mine = sorted(
            path
            for path, change in changes.items()
            if (path in index.entries or change.old.mode)
            and (index.entries.get(path) != change.old or (path in modified and path not in absent))
        )
        mine += sorted(_displaced(changes, index))
        if mine:
            raise WontMerge(f"you have changes of your own in {_some(mine)}; commit or stash them, then merge again")
        try:
            left_out = self._checkout.make(tree, changes, self._place / "new") | absent
        except GitError as error:
            raise WontMerge(f"its files could not be prepared ({error}); nothing was changed") from error
        new = [path for path, change in changes.items() if change.new.mode and path not in left_out]
        if missing := [path for path in new if not os.path.lexists(self._place / "new" / path)]:
            raise WontMerge(f"git would not write {_some(missing)}; merge {self._found.branch} by hand")
        old = [path for path, change in changes.items() if change.old.mode and path not in absent]
        programs = self._settings.get("core.filemode") != "false"
        plan, blocked = self._files.plan(new, old, programs=programs)
        if blocked:
            raise WontMerge(f"{_some(blocked)} of yours would be overwritten; move it away, then merge again")
        self._checkout.next_index(changes, index, left_out)
        return plan

    def _obeyed(self, changes: dict[str, Difference]) -> tuple[Obeyed, ...]:
        modes = {path: (change.old.mode, change.new.mode) for path, change in changes.items()}
        return obeyed(modes, self._settings.obeyed(changes))

    # ---- the commit ----------------------------------------------------------------------------

    def _commit(self, tree: str, head: str, named: Identities, *, signs: bool) -> str:
        """The merge, as a commit of the user's."""
        with self._checkout.pack(tree, head, self._found.commit).open("rb") as pack:
            self._source.take(pack)
        text = self._message().of_merge(self._found.branch)
        words = ("commit-tree", tree, "-p", head, "-p", self._found.commit, "-m", text)
        if not signs:
            return self._source.git.text(*words, more=named.environment())
        done = self._settings.git.signed(self._source.git_dir, *words[1:], by=named)
        if done.returncode:
            raise WontMerge(f"your git could not sign the merge: {last_line(done)}; nothing was changed")
        return done.stdout.decode().strip()

    # ---- carrying it out -----------------------------------------------------------------------

    @contextmanager
    def _index_locked(self) -> Iterator[Path]:
        """Lock the index against other gits, by git's own lock file."""
        lock = self._source.git_dir / "index.lock"
        try:
            os.close(os.open(lock, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))
        except FileExistsError as error:
            raise WontMerge(f"another git holds the index's lock, or was killed: wait, or delete {lock}") from error
        try:
            (self._record / LOCKED).write_text(_identity(lock))
            yield lock
        finally:
            lock.unlink(missing_ok=True)

    def _carry_out(self, plan: PlacementPlan, commit: str, head: str, named: Identities | None, lock: Path) -> None:
        plan.more = {"place": str(self._place), "commit": commit}
        by = (named or PARLEY).environment()
        text = f"merge {self._found.branch}: by parley"
        logged = self._settings.get("core.logallrefupdates") != "false"
        with ExitStack() as stack:
            try:
                move = stack.enter_context(self._source.moving(commit, head, text, by, logged=logged))
                plan.write(self._record)
            except GitError as error:
                raise WontMerge(f"{error}; nothing was changed") from error
            self._move(plan, move, lock)
        self._files.clear_folders(plan)
        (self._record / PLAN).unlink()

    def _move(self, plan: PlacementPlan, move: Callable[[], None], lock: Path) -> None:
        """Move the files, the index and the branch; all of them, or none."""
        try:
            self._files.carry_out(plan)
            self._checkout.refresh()
            _install(self._source, self._record / "after", lock)
            move()
        except BaseException as error:
            if self._source.head() == plan.more["commit"]:  # interrupted after the last step: it is merged
                raise
            kept = _take_back(self._source, plan, self._files, self._record)
            if kept:  # the plan stays, for the next merge
                raise WontMerge(f"{error}; these could not be put back: {_some(kept)}") from error
            (self._record / PLAN).unlink()
            if isinstance(error, (OSError, GitError)):
                raise WontMerge(f"a file could not be put into place ({error}); nothing was changed") from error
            raise


def _install(source: SourceRepository, made: Path, lock: Path) -> None:
    """Install an index through its lock file, so that no other git sees half of one."""
    index = source.git_dir / "index"
    owner = source.common.stat()
    with made.open("rb") as data, lock.open("wb") as file:
        shutil.copyfileobj(data, file)
        file.flush()
        os.fsync(file.fileno())
        if index.exists():
            os.fchmod(file.fileno(), index.stat().st_mode & 0o777)
        if os.geteuid() == 0:
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
    lock.rename(index)


def _take_back(source: SourceRepository, plan: PlacementPlan, files: Placement, record: Path) -> list[str]:
    """Undo an interrupted merge; returns what could not be put back, and where it is."""
    kept = files.take_back(plan)
    index, before, after = source.git_dir / "index", record / "before", record / "after"
    if index.is_file() and after.is_file() and index.read_bytes() == after.read_bytes():
        if before.is_file():
            before.replace(index)
        else:
            index.unlink()
    return kept


def _recover(source: SourceRepository) -> list[str]:
    """Undo a merge that was killed; returns the remarks about it."""
    record = source.git_dir / RECORD
    if not _is_left(record):
        return []
    lock = source.git_dir / "index.lock"
    if lock.exists() and (record / LOCKED).is_file() and (record / LOCKED).read_text() == _identity(lock):
        lock.unlink()
    plan = PlacementPlan.read(record)
    place = Path(plan.more["place"]) if plan else record
    if plan is None or source.head() == plan.more["commit"]:  # nothing was moved yet, or all was
        discard(record, place)
        return []
    return _done_with(record, place, _take_back(source, plan, Placement(source.root, place), record))


def _is_left(record: Path) -> bool:
    """Whether a merge has left its record. InTheWay where something else, such as a link, lies there."""
    if not os.path.lexists(record):
        return False
    if record.is_symlink() or not record.is_dir():
        raise InTheWay(str(record))
    return True


def _done_with(record: Path, place: Path, kept: list[str]) -> list[str]:
    """Delete the files of a merge that was undone, but not what could not be put back; returns the remarks."""
    if not kept:
        discard(record, place)
        return ["an earlier merge was interrupted, and is undone"]
    (record / PLAN).unlink()
    aside = record.with_name(f"{record.name}-{secrets.token_hex(4)}")
    record.rename(aside)
    lines = [one.replace(str(record), str(aside)) for one in kept]
    return [
        f"an earlier merge was interrupted, and you have changed files since; what was there before it is kept: {one}"
        for one in lines
    ]


def _identity(path: Path) -> str:
    seen = path.stat()
    return f"{seen.st_dev}:{seen.st_ino}"


# ---- a folder without a repository -------------------------------------------------------------------


def _copy(
    repository: JobRepository, root: Path, private: PrivateFolders, *, whole: bool, tell: Tell, dry: bool
) -> CheckoutMerge:
    record = repository.folder / RECORD
    with locked_checkout(repository.folder):
        remarks = _recover_copy(root, record)
        entries = {
            path: entry
            for path, entry in repository.entries(result_branch.result(repository, whole=whole)).items()
            if entry.mode not in (GITLINK, FOLDER)
        }
        _refuse_names(entries, root, private)
        with staged(record, root) as place:
            files = Placement(root, place, _owner(root))
            with repository.git.contents() as contents:
                for path, entry in entries.items():
                    _make(contents, place / "new" / path, entry.mode, entry.name)
            give(place / "new", _owner(root))
            plan, blocked = files.plan(entries, _as_delivered_before(repository, root, entries))
            if blocked:
                raise WontMerge(f"{_some(blocked)} in {root} differ; move them away, then merge again")
            commit = result_branch.committed(repository, whole=whole)
            found = obeyed({path: ("", entries[path].mode) for path in plan.new})
            if odd := unportable_words(unportable(plan.new, entries)):
                remarks.append(odd)
            paths = tuple(sorted({*plan.new, *plan.old}))
            coming = CheckoutMerge("", commit, paths, before=not paths, obeyed=found, remarks=tuple(remarks))
            tell(coming)
            if not dry:
                plan.more = {"place": str(place)}
                plan.write(record)
                try:
                    files.carry_out(plan)
                except BaseException as error:
                    kept = files.take_back(plan)
                    if kept:
                        raise WontMerge(f"{error}; these could not be put back: {_some(kept)}") from error
                    (record / PLAN).unlink()
                    if isinstance(error, OSError):
                        raise WontMerge(f"a file could not be put into place ({error}); nothing was changed") from error
                    raise
                (record / PLAN).unlink()
                repository.set_ref(result_branch.HOME, commit)
    return coming


def _as_delivered_before(repository: JobRepository, root: Path, entries: Mapping[str, tuple[str, str]]) -> list[str]:
    """The files that the results before this one brought, and the user left as they were: this one replaces them."""
    former, found = repository.ref(FORMER), dict[str, None]()
    for commit in repository.git.text("rev-list", "--first-parent", former).splitlines() if former else ():
        with repository.git.contents() as contents:
            for path, (mode, name) in repository.entries(commit).items():
                if mode not in (GITLINK, FOLDER) and entries.get(path) != (mode, name):
                    held = bytearray()
                    contents.copy(name, held.extend)
                    if _held(root, path, link=mode == LINK) == bytes(held):
                        found[path] = None
    return list(found)


def _held(root: Path, path: str, *, link: bool) -> bytes | None:
    """What a file or a link of the user's folder holds; None where something else is there."""
    try:
        with open_parent(root, path) as (here, name):
            if link:
                return os.fsencode(os.readlink(name, dir_fd=here))
            handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here)
            with os.fdopen(handle, "rb") as file:
                return file.read() if stat.S_ISREG(os.fstat(handle).st_mode) else None
    except OSError:
        return None


def _recover_copy(root: Path, record: Path) -> list[str]:
    if not _is_left(record):
        return []
    plan = PlacementPlan.read(record)
    if plan is None:
        discard(record, record)
        return []
    place = Path(plan.more["place"])
    return _done_with(record, place, Placement(root, place).take_back(plan))


def _owner(root: Path) -> tuple[int, int] | None:
    seen = root.stat()
    return (seen.st_uid, seen.st_gid) if os.geteuid() == 0 and seen.st_uid != 0 else None


def _make(contents: ObjectReader, path: Path, mode: str, name: str) -> None:
    """A file of the result, made ready."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == LINK:
        target = bytearray()
        contents.copy(name, target.extend)
        path.symlink_to(os.fsdecode(bytes(target)))
        return
    with path.open("xb") as file:
        contents.copy(name, file.write)
    if mode == PROGRAM:
        path.chmod(path.stat().st_mode | 0o111)
