"""A job's result: what it changed, as a diff, and as a branch of the user's repository."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from parley.base.obeyed import obeyed
from parley.base.unportable import unportable
from parley.ports.workspaces import REPORTS, Change, WorkspaceError
from parley.workspaces.checkout.source_repository import SourceRepository, find_source
from parley.workspaces.checkout.users_git import PARLEY, Identities, UsersGit
from parley.workspaces.checkout.users_git_settings import UsersGitSettings
from parley.workspaces.delivery.commit_message import JOB as TRAILER
from parley.workspaces.delivery.commit_message import CommitMessage
from parley.workspaces.files.excludes import excludes
from parley.workspaces.files.scan import CannotKeep, keep, open_folder, users_changes
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.home.private_folders import PrivateFolders
from parley.workspaces.job_repository import BEGIN, FORMER, GITLINK, REPOSITORY, START, STAT, Entries, JobRepository
from parley.workspaces.safe_git import ABSENT, BUSY_SECONDS, Git, GitError, GitTooLong, last_line

Named = Callable[[Iterable[str]], Mapping[str, str]]
Redact = Callable[[str], str]
DELIVERED = "refs/parley/delivered"
HOME = "refs/parley/home"  # the result that was copied into a folder without a repository
DIFF = ("--no-ext-diff", "--no-textconv", "--no-color", "--no-renames")
_UNCOUNTED = "-"  # git's count for a binary file
LONGER_SECONDS = 60  # of processor time, where only the user waits and no job does


@dataclass(frozen=True, slots=True)
class ResultBranch:
    """A job's result in the user's repository."""

    branch: str  # what it is called there
    commit: str
    taken: bool = False  # whether what the user has checked out holds it


def result(repository: JobRepository, tree: str = "", *, whole: bool = False) -> str:
    """The job's tree, or the one given, without the protocol's own files and with the user's restored.

    `whole`: with the protocol's own. Files of the user's with these names stay; the job's lie beside them.
    """
    tree = tree or repository.tree(repository.tip("") or repository.ref(BEGIN))
    start = repository.tree(repository.ref(START))
    if not whole:
        return repository.without_own(tree, start)
    moves = beside(repository)
    made = repository.entries(tree, list(moves), deep=False) if moves else {}
    moved: Entries = {moves[path]: entry for path, entry in made.items()}
    return repository.changed_tree(
        tree, {**repository.entries(start, list(moves), deep=False), **moved} if moves else {}
    )


def beside(repository: JobRepository) -> dict[str, str]:
    """The files of a whole result that lie beside the user's own of these names; each with its new name."""
    job = repository.beginning.job
    return {
        path: path.replace(".md", f".{job}.md") if path.endswith(".md") else f"{path}.{job}"
        for path in repository.beginning.aside
        if path != REPORTS
    }


def changes(
    repository: JobRepository, tree: str = "", *, whole: bool = False, named: Named = lambda paths: {}
) -> list[Change]:
    """What a job changed, file by file. `named`: paths that tools here obey because settings name them.

    Where git would take too long over it, no lines are counted.
    """
    if not repository.exists:
        return []
    return compared(repository, repository.ref(START), result(repository, tree, whole=whole), named)


def compared(repository: JobRepository, before: str, after: str, named: Named) -> list[Change]:
    """What differs between two trees, file by file."""
    words = ("diff-tree", "-r", "-z", "--raw", *DIFF, before, after)
    try:
        said = repository.git.run(*words, "--numstat", busy_seconds=BUSY_SECONDS).stdout
    except GitTooLong:
        said = repository.git(*words)
    listed = os.fsdecode(said).split("\0")
    modes: dict[str, tuple[str, str]] = {}
    counts: dict[str, tuple[str, str]] = {}
    parts = iter(listed)
    for part in parts:
        if part.startswith(":"):
            old, new, *_ = part[1:].split()
            modes[next(parts)] = old, new
        elif part:
            added, removed, path = part.split("\t", 2)
            counts[path] = added, removed
    by = {one.path: one.by for one in obeyed(modes, named(modes))}
    made = [path for path, (old, _) in modes.items() if not int(old)]
    odd = unportable(made, repository.git.paths(after)) if made else {}
    lines = {path: counts.get(path, (_UNCOUNTED, _UNCOUNTED)) for path in modes}
    return [
        Change(
            path=path,
            added=_number(added),
            removed=_number(removed),
            obeyed=by.get(path, ""),
            unportable=odd.get(path),
        )
        for path, (added, removed) in lines.items()
    ]


def _number(count: str) -> int | None:
    return int(count) if count != _UNCOUNTED else None


def named_here(root: Path | None) -> Named:
    """The paths that settings and hooks of the user's git name; none without a repository that can be read."""

    def named(paths: Iterable[str]) -> Mapping[str, str]:
        try:
            source = find_source(root) if root is not None else None
            return UsersGitSettings(source).obeyed(paths) if source is not None else {}
        except (WorkspaceError, OSError):
            return {}

    return named


def diff(repository: JobRepository, tree: str = "", *, whole: bool = False, stat: bool = False) -> bytes:
    """What a job changed, as `git diff` shows it."""
    how = STAT if stat else ("--patch", "--binary")
    words = ("diff-tree", "-r", *how, *DIFF, repository.ref(START), result(repository, tree, whole=whole))
    return repository.git.run(*words, busy_seconds=LONGER_SECONDS).stdout


def committed(repository: JobRepository, *, whole: bool = False, by: Identities = PARLEY, redact: Redact = str) -> str:
    """The result as one commit on the job's start, or on the former result that the job began with.

    It is the one that was delivered, unless that lacks the user's name.
    """
    beginning, tip = repository.beginning, repository.tip("") or repository.ref(BEGIN)
    tree, start, there = result(repository, whole=whole), repository.ref(START), repository.ref(DELIVERED)
    if there and repository.tree(there) == tree and (by == PARLEY or not _is_unnamed(repository, there)):
        return there
    nothing = not beginning.base and not repository.entries(start)
    seconds = float(repository.git.text("log", "-1", "--format=%ct", tip))
    text = str(CommitMessage(repository, redact))
    parent = repository.ref(FORMER) or ("" if nothing else start)
    return repository.commit(tree, (parent,) if parent else (), text, seconds, by)


def _is_unnamed(repository: JobRepository, commit: str) -> bool:
    return repository.git.text("log", "-1", "--format=%an <%ae>", commit) == str(PARLEY.author)


def source_of(repository: JobRepository, root: Path | None) -> SourceRepository | None:
    """The repository that a job started from, as it is now; None if it started in a folder without one."""
    if root is None or not repository.beginning.repository:
        return None
    found = find_source(root)
    if found is None:
        raise WorkspaceError(f"{root} is no repository any more; restore it, and try again")
    return found


def deliver(
    repository: JobRepository,
    source: SourceRepository,
    *,
    whole: bool = False,
    signs: bool = False,
    redact: Redact = str,
) -> ResultBranch:
    """Put the result into the user's repository: one branch, by the user's name, and nothing else.

    `signs`: with their signature, where their git signs. A passphrase may be asked for, so only where the user acts.

    A branch that the user has moved, or works on, stays as it is. One that is merged is not made again. The whole
    result has no branch: a ref for it would show in `git log --all`, and the user's git keeps its commit for weeks.
    """
    there = repository.ref(DELIVERED)
    if there and not whole and not branches(repository, source) and is_taken(repository, source, there):
        return ResultBranch(repository.beginning.branch, there, taken=True)
    by = UsersGit(source.root, source.common).identities() or PARLEY
    commit = committed(repository, whole=whole, by=by, redact=redact)
    _send(repository, source, commit)
    if signs and by != PARLEY and _is_untouched(repository, source, commit):
        commit = _signed(repository, source, commit, by)
    if whole:
        return ResultBranch(commit, commit)
    for name in _names(repository):
        there = source.ref(f"refs/heads/{name}")
        if there == commit:
            return ResultBranch(name, commit)
        if there and (there != repository.ref(DELIVERED) or _in_use(source, name)):
            return ResultBranch(commit, commit)
        try:
            source.set_ref(f"refs/heads/{name}", commit, there)
        except GitError:
            continue
        repository.set_ref(DELIVERED, commit)
        return ResultBranch(name, commit)
    branch = repository.beginning.branch
    raise WorkspaceError(f"the branch {branch} can't be made; see what `git branch {branch}` says")


def _names(repository: JobRepository) -> tuple[str, str]:
    """The names that a job's branch may have: where the user has a branch `parley`, git takes no name below it."""
    branch = repository.beginning.branch
    return branch, branch.replace("/", "-")


def branches(repository: JobRepository, source: SourceRepository) -> dict[str, str]:
    """The job's branches that are there, each with its commit."""
    found = {name: source.ref(f"refs/heads/{name}") for name in _names(repository)}
    return {name: commit for name, commit in found.items() if commit}


def name_of(repository: JobRepository, source: SourceRepository) -> str:
    """The name of the job's branch: the one that is there, or the one that it will get."""
    return next(iter(branches(repository, source)), repository.beginning.branch)


def _send(repository: JobRepository, source: SourceRepository, commit: str) -> None:
    """Bring a commit into the user's repository, with what it needs."""
    base = repository.beginning.base
    known = bool(base) and source.holds(base)
    if base and not known and (repository.git.folder / "shallow").exists():
        job = repository.beginning.job
        raise WorkspaceError(
            f"the commit {base[:12]} that it started from is no longer in {source.root}; "
            f"bring it back with `git fetch`, or take the work with `parley diff {job} | git apply`"
        )
    repository.objects.sync()
    with tempfile.TemporaryFile(dir=repository.folder) as pack:  # it may be large
        words = ("pack-objects", "--quiet", "--revs", "--stdout")
        wanted = f"{commit}\n{f'^{base}' if known else ''}\n"
        repository.git.run(*words, stdin=wanted.encode(), stdout=pack)
        pack.seek(0)
        source.take(pack)


def _is_untouched(repository: JobRepository, source: SourceRepository, commit: str) -> bool:
    """Whether no branch, remote or job has a commit of the result but the job's branch: then another may replace it."""
    found, head = branches(repository, source), source.head()
    if any(there not in (commit, repository.ref(DELIVERED)) or _in_use(source, name) for name, there in found.items()):
        return False
    own = {f"refs/heads/{name}" for name in found}
    if not own.issuperset(source.git.text("for-each-ref", "--format=%(refname)", "--contains", commit).splitlines()):
        return False
    others = repository.folder.parent.glob(f"*/{REPOSITORY}/{FORMER}")
    return not (head and source.is_ancestor(commit, head)) and all(commit not in _text(other) for other in others)


def _signed(repository: JobRepository, source: SourceRepository, commit: str, by: Identities) -> str:
    """The same commit with the user's signature, where their git signs."""
    settings = UsersGitSettings(source)
    head, _, text = repository.git("cat-file", "commit", commit).partition(b"\n\n")
    if not settings.signs() or b"\ngpgsig" in head:
        return commit
    tree, parents, date = repository.git.text("log", "-1", "--format=%T%n%P%n%ad", "--date=raw", commit).split("\n")
    words = (
        tree,
        *(word for parent in parents.split() for word in ("-p", parent)),
        "-m",
        text.decode("utf-8", "replace"),
    )
    done = settings.git.signed(source.git_dir, *words, by=by, date=date)
    if done.returncode:
        raise WorkspaceError(
            f"your git could not sign the result: {last_line(done)}; nothing was changed: unlock your key, or switch "
            "it off with `git config commit.gpgsign false`"
        )
    found = done.stdout.decode().strip()
    repository.objects.write("commit", source.git("cat-file", "commit", found))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _in_use(source: SourceRepository, branch: str) -> bool:
    """Whether a branch is checked out in any worktree."""
    return bool(source.git.text("for-each-ref", "--format=%(worktreepath)", f"refs/heads/{branch}"))


# ---- whether the user has it ------------------------------------------------------------------------


def is_taken(repository: JobRepository, source: SourceRepository, commit: str) -> bool:
    """Whether what the user has checked out holds a result: as a commit, or squashed, rebased or picked.

    Of those, a commit tells it by its trailer, or the files do: merging the result would change nothing.
    """
    head = source.head()
    if not head:
        return False
    base, job = repository.beginning.base, repository.beginning.job
    with source.beside() as git:
        if git.run("merge-base", "--is-ancestor", commit, head, fine=(0, 1, ABSENT)).returncode == 0:
            return True
        trailer = re.compile(rf"^\s*{TRAILER}: {re.escape(job)}\s*$", re.MULTILINE)
        since = git.run("log", "--format=%b", head, *([f"^{base}"] if base else []), fine=(0, ABSENT)).stdout
        if trailer.search(since.decode("utf-8", "replace")):
            return True
        try:
            words = ("merge-tree", "--write-tree", "--no-messages", head, commit)
            done = git.run(*words, fine=(0, 1, ABSENT), busy_seconds=LONGER_SECONDS)
        except GitTooLong:
            return False
        return done.returncode == 0 and done.stdout.decode().strip() == git.text("rev-parse", f"{head}^{{tree}}")


def merged_branches(repository: JobRepository, source: SourceRepository) -> dict[str, str]:
    """The job's branches that the user needs no longer, each with its commit."""
    there, found, head = repository.ref(DELIVERED), branches(repository, source), source.head()
    if not there or not found or not is_taken(repository, source, there):
        return {}
    return {
        name: commit
        for name, commit in found.items()
        if not _in_use(source, name) and (commit == there or source.is_ancestor(commit, head))
    }


# ---- what the user has not committed ------------------------------------------------------------------


def uncommitted(source: SourceRepository) -> list[str]:
    """The paths of the user's checkout that differ from the last commit, new ones included."""
    with source.beside() as git:
        index = git.folder / "index"
        _copy_index(source, index)
        ignored = excludes(source.root, source)
        (git.folder / "info" / "exclude").write_text(ignored, encoding="utf-8", errors="surrogateescape")
        return _differing(git, source.root, index, source.head())


def _copy_index(source: SourceRepository, index: Path) -> None:
    """Copy the user's index, also where it is split in two files; with its time, by which git finds changes."""
    for path in (source.git_dir / "index", *source.git_dir.glob("sharedindex.*")):
        if path.is_file():
            shutil.copy2(path, index if path.name == "index" else index.with_name(path.name))


def _differing(git: Git, root: Path, index: Path, head: str) -> list[str]:
    try:
        staged = git("diff-index", "-z", "--cached", "--name-only", head, index=index) if head else b""
        paths = users_changes(git, root, index)
    except GitError as error:
        raise WorkspaceError(f"uncommitted changes in {root} can't be read ({error}); commit or stash them") from error
    return sorted({*os.fsdecode(staged).split("\0"), *paths} - {""})


def found_tree(source: SourceRepository, private: PrivateFolders) -> Callable[[JobRepository], str]:
    """A function that writes the user's working tree as it is into a job's repository.

    Private folders are left out: Parley's keys, where the user's home directory is the repository.
    """

    def take(repository: JobRepository) -> str:
        index, head = repository.git.folder / "index-found", source.head()
        _copy_index(source, index)
        links = {path for path, entry in repository.entries(head).items() if entry.mode == GITLINK} if head else set()
        entries: dict[str, TreeEntry | None] = {}
        with open_folder(source.root) as root:
            for path in _differing(repository.git, source.root, index, head):
                if path not in links and not path.endswith("/") and not private.holds(source.root / path):
                    try:
                        entries[path] = keep(repository.objects, root, path, any_link=True, users_own=True)
                    except CannotKeep as why:
                        raise WorkspaceError(f'{path}: {why}; remove it, or leave dirty = "include" out') from why
        repository.put_entries(index, entries)
        tree = repository.git.text("write-tree", index=index)
        index.unlink()
        return tree

    return take
