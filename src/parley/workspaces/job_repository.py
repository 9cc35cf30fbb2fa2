"""A job's own repository: every turn's tree as a commit, branches that people can read, refs for what was lost.

It lies beside the workspaces, out of the agents' reach, and holds no configuration but its own.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
import shutil
import tempfile
import threading
import time
import unicodedata
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from parley.base.text import printable
from parley.ports.workspaces import REPORTS, WorkspaceError
from parley.workspaces.checkout.source_repository import SourceRepository, freeze
from parley.workspaces.checkout.users_git import PARLEY, Identities, UsersGit
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.safe_git import (
    BUSY_SECONDS,
    Git,
    GitError,
    GitLocked,
    GitTooLong,
    LooseObjects,
    check_version,
    create,
)

REPOSITORY = "snapshots.git"
MIRROR = "mirror.git"  # beside it: what of the job goes to other hosts and comes back; a cache
START, BEGIN = "refs/parley/start", "refs/parley/begin"
FORMER = "refs/parley/former"  # the result of another job that this one began with, where the user did not have it yet
SEED = "refs/parley/seed"  # what each workspace began with
DRAFTS = "refs/parley/drafts"  # by tree: what was asserted before it was written into any workspace
ARTIFACTS = ("INTENT.md", "PLAN.md", "WORK_SUMMARY.md")
ORCHESTRATION = "orchestration"
OWN = (*ARTIFACTS, ORCHESTRATION, REPORTS)  # what a job's tree has of its own at its root
GITLINK, FOLDER = "160000", "040000"
SLUG_LENGTH = 40
# Wide enough that git cuts no name: half of a secret in a name would not be redacted.
STAT = ("--stat=5000,4900", "--stat-graph-width=30")
TITLE_LENGTH = 100
AT_ONCE = 200  # paths that git is asked about by name
# Settings for a merge that looks into no file.
_BY_NAME = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "merge.default",
    "GIT_CONFIG_VALUE_0": "binary",
    "GIT_CONFIG_KEY_1": "merge.renames",
    "GIT_CONFIG_VALUE_1": "false",
}


@dataclass(frozen=True, slots=True)
class JobStart:
    """What a job started from."""

    job: str
    branch: str
    title: str = ""
    object_format: str = "sha1"
    repository: bool = False  # whether the user's folder had one
    base: str = ""  # the commit that was checked out; empty if there was none
    onto: str = ""  # the branch that was checked out; empty if there was none
    aside: tuple[str, ...] = ()  # the user's own files with names that the protocol needs
    gitlinks: tuple[str, ...] = ()


Entries = Mapping[str, TreeEntry | None]  # by path; None: gone


class JobRepository:
    """The repository of a job. One process writes to it: the job's owner."""

    def __init__(
        self, folder: Path, mark: Mapping[str, str] | None = None, given_up: Callable[[], bool] = lambda: False
    ) -> None:
        """`mark` is put into the environment of every git that works here, to tell whose it is.

        `given_up` tells whether the user has given the job up: then a long-running git is killed.
        """
        self.folder = folder
        self.git = Git(folder / REPOSITORY, mark=mark, given_up=given_up)

    @property
    def exists(self) -> bool:
        """Whether the job has begun."""
        return self.git.folder.is_dir()

    @cached_property
    def beginning(self) -> JobStart:
        """What the job started from."""
        data = json.loads((self.git.folder / "parley.json").read_text(encoding="utf-8", errors="surrogateescape"))
        lists = {key: tuple(data[key]) for key in ("aside", "gitlinks")}
        return JobStart(**{**data, **lists})

    @cached_property
    def objects(self) -> LooseObjects:
        """Where objects are written."""
        return LooseObjects(self.git.folder, self.beginning.object_format)

    def unlock(self) -> None:
        """Delete the locks of a git that was killed. Only for a job's new owner: no git of the job's runs then."""
        for pattern in ("*.lock", "refs/**/*.lock", "objects/info/*.lock"):
            for lock in self.git.folder.glob(pattern):
                lock.unlink(missing_ok=True)

    # ---- names ---------------------------------------------------------------------------------

    def branch(self, slug: str) -> str:
        """The branch of a workspace, as people read it."""
        return f"{self.beginning.branch}{f'.{slug}' if slug else ''}"

    def index(self, slug: str) -> Path:
        """The index of a workspace, with what is known of the state of its files."""
        return self.git.folder / f"index-{slug or 'job'}"

    # ---- refs and commits ----------------------------------------------------------------------

    def ref(self, name: str) -> str:
        """The commit that a ref names, or nothing."""
        path = self.git.folder / name  # refs are never packed here
        try:
            return path.read_text(encoding="ascii").strip()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return ""

    def set_ref(self, name: str, commit: str) -> None:
        """Set a ref, after all that it names is on the disk."""
        self.objects.sync()
        self.git("update-ref", "--no-deref", name, commit)

    def tip(self, slug: str) -> str:
        """A workspace's last commit."""
        return self.ref(f"refs/heads/{self.branch(slug)}")

    def set_tip(self, slug: str, commit: str) -> None:
        """Move a workspace's branch."""
        self.set_ref(f"refs/heads/{self.branch(slug)}", commit)

    def refs(self, prefix: str) -> dict[str, str]:
        """The refs below a name, each with its commit."""
        lines = self.git.text("for-each-ref", "--format=%(refname) %(objectname)", prefix).splitlines()
        return dict(line.split() for line in lines)

    def commit(
        self,
        tree: str,
        parents: Iterable[str],
        text: str,
        seconds: float | None = None,
        by: Identities = PARLEY,
    ) -> str:
        """Write a commit, of Parley's own unless `by` says whose."""
        return write_commit(self.objects, tree, parents, text, seconds, by)

    def tree(self, commit: str) -> str:
        """The tree of a commit."""
        return self.git.text("rev-parse", "--verify", f"{commit}^{{tree}}")

    def has(self, name: str) -> bool:
        """Whether there is such an object."""
        return self.git.run("cat-file", "-e", name, fine=(0, 1, 128)).returncode == 0

    def blob(self, name: str) -> bytes:
        """What a blob holds."""
        return self.git("cat-file", "blob", name)

    def entries(self, tree: str, paths: Sequence[str] = (), *, deep: bool = True) -> dict[str, TreeEntry]:
        """What a tree holds, or what of it lies at these paths."""
        if len(paths) > AT_ONCE:  # more than a command line takes, and git compares each with each
            return self._picked(tree, set(paths), deep=deep)
        words = ("--literal-pathspecs", "ls-tree", "-z", "--full-tree", *(("-r",) if deep else ()))
        return _listed(self.git(*words, tree, "--", *paths))

    def names(self, tree: str) -> set[str]:
        """Every path that a tree has, folders too."""
        return set(_listed(self.git("ls-tree", "-z", "--full-tree", "-r", "-t", tree)))

    def _picked(self, tree: str, paths: set[str], *, deep: bool) -> dict[str, TreeEntry]:
        """What of a tree lies at very many paths."""
        found = _listed(self.git("ls-tree", "-z", "--full-tree", "-r", "-t", tree))
        if not deep:
            return {path: entry for path, entry in found.items() if path in paths}
        return {path: entry for path, entry in found.items() if entry.mode != FOLDER and within(path, paths)}

    def indexed(self, index: Path) -> dict[str, TreeEntry]:
        """What an index has."""
        found = {}
        for line in os.fsdecode(self.git("ls-files", "-z", "--stage", index=index)).split("\0"):
            if line:
                head, _, path = line.partition("\t")
                mode, name, _ = head.split(" ")
                found[path] = TreeEntry(mode, name)
        return found

    def changed_tree(self, tree: str, changes: Entries) -> str:
        """A tree with some entries changed. Folders are taken out or put in whole."""
        if not changes:
            return tree
        # its own for each thread: a page reads several diffs at once
        index = self.git.folder / f"index-draft-{os.getpid()}-{threading.get_ident()}"
        entries: dict[str, TreeEntry | None] = dict.fromkeys(self.entries(tree, list(changes)))
        for path, entry in changes.items():
            if entry is not None and entry.mode == FOLDER:
                entries |= {f"{path}/{inner}": found for inner, found in self.entries(entry.name).items()}
            elif entry is not None:
                entries[path] = entry
        try:
            self.git("read-tree", tree, index=index)
            self.put_entries(index, entries)
            return self.git.text("write-tree", index=index)
        finally:
            index.unlink(missing_ok=True)

    def put_entries(self, index: Path, entries: Entries) -> list[str]:
        """Change an index; the paths that git refuses to have in one."""
        if not entries:
            return []
        zero = "0" * (64 if self.beginning.object_format == "sha256" else 40)
        gone = [f"0 {zero}\t{path}" for path, entry in entries.items() if entry is None]
        here = [f"{entry.mode} {entry.name}\t{path}" for path, entry in entries.items() if entry is not None]
        words = ("update-index", "--add", "--remove", "--replace", "-z", "--index-info")
        try:
            self.git(*words, index=index, stdin=os.fsencode("".join(f"{line}\0" for line in [*gone, *here])))
        except GitLocked:
            raise
        except GitError:
            if len(entries) == 1:
                return list(entries)
            paths = list(entries)
            halves = paths[: len(paths) // 2], paths[len(paths) // 2 :]
            return [path for half in halves for path in self.put_entries(index, {name: entries[name] for name in half})]
        return []

    def without_own(self, tree: str, instead: str, own: tuple[str, ...] = OWN) -> str:
        """A tree with the protocol's own files and folders as another tree has them."""
        here, there = (self.entries(found, own, deep=False) for found in (tree, instead))
        differing = {path: there.get(path) for path in own if here.get(path) != there.get(path)}
        return self.changed_tree(tree, differing)

    def log(self, tip: str) -> list[tuple[str, str]]:
        """A job's commits on a branch with their trees, newest first: its own, not those that it merged.

        The last is the one that the job began with: what lies behind it is the user's, and may be very long.
        """
        begun = self.ref(BEGIN)
        lines = self.git.text("log", "--first-parent", "--format=%H %T", tip, f"^{begun}").splitlines()
        return [*((line.split()[0], line.split()[1]) for line in lines), (begun, self.tree(begun))]

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Whether a commit is another one or its ancestor."""
        return self.git.run("merge-base", "--is-ancestor", commit, of, fine=(0, 1)).returncode == 0

    def common(self, one: str, other: str) -> str:
        """The last commit that two have in common, or nothing."""
        return self.git.run("merge-base", one, other, fine=(0, 1)).stdout.decode("ascii").strip()

    def merged(self, ours: str, theirs: str) -> tuple[str, list[str]]:
        """Merge two commits by git: the tree, and git's lines about the paths that conflict.

        Where git would take too long over the files, each file that both changed is a conflict as a whole.
        """
        words = ("merge-tree", "--write-tree", "-z", "--no-messages", ours, theirs)
        try:
            done = self.git.run(*words, fine=(0, 1), busy_seconds=BUSY_SECONDS)
        except GitTooLong:
            done = self.git.run(*words, fine=(0, 1), busy_seconds=BUSY_SECONDS, more=_BY_NAME)
        tree, *rest = os.fsdecode(done.stdout).split("\0")
        return tree, rest if done.returncode else []

    def siblings(self, base: str, ours: str, theirs: str) -> tuple[str, str]:
        """Make two commits with a common parent from three trees, so that git merges from that base."""
        start = self.commit(base, (), "what both have")
        return self.commit(ours, (start,), "ours"), self.commit(theirs, (start,), "theirs")


def _listed(said: bytes) -> dict[str, TreeEntry]:
    """What `ls-tree` lists: each path with its mode and its object."""
    found = {}
    for line in os.fsdecode(said).split("\0"):
        if line:
            head, _, path = line.partition("\t")
            mode, _, name = head.split()
            found[path] = TreeEntry(mode, name)
    return found


def within(path: str, folders: Collection[str]) -> bool:
    """Whether a path is one of these folders, or lies below one."""
    while path:
        if path in folders:
            return True
        path = posixpath.dirname(path)
    return False


def write_commit(
    objects: LooseObjects,
    tree: str,
    parents: Iterable[str],
    text: str,
    seconds: float | None = None,
    by: Identities = PARLEY,
) -> str:
    """Write a commit."""
    moment = f"{int(time.time() if seconds is None else seconds)} +0000"
    whose = (f"author {by.author} {moment}", f"committer {by.committer} {moment}")
    lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), *whose, ""]
    body = f"{text.strip()}\n".replace("\0", "")
    return objects.write("commit", os.fsencode("\n".join(lines)) + b"\n" + body.encode("utf-8", "replace"))


# ---- the beginning -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FormerResult:
    """Another job's result that a job begins with, because the user's checkout does not have it."""

    repository: JobRepository
    commit: str
    start: str  # the last commit before it that the user has: what the new job's changes are compared with

    def hand_on(self, git: Git) -> None:
        """Copy the commit to another repository that has the same base, with all that it needs."""
        base = self.repository.beginning.base
        known = f"^{base}\n" if base else ""
        with tempfile.TemporaryFile(dir=self.repository.folder) as pack:  # it may be large
            words = ("pack-objects", "--quiet", "--revs", "--stdout")
            wanted = f"{self.commit}\n{self.start}\n{known}"
            self.repository.git.run(*words, stdin=wanted.encode(), stdout=pack)
            pack.seek(0)
            git.run("index-pack", "--stdin", stdin=pack)


def begin(
    repository: JobRepository,
    source: SourceRepository | None,
    job: str,
    title: str,
    bases: Path,
    found: Callable[[JobRepository], str] | None = None,
    ignored: str = "",
    former: FormerResult | None = None,
) -> None:
    """Make a job's repository.

    `found` returns a tree of the user's to start from instead of the last commit; `former` is another job's result
    to start from. `ignored`: patterns of what is not committed, besides those of the tree.
    """
    draft = repository.folder / f"{REPOSITORY}.{os.getpid()}"
    repository.folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(draft, ignore_errors=True)
    check_version()
    object_format = source.object_format if source else "sha1"
    git = create(draft, object_format)
    base = former.repository.beginning.base if former else source.head() if source else ""
    if source and base:
        _borrow_objects(draft, freeze(source, base, bases))
    (draft / "info/exclude").write_text(ignored, encoding="utf-8", errors="surrogateescape")
    fresh = JobRepository(repository.folder)
    fresh.git = git
    objects = LooseObjects(draft, object_format)
    empty = objects.write("tree", b"")
    tree = fresh.tree(base) if base else empty
    fresh.__dict__["objects"] = objects
    fresh.__dict__["beginning"] = JobStart(job, branch_of(job, title), object_format=object_format)
    start = base or fresh.commit(empty, (), f"{job} begins with nothing")
    if former is not None:
        former.hand_on(git)
        start, tree = former.start, fresh.tree(former.commit)
    elif source and found is not None:
        tree = found(fresh)
        if tree != fresh.tree(start):
            by = UsersGit(source.root, source.common).identities() or PARLEY
            text = f"Uncommitted changes at the start of Parley job {job}"
            start = fresh.commit(tree, (base,) if base else (), text, by=by)
    aside = tuple(sorted(fresh.entries(tree, OWN, deep=False)))
    first = fresh.changed_tree(tree, dict.fromkeys(aside))
    last = former.commit if former else start
    begun = last if first == tree else fresh.commit(first, (last,), f"{job} begins, {', '.join(aside)} set aside")
    links = tuple(path for path, entry in fresh.entries(tree).items() if entry.mode == GITLINK)
    made = JobStart(
        job=job,
        branch=branch_of(job, title),
        title=printable(" ".join(title.split()))[:TITLE_LENGTH],
        object_format=object_format,
        repository=source is not None,
        base=base,
        onto=source.branch() if source else "",
        aside=aside,
        gitlinks=links,
    )
    (draft / "parley.json").write_text(json.dumps(asdict(made)), encoding="utf-8", errors="surrogateescape")
    fresh.set_ref(START, start)
    fresh.set_ref(BEGIN, begun)
    if former is not None:
        fresh.set_ref(FORMER, former.commit)
    draft.rename(repository.git.folder)
    repository.__dict__.pop("beginning", None)


def _borrow_objects(draft: Path, frozen: Path) -> None:
    """Let a repository that is being made read the objects of a frozen one."""
    (draft / "objects/info").mkdir(exist_ok=True)
    there = os.path.relpath(frozen / "objects", draft / "objects")  # relative, so that the home may be moved
    (draft / "objects/info/alternates").write_text(f"{there}\n", encoding="ascii")
    if (frozen / "shallow").is_file():
        (draft / "shallow").write_bytes((frozen / "shallow").read_bytes())


def branch_of(job: str, title: str) -> str:
    """A job's branch: what was asked for, and the job."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode().lower()
    words = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    short = words[:SLUG_LENGTH].rpartition("-")[0] if len(words) > SLUG_LENGTH else words
    name = f"{short or words[:SLUG_LENGTH]}-{job}".strip("-")
    return f"parley/{re.sub(r'[^A-Za-z0-9_-]+', '-', name)}"


def unknown_tree(tree: str, job: str) -> WorkspaceError:
    """The error for a tree that the repository does not hold."""
    return WorkspaceError(f"{job}: its tree {tree[:12]} is not in {REPOSITORY}; restore that folder from a backup")
