"""Finds the repository of a folder as git does, without running anything that the repository sets.

Git goes up from a folder to the first `.git` that is a repository, or a file that names one. Other `.git` folders are
skipped; a `.git` file that names no repository is an error, and so is the inside of a repository, which has no work
tree. Git does not leave the filesystem, nor pass a folder of `GIT_CEILING_DIRECTORIES`, and neither does this.
A repository whose settings name another work tree than the folder it was found from is refused: git would change
other files than the user sees. No other file counts: what a clone, a merge or a job puts beside `.git` has no effect.
"""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from parley.machine import programs

MARKER = ".git"
GITFILE_BYTES = 1 << 20  # git's own bound
HEAD_BYTES = 256  # of HEAD that git reads
CONFIG_BYTES = 1 << 24
GIT_SECONDS = 20.0
_COMMIT = re.compile(rb"(?:[0-9a-fA-F]{40}|[0-9a-fA-F]{64})(?![0-9a-fA-F])")
_BRANCH = re.compile(rb"ref:[ \t\n\v\f\r]*refs/")


class NoWorkTree(ValueError):
    """Git would find a folder without a work tree: the text says where and why, in one line."""

    def __init__(self, folder: Path, text: str) -> None:
        super().__init__(text)
        self.folder = folder


def find_work_tree(
    folder: Path, is_home: Callable[[Path], bool] = lambda _: False, environment: Mapping[str, str] | None = None
) -> Path | None:
    """The top level of the repository that holds a folder; None if none does. `folder` is a real path.

    `is_home` recognizes Parley's own homes, which only look like repositories: everything below one belongs to the
    repository around it.
    """
    homes = [here for here in (folder, *folder.parents) if is_home(here)]
    start = homes[-1].parent if homes else folder
    environment = os.environ if environment is None else environment
    ceilings = _ceilings(environment)
    device = _device(start)
    crosses = environment.get("GIT_DISCOVERY_ACROSS_FILESYSTEM", "").lower() in ("1", "true", "yes", "on")
    for here in (start, *start.parents):
        if here != start and (here in ceilings or (_device(here) != device and not crosses)):
            return None
        if _is_marked(here):
            _refuse_elsewhere(here)
            return here
        if is_repository(here):
            raise NoWorkTree(here, f"{here} is a repository without a work tree; go to one, or name one with --repo")
    return None


def _is_marked(here: Path) -> bool:
    """Whether the `.git` of a folder makes it a top level."""
    marker = here / MARKER
    try:
        mode = marker.stat().st_mode
    except OSError:
        return False
    if stat.S_ISREG(mode):
        if named_repository(marker) is None:
            raise NoWorkTree(here, f"{marker} names no repository; see what `git status` says there")
        return True
    return stat.S_ISDIR(mode) and is_repository(marker)


def _refuse_elsewhere(here: Path) -> None:
    """Refuse a repository whose `core.worktree` is another folder than the one that its `.git` lies in.

    A submodule's names its own folder. As git does: a linked work tree has one only in a `config.worktree`.
    """
    marker = here / MARKER
    folder = (named_repository(marker) if marker.is_file() else None) or marker
    common = common_of(folder)
    said = _setting(here, common / "config", "core.worktree")
    if _setting(here, common / "config", "extensions.worktreeConfig") is not None:
        said = _setting(here, folder / "config.worktree", "core.worktree") or said
    elif common != folder:
        said = None
    if said is None:
        return
    real = Path(os.path.realpath(folder))
    if os.path.realpath(real / os.fsdecode(said)) != str(here):
        raise NoWorkTree(
            here,
            f"{marker} says that its work tree is elsewhere (core.worktree); go to another repository, "
            "or run `git config --unset core.worktree` there",
        )


def _setting(tree: Path, path: Path, name: str) -> bytes | None:
    """A setting of one file of git's, without what it includes; None where it has none.

    Git is run to read it, but only where the name occurs in the file, which is rare. It is never a git of the work
    tree, which may be an agent's.
    """
    said = small_file(path, CONFIG_BYTES)
    if said is None or name.rpartition(".")[2].lower().encode() not in said.lower():
        return None
    words = ("git", "config", "--file", str(path), "--no-includes", "-z", "--get", name)
    environment = {programs.VARIABLE: programs.search_path(tree), "GIT_CONFIG_NOSYSTEM": "1"}
    try:
        done = subprocess.run(words, cwd="/", env=environment, capture_output=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return None  # a missing git is reported where it is needed
    return done.stdout.partition(b"\0")[0] if done.returncode == 0 else None


def named_repository(marker: Path) -> Path | None:
    """The repository that a `.git` file names; None where it names none."""
    said = small_file(marker, GITFILE_BYTES)
    if said is None or not said.startswith(b"gitdir: "):
        return None
    name = said.removeprefix(b"gitdir: ").rstrip(b"\r\n")
    if not name or b"\0" in name:
        return None
    named = marker.parent / os.fsdecode(name)
    return Path(os.path.realpath(named)) if is_repository(named) else None


def is_repository(folder: Path) -> bool:
    """Whether a folder is a git repository: a valid HEAD, objects and refs."""
    common = common_of(folder)
    return _is_head(folder / "HEAD") and all(os.access(common / name, os.X_OK) for name in ("objects", "refs"))


def common_of(folder: Path) -> Path:
    """The folder that all work trees of a repository share: itself, or what its `commondir` names."""
    said = small_file(folder / "commondir", GITFILE_BYTES)
    if said is None:
        return folder
    return Path(os.path.normpath(folder / os.fsdecode(said.rstrip(b"\r\n")).partition("\0")[0]))


def git_folder(tree: Path) -> Path:
    """The git folder of a work tree, shared by all work trees of its repository."""
    marker = tree / MARKER
    return common_of((named_repository(marker) if marker.is_file() else None) or marker)


def _is_head(path: Path) -> bool:
    try:
        if stat.S_ISLNK(path.lstat().st_mode):
            return os.fsencode(path.readlink()).startswith(b"refs/")
    except OSError:
        return False
    said = small_file(path, HEAD_BYTES, whole=False)
    return said is not None and (_BRANCH.match(said) is not None or _COMMIT.match(said) is not None)


def small_file(path: Path, limit: int, *, whole: bool = True) -> bytes | None:
    """The content of an ordinary file; None for anything else. A pipe does not block."""
    with suppress(OSError, ValueError):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            if stat.S_ISREG(found.st_mode) and (not whole or found.st_size <= limit):
                return file.read(limit)
    return None


def _ceilings(environment: Mapping[str, str]) -> set[Path]:
    """The folders that git does not look into on its way up; after an empty entry links are not followed."""
    found, follow = set[Path](), True
    for word in environment.get("GIT_CEILING_DIRECTORIES", "").split(os.pathsep):
        if not word:
            follow = False
        elif Path(word).is_absolute():
            found.add(Path(os.path.realpath(word) if follow else os.path.normpath(word)))
    return found


def _device(folder: Path) -> int:
    try:
        return folder.stat().st_dev
    except OSError:
        return -1
