"""The patterns that a job's workspaces ignore besides those of their own `.gitignore` files.

It is read once, when the job begins, and kept in the job's repository as `info/exclude`. There the last pattern that
fits decides: the user's come after the caches, the repository's own last, and any `.gitignore` goes before all of them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from parley.workspaces.checkout.source_repository import SourceRepository
from parley.workspaces.checkout.users_git import UsersGit

# Names that only tools' caches have. A tracked file is committed all the same.
CACHES = (
    "__pycache__/",
    "*.pyc",
    "*.pyo",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".hypothesis/",
    ".ipynb_checkpoints/",
    ".tox/",
    ".nox/",
    ".venv/",
    ".eggs/",
    "*.egg-info/",
    ".coverage",
    ".coverage.*",
    "node_modules/",
    ".nyc_output/",
    ".parcel-cache/",
    ".turbo/",
    ".eslintcache",
    ".gradle/",
    ".terraform/",
    ".DS_Store",
    "Thumbs.db",
)
LARGEST = 1 << 20  # bytes of a file of patterns


def excludes(root: Path | None, source: SourceRepository | None) -> str:
    """All patterns for a job that begins in a folder."""
    own = source.excludes() if source is not None else ""
    users = users_excludes(root, source) if root is not None else ""
    return "".join(f"{part.rstrip()}\n" for part in ("\n".join(CACHES), users, own) if part.strip())


def users_excludes(root: Path, source: SourceRepository | None) -> str:
    """The user's global excludes: what `core.excludesFile` names, or git's own place for them."""
    git = UsersGit(root, source.common if source is not None else root)
    named = git("config", "--path", "--get", "core.excludesFile")
    if named.returncode == 0:
        path = os.fsdecode(named.stdout).removesuffix("\n")
        place = root / path if path else None
    else:
        there = "" if git.owner is not None else os.environ.get("XDG_CONFIG_HOME", "")
        place = (Path(there) if there else git.home / ".config") / "git" / "ignore"
    return _text(place, git.owner) if place is not None else ""


def _text(place: Path, owner: os.stat_result | None) -> str:
    """A file of patterns; empty where it is no ordinary file, too large, or its owner can't read it."""
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        found = os.fstat(handle)
        readable = owner is None or found.st_uid == owner.st_uid or bool(found.st_mode & stat.S_IROTH)
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST or not readable:
            return ""
        return os.read(handle, LARGEST).decode("utf-8", "surrogateescape")
    except OSError:
        return ""
    finally:
        os.close(handle)
