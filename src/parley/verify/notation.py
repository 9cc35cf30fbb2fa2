"""The notation of rules, read: whether a rule takes and gives what it says, and nothing else.

A notation is a left side, an arrow and a right side: molecules with `‖` between them, or `ε`. Each is the name of a
kind, whose it is and what it holds. Behind one, `?` says that it may be missing, `*` that there may be any number of
them, `+` that there is one at least. `shape` is what the rule is about, `besides` what the protocol remembers with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, get_args

from msgspec.structs import replace

from parley.protocol.errors import Violated
from parley.protocol.molecules import Molecule
from parley.protocol.rule import Firing, React, Reaction, Rule, RuleSet
from parley.protocol.soup import Soup

KINDS: Mapping[str, type[Any]] = {kind.__name__: kind for kind in get_args(Molecule)}
MANY = 1 << 30
TIMES = {"": (1, 1), "?": (0, 1), "*": (0, MANY), "+": (1, MANY)}
HEAD = re.compile(r"([A-Z][A-Za-z]*)(?:_[A-Za-z]+)?")


class Amount(NamedTuple):
    """How many molecules of a kind a side has, at least and at most."""

    least: int
    most: int


Side = Mapping[type[Any], Amount]


class Form(NamedTuple):
    """What a rule says that it takes and gives."""

    consumed: Side
    produced: Side


# ---- reading ---------------------------------------------------------------------------------------


def form_of(rule: Rule) -> Form:
    """What a rule's notation says. Violated, with the rule's name, where it says nothing that can be read."""
    return _read(rule.name, rule.shape, rule.besides)


@lru_cache(maxsize=256)  # a law asks it of every step
def _read(name: str, *notations: str) -> Form:
    sides: tuple[list[str], list[str]] = ([], [])
    for notation in filter(None, notations):
        arrow = notation.split(" → ")
        if len(arrow) != 2:  # noqa: PLR2004 - what is taken, and what is given
            raise Violated("notation", f"[{name}] has {len(arrow) - 1} arrows in {notation!r}")
        for side, text in zip(sides, arrow, strict=True):
            side.extend(() if text == "ε" else text.split(" ‖ "))
    return Form(_side(name, sides[0]), _side(name, sides[1]))


def _side(name: str, terms: list[str]) -> Side:
    found: dict[type[Any], Amount] = {}
    for term in terms:
        kind, times = _term(name, term)
        least, most = TIMES[times]
        before = found.get(kind, Amount(0, 0))
        found[kind] = Amount(before.least + least, min(before.most + most, MANY))
    return found


def _term(name: str, term: str) -> tuple[type[Any], str]:
    head = HEAD.match(term)
    held = term[head.end() :].rstrip("?*+") if head is not None else ""
    times = term[head.end() + len(held) :] if head is not None else ""
    if head is None or head[1] not in KINDS or times not in TIMES or not _is_enclosed(held):
        raise Violated("notation", f"[{name}] has {term!r}, which is no molecule")
    return KINDS[head[1]], times


def _is_enclosed(held: str) -> bool:
    """Whether all of a text stands in one pair of parentheses, if it is not empty."""
    depth = 0
    for place, letter in enumerate(held):
        depth += (letter == "(") - (letter == ")")
        if depth <= 0 and place < len(held) - 1:
            return False
    return depth == 0


# ---- comparing -------------------------------------------------------------------------------------

Counts = tuple[tuple[str, int], ...]


def misfits(form: Form, reaction: Reaction) -> Iterator[str]:
    """Where a reaction is not of the form: a kind that is not in it, too few of a kind, or too many."""
    for verb, side, molecules in (
        ("takes", form.consumed, reaction.consumed),
        ("gives", form.produced, reaction.produced),
    ):
        counts = Counter(map(type, molecules))
        for kind in side.keys() | counts.keys():
            least, most = side.get(kind, Amount(0, 0))
            if not least <= counts[kind] <= most:
                yield f"{verb} {counts[kind]} of {kind.__name__}, {_said(least, most)}"


def _said(least: int, most: int) -> str:
    if not most:
        return "which its notation does not name"
    return f"and its notation says {least}" if least == most else f"and its notation says {least} to {_told(most)}"


def _told(most: int) -> str:
    return "any number" if most >= MANY else str(most)


class Witness:
    """What rules were seen to take and give, to be compared with what they say: in both directions."""

    def __init__(self) -> None:
        self._seen: dict[str, set[tuple[Counts, Counts]]] = {}

    def watch(self, rules: RuleSet) -> RuleSet:
        """The same rules, each of whose reactions is seen."""
        return {name: replace(rule, react=self._watched(rule)) for name, rule in rules.items()}

    def _watched(self, rule: Rule) -> React:
        seen = self._seen.setdefault(rule.name, set())

        def react(soup: Soup, firing: Firing) -> Reaction:
            reaction = rule.react(soup, firing)
            seen.add((_counts(reaction.consumed), _counts(reaction.produced)))
            return reaction

        return react

    def problems(self, rules: RuleSet) -> Iterator[str]:
        """What the rules did and do not say, and what they say and never did."""
        for name, rule in rules.items():
            form, seen = form_of(rule), self._seen.get(name, set())
            if not seen:
                yield f"[{name}] never fired"
                continue
            for verb, side, counts in (
                ("takes", form.consumed, [dict(consumed) for consumed, _ in seen]),
                ("gives", form.produced, [dict(produced) for _, produced in seen]),
            ):
                yield from (f"[{name}] {verb} {problem}" for problem in _compared(side, counts))


def _counts(molecules: tuple[Molecule, ...]) -> Counts:
    return tuple(sorted(Counter(type(molecule).__name__ for molecule in molecules).items()))


def _compared(side: Side, seen: list[dict[str, int]]) -> Iterator[str]:
    said = {kind.__name__: amount for kind, amount in side.items()}
    for kind in sorted(said.keys() | {name for counts in seen for name in counts}):
        least, most = said.get(kind, Amount(0, 0))
        numbers = {counts.get(kind, 0) for counts in seen}
        if not most:
            yield f"{kind}, which its notation does not name"
        elif not any(numbers):
            yield f"no {kind}, which its notation names"
        elif min(numbers) != least:
            yield f"{min(numbers)} of {kind} at least, and its notation says {least}"
        elif max(numbers) < max(least + 1, 2) if most >= MANY else max(numbers) != most:
            yield f"{max(numbers)} of {kind} at most, and its notation says {_told(most)}"
