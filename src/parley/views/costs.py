"""What turns cost: each turn of a job with its day, agent, model and usage, from the bus's rows alone.

Amounts are whole numbers, so that sums are exact however turns are grouped. A turn counts on the day on which it
began, as budgets count it; one that was lost counts too, with what it reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec import Struct

from parley.bus.rows import JobRow, StepRow
from parley.bus.store import Store
from parley.engine.values import job_settings, step_extra
from parley.engine.values.step_extra import StepExtra
from parley.engine.values.step_names import NamedRun, first_named, place_of
from parley.features.budgets.arithmetic import MOST_COUNTED, micros_of
from parley.protocol.codec import decode_as
from parley.roles.role_snapshot import RoleSnapshot


class Cost(NamedTuple):
    """What was used: turns, tokens, and money as far as agents report it."""

    turns: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_creation_tokens: int = 0
    cache_read_tokens: int = 0
    micros: int = 0  # money, in millionths of a dollar
    priced: int = 0  # turns that reported what they cost

    def plus(self, more: Cost) -> Cost:
        """Both together."""
        return Cost._make(one + other for one, other in zip(self, more, strict=True))

    @property
    def money(self) -> float | None:
        """In dollars; None where no turn reported any."""
        return self.micros / 1e6 if self.priced else None

    def document(self) -> dict[str, Any]:
        """The cost as `--json` gives it."""
        amounts = self._asdict()
        del amounts["micros"], amounts["priced"]
        return {**amounts, "cost_usd": self.money, "turns_with_cost": self.priced}


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCost:
    """One turn."""

    job: str
    turn: str
    day: str
    agent: str
    model: str  # that answered, or else was asked for; in brackets who ran the turn, where no model is known
    cost: Cost


def turn_costs(store: Store, row: JobRow) -> list[TurnCost]:
    """Every turn that a job has started, in that order."""
    costs = CostReader(row)
    for step in store.steps(row.job):
        if step.extra:
            costs.read(step, step_extra.read(step.extra))
    return costs.turns()


class CostReader:
    """Follows what a job's turns cost from step to step."""

    def __init__(self, row: JobRow) -> None:
        self._job = row.job
        self._asked = _asked_models(row)
        self._found: dict[str, TurnCost] = {}

    def read(self, step: StepRow, left: StepExtra) -> None:
        """Take in a step, and what it tells beside its rule."""
        if left.day:
            agent, turn = place_of(step).agent, decode_as(str, step.choice)
            self._found[turn] = TurnCost(
                job=self._job, turn=turn, day=left.day, agent=agent, model=self._asked(agent), cost=Cost(turns=1)
            )
        elif left.usage and (begun := self._found.get(left.turn or _turn_of(step))) is not None:
            self._found[begun.turn] = _ended(begun, left)

    def turns(self) -> list[TurnCost]:
        """Every turn that was started, in that order."""
        return list(self._found.values())


def total(turns: Iterable[TurnCost]) -> Cost:
    """All of them together."""
    cost = Cost()
    for turn in turns:
        cost = cost.plus(turn.cost)
    return cost


def grouped(turns: Iterable[TurnCost], key: Callable[[TurnCost], str]) -> dict[str, Cost]:
    """The costs by what a key says of each turn, in the order in which these come up."""
    found: dict[str, Cost] = {}
    for turn in turns:
        name = key(turn)
        found[name] = found.get(name, Cost()).plus(turn.cost)
    return found


def _ended(begun: TurnCost, left: StepExtra) -> TurnCost:
    usage = left.usage
    cost = Cost(
        turns=1,
        input_tokens=_whole(usage.get("input_tokens")),
        output_tokens=_whole(usage.get("output_tokens")),
        cache_creation_tokens=_whole(usage.get("cache_creation_tokens")),
        cache_read_tokens=_whole(usage.get("cache_read_tokens")),
        micros=micros_of(usage),
        priced=int("cost_usd" in usage),
    )
    return TurnCost(
        job=begun.job, turn=begun.turn, day=begun.day, agent=begun.agent, model=left.model or begun.model, cost=cost
    )


def _whole(amount: float | None) -> int:
    return min(int(amount), MOST_COUNTED) if amount is not None and 0 <= amount <= MOST_COUNTED else 0


def _turn_of(step: StepRow) -> str:
    run = first_named(NamedRun, step.consumed)
    return run.turn if run is not None else ""


class _Models(Struct, frozen=True):
    """What a job's settings say of models."""

    roles: tuple[RoleSnapshot, ...] = ()
    model: str = ""
    usual_model: str = ""


def _asked_models(row: JobRow) -> Callable[[str], str]:
    """Which model each agent was to be answered by, as the job's snapshot has it."""
    settings = job_settings.read(row, _Models)
    roles = {role.name: role for role in settings.roles}
    usual = settings.model or settings.usual_model

    def asked(agent: str) -> str:
        role = roles.get(agent) or RoleSnapshot(name=agent)
        runner = role.runner or row.agent
        model = role.model if role.model not in ("", "inherit") else usual if runner == row.agent else ""
        return model or f"({runner})"

    return asked
