"""What a run may use up, and whether it kept to it: counted from its steps, not by the engine's own sums."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

from parley.bus.store import Store
from parley.engine.values import human_inputs, job_settings, step_extra
from parley.engine.values.hold_causes import budgets as spent_in
from parley.engine.values.human_inputs import ResumeInput
from parley.engine.values.step_names import NamedRun, all_named
from parley.features.budgets.arithmetic import BudgetPart, Purse
from parley.ports.machine import Files
from parley.views.job_view import Present
from parley.views.questions.needs import needs

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
    causes = [cause for _, cause in spent_in(present.soup, f"job:{present.job}")]
    options = [cause.what if cause.scope == "job" else f"{cause.scope}.{cause.what}" for cause in causes]
    return {option: f"+{rng.randrange(1, 12)}" for option in options}


def broken(store: Store, files: Files, job: str) -> str:
    """How a run has exceeded what it was allowed, if it has; or that it is held and nobody is told how to go on."""
    row = store.load(job).row
    taken: dict[int, list[ResumeInput]] = {}
    for one in store.inputs(job, waiting=False):
        given = human_inputs.read(one)
        if isinstance(given, ResumeInput) and one.taken and not human_inputs.is_in_vain(one):
            taken.setdefault(one.taken, []).append(given)
    found = _exceeded(store, job, Purse.of(job_settings.read(row, BudgetPart)), taken)
    present = Present(store, job)
    if not found and present.unpaid and row.state not in ("DONE", "WITHDRAWN", "FAILURE"):
        shown = [way.command for need in needs(store, files, [row]) if need.kind == "budget" for way in need.exits]
        held = len(present.unpaid)
        if sum("--budget" in command for command in shown) != held:
            found = f"it is held by {held} budgets, and is shown {shown}"
        elif not row.needs_human:
            found = "a budget is spent, and the listing does not say that it needs the human"
    return found


def _exceeded(store: Store, job: str, purse: Purse, taken: Mapping[int, list[ResumeInput]]) -> str:
    turns, days, running, heard = 0, dict[str, int](), set[str](), 0
    for step in store.steps(job):
        for number in range(heard + 1, step.transaction + 1):
            for given in taken.get(number, ()):
                if given.raised:
                    purse.lift(given.raised, given.day)
        heard = step.transaction
        running -= set(_runs(step.consumed))
        day = step_extra.read(step.extra).day if step.rule in STARTS else ""
        if not day:
            continue  # the orchestrator's own turns are free
        running |= set(_runs(step.produced))
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
    return [run.turn for run in all_named(NamedRun, briefs)]


def _uncounted(store: Store, job: str, days: Mapping[str, int]) -> str:
    there = {day: spent.turns for day, spent in (store.load(job).spent or {}).items()}
    return "" if there == days else f"the bus counts {there} turns, and {days} were started"
