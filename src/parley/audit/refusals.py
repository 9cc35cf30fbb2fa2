"""What a job's record says was refused: to whom, what, why and when, as the audit reads it.

What was refused to agents, and inputs that the engine took and did not follow, are in rows that the chain covers. A
merge is the user's own act, most often after the job: the input that tells of its refusal is signed, and a transaction
takes it only where the job went on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from parley.audit.row_checks import meta_of
from parley.base.text import fit, printable
from parley.base.wording import count
from parley.bus.rows import InputRow, MessageRow, StepRow
from parley.engine.values import human_inputs
from parley.engine.values.human_inputs import HostLostInput, NotMergedInput, Unsigned
from parley.engine.values.message_meta import OutcomeRefused
from parley.engine.values.step_extra import StepExtra
from parley.engine.values.step_names import place_of
from parley.protocol.molecules import ORCHESTRATOR

LISTED = 100  # told one by one; the rest is counted
REPEATED = LISTED // 2  # beyond so many, one that is listed already is left out
SHOWN = 10  # of them, where people read
LONGEST = 300  # characters of a reason
LONGEST_NAME = 60  # characters of who it was
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
        """What makes another one the same again: each turn that finds a file that is left out reports it."""
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

    def step(self, row: StepRow, left: StepExtra) -> None:
        """Take what a step leaves."""
        at = place_of(row)
        for kind, why in _told(left):
            self._add(
                Refusal(
                    kind=kind,
                    who=at.agent,
                    thread=at.thread,
                    why=fit(why, LONGEST),
                    time=row.time,
                    table="steps",
                    number=row.number,
                )
            )

    def message(self, row: MessageRow) -> None:
        """Take what the orchestrator told an agent of its outcome."""
        told = meta_of(row) if row.sender == ORCHESTRATOR else None
        if isinstance(told, OutcomeRefused):
            why = fit(told.reason, LONGEST)
            self._add(
                Refusal(
                    kind="violation",
                    who=row.agent,
                    thread=row.thread,
                    why=why,
                    time=row.time,
                    table="messages",
                    number=row.number,
                )
            )

    def input(self, row: InputRow, *, signed: bool | None, ended: bool) -> None:
        """Take what a person asked for and did not get; or another program in a person's name, which is not named."""
        if row.kind == HostLostInput.kind and signed is not False:
            return  # it asks for nothing
        became, asked = human_inputs.handled(row), fit(row.kind, LONGEST_NAME)
        who, kind, why = fit(row.by, LONGEST_NAME), "input", f"{asked}: {became.words if became is not None else ''}"
        if isinstance(became, Unsigned):
            why = f"{asked} in the name of {who}: {became.why}"
            who = ANOTHER_PROGRAM
        elif row.kind == NotMergedInput.kind:
            if signed is False:
                return  # told where signatures are
            given = human_inputs.read_or_none(row)
            kind, why = "merge", given.reason if isinstance(given, NotMergedInput) else ""
        elif became is None and ended and signed is not False:
            why = f"{asked}: the job had ended"
        elif became is None or not became.in_vain:
            return
        self._add(
            Refusal(
                kind=kind, who=who, thread="", why=fit(why, LONGEST), time=row.time, table="inputs", number=row.number
            )
        )

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


def _told(left: StepExtra) -> Iterator[tuple[str, str]]:
    yield from (("refused", text) for text in left.refused)
    yield from (("left_out", text) for text in left.left_out)
    if left.fault:
        yield "lost", left.fault
    if left.boundary is not None:
        yield from (("boundary", text) for text in left.boundary.faults)
