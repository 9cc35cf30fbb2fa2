"""Refuses file names that another filesystem reads as another name: `.git` on a Mac or on Windows, say.

HFS+ ignores some code points, and ext4 more of them where it does not tell upper from lower case; NTFS has short names
and streams, and drops dots and blanks at the end; all take upper and lower case for the same, as others do with letters
of full width. A name is judged as the least exact filesystem reads it.
"""

from __future__ import annotations

import re
import unicodedata

from parley.base.unportable import IGNORED

_GIT = re.compile(r"\.git|git~\d+")
# The short names that NTFS gives: six letters, or two of them and a hash.
_SHORT = {"gitmod": ".gitmodules", "gi7eba": ".gitmodules", "gitatt": ".gitattributes", "gi7d29": ".gitattributes",
          "gitign": ".gitignore", "gi250a": ".gitignore", "mailma": ".mailmap", "maba30": ".mailmap",
          "parley": "parley.toml", "claude": ".claude", "mcp": ".mcp.json"}  # fmt: skip
_SHORTENED = re.compile(r"(\w{2,6})~([1-9]\d*)(\.\w{0,3})?")
_SHORTEST = 8  # characters that such a name has where its number needs more room than one digit
# Git's own files that a result may have under their plain names only.
GITS = (".gitattributes", ".gitignore", ".mailmap")
# Obeyed at a repository's root by programs that find them by these very names.
OBEYED = (".parley", ".claude", "parley.toml", ".mcp.json")


def folded(part: str) -> str:
    """A component of a path as the least exact filesystem takes it."""
    plain = unicodedata.normalize("NFKC", part.translate(IGNORED)).casefold().translate(IGNORED)
    plain = plain.partition(":")[0].rstrip(". ")
    short = _SHORTENED.fullmatch(plain)
    return _long_name(short[1], short[2]) or plain if short else plain


def _long_name(letters: str, number: str) -> str:
    """The long name of an NTFS short name, as git has it; empty where tools do not obey that file."""
    if len(number) == 1:
        return _SHORT.get(letters, "")
    whole = len(letters) + 1 + len(number) == _SHORTEST
    return next((name for short, name in _SHORT.items() if whole and short.startswith(letters)), "")


def parts(path: str) -> list[str]:
    """The components of a path, also where a backslash parts them; without a drive, which a folder may follow."""
    return re.split(r"[/\\／＼]", re.sub(r"^[A-Za-z]:", "", path))  # noqa: RUF001 - of full width


def is_git(part: str) -> bool:
    """Whether a component is git's own folder on some filesystem."""
    return _GIT.fullmatch(folded(part)) is not None


def refusal(path: str, *, users_own: bool = False) -> str:
    """Why a path must not be kept; nothing where it may. `users_own`: it was in the user's repository before."""
    components = parts(path)
    if any(map(is_git, components)):
        return "its name is git's own" if ".git" in components else "its name is git's own on another filesystem"
    if users_own:
        return ""
    if any(folded(part) == ".gitmodules" for part in components):
        return "submodules stay as they are"
    for part in components:
        if part not in GITS and folded(part) in GITS:
            return f"its name is {folded(part)} on another filesystem"
    first = components[0]
    if path.partition("/")[0] not in OBEYED and folded(first) in OBEYED:
        return f"its name is {folded(first)} on another filesystem"
    return ""
