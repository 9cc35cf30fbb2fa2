"""Budgets: what a job may use up by itself, and all jobs together on one day, before the human is asked.

Pure but for the calendar. Limits come from the job's snapshot; what the human has raised since, and what was told
of already, is kept with the bus's derived state and follows from its rows alone, so that an audit can say the same.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from parley.config import budget_amount, budget_words
from parley.core.soup import Soup
from parley.core.terms import Hold, thread_kind
from parley.engine.holds import BUDGET, kind_of, rest_of
from parley.ports import Loaded, Spent, Store
from parley.wording import count

SLOT = "handle budget"  # where it is kept what was raised, and told of
NOTICE_SHARE = 0.8
PARALLEL = "parallel"
DAY, JOB = "day", "job"
MOST = 1e15  # of anything that a turn says it used; a limit of that much is none
MOST_COUNTED = 10**12  # tokens, or millionths of a dollar, that one turn counts for: sums stay within 64 bits
_QUARTER_SECONDS = 900  # no zone's day begins in the middle of a quarter of an hour
_UNBOUNDED = 1 << 30

Name = tuple[str, str]  # of what, for the job or the day


# ---- what is counted -----------------------------------------------------------------------------


def plain(usage: Mapping[str, float]) -> dict[str, float]:
    """What a turn reports of its usage, without what is no amount: agents and programs say what they like."""
    return {name: value for name, value in usage.items() if math.isfinite(value) and 0 <= value <= MOST}


def tokens_of(usage: Mapping[str, Any]) -> int:
    """Tokens that count: in, out, and written to a cache. What was read from a cache is told apart, not counted."""
    counted = sum(int(_amount(usage.get(name))) for name in ("input_tokens", "output_tokens", "cache_creation_tokens"))
    return min(counted, MOST_COUNTED)


def micros_of(usage: Mapping[str, Any]) -> int:
    """Money that counts: what the provider says it costs, in millionths of a dollar."""
    return min(int(_amount(usage.get("cost_usd")) * 1_000_000 + 0.5), MOST_COUNTED)


def _amount(value: object) -> float:
    """A number as a row may hold it; what is none counts for nothing."""
    sound = isinstance(value, int | float) and math.isfinite(value) and 0 <= value <= MOST
    return float(value) if sound and isinstance(value, int | float) else 0.0


@dataclass(slots=True)
class Tally:
    """A sum that grows."""

    turns: int = 0
    tokens: int = 0
    micros: int = 0
    millis: int = 0

    def add(self, more: Spent | Tally) -> None:
        """Count something in."""
        self.turns += more.turns
        self.tokens += more.tokens
        self.micros += more.micros
        self.millis += more.millis

    def spent(self) -> Spent:
        """The sum as it stands."""
        return Spent(self.turns, self.tokens, self.micros, self.millis)

    def of(self, what: str) -> int | float:
        """How much of one thing, in the unit of its budget."""
        if what == "turns":
            return self.turns
        if what == "tokens":
            return self.tokens
        return self.micros / 1e6 if what == "money" else self.millis / 60_000


def total(spent: Mapping[str, Spent] | None) -> Tally:
    """What a job has used up on all its days."""
    found = Tally()
    for each in (spent or {}).values():
        found.add(each)
    return found


def day_of(now: float) -> str:
    """The day that it is where the user is. Whatever a clock says has a day: none may stop a job."""
    return _day(int(now // _QUARTER_SECONDS))


@lru_cache(maxsize=8)
def _day(quarter: int) -> str:
    try:
        return time.strftime("%Y-%m-%d", time.localtime(quarter * _QUARTER_SECONDS))
    except (OverflowError, OSError, ValueError):
        return "beyond the calendar"


# ---- what is allowed -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
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
    def cause(self) -> str:
        """What a hold says of it when it is spent."""
        return f"{BUDGET} {self.what} {self.scope}"

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


@dataclass(slots=True)
class Purse:
    """A job's budgets: the snapshot's, what was raised since, and what the human has been told of."""

    given: dict[Name, float]
    raised: dict[Name, tuple[float, str]] = field(default_factory=dict)  # to how much; of a day: on which
    told: dict[Name, str] = field(default_factory=dict)  # at which limit and on which day it was told of
    parallel: int = field(init=False)  # how many agents of the job may be at work at once
    capped: bool = field(init=False)  # whether anything can be spent at all
    shared: bool = field(init=False)  # whether it depends on what other jobs do
    timed: bool = field(init=False)  # whether time at work counts

    def __post_init__(self) -> None:
        names = {*self.given, *self.raised}
        self.parallel = int(self.limit(PARALLEL, JOB, "") or _UNBOUNDED)
        self.capped = any(what != PARALLEL for what, _ in names)
        self.shared = any(scope == DAY for _, scope in names)
        self.timed = ("minutes", JOB) in names

    @classmethod
    def of(cls, settings: Mapping[str, Any], kept: str = "") -> Purse:
        """The budgets that a job's snapshot gives it, with what is kept beside it."""
        budget = settings.get("budget") or {}
        scopes = (JOB, DAY)
        given = {(what, s): float(amount) for s in scopes for what, amount in (budget.get(s) or {}).items()}
        if not kept:
            return cls(given)
        document = json.loads(kept)
        return cls(
            given,
            {(what, s): (limit, day) for what, s, limit, day in document["raised"]},
            {(what, s): at for what, s, at in document["told"]},
        )

    def text(self) -> str:
        """What is kept of it beside the snapshot."""
        raised = [[what, scope, limit, day] for (what, scope), (limit, day) in sorted(self.raised.items())]
        told = [[what, scope, at] for (what, scope), at in sorted(self.told.items())]
        return json.dumps({"raised": raised, "told": told}, separators=(",", ":"))

    def limit(self, what: str, scope: str, day: str) -> float | None:
        """How much there may be; None: as much as you like. What was raised for a day holds on that day only."""
        limit, of = self.raised.get((what, scope), (None, ""))
        return self.given.get((what, scope)) if limit is None or of not in ("", day) else limit

    def names(self) -> list[Name]:
        """Every budget there is, the job's before the day's, and last what can't be spent."""
        return sorted({*self.given, *self.raised}, key=lambda name: (name[0] == PARALLEL, name[1] != JOB, name[0]))

    def lines(self, own: Tally, today: Tally, day: str, running: int = 0) -> list[Line]:
        """How each budget stands."""
        found = []
        for what, scope in self.names():
            limit = self.limit(what, scope, day)
            if limit is not None and limit < MOST:
                used = running if what == PARALLEL else (own if scope == JOB else today).of(what)
                found.append(Line(what, scope, used, limit))
        return found

    def news(self, lines: list[Line], day: str) -> list[Line]:
        """Those that are nearly spent and were not told of yet; they are from now on."""
        found = []
        for line in lines:
            near = line.what != PARALLEL and line.used >= NOTICE_SHARE * line.limit
            if near and self.tell(line.what, line.scope, line.limit, day):
                found.append(line)
        return found

    def tell(self, what: str, scope: str, limit: float, day: str) -> bool:
        """The human is told that a budget is nearly spent; whether that is news at this limit, on this day."""
        at = f"{float(limit)!r} {day}" if scope == DAY else repr(float(limit))
        new = self.told.get((what, scope)) != at
        self.told[what, scope] = at
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
            raised[what, scope] = (min(amount, MOST), day if scope == DAY else "")
        self.raised = raised
        self.__post_init__()


def is_spent(hold: Hold) -> bool:
    """Whether a hold is on a job because a budget is spent."""
    return kind_of(hold) == BUDGET and thread_kind(hold.thread) == JOB


def unpaid(soup: Soup) -> int:
    """How many such holds there are."""
    return sum(map(is_spent, soup.of(Hold)))


def name_of(hold: Hold) -> Name:
    """Which budget a hold is about."""
    what, _, scope = rest_of(hold).partition(" ")
    return what, scope


# ---- for the faces -------------------------------------------------------------------------------


def limit_words(budget: Mapping[str, Mapping[str, float]]) -> str:
    """What a job's snapshot allows it, as people read it."""
    said = []
    for scope, when in ((JOB, ""), (DAY, " a day")):
        for what, limit in budget[scope].items():
            if what != PARALLEL:
                noun = what.removesuffix("s") if limit == 1 else what
                said.append(f"{limit:.2f} USD{when}" if what == "money" else f"{_short(limit)} {noun}{when}")
    return ", ".join(said) or "no limit"


def standing(store: Store, loaded: Loaded, now: float) -> list[Line]:
    """How a job's budgets stand, as the bus has it."""
    purse = Purse.of(json.loads(loaded.row.settings), loaded.molecules.get(SLOT, ""))
    day = day_of(now)
    today = Tally()
    if purse.shared:
        today.add(store.spent(day))
    return purse.lines(total(loaded.spent), today, day, len(loaded.turns))


def remedies(job: str, line: Line) -> list[str]:
    """What can be done about a budget that is spent: half as much again, or at least what a small job takes."""
    least = {"turns": 40, "tokens": 1_000_000, "money": 5, "minutes": 60}.get(line.what, 1)
    more = max(least, int(line.limit / 2))
    return [f"parley resume {job} --budget {line.option}=+{more}", f"parley withdraw {job}"]
