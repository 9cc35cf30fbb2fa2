"""A design under check: its plan, its files, and what follows from them.

Each check of the design takes a blueprint and returns findings.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import PurePosixPath

from parley.base.text import cut
from parley.workflow.design.placeholders import unwritten
from parley.workflow.model.terms import PLAN, Finding, Plan, Worker

VAGUE = re.compile(
    r"\b(?:appropriate(?:ly)?|properly|correctly|reasonabl[ey]|nice(?:ly)?|good|well|robust|user[- ]friendly|as needed"
    r"|if possible|etc|and so on|somehow|high[- ]quality|fast enough|looks? (?:ok|fine|right)"
    r"|(?:it|all|everything) works)\b",
    re.IGNORECASE,
)
# What makes a short text with a vague word definite: a number, a path, a quotation, a name in capitals.
FIRM = re.compile(r"\d|[`'\"]\S|\w[/.]\w|\b[A-Z]{2,}\b")
LONG = 10  # words; a text this long says more than a vague word
FEWEST_WORDS = 2
# A run of letters; of scripts that put no space between words, each sign.
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+")


@dataclass
class Blueprint:
    """What is examined. `files`: all of orchestration/, by path from the tree's root; `existing`: what the tree has.

    Without `existing` nothing is known of the tree, and a path outside of orchestration/ is taken to be there.
    """

    files: Mapping[str, str]
    plan: Plan
    roles: Collection[str]
    existing: Callable[[str], bool] | None = None
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = self.plan.text.split("\n")

    # ---- where things stand ----------------------------------------------------------------------

    def find(self, rule: str, worker: Worker | None, words: str, text: str, remedy: str) -> Finding:
        """A finding in the plan, on the line of the worker's entry that has the words."""
        line = self.line(worker, words)
        return Finding(file=PLAN, line=line, agent=worker.name if worker else "", rule=rule, text=text, remedy=remedy)

    def line(self, worker: Worker | None, words: str) -> int:
        """Where the words stand in a worker's entry, or in the whole front matter; its first line if nowhere."""
        if worker is None:
            return next((at for at, line in enumerate(self.lines, 1) if line.startswith(words)), 1) if words else 1
        if not words or not worker.line:
            return worker.line
        for at in range(worker.line, self._ends.get(worker.line, len(self.lines)) + 1):
            if words in self.lines[at - 1]:
                return at
        return worker.line

    @cached_property
    def _ends(self) -> dict[int, int]:
        """The last line of the entry that begins on a line: the one before the next entry, or before the next key."""
        begins = sorted(worker.line for worker in self.plan.workers.values())
        tops = [at for at, line in enumerate(self.lines, 1) if line[:1].strip() and not line.startswith("#")]
        nexts = sorted([*begins, *tops, len(self.lines) + 1])
        return {begin: nexts[min(bisect_right(nexts, begin), len(nexts) - 1)] - 1 for begin in begins}

    # ---- who makes what, and for whom ------------------------------------------------------------

    @cached_property
    def makers(self) -> dict[str, list[str]]:
        """The agents that list a path among their outputs."""
        found: dict[str, list[str]] = {}
        for worker in self.plan.workers.values():
            for path in worker.outputs:
                found.setdefault(path.rstrip("/"), []).append(worker.name)
        return found

    @cached_property
    def _below(self) -> dict[str, set[str]]:
        """The agents that make something below a folder."""
        found: dict[str, set[str]] = {}
        for path, names in self.makers.items():
            for folder in PurePosixPath(path).parents:
                found.setdefault(str(folder), set()).update(names)
        return found

    def makers_of(self, path: str) -> list[str]:
        """Who makes a path, or, if it is a folder, something below it; or who makes the folder that it lies in."""
        path = path.rstrip("/")
        if path in self.makers:
            return self.makers[path]
        around = (name for folder in PurePosixPath(path).parents for name in self.makers.get(str(folder), ()))
        return sorted({*self._below.get(path, ()), *around})

    @cached_property
    def read(self) -> frozenset[str]:
        """Every path that an agent reads."""
        return frozenset(path for worker in self.plan.workers.values() for path in worker.inputs)

    @cached_property
    def by_name(self) -> dict[str, str]:
        """An output by its last name, in upper or lower case."""
        return {path.rpartition("/")[2].casefold(): path for path in reversed(self.makers)}

    @cached_property
    def before(self) -> dict[str, frozenset[str]]:
        """For each agent all that must be done before it begins, along `depends_on`."""
        found: dict[str, frozenset[str]] = {}
        for name in self.plan.workers:
            seen: set[str] = set()
            left = [name]
            while left:
                here = self.plan.workers.get(left.pop())
                fresh = [it for it in here.depends_on if it not in seen] if here else []
                seen.update(fresh)
                left.extend(fresh)
            found[name] = frozenset(seen)
        return found

    @cached_property
    def handoffs(self) -> dict[tuple[str, str], str]:
        """Who hands over to whom, and by what: a dependency, or a path that one makes and the other reads."""
        doers = {worker.name for worker in self.plan.doers}
        found: dict[tuple[str, str], str] = {}
        for taker in self.plan.doers:
            for giver in taker.depends_on:
                if giver in doers and giver != taker.name:
                    found[giver, taker.name] = f"{taker.name} depends on {giver}"
            for path in taker.inputs:
                for giver in self.makers_of(path):
                    if giver in doers and giver != taker.name:
                        found.setdefault((giver, taker.name), f"{taker.name} reads {path} of {giver}")
        return found


def unclear(text: str) -> str:
    """Why a criterion can't be checked; empty if it can, as far as words show."""
    words = len(WORD.findall(text))
    if unwritten(text):
        return "is not written yet"
    vague = VAGUE.search(text) if words < LONG and not FIRM.search(text) else None
    if vague:
        return f"can't be measured ({vague[0]!r})"
    return f"says too little ({cut(' '.join(text.split()), 60)!r})" if words < FEWEST_WORDS else ""


def cycles(edges: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Cycles in a graph, until without their members there are none: each leads from one to the next, and back."""
    left = {name: [there for there in edges[name] if there in edges] for name in edges}
    order = {name: at for at, name in enumerate(edges)}
    found: list[list[str]] = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            cycle = list(reversed(error.args[1][1:]))
            begin = cycle.index(min(cycle, key=order.__getitem__))
            found.append(cycle[begin:] + cycle[:begin])
            left = {name: [it for it in left[name] if it not in cycle] for name in left if name not in cycle}
        else:
            return sorted(found, key=lambda cycle: order[cycle[0]])
