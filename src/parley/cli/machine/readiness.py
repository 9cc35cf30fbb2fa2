"""Checks what a job needs of this machine before any agent starts, for `run`, `resume`, `setup` and `doctor`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from parley.base.wording import count
from parley.bus.sqlite.mounts import filesystem, network_filesystem
from parley.bus.sqlite.safe_open import KeyRefused, admit
from parley.cli import BAD_USE, FAILED, CommandError
from parley.cli.common import Workplace, work_tree
from parley.machine.discovery import NoWorkTree
from parley.ports.workspaces import WorkspaceError
from parley.workspaces.checkout.source_repository import find_source

DISK = "disk"
GIT_SECONDS = 20.0  # to answer a question
OLDEST_GIT = (2, 38)  # the first that can merge without a work tree
LEAST_BYTES = 16 << 20  # what a small job writes: the bus, its history, a few workspaces
LEAST_FILES = 1000
PROBE_BYTES = 1 << 20
ANOTHER_HOME = "name a home on another disk with PARLEY_HOME"


class ReadinessCheck(NamedTuple):
    """The result of one check."""

    name: str
    ok: bool
    found: str
    remedy: str = ""

    @property
    def words(self) -> str:
        """What is wrong, and what to do."""
        return f"{self.name}: {self.found}{f'; {self.remedy}' if self.remedy else ''}"


def require(place: Workplace) -> None:
    """Refuse in one line, before anything starts, where a job could not be carried out."""
    for check in needs(place):
        if not check.ok:
            raise CommandError(check.words, FAILED if check.name == DISK else BAD_USE)


def needs(place: Workplace) -> Iterator[ReadinessCheck]:
    """Everything that a job needs except its agents and their boundary."""
    yield git()
    yield repository(place)
    yield home(place)
    yield kind(place)
    yield disk(place)


def git() -> ReadinessCheck:
    """A git that is new enough and works."""
    found = shutil.which("git")
    if found is None:
        return ReadinessCheck("git", ok=False, found="not found", remedy="install git")
    try:
        said = subprocess.run(
            [found, "--version"], capture_output=True, text=True, errors="replace", check=False, timeout=GIT_SECONDS
        )
    except OSError as error:
        return ReadinessCheck("git", ok=False, found=f"{found}: {error.strerror}", remedy="repair the git on the PATH")
    except subprocess.TimeoutExpired:
        return ReadinessCheck("git", ok=False, found=f"{found} does not answer", remedy="repair the git on the PATH")
    version = tuple(map(int, re.findall(r"\d+", said.stdout)[:2]))
    remedy = (
        f"install git {'.'.join(map(str, OLDEST_GIT))} or newer"
        if said.returncode == 0
        else "repair the git on the PATH"
    )
    return ReadinessCheck(
        "git", said.returncode == 0 and version >= OLDEST_GIT, f"{said.stdout.strip()} ({found})", remedy
    )


def repository(place: Workplace) -> ReadinessCheck:
    """A usable repository, or a folder without one."""
    try:
        work_tree(place.root)
        source = find_source(place.root)
    except (NoWorkTree, WorkspaceError, OSError) as error:
        return ReadinessCheck("repository", ok=False, found=str(error), remedy="or name another folder with --repo")
    if source is None:
        return ReadinessCheck("repository", ok=True, found=f"{place.root} is none: a job starts with no files")
    return ReadinessCheck("repository", ok=True, found=str(place.root))


def home(place: Workplace) -> ReadinessCheck:
    """A home that can be written to."""
    try:
        admit(place.home)
    except KeyRefused as refused:
        return ReadinessCheck("home", ok=False, found=str(refused), remedy="")
    except OSError as error:
        return ReadinessCheck("home", ok=False, found=f"{place.home}: {error.strerror}", remedy=ANOTHER_HOME)
    there = _existing(place.home)
    writable = there.is_dir() and os.access(there, os.W_OK | os.X_OK)
    words = "writable" if writable else "not writable" if there.is_dir() else f"{there} is no folder"
    made = "" if place.home.exists() else ", not made yet"
    remedy = "make it writable, or name another with PARLEY_HOME"
    return ReadinessCheck("home", writable, f"{place.home} ({words}{made})", remedy)


def kind(place: Workplace) -> ReadinessCheck:
    """A filesystem with reliable locks."""
    there = _existing(place.home)
    remedy = "name a home on a local disk with PARLEY_HOME"
    return ReadinessCheck("filesystem", network_filesystem(there) is None, filesystem(there) or "not known", remedy)


def disk(place: Workplace, statvfs: Callable[[Path], os.statvfs_result] = os.statvfs) -> ReadinessCheck:
    """Enough space for a job on the home's disk: bytes and files, and a file can really be written."""
    there = _existing(place.home)
    try:
        told = statvfs(there)
    except OSError as error:
        return ReadinessCheck(DISK, ok=False, found=f"{there}: {error.strerror}", remedy=ANOTHER_HOME)
    free = told.f_bavail * told.f_frsize
    remedy = f"free some space, or {ANOTHER_HOME}"
    if free < LEAST_BYTES:
        found = f"{there} has {_size(free)} left, and a job needs {_size(LEAST_BYTES)} at least"
        return ReadinessCheck(DISK, ok=False, found=found, remedy=remedy)
    if told.f_files and told.f_favail < LEAST_FILES:
        found = f"{there} has room for {count(told.f_favail, 'file')}, and a job needs {LEAST_FILES} at least"
        return ReadinessCheck(DISK, ok=False, found=found, remedy=f"delete some files, or {ANOTHER_HOME}")
    if place.home.is_dir() and not place.home.is_symlink():
        try:
            _write(place.home)
        except OSError as error:
            found = f"{place.home} can't be written to: {error.strerror}"
            return ReadinessCheck(DISK, ok=False, found=found, remedy=remedy)
    return ReadinessCheck(DISK, ok=True, found=f"{_size(free)} free")


def _write(folder: Path) -> None:
    """Write a file and delete it: a quota shows only then."""
    with tempfile.TemporaryFile(dir=folder) as probe:
        probe.write(bytes(PROBE_BYTES))
        probe.flush()


def _existing(path: Path) -> Path:
    """A path, or the nearest existing folder above it."""
    return next((one for one in (path, *path.parents) if one.exists()), Path("/"))


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count} bytes"
