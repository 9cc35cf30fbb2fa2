"""Budgets: what a job may use up by itself, and all jobs together on one day, before the human is asked.

Pure but for the calendar. Limits come from the job's snapshot; what the human has raised since, and what was told
of already, is kept with the bus's derived state and follows from its rows alone, so that an audit can say the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from parley.base.json_codec import decode, encode
from parley.base.wording import count
from parley.bus.rows import Loaded, Spent, sum_of
from parley.bus.store import Store
from parley.engine.turn.start import day_of
from parley.engine.values import job_settings
from parley.engine.values.hold_causes import Budget
from parley.settings.option_words import budget_amount, budget_words
from parley.settings.schema import BudgetSettings

SLOT = "handle budget"  # where it is kept what was raised, and told of
NOTICE_SHARE = 0.8
PARALLEL = "parallel"
DAY, JOB = "day", "job"
MOST = 1e15  # of anything that a turn says it used; a limit of that much is none
MOST_COUNTED = 10**12  # tokens, or millionths of a dollar, that one turn counts for: sums stay within 64 bits
_UNBOUNDED = 1 << 30

Name = tuple[str, str]  # of what, for the job or the day


# ---- what is counted -----------------------------------------------------------------------------


def plain(usage: Mapping[str, float]) -> dict[str, float]:
    """What a turn reports of its usage, without what is no amount: agents and programs say what they like."""
    return {name: value for name, value in usage.items() if math.isfinite(value) and 0 <= value <= MOST}


def tokens_of(usage: Mapping[str, Any]) -> int:
    """Tokens that count: in, out, and written to a cache. What was read from a cache is reported apart, not counted."""
    counted = sum(int(_amount(usage.get(name))) for name in ("input_tokens", "output_tokens", "cache_creation_tokens"))
    return min(counted, MOST_COUNTED)


def micros_of(usage: Mapping[str, Any]) -> int:
    """Money that counts: what the provider says it costs, in millionths of a dollar."""
    return min(int(_amount(usage.get("cost_usd")) * 1_000_000 + 0.5), MOST_COUNTED)


def _amount(value: object) -> float:
    """A number as a row may hold it; what is none counts for nothing."""
    sound = isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= MOST
    return float(value) if sound and isinstance(value, int | float) else 0.0


def amount_of(spent: Spent, what: str) -> int | float:
    """How much of one thing was used, in the unit of its budget."""
    if what == "turns":
        return spent.turns
    if what == "tokens":
        return spent.tokens
    return spent.micros / 1e6 if what == "money" else spent.millis / 60_000


# ---- what is allowed -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """How one budget stands."""

    what: str  # turns, tokens, money, minutes, parallel
    scope: str  # job, day
    used: int | float  # a record tells 3 from 3.0, and so does what is compiled
    limit: float

    @property
    def spent(self) -> bool:
        """Whether nothing is left of it. Agents at work side by side are let wait instead."""
        return self.used >= self.limit and self.what != PARALLEL

    @property
    def cause(self) -> Budget:
        """What a hold says of it when it is spent."""
        return Budget(self.what, self.scope)

    @property
    def option(self) -> str:
        """What `--budget` calls it."""
        return self.what if self.scope == JOB else f"{self.scope}.{self.what}"

    def document(self) -> dict[str, Any]:
        """The line as `--json` gives it."""
        return {"what": self.what, "scope": self.scope, "used": self.used, "limit": self.limit}

    def words(self) -> str:
        """The line as people read it."""
        today = " today, in all jobs" if self.scope == DAY else ""
        if self.what == PARALLEL:
            return f"{self.used:g} of {count(self.limit, 'agent')} at once"
        if self.what == "money":
            return f"{self.used:.2f} of {self.limit:.2f} USD{today}"
        what = self.what.removesuffix("s") if self.limit == 1 else self.what
        return f"{_short(self.used)} of {_short(self.limit)} {what}{today}"


def _short(number: float) -> str:
    return f"{number:,.1f}" if number != int(number) else f"{int(number):,}"


class Raised(Struct, frozen=True, array_like=True):
    """A budget that was raised: to how much, and a day's on which day."""

    what: str
    scope: str
    limit: float
    day: str


class ToldOf(Struct, frozen=True, array_like=True):
    """A budget of which the human was told that it is nearly spent: at which limit, and a day's on which day."""

    what: str
    scope: str
    limit: float
    day: str


class _Changed(Struct, frozen=True):
    """What is kept of a purse beside the job's snapshot."""

    raised: tuple[Raised, ...]
    told: tuple[ToldOf, ...]


class BudgetPart(Struct, frozen=True):
    """What a job's settings say of budgets."""

    budget: BudgetSettings = BudgetSettings()


@dataclass(slots=True)
class Purse:
    """A job's budgets: the snapshot's, what was raised since, and what the human has been told of."""

    given: dict[Name, float]
    raised: dict[Name, Raised] = field(default_factory=dict)
    told: dict[Name, ToldOf] = field(default_factory=dict)
    parallel: int = field(init=False)  # how many agents of the job may be at work at once
    capped: bool = field(init=False)  # whether anything can be spent at all
    shared: bool = field(init=False)  # whether it depends on what other jobs do
    timed: bool = field(init=False)  # whether time at work counts
    limited: bool = field(init=False)  # whether a turn may have to wait

    def __post_init__(self) -> None:
        names = {*self.given, *self.raised}
        self.parallel = int(self.limit(PARALLEL, JOB, "") or _UNBOUNDED)
        self.capped = any(what != PARALLEL for what, _ in names)
        self.shared = any(scope == DAY for _, scope in names)
        self.timed = ("minutes", JOB) in names
        self.limited = self.capped or self.parallel < _UNBOUNDED

    @classmethod
    def of(cls, settings: BudgetPart, kept: str = "") -> Purse:
        """The budgets that a job's settings give it, with what is kept beside them."""
        scopes = {JOB: settings.budget.job, DAY: settings.budget.day}
        given = {(what, scope): amount for scope, amounts in scopes.items() for what, amount in amounts.items()}
        if not kept:
            return cls(given)
        changed = decode(kept, _Changed)
        return cls(
            given,
            {(one.what, one.scope): one for one in changed.raised},
            {(one.what, one.scope): one for one in changed.told},
        )

    def text(self) -> str:
        """What is kept of it beside the snapshot."""
        raised = tuple(self.raised[name] for name in sorted(self.raised))
        return encode(_Changed(raised, tuple(self.told[name] for name in sorted(self.told))))

    def limit(self, what: str, scope: str, day: str) -> float | None:
        """How much there may be; None: as much as you like. What was raised for a day holds on that day only."""
        raised = self.raised.get((what, scope))
        return self.given.get((what, scope)) if raised is None or raised.day not in ("", day) else raised.limit

    def names(self) -> list[Name]:
        """Every budget there is, the job's before the day's, and last what can't be spent."""
        return sorted({*self.given, *self.raised}, key=lambda name: (name[0] == PARALLEL, name[1] != JOB, name[0]))

    def lines(self, own: Spent, today: Spent, day: str, running: int = 0) -> list[BudgetLine]:
        """How each budget stands."""
        found = []
        for what, scope in self.names():
            limit = self.limit(what, scope, day)
            if limit is not None and limit < MOST:
                used = running if what == PARALLEL else amount_of(own if scope == JOB else today, what)
                found.append(BudgetLine(what, scope, used, limit))
        return found

    def news(self, lines: list[BudgetLine], day: str) -> list[BudgetLine]:
        """Those that are nearly spent and were not told of yet; they are from now on."""
        found = []
        for line in lines:
            near = line.what != PARALLEL and line.used >= NOTICE_SHARE * line.limit
            if near and self.tell(line.what, line.scope, line.limit, day):
                found.append(line)
        return found

    def tell(self, what: str, scope: str, limit: float, day: str) -> bool:
        """The human is told that a budget is nearly spent; whether that is news at this limit, on this day."""
        told = ToldOf(what, scope, float(limit), day if scope == DAY else "")
        new = self.told.get((what, scope)) != told
        self.told[what, scope] = told
        return new

    def lift(self, words: Mapping[str, str], day: str) -> None:
        """Raise budgets: `+40` by that much, `80` to that much, `none` for no limit.

        ValueError, and nothing changed, if that can't be.
        """
        named = budget_words(",".join(f"{name}={word}" for name, word in words.items()))
        raised = dict(self.raised)
        for (what, scope), word in named.items():
            amount = budget_amount(what, word.removeprefix("+"), f"--budget {what}={word}")
            if word.startswith("+"):
                before = self.limit(what, scope, day)
                if before is None:
                    option = what if scope == JOB else f"{scope}.{what}"
                    raise ValueError(f"there is no budget {option} that could be raised; set one: {option}={word[1:]}")
                amount += before
            raised[what, scope] = Raised(what, scope, min(amount, MOST), day if scope == DAY else "")
        self.raised = raised
        self.__post_init__()


# ---- for the faces -------------------------------------------------------------------------------


def limit_words(budget: BudgetSettings) -> str:
    """What a job's settings allow it, as people read it."""
    said = []
    for amounts, when in ((budget.job, ""), (budget.day, " a day")):
        for what, limit in amounts.items():
            if what != PARALLEL:
                noun = what.removesuffix("s") if limit == 1 else what
                said.append(f"{limit:.2f} USD{when}" if what == "money" else f"{_short(limit)} {noun}{when}")
    return ", ".join(said) or "no limit"


def standing(store: Store, loaded: Loaded, now: float) -> list[BudgetLine]:
    """How a job's budgets stand, as the bus has it."""
    purse = Purse.of(job_settings.read(loaded.row, BudgetPart), loaded.molecules.get(SLOT, ""))
    day = day_of(now)
    today = store.spent(day) if purse.shared else Spent()
    return purse.lines(sum_of((loaded.spent or {}).values()), today, day, len(loaded.turns))


def more_of(line: BudgetLine) -> str:
    """How a spent budget is raised, as `--budget` takes it: half as much again, or at least what a small job takes."""
    least = {"turns": 40, "tokens": 1_000_000, "money": 5, "minutes": 60}.get(line.what, 1)
    return f"{line.option}=+{max(least, int(line.limit / 2))}"


def raising(job: str, line: BudgetLine) -> str:
    """The command that raises a spent budget, and lets the job go on."""
    return f"parley resume {job} --budget {more_of(line)}"
