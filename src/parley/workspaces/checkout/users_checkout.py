"""The user's checkout, read by a git with settings of its own.

Of the user's settings it has only those that say how files are written. It has no hooks, drivers or monitors.

Filters are the exception: files of some repositories need them. Those whose program lies outside the checkout run.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from parley.base.unportable import NameTrouble, unportable
from parley.workspaces.checkout.source_repository import SourceRepository
from parley.workspaces.checkout.users_git_settings import UsersGitSettings
from parley.workspaces.delivery.file_placement import give
from parley.workspaces.files.tree_entry import TreeEntry
from parley.workspaces.safe_git import LONG_SECONDS, Git, GitError, create, quoted

ATTRIBUTES = ".gitattributes"
MERGE_SECONDS = 60  # of processor time: only the user waits, and no job does
PLAIN_MERGES = ("unspecified", "set", "text", "union")  # values that a merge by lines handles, or refuses
_OURS = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_ATTR_NOSYSTEM", "GIT_CONFIG_PARAMETERS")
_MEANT = ("GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_NO_LAZY_FETCH", "GIT_ALLOW_PROTOCOL", "GIT_OBJECT_DIRECTORY")


@dataclass(frozen=True, slots=True)
class Difference:
    """One path that differs between two trees."""

    old: TreeEntry
    new: TreeEntry


@dataclass(slots=True)
class Index:
    """The user's index: its entries, and the flags that some of them have."""

    entries: dict[str, TreeEntry] = field(default_factory=dict)
    unmerged: list[str] = field(default_factory=list)
    assumed: set[str] = field(default_factory=set)  # marked by the user as unchanging
    skipped: set[str] = field(default_factory=set)  # marked by the user as skipped


class UsersCheckout:
    """The user's work tree. `folder` is a new one of ours, for a repository that sees the user's objects."""

    def __init__(self, source: SourceRepository, settings: UsersGitSettings, folder: Path) -> None:
        self._source = source
        self._settings = settings
        self._folder = folder
        self._filters = settings.filters()
        found = source.common.stat()
        self.owner = (found.st_uid, found.st_gid) if os.geteuid() == 0 and found.st_uid != 0 else None
        self._bare = self._made()
        flags = {
            **settings.checkout(),
            "core.attributesFile": str(folder / "attributes"),
            "core.untrackedCache": "keep",
            **self._commands(),
        }
        self._git = Git(self._bare.folder, self.owner, flags)
        # a filter may need the user's environment: a proxy, an ssh agent
        users = settings.git.environment() if self._filters else {}
        self._outside = {name: value for name, value in users.items() if not name.startswith("GIT_")}

    def _made(self) -> Git:
        """The repository: it takes content byte for byte until `_obey_attributes`."""
        git = create(self._folder / "git", self._source.object_format)
        (git.folder / "objects/info").mkdir(exist_ok=True)
        alternates = f"{quoted(self._source.common / 'objects')}\n"
        (git.folder / "objects/info/alternates").write_text(alternates, encoding="utf-8")
        if cut := self._source.shallow():
            (git.folder / "shallow").write_text("".join(f"{name}\n" for name in cut), encoding="ascii")
        self._copy(self._source.git_dir / "info/sparse-checkout", git.folder / "info/sparse-checkout")
        for shared in self._source.git_dir.glob("sharedindex.*"):
            self._copy(shared, git.folder / shared.name)
        self.own(self._folder)
        return Git(git.folder, self.owner)

    def _copy(self, path: Path, to: Path) -> None:
        if path.is_file():
            shutil.copy2(path, to)  # with its time, by which git finds changes

    def own(self, folder: Path) -> None:
        """Give a folder of ours to the checkout's owner."""
        give(folder, self.owner)

    def _commands(self) -> dict[str, str]:
        """The filters that may run, each in the user's own environment and repository."""
        found = {}
        for name, one in self._filters.items():
            for kind, command in one.commands.items():
                # in the root folder: there no word of the command names a file of the checkout
                found[f"filter.{name}.{kind}"] = f"cd / && {self._environment()} {command}"
            if one.commands:
                found[f"filter.{name}.required"] = "true" if one.required else "false"
        return found

    def _environment(self) -> str:
        said = {"core.hooksPath": os.devnull, "core.fsmonitor": "false", **self._settings.barred()}
        own = {
            "GIT_DIR": str(self._source.git_dir),
            "GIT_WORK_TREE": str(self._source.root),
            "GIT_CONFIG_COUNT": str(len(said)),
        }
        for number, (name, value) in enumerate(said.items()):
            own |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        unset = [word for name in (*_OURS, *_MEANT) for word in ("-u", name)]
        return shlex.join(["env", *unset, *(f"{name}={value}" for name, value in own.items())])

    def _obey_attributes(self) -> None:
        texts = {
            self._folder / "attributes": self._settings.attributes(),
            self._bare.folder / "info/attributes": self._settings.own_attributes(),
        }
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8", errors="surrogateescape")

    def _run(
        self, *words: str, stdin: bytes = b"", index: str = "", work: Path | None = None, fine: Iterable[int] = (0,)
    ) -> str:
        place = self._folder / index if index else None
        found = self._git(
            *words, stdin=stdin, index=place, work=work, more=self._outside, fine=fine, seconds=LONG_SECONDS
        )
        return os.fsdecode(found)

    # ---- trees ---------------------------------------------------------------------------------

    def is_ancestor(self, commit: str, of: str) -> bool:
        """Whether a commit is another one or its ancestor."""
        return self._bare.run("merge-base", "--is-ancestor", commit, of, fine=(0, 1)).returncode == 0

    def common(self, one: str, other: str) -> str:
        """The last commit that two have in common; empty where there is none."""
        return self._bare.run("merge-base", one, other, fine=(0, 1)).stdout.decode("ascii").strip()

    def merged(self, ours: str, theirs: str) -> tuple[str, list[str]]:
        """Merge two commits line by line: the tree, and the paths that conflict in it."""
        words = ("merge-tree", "--write-tree", "-z", "--name-only", "--no-messages", ours, theirs)
        done = self._bare.run(*words, fine=(0, 1), busy_seconds=MERGE_SECONDS)
        tree, *clashes = os.fsdecode(done.stdout).split("\0")
        return tree, [name for name in clashes if name] if done.returncode else []

    def differences(self, before: str, after: str) -> dict[str, Difference]:
        """The paths in which two trees differ; an empty `before` is the empty tree."""
        before = before or self._bare.text("hash-object", "-t", "tree", "-w", "--stdin")
        words = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", before, after)
        parts = os.fsdecode(self._bare(*words)).split("\0")
        found = {}
        for head, path in zip(parts[::2], parts[1::2], strict=False):
            old, new, old_name, new_name, _ = head.lstrip(":").split()
            found[path] = Difference(
                old=TreeEntry(old, old_name) if int(old) else TreeEntry(),
                new=TreeEntry(new, new_name) if int(new) else TreeEntry(),
            )
        return found

    def unportable(self, tree: str, changes: Mapping[str, Difference]) -> dict[str, NameTrouble]:
        """The new paths of a tree that trouble other systems, each with the reason."""
        new = [path for path, change in changes.items() if change.new.mode and not change.old.mode]
        return unportable(new, self._bare.paths(tree)) if new else {}

    def driven(self, base: str, ours: str, theirs: str) -> dict[str, str]:
        """The paths that both sides changed and that must not be merged by lines, with their merge attribute."""
        both = self.differences(base, ours).keys() & self.differences(base, theirs).keys()
        return {path: said for path, said in self._attribute("merge", ours, both).items() if said not in PLAIN_MERGES}

    def _attribute(self, name: str, tree: str, paths: Iterable[str]) -> dict[str, str]:
        """An attribute's value for paths, by a tree and the user's settings."""
        asked = sorted(paths)
        if not asked:
            return {}
        self._obey_attributes()
        empty = self._folder / "empty"
        empty.mkdir(exist_ok=True)
        self.own(empty)
        self._run("read-tree", tree, index="attributes.index")
        said = self._run(
            "check-attr", "--cached", "-z", "--stdin", name, stdin=_listed(asked), index="attributes.index", work=empty
        ).split("\0")
        return dict(zip(said[::3], said[2::3], strict=False))

    def pack(self, tree: str, *known: str) -> Path:
        """The objects of a tree that commits do not have, in a file."""
        made = self._folder / "pack"
        wanted = "".join(f"{name}\n" for name in (tree, *(f"^{commit}" for commit in known if commit)))
        with made.open("wb") as file:
            self._bare.run("pack-objects", "--quiet", "--revs", "--stdout", stdin=wanted.encode(), stdout=file)
        return made

    # ---- the index and the files ---------------------------------------------------------------

    def take_index(self) -> Index:
        """Copy the user's index, and read it."""
        self._obey_attributes()
        found = Index()
        path = self._source.git_dir / "index"
        if not path.is_file():
            return found
        for name in ("before", "after", "looked"):
            self._copy(path, self._folder / name)
        self.own(self._folder)
        for line in self._run("ls-files", "-z", "--stage", "-v", index="looked").split("\0"):
            if not line:
                continue
            head, _, path_ = line.partition("\t")
            tag, mode, name, stage = head.split()
            if stage != "0":
                found.unmerged.append(path_)
            found.entries[path_] = TreeEntry(mode, name)
            if tag.islower():
                found.assumed.add(path_)
            if tag.upper() == "S":
                found.skipped.add(path_)
        return found

    def modified(self, index: Index) -> set[str]:
        """The tracked paths whose files differ from the index, also those with flags such as assume-unchanged."""
        if not index.entries:
            return set()
        for option, paths in (("--no-assume-unchanged", index.assumed), ("--no-skip-worktree", index.skipped)):
            if paths:
                self._run(
                    "update-index",
                    option,
                    "-z",
                    "--stdin",
                    stdin=_listed(paths),
                    index="looked",
                    work=self._source.root,
                )
        listed = self._run("ls-files", "-z", "--modified", index="looked", work=self._source.root)
        return {path for path in listed.split("\0") if path}

    def make(self, tree: str, changes: Mapping[str, Difference], place: Path) -> set[str]:
        """Write the new files below a folder as the checkout would have them; returns those that a sparse one omits."""
        wanted = {path: change.new for path, change in changes.items() if change.new.mode}
        if not wanted:
            return set()
        rules = {
            path: entry
            for path, entry in self._tree(tree).items()
            if path.rpartition("/")[2] == ATTRIBUTES and path not in wanted
        }
        self._put({**rules, **wanted}, "delta")
        delta = self._run("write-tree", index="delta").strip()
        self._run("read-tree", "-m", "-u", delta, index="staged", work=place)
        listed = self._run("ls-files", "-z", "-t", index="staged", work=place).split("\0")
        return {line[2:] for line in listed if line.startswith("S ")} & wanted.keys()

    def unfiltered(self, tree: str, changes: Mapping[str, Difference]) -> dict[str, list[str]]:
        """The filters of these files that may not run, each with the files."""
        refused = {name for name, one in self._filters.items() if one.refused}
        found: dict[str, list[str]] = {}
        if refused:
            wanted = [path for path, change in changes.items() if change.new.mode]
            for path, name in self._attribute("filter", tree, wanted).items():
                if name in refused:
                    found.setdefault(name, []).append(path)
        return found

    def needs(self, name: str) -> bool:
        """Whether the user has marked a filter as required."""
        return self._filters[name].required

    def _tree(self, tree: str) -> dict[str, TreeEntry]:
        found = {}
        for line in self._run("ls-tree", "-r", "-z", "--full-tree", tree).split("\0"):
            if line:
                head, _, path = line.partition("\t")
                mode, _, name = head.split()
                found[path] = TreeEntry(mode, name)
        return found

    def _put(self, entries: Mapping[str, TreeEntry], index: str) -> None:
        zero = "0" * (64 if self._source.object_format == "sha256" else 40)
        gone = [f"0 {zero}\t{path}" for path, entry in entries.items() if not entry.mode]
        here = [f"{entry.mode} {entry.name}\t{path}" for path, entry in entries.items() if entry.mode]
        lines = os.fsencode("".join(f"{line}\0" for line in (*gone, *here)))
        self._run("update-index", "--add", "--remove", "--replace", "-z", "--index-info", stdin=lines, index=index)

    def next_index(self, changes: Mapping[str, Difference], index: Index, left_out: Iterable[str]) -> Path:
        """The index as it will be: the user's, with what changes, and the flags as they were."""
        self._put({path: change.new for path, change in changes.items()}, "after")
        there = {path for path, change in changes.items() if change.new.mode}
        for option, paths in (
            ("--assume-unchanged", index.assumed & there),
            ("--skip-worktree", (index.skipped | set(left_out)) & there),
        ):
            if paths:
                self._run(
                    "update-index", option, "-z", "--stdin", stdin=_listed(paths), index="after", work=self._source.root
                )
        return self._folder / "after"

    def refresh(self) -> None:
        """Record in the next index the file times of what was put into the checkout."""
        try:
            self._run("update-index", "-q", "--refresh", index="after", work=self._source.root, fine=(0, 1))
        except GitError:
            return  # then the user's git reads the files itself


def _listed(paths: Iterable[str]) -> bytes:
    return os.fsencode("".join(f"{path}\0" for path in sorted(paths)))
