"""What a job's record says was refused: to whom, what, why and when, as the audit reads it.

What was refused to agents, and inputs that the engine took and did not follow, are in rows that the chain covers. A
merge is the user's own act, most often after the job: the input that tells of its refusal is signed, and a transaction
takes it only where the job went on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from parley.core.terms import ORCHESTRATOR
from parley.engine.records import NOT_DONE, REFUSED, UNSIGNED
from parley.ports import MERGE, InputRow, MessageRow, StepRow
from parley.text import fit, printable
from parley.wording import count

LISTED = 100  # told one by one; the rest is counted
REPEATED = LISTED // 2  # beyond so many none is told that is there already
SHOWN = 10  # of them, where people read
LONGEST = 300  # characters of a reason
LONGEST_NAME = 60  # characters of who it was
VIOLATION = "[VIOLATION] "
ANOTHER_PROGRAM = "another program"
WORDS = {
    "refused": "was refused",
    "left_out": "left what is not kept",
    "lost": "lost its turn",
    "boundary": "got no cage that held",
    "violation": "gave an outcome that did not count",
    "input": "asked for what was not done",
    "merge": "was refused a merge",
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that was not let through."""

    kind: str
    who: str
    thread: str
    why: str
    time: float
    table: str
    number: int

    @property
    def same(self) -> tuple[str, str, str, str]:
        """What makes another one the same again: a file that is left out is told of in each turn that finds it."""
        return self.kind, self.who, self.thread, self.why

    def document(self) -> dict[str, Any]:
        """As a JSON-able value."""
        return {name: getattr(self, name) for name in self.__slots__}

    def __str__(self) -> str:
        return printable(f"{self.who} {WORDS[self.kind]}: {self.why} ({self.table} {self.number})")


@dataclass(slots=True)
class Refusals:
    """Counted over a job, by agent and kind; the first of them in full. Repeating one hides no other for long."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    listed: list[Refusal] = field(default_factory=list)
    times: Counter[tuple[str, str, str, str]] = field(default_factory=Counter)  # of those that are listed

    def step(self, row: StepRow, left: Mapping[str, Any]) -> None:
        """Take what a step leaves."""
        who, _, rest = row.at.partition(" ")
        for kind, why in _told(left):
            self._add(Refusal(kind, who, rest.partition(" ")[0], fit(why, LONGEST), row.time, "steps", row.number))

    def message(self, row: MessageRow) -> None:
        """Take what the orchestrator told an agent of its outcome."""
        if row.sender == ORCHESTRATOR and row.body.startswith(VIOLATION):
            why = fit(row.body.removeprefix(VIOLATION), LONGEST)
            self._add(Refusal("violation", row.agent, row.thread, why, row.time, "messages", row.number))

    def input(self, row: InputRow, *, signed: bool | None, ended: bool) -> None:
        """Take what a person asked for and did not get; or another program in a person's name, which is not named."""
        who, kind, why = fit(row.by, LONGEST_NAME), "input", f"{fit(row.kind, LONGEST_NAME)}: {row.note}"
        if row.note == UNSIGNED:
            why = f"{fit(row.kind, LONGEST_NAME)} in the name of {who}: {UNSIGNED.removeprefix(REFUSED)}"
            who = ANOTHER_PROGRAM
        elif row.kind == MERGE:
            if signed is False:
                return  # told where signatures are
            kind, why = "merge", _reason(row.body)
        elif not row.taken and ended and signed is not False:
            why = f"{fit(row.kind, LONGEST_NAME)}: the job had ended"
        elif not row.note.startswith(NOT_DONE):
            return
        self._add(Refusal(kind, who, "", fit(why, LONGEST), row.time, "inputs", row.number))

    def _add(self, one: Refusal) -> None:
        self.counts[one.who, one.kind] += 1
        known = one.same in self.times
        if len(self.listed) < (REPEATED if known else LISTED):
            self.listed.append(one)
            known = True
        if known:
            self.times[one.same] += 1

    def document(self) -> dict[str, Any]:
        """All of it as a JSON-able value."""
        by: dict[str, dict[str, int]] = {}
        for (who, kind), number in sorted(self.counts.items()):
            by.setdefault(who, {})[kind] = number
        total = self.counts.total()
        listed = [one.document() for one in self.listed]
        return {"count": total, "by": by, "listed": listed, "more": total - len(listed)}

    def lines(self) -> list[str]:
        """All of it as people read it; nothing where nothing was refused."""
        total = self.counts.total()
        if not total:
            return []
        by = Counter[str]()
        for (who, _), number in self.counts.items():
            by[who] += number
        agents = ", ".join(f"{number} of {printable(who)}" for who, number in sorted(by.items()))
        shown = list({one.same: one for one in reversed(self.listed)}.values())[::-1][:SHOWN]  # each where it was first
        more = total - sum(self.times[one.same] for one in shown)
        return [
            f"{count(total, 'refusal is', 'refusals are')} recorded: {agents}",
            *(f"  {one}{_times(self.times[one.same])}" for one in shown),
            *((f"  and {more} more; --json lists {LISTED} of them, `parley log` all",) if more else ()),
        ]


def _times(number: int) -> str:
    return f", {number} times" if number > 1 else ""


def _told(left: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for kind in ("refused", "left_out"):
        for text in _texts(left.get(kind)):
            yield kind, text
    if fault := left.get("fault"):
        yield "lost", str(fault)
    verdict = left.get("boundary")
    if isinstance(verdict, Mapping):
        for text in _texts(verdict.get("faults")):
            yield "boundary", text


def _reason(body: str) -> str:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    return str(said.get("reason", "")) if isinstance(said, dict) else ""


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, list):
        yield from map(str, value)
