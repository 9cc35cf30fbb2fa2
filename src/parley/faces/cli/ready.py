"""What a job needs of this machine before any agent starts. `run`, `resume`, `setup` and `doctor` ask the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from parley.adapters.bus_gate import Refused, admit
from parley.adapters.discovery import NoWorkTree
from parley.adapters.mounts import filesystem, network_filesystem
from parley.adapters.worktrees.source import find_source
from parley.faces.cli import BAD_USE, FAILED, Trouble
from parley.faces.cli.desk import Place, work_tree
from parley.ports import WorkspaceError
from parley.wording import count

DISK = "disk"
GIT_SECONDS = 20.0  # to answer a question
OLDEST_GIT = (2, 38)  # it can merge without a work tree
LEAST_BYTES = 16 << 20  # what a small job writes: the bus, its history, a few workspaces
LEAST_FILES = 1000
PROBE_BYTES = 1 << 20
ANOTHER_HOME = "name a home on another disk with PARLEY_HOME"


class Check(NamedTuple):
    """One thing looked at."""

    name: str
    ok: bool
    found: str
    remedy: str = ""

    @property
    def words(self) -> str:
        """What is wrong, and what to do."""
        return f"{self.name}: {self.found}{f'; {self.remedy}' if self.remedy else ''}"


def require(place: Place) -> None:
    """Refuse in one line, before anything starts, where a job could not be carried out."""
    for check in needs(place):
        if not check.ok:
            raise Trouble(check.words, FAILED if check.name == DISK else BAD_USE)


def needs(place: Place) -> Iterator[Check]:
    """All that a job needs but its agents and their boundary."""
    yield git()
    yield repository(place)
    yield home(place)
    yield kind(place)
    yield disk(place)


def git() -> Check:
    """A git that can do what is asked of it."""
    found = shutil.which("git")
    if found is None:
        return Check("git", ok=False, found="not found", remedy="install git")
    try:
        said = subprocess.run(
            [found, "--version"], capture_output=True, text=True, errors="replace", check=False, timeout=GIT_SECONDS
        )
    except OSError as error:
        return Check("git", ok=False, found=f"{found}: {error.strerror}", remedy="repair the git on the PATH")
    except subprocess.TimeoutExpired:
        return Check("git", ok=False, found=f"{found} does not answer", remedy="repair the git on the PATH")
    version = tuple(map(int, re.findall(r"\d+", said.stdout)[:2]))
    remedy = (
        f"install git {'.'.join(map(str, OLDEST_GIT))} or newer"
        if said.returncode == 0
        else "repair the git on the PATH"
    )
    return Check("git", said.returncode == 0 and version >= OLDEST_GIT, f"{said.stdout.strip()} ({found})", remedy)


def repository(place: Place) -> Check:
    """What a job starts from: a repository that can be used, or a folder that is none."""
    try:
        work_tree(place.root)
        source = find_source(place.root)
    except (NoWorkTree, WorkspaceError, OSError) as error:
        return Check("repository", ok=False, found=str(error), remedy="or name another folder with --repo")
    if source is None:
        return Check("repository", ok=True, found=f"{place.root} is none: a job starts with no files")
    return Check("repository", ok=True, found=str(place.root))


def home(place: Place) -> Check:
    """A home that can be written to."""
    try:
        admit(place.home)
    except Refused as refused:
        return Check("home", ok=False, found=str(refused), remedy="")
    except OSError as error:
        return Check("home", ok=False, found=f"{place.home}: {error.strerror}", remedy=ANOTHER_HOME)
    there = _existing(place.home)
    writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    words = "writable" if writable else "not writable" if there.is_dir() else f"{there} is no folder"
    made = "" if place.home.exists() else ", not made yet"
    remedy = "make it writable, or name another with PARLEY_HOME"
    return Check("home", writable, f"{place.home} ({words}{made})", remedy)


def kind(place: Place) -> Check:
    """A filesystem that locks can be trusted on."""
    there = _existing(place.home)
    remedy = "name a home on a local disk with PARLEY_HOME"
    return Check("filesystem", network_filesystem(there) is None, filesystem(there) or "not known", remedy)


def disk(place: Place, statvfs: Callable[[Path], os.statvfs_result] = os.statvfs) -> Check:
    """Room for a job on the home's disk: bytes and files, and that a file can really be written."""
    there = _existing(place.home)
    try:
        told = statvfs(there)
    except OSError as error:
        return Check(DISK, ok=False, found=f"{there}: {error.strerror}", remedy=ANOTHER_HOME)
    free = told.f_bavail * told.f_frsize
    remedy = f"free some space, or {ANOTHER_HOME}"
    if free < LEAST_BYTES:
        found = f"{there} has {_size(free)} left, and a job needs {_size(LEAST_BYTES)} at least"
        return Check(DISK, ok=False, found=found, remedy=remedy)
    if told.f_files and told.f_favail < LEAST_FILES:
        found = f"{there} has room for {count(told.f_favail, 'file')}, and a job needs {LEAST_FILES} at least"
        return Check(DISK, ok=False, found=found, remedy=f"delete some files, or {ANOTHER_HOME}")
    if place.home.is_dir() and not place.home.is_symlink():
        try:
            _write(place.home)
        except OSError as error:
            found = f"{place.home} can't be written to: {error.strerror}"
            return Check(DISK, ok=False, found=found, remedy=remedy)
    return Check(DISK, ok=True, found=f"{_size(free)} free")


def _write(folder: Path) -> None:
    """Write a file and remove it: a quota is not told in advance."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(bytes(PROBE_BYTES))
        probe.flush()


def _existing(path: Path) -> Path:
    """A path, or the nearest folder above it that is there."""
    return next((one for one in (path, *path.parents) if one.exists()), Path("/"))


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"
