"""Every soup within stated bounds: an exhaustive search from [open] that checks all the protocol promises.

Within its bounds the search is complete, breadth first, so that what it finds comes with a shortest trace. It
counts every soup that differs in anything; no two are held to be alike.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from parley.protocol.errors import Disabled, Refused, Violated
from parley.protocol.molecules import AskHuman, AskQuestion, Molecule, Proxy, Send, Surface, Terminate
from parley.protocol.rule import Firing, Opening, Reaction, Rule, RuleSet
from parley.protocol.rules import RULES, react
from parley.protocol.soup import Soup
from parley.verify.exploration_menu import CODER, FREE, NOTHING, SQUAD, Bounds, Choices, Spent, plain
from parley.verify.invariants import check
from parley.verify.laws import judge
from parley.verify.step import Step

__all__ = [
    "CODER",
    "ENDING",
    "SQUAD",
    "WINDING",
    "Atlas",
    "Bounds",
    "Choices",
    "Counterexample",
    "SearchReport",
    "explore",
]

WINDING = FREE - {"open"} | {"escalate"}
"""The rules that carry on what was begun and begin nothing."""

ENDING = frozenset(name for name in WINDING if name.startswith("term-")) | {"cascade"}


# ---- the search ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counterexample:
    """Something that the protocol promises and these rules do not keep, with a shortest way to it."""

    name: str
    problem: str
    trace: tuple[Firing, ...]

    def __str__(self) -> str:
        steps = (
            f"  {number}. [{firing.rule}] {', '.join(firing.at)} {_chosen(firing)}".rstrip()
            for number, firing in enumerate(self.trace, 1)
        )
        return "\n".join((f"{self.name}: {self.problem}", *steps))


def _chosen(firing: Firing) -> str:
    plain = firing.choice is None or isinstance(firing.choice, Opening)
    return "" if plain else str(firing.choice)


@dataclass(frozen=True, slots=True)
class SearchReport:
    """What a search has seen. `soups` counts distinct soups; no two are held to be alike."""

    bounds: Bounds
    soups: int
    nodes: int  # distinct soups with what was spent on the way
    steps: int
    fired: frozenset[str]
    met: frozenset[tuple[str, str]]  # pairs of rules, in the rules' order, enabled in one soup
    finding: Counterexample | None = None


class Atlas:
    """The soups that several searches with the same rules have seen, so that each is counted and checked once."""

    def __init__(self) -> None:
        self.molecules: list[Molecule] = []
        self.numbers: dict[Molecule, int] = {}
        self.soups: set[tuple[int, ...]] = set()

    def number(self, molecule: Molecule) -> int:
        """The number that stands for a molecule."""
        number = self.numbers.get(molecule)
        if number is None:
            number = self.numbers[molecule] = len(self.molecules)
            self.molecules.append(molecule)
        return number


class _Search:
    def __init__(self, bounds: Bounds, rules: RuleSet, atlas: Atlas) -> None:
        self.atlas = atlas
        self.rules = rules
        self.choices = Choices(bounds)
        self.bounds = bounds
        self.found: dict[tuple[tuple[int, ...], Spent], int] = {}
        self.nodes: list[tuple[tuple[int, ...], Spent]] = []
        self.came: list[tuple[int, Firing] | None] = []
        self.prelude: list[Firing] = []
        self.edges: list[list[tuple[str, int]]] = []
        self.with_rule: dict[str, set[str]] = {name: set() for name in rules}
        self.fired: set[str] = set()
        self.resting: list[bool] = []
        self.asking: list[bool] = []
        self.threads: dict[str, int] = {}
        self.present: list[int] = []  # threads that are there, as bits
        self.doomed: list[int] = []  # threads that are dying, with all below them

    def run(self) -> SearchReport:
        finding: Counterexample | None = None
        here = 0
        try:
            self._begin()
            while here < len(self.nodes):
                self._expand(here)
                here += 1
            self._judge_graph()
        except _Found as found:
            finding = Counterexample(found.name, found.problem, self._trace(found.node, found.last))
        steps = sum(len(edges) for edges in self.edges)
        met = {(one, other) for one, other in combinations(self.rules, 2) if other in self.with_rule[one]}
        soups = len({key for key, _ in self.nodes})
        return SearchReport(
            bounds=self.bounds,
            soups=soups,
            nodes=len(self.nodes),
            steps=steps,
            fired=frozenset(self.fired),
            met=frozenset(met),
            finding=finding,
        )

    def _begin(self) -> None:
        """Go through the prelude, checking every step; the search starts where it ends."""
        soup = Soup()
        opening = self.bounds.opening
        for firing in (Firing("open", (opening.charter.job,), opening), *self.bounds.prelude):
            self._check(soup, -1)
            reaction = react(soup, firing, self.rules)
            self._judge(soup, firing, reaction, -1)
            soup = soup.after(reaction.consumed, reaction.produced)
            self.prelude.append(firing)
            self.fired.add(firing.rule)
        self._arrive_at((tuple(sorted(self.atlas.number(molecule) for molecule in soup)), NOTHING), None)

    def _check(self, soup: Soup, here: int) -> None:
        try:
            check(soup, self.rules)
        except Violated as violated:
            raise _Found.by(violated, here) from violated

    def _judge(self, soup: Soup, firing: Firing, reaction: Reaction, here: int) -> None:
        try:
            judge(Step(soup, firing, reaction))
        except Violated as violated:
            raise _Found.by(violated, here, firing) from violated

    def _expand(self, here: int) -> None:
        key, spent = self.nodes[here]
        soup = Soup(self.atlas.molecules[number] for number in key)
        new = key not in self.atlas.soups
        if new:
            self.atlas.soups.add(key)
            self._check(soup, here)
        self._describe(soup)
        self.choices.spent = spent
        out: list[tuple[str, int]] = []
        self.edges.append(out)
        for firing, reaction, paid in self._firings(soup):
            self._judge(soup, firing, reaction, here)
            out.append((firing.rule, self._arrive(here, key, firing, reaction, paid)))
        fired = {rule for rule, _ in out}
        self.fired |= fired
        if new:
            self._meet(fired.union(self._idle_rules(soup, fired)))

    def _firings(self, soup: Soup) -> Iterator[tuple[Firing, Reaction, Spent]]:
        for rule in self.rules.values():
            for firing in rule.sites(soup, self.choices):
                paid = self.choices.pay(soup, firing)
                if paid is None:
                    continue
                try:
                    reaction = rule.react(soup, firing)
                except (Disabled, Refused):
                    continue
                yield firing, reaction, paid

    def _idle_rules(self, soup: Soup, fired: set[str]) -> Iterator[str]:
        """The rules that the soup enables though the bounds leave no choice of them."""
        for name, rule in self.rules.items():
            if name in fired or fired <= self.with_rule[name]:
                continue  # it would make no new pair of rules
            if any(_fires(rule, soup, firing) for firing in rule.sites(soup, plain)):
                yield name

    def _meet(self, enabled: set[str]) -> None:
        for name in enabled:
            self.with_rule[name] |= enabled

    def _arrive(self, here: int, key: tuple[int, ...], firing: Firing, reaction: Reaction, paid: Spent) -> int:
        left = list(key)
        for molecule in reaction.consumed:
            number = self.atlas.numbers.get(molecule, -1)
            if number not in left:
                raise _Found("left_side", f"[{firing.rule}] takes what is not there: {molecule}", here, firing)
            left.remove(number)
        left.extend(self.atlas.number(molecule) for molecule in reaction.produced)
        return self._arrive_at((tuple(sorted(left)), paid), (here, firing))

    def _arrive_at(self, node: tuple[tuple[int, ...], Spent], came: tuple[int, Firing] | None) -> int:
        there = self.found.get(node)
        if there is None:
            there = self.found[node] = len(self.nodes)
            self.nodes.append(node)
            self.came.append(came)
        return there

    def _describe(self, soup: Soup) -> None:
        """Remember of the soup what the graph is judged by."""
        self.resting.append(not soup.stirring)
        sending = any(send.questions for send in soup.of(Send))
        self.asking.append(sending or any(soup.of(kind) for kind in (AskQuestion, Proxy, AskHuman)))
        present = 0
        for surface in soup.of(Surface):
            present |= self._bit(surface.thread)
        doomed = 0
        dying = [terminate.thread for terminate in soup.of(Terminate)]
        while dying:
            thread = dying.pop()
            doomed |= self._bit(thread)
            dying.extend(soup.children(thread))
        self.present.append(present)
        self.doomed.append(doomed)

    def _bit(self, thread: str) -> int:
        return 1 << self.threads.setdefault(thread, len(self.threads))

    def _trace(self, node: int, last: Firing | None) -> tuple[Firing, ...]:
        trace = [last] if last else []
        came = self.came[node] if node >= 0 else None
        while came is not None:
            node, firing = came
            trace.append(firing)
            came = self.came[node]
        return (*self.prelude, *reversed(trace))

    # ---- what is judged by the whole graph ---------------------------------------------------

    def _judge_graph(self) -> None:
        self._reaches("quiescence", "nothing brings this job to rest", self.resting)
        answered = [not asking for asking in self.asking]
        self._reaches("escalation_reaches_respond", "a question here is never answered", answered)
        self._cascades()

    def _reaches(self, name: str, problem: str, goals: list[bool]) -> None:
        """From every node a goal can be reached by winding down."""
        back: list[list[int]] = [[] for _ in self.nodes]
        for here, edges in enumerate(self.edges):
            for rule, there in edges:
                if rule in WINDING:
                    back[there].append(here)
        reached = list(goals)
        todo = deque(node for node, goal in enumerate(goals) if goal)
        while todo:
            for node in back[todo.popleft()]:
                if not reached[node]:
                    reached[node] = True
                    todo.append(node)
        if not all(reached):
            raise _Found(name, problem, reached.index(False))

    def _cascades(self) -> None:
        """A withdrawal ends in every order of its steps, and nothing of what it terminates is left."""
        out = [[there for rule, there in edges if rule in ENDING] for edges in self.edges]
        back: list[list[int]] = [[] for _ in self.nodes]
        for here, targets in enumerate(out):
            for there in targets:
                back[there].append(here)
        pending = [len(targets) for targets in out]
        left = [0] * len(out)  # what may be there when the withdrawal has come to its end
        todo = deque(node for node, count in enumerate(pending) if not count)
        judged = 0
        while todo:
            node = todo.popleft()
            judged += 1
            left[node] |= 0 if out[node] else self.present[node]
            if left[node] & self.doomed[node]:
                raise _Found("cascade_completeness", "something outlives its withdrawal", node)
            for before in back[node]:
                left[before] |= left[node]
                pending[before] -= 1
                if not pending[before]:
                    todo.append(before)
        if judged < len(out):
            raise _Found("cascade_completeness", "a withdrawal goes round in circles", 0)


def _fires(rule: Rule, soup: Soup, firing: Firing) -> bool:
    try:
        rule.react(soup, firing)
    except (Disabled, Refused):
        return False
    return True


class _Found(Exception):
    def __init__(self, name: str, problem: str, node: int, last: Firing | None = None) -> None:
        super().__init__(problem)
        self.name, self.problem, self.node, self.last = name, problem, node, last

    @classmethod
    def by(cls, violated: Violated, node: int, last: Firing | None = None) -> _Found:
        return cls(violated.name, violated.problem, node, last)


def explore(bounds: Bounds, rules: RuleSet = RULES, atlas: Atlas | None = None) -> SearchReport:
    """Visit every soup that the rules reach within the bounds; stop at the first that breaks a promise."""
    return _Search(bounds, rules, atlas if atlas is not None else Atlas()).run()
