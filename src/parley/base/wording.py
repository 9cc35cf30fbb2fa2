"""Wording helpers: numbers with nouns, durations, lists of names, and suggestions for mistyped names."""

from __future__ import annotations

from collections.abc import Iterable

_MOST = 24  # names that an error lists
_LONGEST = 100  # characters of a word that is compared


def count(number: float, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 turn`, `2 turns`, `1,200 files`."""
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    return f"{shown} {noun if number == 1 else plural or f'{noun}s'}"


def joined(names: Iterable[str]) -> str:
    """Names in a row: `one`, `one and two`, `one, two and three`."""
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400  # seconds


def duration(seconds: float, gap: str = "") -> str:
    """How long, in a few characters: `12s`, `3m05s`, `2h10m`, `4d03h`; `gap` stands between its two parts."""
    whole = max(0, int(seconds))
    if whole < _MINUTE:
        return f"{whole}s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m{gap}{whole % _MINUTE:02d}s"
    if whole < _DAY:
        return f"{whole // _HOUR}h{gap}{whole % _HOUR // _MINUTE:02d}m"
    return f"{whole // _DAY}d{gap}{whole % _DAY // _HOUR:02d}h"


def near(word: str, known: Iterable[str]) -> str:
    """The known name that a mistyped one comes closest to; empty if none is close."""
    from difflib import get_close_matches  # noqa: PLC0415 - for start-up: only errors need it

    names = {name.casefold(): str(name) for name in known}
    found = get_close_matches(word.casefold()[:_LONGEST], names, n=1)
    return names[found[0]] if found else ""


def advice(word: str, known: Iterable[str]) -> str:
    """The advice for an unknown name: the known names, and the nearest one if it is near."""
    names = list(known)
    if not names:
        return "leave it out"
    listed = f"use one of: {', '.join(names[:_MOST])}{', …' if len(names) > _MOST else ''}"
    return f"{listed}; did you mean {meant!r}?" if (meant := near(word, names)) else listed
