"""Checks that the order of a design can be kept: dependencies, stages, cycles."""

from __future__ import annotations

from collections.abc import Iterator

from parley.workflow.design.blueprint import Blueprint, cycles
from parley.workflow.model.terms import Finding, Task, Worker


def examine_order(design: Blueprint) -> Iterator[Finding]:
    """All that keeps a worker from ever beginning, or from beginning once."""
    stage_of = {name: number for number, names in reversed(list(enumerate(design.plan.stages))) for name in names}
    for worker in design.plan.workers.values():
        yield from _dependencies(design, worker, stage_of)
    yield from _cycles(design)
    yield from _stages(design)


def _dependencies(design: Blueprint, worker: Worker, stage_of: dict[str, int]) -> Iterator[Finding]:
    workers = design.plan.workers
    for name in worker.depends_on:
        other = workers.get(name)
        if other is None:
            remedy = f"add {name} to agents, or take it out of depends_on"
            yield design.find(
                "unknown-dependency", worker, name, f"it depends on {name}, and there is no such agent", remedy
            )
        elif worker.task is Task.DOER and other.task is Task.VERIFIER:
            whose = next((it.name for it in design.plan.doers if it.verifier == name), "the doer itself")
            text = f"it depends on {name}, which is a verifier and makes nothing"
            yield design.find(
                "depends-on-verifier", worker, name, text, f"depend on {whose}: that includes its verification"
            )
        elif (
            worker.task is Task.DOER and name in stage_of and stage_of.get(worker.name, -1) >= 0 and name != worker.name
        ):
            mine, theirs = stage_of[worker.name], stage_of[name]
            if theirs >= mine:
                when = "in the same stage, at the same time" if theirs == mine else f"only in stage {theirs + 1}"
                text = f"it depends on {name}, but stage {mine + 1} has it, and {name} comes {when}: that can't be met"
                yield design.find("stage-order", worker, "depends_on", text, f"move it into a stage after {name}")


def _cycles(design: Blueprint) -> Iterator[Finding]:
    for cycle in cycles({name: worker.depends_on for name, worker in design.plan.workers.items()}):
        worker = design.plan.workers[cycle[0]]
        way = " -> ".join((*cycle, cycle[0]))
        text = f"the dependencies go in a circle, so none of them can begin: {way}"
        yield design.find("cycle", worker, "depends_on", text, "take one of these dependencies out, or split an agent")


def _stages(design: Blueprint) -> Iterator[Finding]:
    plan = design.plan
    places: dict[str, list[int]] = {}
    for number, names in enumerate(plan.stages, 1):
        for name in names:
            places.setdefault(name, []).append(number)
    for name, numbers in places.items():
        worker = plan.workers.get(name)
        if worker is None:
            text = f"stage {numbers[0]} names {name}, and there is no such agent"
            yield design.find("unknown-in-stage", None, "stages:", text, f"add {name} to agents, or take it out")
        elif worker.task is Task.VERIFIER:
            text = f"stage {numbers[0]} names {name}, a verifier, which comes by itself after each of its doers"
            yield design.find("verifier-in-stage", None, "stages:", text, "take it out of the stages")
        elif len(numbers) > 1:
            text = f"it is in stages {' and '.join(map(str, numbers))}, and is done once"
            yield design.find("two-stages", worker, "", text, "leave it in one of them")
    for worker in plan.doers:
        if worker.name not in places:
            text = "no stage names it, so it would never begin"
            yield design.find("no-stage", worker, "", text, "add it to the stage in which it is to run")
