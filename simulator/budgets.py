"""What a run may use up, and whether it kept to it: counted from its steps, not by the engine's own sums."""

from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from parley.engine.attention import needs
from parley.engine.budgets import Purse, is_spent
from parley.engine.projections import Present
from parley.engine.records import LATE, REFUSED
from parley.ports import Files, InputRow, Store

STARTS = ("wake", "wake-int", "interrupt")


def budget(seed: int) -> dict[str, dict[str, float]]:
    """The budgets of a run, by chance: many have none. Of its own chance, so that the rest of a run is as it was."""
    rng = Random(f"budget {seed}")
    if rng.random() < 0.6:
        return {"job": {}, "day": {}}
    job: dict[str, float] = {}
    if rng.random() < 0.6:
        job["turns"] = rng.randrange(1, 25)
    if rng.random() < 0.4:
        job["parallel"] = rng.randrange(1, 4)
    if rng.random() < 0.3:
        job["minutes"] = rng.choice((0.05, 0.5, 3.0))
    return {"job": job, "day": {"turns": rng.randrange(1, 25)} if rng.random() < 0.3 else {}}


def raises(rng: Random, present: Present) -> dict[str, str]:
    """By how much the human raises what is spent."""
    causes = [hold.cause.split(" ")[1:] for hold in present.unpaid]
    return {what if scope == "job" else f"{scope}.{what}": f"+{rng.randrange(1, 12)}" for what, scope in causes}


def broken(store: Store, files: Files, job: str) -> str:
    """How a run has exceeded what it was allowed, if it has; or that it is held and nobody is told how to go on."""
    row = store.load(job).row
    taken: dict[int, list[InputRow]] = {}
    for given in store.inputs(job, waiting=False):
        if given.kind == "resume" and given.taken and not given.note.startswith((LATE, REFUSED)):
            taken.setdefault(given.taken, []).append(given)
    found = _exceeded(store, job, Purse.of(json.loads(row.settings)), taken)
    present = Present(store, job)
    if not found and present.unpaid and row.state not in ("DONE", "WITHDRAWN", "FAILURE"):
        shown = [way.command for need in needs(store, files, [row]) if need.kind == "budget" for way in need.exits]
        held = len([hold for hold in present.unpaid if is_spent(hold)])
        if sum("--budget" in command for command in shown) != held:
            found = f"it is held by {held} budgets, and is shown {shown}"
        elif not row.needs_human:
            found = "a budget is spent, and the listing does not say that it needs the human"
    return found


def _exceeded(store: Store, job: str, purse: Purse, taken: Mapping[int, list[InputRow]]) -> str:
    turns, days, running, heard = 0, dict[str, int](), set[str](), 0
    for step in store.steps(job):
        for number in range(heard + 1, step.transaction + 1):
            for given in taken.get(number, ()):
                body: dict[str, Any] = json.loads(given.body)
                if body.get("budget"):
                    purse.lift(body["budget"], str(body.get("day", "")))
        heard = step.transaction
        running -= set(_runs(step.consumed))
        if step.rule not in STARTS or '"day"' not in step.extra:
            continue  # the orchestrator's own turns are free
        running |= set(_runs(step.produced))
        day = json.loads(step.extra)["day"]
        turns, days[day] = turns + 1, days.get(day, 0) + 1
        for what, limit, used in (
            ("turns", purse.limit("turns", "job", day), turns),
            (f"turns of {day}", purse.limit("turns", "day", day), days[day]),
            ("agents at once", purse.limit("parallel", "job", day), len(running)),
        ):
            if limit is not None and used > limit:
                return f"step {step.number} starts one more than the {limit:g} {what} that are allowed"
    return _uncounted(store, job, days)


def _runs(briefs: str) -> list[str]:
    return [line.split(" ")[4] for line in briefs.split("\n") if line.startswith("Run ")]


def _uncounted(store: Store, job: str, days: Mapping[str, int]) -> str:
    there = {day: spent.turns for day, spent in (store.load(job).spent or {}).items()}
    return "" if there == days else f"the bus counts {there} turns, and {days} were started"
