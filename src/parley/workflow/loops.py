"""Loops: a task that hands up the same question again and again, in whatever words."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import fuzz, utils

TIMES = 3  # how often a question comes before it is a loop


def similar(one: str, other: str, threshold: float) -> bool:
    """Whether two questions ask the same, to so many of a hundred. Case, punctuation and word order do not count."""
    plain, plainer = utils.default_process(one), utils.default_process(other)
    if not plain or not plainer:
        return one.split() == other.split()
    return plain == plainer or fuzz.WRatio(plain, plainer) >= threshold


def loop(history: Iterable[str], question: str, threshold: float) -> tuple[str, ...]:
    """The questions of a task that ask what this one does, itself the last, if they are a loop; else none."""
    alike = tuple(earlier for earlier in history if similar(earlier, question, threshold))
    return (*alike, question) if len(alike) + 1 >= TIMES else ()
