"""Names and paths as places carry them: the names in their trees, and the texts in their manifests.

No name in a place's tree is one that git, or a server that checks what is pushed, takes for its own: such a name is
stored with a mark before it. Paths in a manifest are bytes, written as Latin-1, so that any name can be there.
"""

from __future__ import annotations

import os
import re

from parley.workspaces.files import odd_names

MARK = b"%"
_SLUG_LENGTH = 200  # characters of a workspace's path in the name of a folder of sessions
_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9]")
SESSIONS = ".claude/projects"  # in an instance's home: Claude Code's sessions, by the path of the workspace


def stored(name: bytes) -> bytes:
    """A name as a place's tree has it."""
    return MARK + name if name.startswith(MARK) or _is_special(name) else name


def taken_back(name: bytes) -> bytes | None:
    """The name that `stored` made this of; None where it did not."""
    plain = name.removeprefix(MARK)
    return plain if plain and stored(plain) == name else None


def _is_special(name: bytes) -> bool:
    if name.isascii() and b"gi" not in name.lower():
        return False
    return is_git(name) or odd_names.folded(os.fsdecode(name)).startswith(".git")


def is_git(name: bytes) -> bool:
    """Whether a name is git's own folder on some filesystem: it is neither packed nor laid out."""
    if name.isascii() and b"git" not in name.lower():
        return False
    return odd_names.is_git(os.fsdecode(name)) or any(map(odd_names.is_git, odd_names.parts(os.fsdecode(name))))


def as_text(path: str) -> str:
    """A path as a manifest has it."""
    return os.fsencode(path).decode("latin-1")


def as_path(text: str) -> str:
    """The path that `as_text` made this of; ValueError where it did not."""
    return os.fsdecode(text.encode("latin-1"))


def session_folder(workspace: str) -> str:
    """The name of the folder in which Claude Code keeps the sessions of a workspace; empty: it can't be known.

    It adds a number of its own to a long name. Then a session does not go on elsewhere: the runner finds none, begins
    anew and tells its agent so.
    """
    plain = _NOT_PLAIN.sub("-", workspace)
    return plain if len(plain) <= _SLUG_LENGTH else ""
