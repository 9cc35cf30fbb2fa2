"""Finds file names that trouble Windows or a Mac; they are delivered, and reported to the user.

Windows has device names and forbidden characters, and drops dots and blanks at a name's end; a Mac and Windows treat
names that differ only in case, or in the form of an accented letter, as the same: one file of such a pair overwrites
the other. Names that another system reads as git's own, or as settings, are not delivered at all:
`workspaces/files/odd_names.py`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from parley.base.text import printable

NAMED = 4  # names that one line has
LONGEST_NAME = 100  # characters of one
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(?:[.:].*)?", re.DOTALL)
_NEVER = re.compile(r'[\x00-\x1f<>:"|?*\\]')
_LONGEST = 255  # UTF-16 units of a name
# Code points that a filesystem ignores in names: HFS+ those that git lists, ext4 all default-ignorable ones.
IGNORED = dict.fromkeys((
    0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), *range(0x200B, 0x2010),
    *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0x3164, *range(0xFE00, 0xFE10), 0xFEFF, 0xFFA0,
    *range(0xFFF0, 0xFFF9), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B), *range(0xE0000, 0xE1000),
))  # fmt: skip


class NameTrouble(NamedTuple):
    """Why another system can't hold a name as it is."""

    why: str
    overwrites: bool = False  # it is another file's name there


def unportable(new: Collection[str], all_names: Iterable[str]) -> dict[str, NameTrouble]:
    """The new paths that trouble another system, each with the reason. `all_names`: every path of the tree."""
    alike = {path: f"a Mac and Windows take it for {_short(other)}" for path, other in _alike(new, all_names)}
    found = {path: NameTrouble(alike.get(path) or _on_windows(path), path in alike) for path in sorted(new)}
    return {path: trouble for path, trouble in found.items() if trouble.why}


def words(found: Mapping[str, NameTrouble]) -> str:
    """The first of them with their reasons, on one line, and how many more there are; empty where there are none.

    Names that may overwrite another file come first, so that other names can't push them out of the line.
    """
    first = sorted(found, key=lambda path: not found[path].overwrites)[:NAMED]
    named = [f"{_short(path)} ({found[path].why})" for path in first]
    more = f" and {len(found) - len(named)} more" if len(found) > len(named) else ""
    return f"names that trouble other systems: {', '.join(named)}{more}" if named else ""


def _on_windows(path: str) -> str:
    try:
        path.encode()
    except UnicodeEncodeError:
        return "it is not UTF-8, and a Mac can't hold it"
    for part in path.split("/"):
        if _DEVICE.fullmatch(part.lower()):
            return "a device on Windows"
        if _NEVER.search(part):
            return "Windows allows no such character"
        if part[-1:] in (".", " "):
            return "Windows drops the dot or blank at its end"
        if len(part.encode("utf-16-le")) > 2 * _LONGEST:
            return "too long for Windows"
    return ""


def _alike(new: Collection[str], all_names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The new paths that equal another one, or lie in such a folder, except for case or form; each with the other."""
    if not new:
        return
    wanted: dict[str, set[str]] = {}
    for path in new:
        for part in _prefixes(path):
            wanted.setdefault(folded(part), set())
    for path in (*all_names, *new):
        for part in _prefixes(path):
            spellings = wanted.get(folded(part))
            if spellings is not None:
                spellings.add(part)
    for path in new:
        for part in _prefixes(path):
            others = wanted[folded(part)] - {part}
            if others:
                yield path, min(others)
                break


def _prefixes(path: str) -> Iterator[str]:
    """The folders on the way to a path, and the path."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)
    yield path


def folded(path: str) -> str:
    """A path as a filesystem reads it that ignores case and the form of letters; ignored code points are dropped."""
    if path.isascii():
        return path.lower()
    plain = unicodedata.normalize("NFD", path.translate(IGNORED)).casefold()
    return unicodedata.normalize("NFD", plain)


def _short(path: str) -> str:
    shown = printable(path)
    return shown if len(shown) <= LONGEST_NAME else f"{shown[: LONGEST_NAME - 1]}…"
