"""What one human has decided, whichever store keeps it: how decisions are kept, weighed and recalled.

Recall goes by the rare words of a question: how often each word occurs is counted beside an index of words, so that the
few that tell decisions apart are looked up and no common word's long list is ever walked.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from parley.ports.decisions import Decided, Guess, MemoryTrouble, Recalled

SHORTEST, LONGEST = 2, 40  # characters of a word that is looked for
TEXT = 20_000  # characters of a question that are looked at: enough to know it by
WORDS_READ = 400  # of a question: what comes after these adds nothing
RARE = 5  # words that a recall goes by
WALKED = 320  # decisions with one of them that are looked at, the newest
POSTINGS = 100  # those of the human's own among them that it may lead to
WEIGHED = 30  # decisions that are read whole and weighed
PAST = 200  # decisions of one state and kind, and of any, that a record is made of
LATE = 1000  # decisions that are looked at for the latter
FADING_SECONDS = 180 * 86400.0  # after this long a decision comes to mind half as readily

_WORD = re.compile(r"[^\W_]+")
_K, _B = 1.2, 0.75  # of BM25, as usual
_LENGTH = 60.0  # words that a decision is taken to have

Row = Any  # a row whose columns are read by name
Ask = Callable[[str, Sequence[Any]], list[Row]]  # runs a statement by its name


class Correction(NamedTuple):
    """What a decision said before it was corrected."""

    time: float
    verdict: str | None
    said: str
    how: str
    agreed: bool


def words_of(text: str) -> list[str]:
    """The words of a text that may be looked for, in order."""
    return [word for word in _WORD.findall(text[:TEXT].lower()) if SHORTEST <= len(word) <= LONGEST]


def id_of(decided: Decided) -> str:
    """A decision's name: the same whenever it is kept."""
    return hashlib.sha256(f"{decided.job}\n{decided.question}\n{decided.framing}".encode()).hexdigest()[:12]


class RecalledDecisions(ABC):
    """A memory over named statements: each store has its own SQL, with the same names and the same values.

    It is made when something is first remembered.
    """

    @property
    @abstractmethod
    def where(self) -> str:
        """Where the memory lies, for people."""

    @property
    @abstractmethod
    def exists(self) -> bool:
        """Whether anything was ever remembered here."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it. It is opened again where it is used again."""

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Ask]:
        """Statements that change nothing. MemoryTrouble where the memory can't be read."""

    @abstractmethod
    def _writing(self) -> AbstractContextManager[Ask]:
        """Statements of one transaction."""

    @abstractmethod
    def _term(self, word: str) -> str:
        """A word as the store's index takes it."""

    @abstractmethod
    def _index(self, ask: Ask, number: int, one: Decided) -> None:
        """Have a decision found by its words."""

    @abstractmethod
    def _unindex(self, ask: Ask, number: int, one: Decided) -> None:
        """Have it not found any more."""

    @abstractmethod
    def _purge(self, ask: Ask) -> None:
        """Clear the index of what was deleted, in the transaction that deletes it."""

    @abstractmethod
    def _wipe(self) -> None:
        """Let what was deleted leave no trace, as far as the store can."""

    # ---- keeping -------------------------------------------------------------------------------

    def remember(self, decided: Sequence[Decided]) -> None:
        """Keep decisions; those that are there stay as they are."""
        with self._writing() as ask:
            for one in decided:
                for row in ask("add", columns(one)):
                    self._index(ask, row["number"], one)

    def correct(self, name: str, verdict: str, said: str, now: float) -> Decided:
        """Put the human's own word in the place of what is kept; what was there stays as history."""
        with self._writing() as ask:
            number, old = _find(ask, name)
            agreed = old.after is not None and old.after.met_by(verdict, said)
            ask("keep_old", (now, old.id))
            self._unindex(ask, number, old)
            ask("correct", (verdict, said, int(agreed), old.id))
            number, new = _find(ask, old.id)
            self._index(ask, number, new)
            return new

    def forget(self, names: Iterable[str]) -> int:
        """Let go of decisions for good: rows, index and history. How many there were."""
        with self._writing() as ask:
            found = [_find(ask, name) for name in dict.fromkeys(names)]
            for number, one in found:
                self._unindex(ask, number, one)
                ask("forget", (one.id,))
                ask("forget_corrections", (one.id,))
            self._purge(ask)
        self._wipe()
        return len(found)

    # ---- recalling -----------------------------------------------------------------------------

    def recall(self, human: str, state: str, kind: str, text: str, limit: int) -> list[Recalled]:
        """The decisions that are most like a question, most like first."""
        if not self.exists:
            return []
        with self._reading() as ask:
            likeness, rarity = self._like(ask, human, text)
            best = sorted(likeness, key=lambda number: (likeness[number], number), reverse=True)[:WEIGHED]
            rows = ask("numbered", (json.dumps(best),))
        newest = max((row["time"] for row in rows), default=0.0)
        weighed = []
        for row in rows:
            one = _decided(row)
            near = 1.0 + 0.5 * (one.state == state) + 0.25 * (one.kind == kind)
            fresh = 0.25 + 0.75 * 0.5 ** (max(0.0, newest - one.time) / FADING_SECONDS)
            weighed.append((_bm25(one, rarity) * near * fresh, row["number"], one))
        weighed.sort(reverse=True, key=lambda entry: entry[:2])
        return [Recalled(one, likeness[number]) for _, number, one in weighed[:limit]]

    def past(self, human: str, state: str, kind: str, text: str) -> list[Recalled]:
        """The last decisions of this state and kind and of any, without their texts, each with how like it is."""
        if not self.exists:
            return []
        with self._reading() as ask:
            likeness, _ = self._like(ask, human, text)
            own = ask("of_kind", (human, state, kind, PAST))
            newest = int(ask("newest", ())[0]["newest"])
            late = ask("of_late", (newest - LATE, human, PAST))
        rows = {row["number"]: row for row in (*own, *late)}
        return [Recalled(_outline(rows[number]), likeness.get(number, 0.0)) for number in sorted(rows)]

    def _like(self, ask: Ask, human: str, text: str) -> tuple[dict[int, float], dict[str, float]]:
        """How like each decision is that shares a rare word with the text; and how rare those words are."""
        asked = list(dict.fromkeys(words_of(text)))[:WORDS_READ]
        seen = {row["term"]: row["seen"] for row in ask("seen", (json.dumps(asked),))}
        count = int(ask("newest", ())[0]["newest"])
        rare = sorted(seen, key=lambda word: (seen[word], word))[:RARE]
        rarity = {word: math.log(1.0 + (max(0, count - seen[word]) + 0.5) / (seen[word] + 0.5)) for word in rare}
        found: defaultdict[int, float] = defaultdict(float)
        for word, weight in rarity.items():
            for row in ask("holding", (self._term(word), WALKED, human, POSTINGS)):
                found[row["number"]] += weight
        whole = sum(rarity.values())
        return {number: min(1.0, weight / whole) for number, weight in found.items()}, rarity

    # ---- for people ----------------------------------------------------------------------------

    def last(self, limit: int, state: str = "") -> list[Decided]:
        """The newest decisions, newest first."""
        return self._rows("last_of_state", (state, limit)) if state else self._rows("last", (limit,))

    @abstractmethod
    def search(self, text: str, limit: int) -> list[Decided]:
        """The decisions that hold all words of a text, best first."""

    def of_job(self, job: str) -> list[Decided]:
        """A job's decisions, oldest first."""
        return self._rows("of_job", (job,))

    def everything(self) -> Iterator[Decided]:
        """All of it, oldest first, some at a time: other processes are not kept waiting."""
        after = 0
        while self.exists:
            with self._reading() as ask:
                rows = ask("all", (after, 500))
            if not rows:
                return
            yield from map(_decided, rows)
            after = rows[-1]["number"]

    def named(self, name: str, limit: int = 9) -> list[Decided]:
        """The decisions whose ids begin so."""
        return self._rows("named", (name, f"{name}\U0010ffff", limit))

    def corrections(self, name: str) -> list[Correction]:
        """What a decision said before, oldest first."""
        if not self.exists:
            return []
        with self._reading() as ask:
            rows = ask("corrections", (name,))
        return [
            Correction(
                time=row["time"], verdict=row["verdict"], said=row["said"], how=row["how"], agreed=bool(row["agreed"])
            )
            for row in rows
        ]

    def count(self) -> int:
        """How many decisions there are."""
        if not self.exists:
            return 0
        with self._reading() as ask:
            return int(ask("count", ())[0]["count"])

    def _rows(self, query: str, values: Sequence[Any]) -> list[Decided]:
        if not self.exists:
            return []
        with self._reading() as ask:
            return [_decided(row) for row in ask(query, values)]


def _find(ask: Ask, name: str) -> tuple[int, Decided]:
    rows = [row for row in ask("named", (name, f"{name}\U0010ffff", 1)) if row["id"] == name]
    if not rows:
        raise MemoryTrouble(f"there is no decision {name!r}; `parley memory list` lists them")
    return rows[0]["number"], _decided(rows[0])


# ---- rows ----------------------------------------------------------------------------------------


def columns(one: Decided) -> tuple[Any, ...]:
    """A decision as the statement `add` takes it."""
    before = (one.before.verdict, one.before.confidence) if one.before else (None, None)
    after = (
        (one.after.verdict, one.after.confidence, one.after.reason, one.after.text)
        if one.after
        else (None, None, None, None)
    )
    return (
        one.id or id_of(one),
        one.time,
        one.human,
        one.repository,
        one.job,
        one.question,
        one.framing,
        one.state,
        one.kind,
        one.asked,
        one.artifact,
        one.digest,
        one.excerpt,
        *before,
        *after,
        one.verdict,
        one.said,
        one.how,
        int(one.agreed),
    )


def _decided(row: Row) -> Decided:
    before, after = row["before_verdict"], row["after_verdict"]
    return Decided(
        time=row["time"],
        human=row["human"],
        repository=row["repository"],
        job=row["job"],
        question=row["question"],
        framing=row["framing"],
        state=row["state"],
        kind=row["kind"],
        asked=row["asked"],
        artifact=row["artifact"],
        digest=row["digest"],
        excerpt=row["excerpt"],
        before=None if before is None else Guess(before, row["before_confidence"]),
        after=None if after is None else Guess(after, row["after_confidence"], row["after_reason"], row["after_text"]),
        verdict=row["verdict"],
        said=row["said"],
        how=row["how"],
        agreed=bool(row["agreed"]),
        id=row["id"],
    )


def _outline(row: Row) -> Decided:
    after = row["after_verdict"]
    return Decided(
        time=row["time"],
        human=row["human"],
        repository="",
        job="",
        question="",
        framing="",
        state=row["state"],
        kind=row["kind"],
        asked="",
        after=None if after is None else Guess(after, row["after_confidence"]),
        verdict=row["verdict"],
        how=row["how"],
        agreed=bool(row["agreed"]),
        id=row["id"],
    )


def vocabulary(one: Decided) -> list[str]:
    """The words that a decision is recalled by."""
    return sorted({word for text in (one.asked, one.excerpt, one.said) for word in words_of(text)})


def _bm25(one: Decided, rarity: Mapping[str, float]) -> float:
    words = Counter(word for text in (one.asked, one.excerpt) for word in words_of(text))
    length = 1.0 - _B + _B * words.total() / _LENGTH  # without what was said: refusals say why, approvals say little
    words.update(words_of(one.said))
    return sum(weight * words[word] * (_K + 1.0) / (words[word] + _K * length) for word, weight in rarity.items())
