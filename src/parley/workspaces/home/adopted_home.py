"""Checks a home before `parley bus adopt`: refuses links, and job repositories that Parley did not make.

Parley runs git on the repositories of jobs. It made each of them itself, so what one may hold is known: anything else
was put there by another program, and is refused rather than deleted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from parley.bus.rows import JOB_ID
from parley.ports.workspaces import WorkspaceError
from parley.workspaces.job_repository import MIRROR, REPOSITORY
from parley.workspaces.safe_git import RAW_ATTRIBUTES

_NAMES = re.compile(
    r"HEAD|config|description|objects|refs|info|parley\.json|shallow|packed-refs|(?:index|known)-[A-Za-z0-9._-]+|.*\.lock"
)
_INFO = {"attributes", "exclude", "refs"}
_BASE = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_ALTERNATE = re.compile(r"(?:\.\./){4}bases/(?:[0-9a-f]{40}|[0-9a-f]{64})/objects\n")
# What `git init` writes, whichever git it is.
_SETTING = re.compile(
    r"\[(?:core|extensions)\]"
    r"|(?:repositoryformatversion ?= ?[01]|(?:filemode|symlinks|ignorecase|precomposeunicode) ?= ?(?:true|false)"
    r"|bare ?= ?true|objectformat ?= ?sha(?:1|256)|refstorage ?= ?files)",
    re.IGNORECASE,
)
_LARGEST = 1 << 16
# The folders of a job in which no agent writes: files there are read by their paths.
_OWN = ("asked", "records", "outcomes", "streams", "marks", "dress")


def check(home: Path) -> None:
    """Refuse a home that holds something which Parley did not make and which git or Parley would obey."""
    _check_plain(home / "locks")
    for folder in _folders(home / "bases"):
        if _BASE.fullmatch(folder.name):
            _check_repository(folder)
        elif not folder.name.startswith(".draft-"):
            raise _strange(folder, "this is no name of a job's base")
    for folder in _folders(home / "jobs"):
        if not JOB_ID.fullmatch(folder.name):
            raise _strange(folder, "this is no name of a job")
        for path in folder.iterdir():
            _refuse_odd(path)
        for name in _OWN:
            _check_plain(folder / name)
        if (folder / MIRROR).exists():
            raise WorkspaceError(
                f"{folder / MIRROR}: only a cache of what went to other hosts; delete it, then try again"
            )
        if (folder / REPOSITORY).is_dir():
            _check_repository(folder / REPOSITORY)


def _check_plain(folder: Path) -> None:
    """Refuse a link, a pipe or the like below a folder: files there are opened by path, and a pipe would block."""
    for here, folders, files in os.walk(folder):
        for name in (*folders, *files):
            _refuse_odd(Path(here) / name)


def _refuse_odd(path: Path) -> None:
    if path.is_symlink() or not (path.is_dir() or path.is_file()):
        raise _strange(path, "it is a link" if path.is_symlink() else "it is neither a file nor a folder")


def _folders(place: Path) -> Iterator[Path]:
    if not place.is_dir():
        return
    for path in sorted(place.iterdir()):
        if path.is_symlink() or not path.is_dir():
            raise _strange(path, "it is no folder")
        yield path


def _check_repository(folder: Path) -> None:
    for path in folder.iterdir():
        if not _NAMES.fullmatch(path.name):
            raise _strange(path, "a job's repository holds nothing of this name")
    _check_plain(folder)
    for name in os.listdir(folder / "info") if (folder / "info").is_dir() else ():  # noqa: PTH208 - their names alone
        if name not in _INFO:
            raise _strange(folder / "info" / name, "a job's repository holds nothing of this name")
    for line in _text(folder / "config").splitlines():
        if line.strip() and not _SETTING.fullmatch(line.strip()):
            raise _strange(folder / "config", f"it holds a setting that Parley did not make: {line.strip()!a:.60}")
    if _text(folder / "info" / "attributes", RAW_ATTRIBUTES) != RAW_ATTRIBUTES:
        raise _strange(folder / "info" / "attributes", "it is not as Parley made it")
    alternates = _text(folder / "objects" / "info" / "alternates")
    if alternates and not _ALTERNATE.fullmatch(alternates):
        raise _strange(folder / "objects" / "info" / "alternates", "it leads out of this home")


def _text(path: Path, default: str = "") -> str:
    if not path.is_file():
        return default
    with path.open("rb") as file:
        return file.read(_LARGEST).decode("utf-8", "replace")


def _strange(path: Path, why: str) -> WorkspaceError:
    return WorkspaceError(f"{path}: {why}: another hand has been here; delete it if it is not yours, then try again")
