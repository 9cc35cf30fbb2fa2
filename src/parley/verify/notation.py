"""The notation of rules, read: whether a rule takes and gives what it says, and nothing else.

A notation is a left side, an arrow and a right side: molecules with `‖` between them, or `ε`. Each is the name of a
kind, whose it is and what it holds. Behind one, `?` says that it may be missing, `*` that there may be any number of
them, `+` that there is one at least. `shape` is what the rule is about, `besides` what the protocol remembers with it.

A name stands for one value in all of a rule's notation: `Idle_A(t) → Run(A, t, m)` says that the agent and its thread
stay the same. Two names stand for two values, lists aside. Only a name that no molecule without `*` and `+` has may
stand for another value in each of these. `_` stands for any value.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, get_args

from msgspec.structs import replace

from parley.protocol.errors import Violated
from parley.protocol.molecules import (
    AskHuman,
    AskQuestion,
    Assertion,
    Charter,
    Close,
    Crashed,
    Deliver,
    Hold,
    Idle,
    Interrupt,
    Mailbox,
    Molecule,
    Parent,
    Proxy,
    Record,
    Run,
    Send,
    Surface,
    Tally,
    Terminate,
    Tombstone,
    Verdict,
    thread_kind,
    thread_name,
)
from parley.protocol.rule import Firing, React, Reaction, Rule, RuleSet
from parley.protocol.soup import Soup

KINDS: Mapping[str, type[Any]] = {kind.__name__: kind for kind in get_args(Molecule)}
MANY = 1 << 30
TIMES = {"": (1, 1), "?": (0, 1), "*": (0, MANY), "+": (1, MANY)}
HEAD = re.compile(r"([A-Z][A-Za-z]*)(?:_([A-Za-z]+))?")
NAME = re.compile(r"[A-Za-zπ]+'?")


class RecordId(str):
    """A record's id. A subteam's is its thread, so that two names may stand for the two."""

    __slots__ = ()


PARTS: Mapping[type[Any], Callable[[Any], tuple[Any, ...]]] = {
    Idle: lambda it: (it.agent, it.thread),
    Run: lambda it: (it.agent, it.thread, it.message),
    Send: lambda it: (it.agent, it.thread, it),
    Mailbox: lambda it: (it.agent, it.thread, it.queue),
    Parent: lambda it: (it.child, it.thread),
    AskQuestion: lambda it: (it.agent, it.thread, it.questions, it.policy),
    Proxy: lambda it: (it.thread, it.id, it.policy, "post-human" if it.heard else "fresh"),
    AskHuman: lambda it: (it.thread, it.framing, it.policy),
    Interrupt: lambda it: (it.thread, it.message),
    Terminate: lambda it: (it.thread,),
    Charter: lambda it: (),
    Record: lambda it: (RecordId(it.id), it.state),
    Surface: lambda it: (it.agent, it.thread),
    Tombstone: lambda it: (it.thread,),
    Hold: lambda it: (it.thread, it.cause),
    Crashed: lambda it: (it.agent, it.thread),
    Tally: lambda it: (it.agent, it.thread),
    Assertion: lambda it: (RecordId(it.record),),
    Verdict: lambda it: (RecordId(it.record), "told" if it.told else "untold"),
}
"""What the notation of each kind names, in its order; a subscript comes first. The last ones may be left out."""

LITERALS = frozenset(("INTENT", "fresh", "post-human", "stuck", "told", "untold"))


class Amount(NamedTuple):
    """How many molecules of a kind a side has, at least and at most."""

    least: int
    most: int


class Pattern(NamedTuple):
    """One molecule as a notation has it."""

    kind: type[Any]
    parts: tuple[str, ...]
    times: str


Side = Mapping[type[Any], Amount]
Values = dict[str, Any]
"""What each name stands for."""


class Form(NamedTuple):
    """What a rule says that it takes and gives."""

    consumed: Side
    produced: Side
    taken: tuple[Pattern, ...] = ()
    given: tuple[Pattern, ...] = ()


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
    taken, given = (tuple(_pattern(name, term) for term in side) for side in sides)
    return Form(_side(taken), _side(given), taken, given)


def _side(patterns: Sequence[Pattern]) -> Side:
    found: dict[type[Any], Amount] = {}
    for pattern in patterns:
        least, most = TIMES[pattern.times]
        before = found.get(pattern.kind, Amount(0, 0))
        found[pattern.kind] = Amount(before.least + least, min(before.most + most, MANY))
    return found


def _pattern(name: str, term: str) -> Pattern:
    head = HEAD.match(term)
    held = term[head.end() :].rstrip("?*+") if head is not None else ""
    times = term[head.end() + len(held) :] if head is not None else ""
    if head is None or head[1] not in KINDS or times not in TIMES or not _is_enclosed(held):
        raise Violated("notation", f"[{name}] has {term!r}, which is no molecule")
    return Pattern(KINDS[head[1]], (*((head[2],) if head[2] else ()), *_split(held[1:-1], ",")), times)


def _is_enclosed(held: str) -> bool:
    """Whether all of a text stands in one pair of parentheses, if it is not empty."""
    depth = 0
    for place, letter in enumerate(held):
        depth += (letter == "(") - (letter == ")")
        if depth <= 0 and place < len(held) - 1:
            return False
    return depth == 0


def _split(text: str, mark: str) -> list[str]:
    """The parts of a text between marks that stand in no parentheses."""
    found, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == mark and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [part.strip() for part in found] if text else []


# ---- comparing -------------------------------------------------------------------------------------

Kinds = tuple[tuple[type[Molecule], ...], tuple[type[Molecule], ...]]


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


def agrees(form: Form, reaction: Reaction) -> bool:
    """Whether one value for each name makes the notation the reaction."""
    for values in _matched(form.taken, reaction.consumed, {}):
        if any(True for _ in _matched(form.given, reaction.produced, values)):
            return True
    return False


def _matched(patterns: Sequence[Pattern], molecules: Sequence[Molecule], values: Values) -> Iterator[Values]:
    """Every way in which the patterns are the molecules, those that stand for one of them first."""
    ordered = sorted(patterns, key=lambda pattern: pattern.times in ("*", "+"))
    yield from _assigned(tuple(ordered), tuple(molecules), values)


def _assigned(patterns: tuple[Pattern, ...], molecules: tuple[Molecule, ...], values: Values) -> Iterator[Values]:
    if not patterns:
        if not molecules:
            yield values
        return
    first, *others = patterns
    rest = tuple(others)
    for place, molecule in enumerate(molecules):
        if type(molecule) is not first.kind:
            continue
        bound = _bound(first, molecule, values)
        if bound is None:
            continue
        left = molecules[:place] + molecules[place + 1 :]
        if first.times in ("*", "+"):  # its own names may stand for others in the next
            yield from _assigned((first._replace(times="*"), *rest), left, values)
        else:
            yield from _assigned(rest, left, bound)
    if first.times in ("?", "*"):
        yield from _assigned(rest, molecules, values)


def _bound(pattern: Pattern, molecule: Molecule, values: Values) -> Values | None:
    """What the names stand for where the pattern is the molecule; None where it is not."""
    parts = PARTS[pattern.kind](molecule)
    if len(pattern.parts) > len(parts):
        return None
    found: Values | None = dict(values)
    for text, part in zip(pattern.parts, parts, strict=False):
        found = _value(text, part, found) if found is not None else None
    return found


def _value(text: str, given: Any, values: Values) -> Values | None:
    """The same for one part."""
    if isinstance(given, Send):
        payloads, _, questions = text.partition(" with ")
        found = _value(payloads, given.payloads, values)
        return _value(questions or "with", given.questions, found) if found is not None else None
    if isinstance(given, tuple):
        return _queue(text, given, values)
    if text in LITERALS or text == "_":
        return values if text in (given, "_") else None
    kind, _, name = text.rpartition(":")
    if kind:
        return _value(name, thread_name(given), values) if thread_kind(given) == kind else None
    if text in values:
        return values if values[text] == given else None
    taken = any(type(other) is type(given) and other == given for other in values.values())
    return {**values, text: given} if NAME.fullmatch(text) and not taken else None


def _queue(text: str, given: tuple[Any, ...], values: Values) -> Values | None:
    """A list: `[]`, `[x]`, `x:rest`, `before ++ [x]`, or a name for all of it."""
    before, plus, last = text.partition(" ++ ")
    if plus:
        found = _queue(before, given[:-1], values) if given else None
        return _queue(last, given[-1:], found) if found is not None else None
    if text.startswith("["):
        inner = text[1:-1]
        if len(given) != bool(inner):
            return None
        return _entry(inner, given[0], values) if inner else values
    first, *rest = _split(text, ":")
    if rest:
        found = _entry(first, given[0], values) if given else None
        return _queue(rest[0], given[1:], found) if found is not None else None
    return {**values, text: given} if NAME.fullmatch(text) and values.get(text, given) == given else None


def _entry(text: str, given: Any, values: Values) -> Values | None:
    """An entry of a list: a payload of a Send, or a message."""
    if isinstance(given, Deliver) and text.startswith("("):
        found: Values | None = values
        for part, value in zip(_split(text[1:-1], ","), (given.agent, given.thread, given.message), strict=True):
            found = _value(part, value, found) if found is not None else None
        return found
    if isinstance(given, Close) and text.startswith("terminate("):
        return _value(text.removeprefix("terminate(")[:-1], given.thread, values)
    return _value(text, given, values) if isinstance(given, str) else None


# ---- what rules were seen to do ----------------------------------------------------------------------

COMPARED = 200  # reactions of each rule and of the same kinds: what a notation says wrong, it says of every one


class Witness:
    """What rules were seen to take and give, to be compared with what they say: in both directions."""

    def __init__(self) -> None:
        self._seen: dict[str, Counter[Kinds]] = {}
        self._misread: dict[str, Reaction] = {}

    def watch(self, rules: RuleSet) -> RuleSet:
        """The same rules, each of whose reactions is seen."""
        return {name: replace(rule, react=self._watched(rule)) for name, rule in rules.items()}

    def _watched(self, rule: Rule) -> React:
        seen = self._seen.setdefault(rule.name, Counter())

        def react(soup: Soup, firing: Firing) -> Reaction:
            reaction = rule.react(soup, firing)
            kinds = tuple(map(type, reaction.consumed)), tuple(map(type, reaction.produced))
            seen[kinds] += 1
            if seen[kinds] <= COMPARED and not agrees(form_of(rule), reaction):
                self._misread.setdefault(rule.name, reaction)
            return reaction

        return react

    def problems(self, rules: RuleSet) -> Iterator[str]:
        """What the rules did and do not say, and what they say and never did."""
        for name, rule in rules.items():
            form, seen = form_of(rule), self._seen.get(name, Counter())
            if not seen:
                yield f"[{name}] never fired"
                continue
            for verb, side, counts in (
                ("takes", form.consumed, [_counts(consumed) for consumed, _ in seen]),
                ("gives", form.produced, [_counts(produced) for _, produced in seen]),
            ):
                yield from (f"[{name}] {verb} {problem}" for problem in _compared(side, counts))
            if name in self._misread:
                yield f"[{name}] does something else with its molecules than its notation says: {self._misread[name]}"


def _counts(kinds: tuple[type[Molecule], ...]) -> Counter[str]:
    return Counter(kind.__name__ for kind in kinds)


def _compared(side: Side, seen: Sequence[Mapping[str, int]]) -> Iterator[str]:
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
