"""Detects loops: a task that asks the same question again, in other words, although it was answered.

Questions are compared by their significant words, not by characters: `port 8080` and `port 8081` differ in one
character and ask about two things. What words do not show, the architect may say: `same_as`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rapidfuzz import fuzz

from parley.workflow.model.flow import AskedQuestion

TIMES = 3  # how often a question comes before it is a loop
LONGEST = 1_000  # characters that are compared
NAMES = 3.0  # the weight of a number, a path or an identifier: questions that differ in one are different
EXTRA = 0.15  # the penalty for each further word, where one question contains the other
TYPO = 85  # similarity, of a hundred, from which two long words count as one
LONG_WORD = 5
# Words of any question; they do not count.
FILLERS = frozenset({
    "a", "an", "and", "any", "are", "as", "at", "be", "been", "by", "can", "could", "do", "does", "for", "from",
    "had", "has", "have", "how", "i", "if", "in", "into", "is", "it", "its", "may", "might", "must", "my", "need",
    "needed", "of", "on", "or", "our", "please", "shall", "should", "so", "still", "supposed", "than", "that", "the",
    "their", "them", "then", "there", "these", "they", "this", "those", "to", "us", "use", "used", "want", "was",
    "we", "were", "what", "when", "where", "whether", "which", "who", "why", "will", "with", "would", "you",
})  # fmt: skip
_WORD = re.compile(r"\w+(?:[./:@-]\w+)*")
_NAME = re.compile(r".*[\d_/.:@]|.*[a-z][A-Z]")  # of a number, a path, an identifier


def alike(one: str, other: str) -> float:
    """The similarity of two questions, of a hundred, by their significant words in any order."""
    here, there = _carrying(one), _carrying(other)
    if not here or not there or here == there:
        return 100.0 if one.split() == other.split() or (here and here == there) else 0.0
    small, large = sorted((here, there), key=lambda words: sum(words.values()))
    left = dict(large)
    shared = 0.0
    for word, weight in small.items():
        found = word if word in left else next((each for each in left if _typo(word, each)), "")
        if found:
            shared += min(weight, left.pop(found))
    less, more = sum(small.values()), sum(large.values())
    if shared >= less and len(small) > 1:  # all that one asks is in the other; a single word is a part of too much
        return 100 * shared / ((1 - EXTRA) * less + EXTRA * more)
    return 200 * shared / (less + more)


def similar(one: str, other: str, threshold: float) -> bool:
    """Whether two questions ask the same."""
    return alike(one, other) >= threshold


def loop(history: Iterable[AskedQuestion], asked: AskedQuestion, threshold: float) -> tuple[AskedQuestion, ...]:
    """The questions that ask what this one does, itself the last, if they are a loop; else none.

    What counts is what was asked in an earlier turn and has been answered since. However many questions of one turn are
    alike, they are one asking.
    """
    before = [one for one in history if one.asking < asked.asking and one.answer]
    same = [one for one in before if _linked(before, one, asked) or similar(one.text, asked.text, threshold)]
    times = len({one.asking for one in same}) + 1
    return (*same, asked) if times >= TIMES else ()


def _linked(before: Sequence[AskedQuestion], one: AskedQuestion, asked: AskedQuestion) -> bool:
    """Whether the architect has said that two are the same, or that both are the same as a third."""
    known = {asked.key, *asked.same_as}
    grown = True
    while grown:
        more = {key for each in before if {each.key, *each.same_as} & known for key in (each.key, *each.same_as)}
        grown = not more <= known
        known |= more
    return one.key in known


def _typo(one: str, other: str) -> bool:
    """Whether two words differ by a slip; names and numbers never do."""
    if min(len(one), len(other)) < LONG_WORD or not (one.isalpha() and other.isalpha()):
        return False
    return fuzz.ratio(one, other) >= TYPO


def _carrying(question: str) -> dict[str, float]:
    """The significant words of a question, without case, punctuation, endings and fillers, with their weights."""
    found: dict[str, float] = {}
    kept: dict[str, float] = {}
    for word in _WORD.findall(question[:LONGEST]):
        name = _NAME.match(word) is not None
        low = word.casefold()
        plain = low if name else _stem(low)
        found[plain] = NAMES if name else 1.0
        if low not in FILLERS and plain not in FILLERS:
            kept[plain] = found[plain]
    return kept or found


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) > 2:  # noqa: PLR2004 - `is`, `bus`, `need`
            return word.removesuffix(ending).removesuffix("e")
    return word.removesuffix("e") if len(word) > 3 else word  # noqa: PLR2004 - `use`, `be`
