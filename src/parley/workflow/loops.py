"""Loops: a task that hands up the same question again and again, in whatever words."""

from __future__ import annotations

from collections.abc import Iterable

from rapidfuzz import fuzz, utils

TIMES = 3  # how often a question comes before it is a loop
LONGEST = 1_000  # characters that are compared
# What any question may have: shared, they say nothing.
FILLERS = frozenset({
    "a", "an", "and", "any", "are", "as", "at", "be", "been", "can", "could", "do", "does", "for", "from", "had",
    "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "may", "might", "must", "my", "need", "of",
    "on", "or", "our", "shall", "should", "so", "suppose", "supposed", "than", "that", "the", "their", "them", "then",
    "there", "these", "they", "this", "those", "to", "us", "use", "used", "want", "was", "we", "were", "what", "when",
    "where", "whether", "which", "who", "why", "will", "with", "would", "you",
})  # fmt: skip


def similar(one: str, other: str, threshold: float) -> bool:
    """Whether two questions ask the same, to so many of a hundred: by the words that carry them, in any order."""
    here, there = _carrying(one), _carrying(other)
    if not here or not there:
        return one.split() == other.split()
    alike = fuzz.token_sort_ratio(" ".join(here), " ".join(there))
    if min(len(here), len(there)) > 1:  # a single word is a part of too much
        alike = max(alike, fuzz.token_set_ratio(" ".join(here), " ".join(there)))
    return here == there or alike >= threshold


def loop(history: Iterable[str], question: str, threshold: float) -> tuple[str, ...]:
    """The questions of a task that ask what this one does, itself the last, if they are a loop; else none."""
    alike = tuple(earlier for earlier in history if similar(earlier, question, threshold))
    return (*alike, question) if len(alike) + 1 >= TIMES else ()


def _carrying(question: str) -> list[str]:
    """The words of a question without case, punctuation, plurals and fillers; all of them if nothing else is left."""
    words = utils.default_process(question[:LONGEST]).split()
    kept = [word for word in words if word not in FILLERS] or words
    return [word.removesuffix("s") if len(word) > 3 else word for word in kept]  # noqa: PLR2004 - `is`, `bus`
