"""Spending: where budgets meet a job. What turns use up is counted, told of, and ends in a hold that asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from parley.core.errors import Disabled, Refused
from parley.core.terms import HUMAN, ORCHESTRATOR, Hold
from parley.engine import budgets
from parley.engine.budgets import DAY, JOB, Line, Tally
from parley.engine.live import LiveJob
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.ports import Ended, Spent

Today = Callable[[str], Tally]  # what all jobs have used up on a day, up to this moment


# ---- counting ------------------------------------------------------------------------------------


def count(live: LiveJob, world: World, turn: Turn, event: Ended) -> None:
    """Count what a turn used that is over, however it ended: a lost one is paid for too."""
    if not event.usage and not live.purse.timed:
        return
    turn.usage = budgets.plain(event.usage)
    millis = 0
    if live.purse.timed:
        clock(live, world)
        millis, live.worked_seconds = int(live.worked_seconds * 1000), 0.0
        turn.worked = millis
    tokens, micros = budgets.tokens_of(turn.usage), budgets.micros_of(turn.usage)
    if tokens or micros or millis:
        live.spend(turn.day, Spent(0, tokens, micros, millis))


def clock(live: LiveJob, world: World) -> None:
    """Count time at work: while any turn is out that does not wait for its provider. No time is counted twice."""
    now = world.clock.monotonic()
    if live.busy_since is not None:
        live.worked_seconds += max(0.0, now - live.busy_since)
    live.busy_since = now if any(not turn.waiting for turn in live.running.values()) else None


def left_by(turn: Turn) -> dict[str, Any]:
    """What a lost turn is known to have used, for the step that ends it."""
    usage = {name: value for name, value in turn.usage.items() if name != "turns"}
    return {**({"usage": usage} if usage else {}), **({"worked": turn.worked} if turn.worked else {})}


def of_step(left: dict[str, Any]) -> Spent:
    """What a step that ends a turn says was used: the audit's own reading of the same."""
    usage, worked = left.get("usage"), left.get("worked", 0)
    counted = usage if isinstance(usage, dict) else {}
    return Spent(
        0, budgets.tokens_of(counted), budgets.micros_of(counted), worked if type(worked) is int and worked > 0 else 0
    )


# ---- before a turn -------------------------------------------------------------------------------


def allows(live: LiveJob, world: World, today: Today) -> bool:
    """Whether one more turn may start; where it may not, the job is held, and the human asked."""
    day = budgets.day_of(world.clock.now())
    spent = [line for line in _lines(live, day, today) if line.spent]
    for line in spent:
        if Hold(live.thread, line.cause) not in live.soup:
            live.fire("hold", live.thread, choice=line.cause, who=ORCHESTRATOR, time=world.clock.now())
    return not spent


def news(live: LiveJob, day: str, today: Today) -> list[Line]:
    """The budgets that are nearly spent with the turn that starts now, each told of once."""
    own = Tally(1)
    own.add(live.used)
    all_ = Tally(1)
    all_.add(today(day) if live.purse.shared else Tally())
    found = live.purse.news(live.purse.lines(own, all_, day), day)
    if found:
        live.keep(budgets.SLOT, live.purse.text())
    return found


def _lines(live: LiveJob, day: str, today: Today) -> list[Line]:
    return live.purse.lines(live.used, today(day) if live.purse.shared else Tally(), day)


def refuse_spark(live: LiveJob, world: World, turn: Turn) -> None:
    """Refuse to dispatch where no turn is left for it: with what is used, at work, and planned by turns under way."""
    if not live.purse.capped:
        return
    day = budgets.day_of(world.clock.now())
    planned = sum(len(each.admission.sparked) for each in live.running.values()) + len(live.queued)
    for line in _lines(live, day, lambda day: today_of(world, [live], day)):
        if line.what == "turns" and line.used + planned >= line.limit:
            soon = f", {planned} more are planned" if planned else ""
            raise Refused(
                f"no turn is left for it: {line.words()} are used{soon}; "
                "do it yourself, close what is open, or say what is missing"
            )
        if line.spent:
            raise Refused(f"the budget is spent: {line.words()}; do what you can yourself, and say what is missing")


def today_of(world: World, jobs: list[LiveJob], day: str) -> Tally:
    """What all jobs have used up on a day: what the bus has, and what these are about to commit."""
    found = Tally()
    found.add(world.store.spent(day))
    for live in jobs:
        waiting = live.spending(day)
        if waiting is not None:
            found.add(waiting)
    return found


# ---- going on ------------------------------------------------------------------------------------


def review(live: LiveJob, world: World) -> None:
    """Release what was held for a day's budget and is not spent any more: it is another day."""
    if any(budgets.name_of(hold)[1] == DAY for hold in live.soup.all(Hold, live.thread) if budgets.is_spent(hold)):
        release(live, world, ORCHESTRATOR)


def release(live: LiveJob, world: World, who: str) -> list[Line]:
    """End the holds for budgets that are not spent any more; those that still are."""
    now = world.clock.now()
    day = budgets.day_of(now)
    spent = {line.cause: line for line in _lines(live, day, lambda day: today_of(world, [live], day)) if line.spent}
    left: list[Line] = []
    for hold in [hold for hold in live.soup.all(Hold, live.thread) if budgets.is_spent(hold)]:
        if hold.cause in spent:
            left.append(spent[hold.cause])
            continue
        live.fire("release", live.thread, choice=hold.cause, who=who, time=now)
        live.rouse()
    return left


def lift(live: LiveJob, world: World, words: dict[str, str], day: str) -> str:
    """Raise budgets as the human says; what became of it."""
    try:
        live.purse.lift(words, day)
    except ValueError as error:
        raise Disabled(str(error)) from error
    live.keep(budgets.SLOT, live.purse.text())
    left = release(live, world, HUMAN)
    if left:
        return f"raised; still spent: {'; '.join(line.words() for line in left)}"
    lines = _lines(live, day, lambda day: today_of(world, [live], day))
    said = [line.words() for line in lines if line.option in words]
    said += [f"{option} without a limit" for option in words if option not in {line.option for line in lines}]
    return f"the budget is now {', '.join(said)}"


__all__ = ["DAY", "JOB", "allows", "clock", "count", "left_by", "lift", "news", "of_step", "refuse_spark", "release"]
