"""Checks the hand-overs of a design: inputs and outputs, checkpoints, and the first shared_status.json."""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from fnmatch import fnmatchcase

from msgspec.structs import replace

from parley.workflow.design.blueprint import Blueprint, cycles, unclear
from parley.workflow.design.instructions import is_helper
from parley.workflow.files.status_file import SharedStatus, read_status, shared_of
from parley.workflow.model.terms import (
    FOLDER,
    PLAN,
    SHARED_STATUS,
    TASK_ORCHESTRATION,
    Checkpoint,
    Finding,
    Plan,
    Status,
    Task,
    Worker,
    instructions_of,
)
from parley.workflow.paths.ownership import ARTIFACTS, owner_of

# What the protocol itself makes; a worker may read it.
GIVEN = (*ARTIFACTS, PLAN, SHARED_STATUS, TASK_ORCHESTRATION, f"{FOLDER}/conversation_summary_*.md")
MOST_COMPARED = 60  # outputs that are compared with a path that no agent makes
PLAIN = ("Makefile", "Dockerfile", "LICENSE", "README", "Procfile", "Jenkinsfile")  # a format goes without saying


def examine_files(design: Blueprint) -> Iterator[Finding]:
    """Every path that is read is made by exactly one agent, in time."""
    for worker in design.plan.workers.values():
        for path in worker.inputs:
            yield from _input(design, worker, path)
        for path in worker.outputs:
            yield from _output(design, worker, path)
    reads = {
        worker.name: [maker for path in worker.inputs for maker in design.makers_of(path) if maker != worker.name]
        for worker in design.plan.workers.values()
    }
    for cycle in cycles(reads):
        way = " -> ".join((*cycle, cycle[0]))
        text = f"the files go in a circle, each reads what the next makes: {way}"
        yield design.find(
            "file-cycle",
            design.plan.workers[cycle[0]],
            "inputs",
            text,
            "take one of these inputs out, or split an agent",
        )


def _input(design: Blueprint, worker: Worker, path: str) -> Iterator[Finding]:
    makers = [name for name in design.makers_of(path) if name != worker.name]
    if makers:
        early = [name for name in makers if name in design.before[worker.name]]
        verifies = worker.task is Task.VERIFIER and any(
            design.plan.workers[it].verifier == worker.name for it in makers
        )
        if not early and not verifies:
            text = f"it reads {path} of {makers[0]} and does not depend on it, so it may begin too early"
            yield design.find("input-without-dependency", worker, path, text, f"add {makers[0]} to its depends_on")
    elif path.rstrip("/") in design.makers:
        yield design.find(
            "own-input", worker, path, f"it reads {path}, which only it makes itself", "take it out of its inputs"
        )
    elif not _there(design, worker, path):
        yield _unmade(design, worker, path)


def _there(design: Blueprint, worker: Worker, path: str) -> bool:
    """Whether a path exists before the first worker begins. In an unknown tree, paths that no other agent owns do."""
    if any(fnmatchcase(path, given) for given in GIVEN) or path in design.files:
        return True
    if path.startswith(f"{FOLDER}/"):
        return False
    return design.existing(path) if design.existing else owner_of(design.plan, path) in {"", worker.name}


def _unmade(design: Blueprint, worker: Worker, path: str) -> Finding:
    """The finding for an input that no agent makes: what was perhaps meant, or who should make it."""
    near = _near(design, path)
    if near:
        text = f"it reads {path}, which no agent makes; {' and '.join(design.makers[near])} makes {near}"
        return design.find("path-mismatch", worker, path, text, f"write the same path at both: {near}")
    owner = owner_of(design.plan, path)
    if owner and owner != worker.name:
        text = f"it reads {path}, which lies with {owner}, but is not among its outputs"
        return design.find(
            "path-mismatch", worker, path, text, f"add it to the outputs of {owner}, or correct the path"
        )
    text = f"it reads {path}, which no agent makes and which is not there"
    return design.find("unproduced-input", worker, path, text, "add it to the outputs of an agent, or take it out")


def _near(design: Blueprint, path: str) -> str:
    """The output that was perhaps meant by a path: of the same name, or nearly the same path."""
    name = path.rstrip("/").rpartition("/")[2].casefold()
    if name in design.by_name:
        return design.by_name[name]
    return next(iter(get_close_matches(path, list(design.makers)[:MOST_COMPARED], 1, 0.9)), "")


def _output(design: Blueprint, worker: Worker, path: str) -> Iterator[Finding]:
    first = design.makers[path.rstrip("/")][0]
    if first != worker.name:
        text = f"it makes {path}, and so does {first}"
        yield design.find("duplicate-output", worker, path, text, "let one of them make it, or give each its own path")
    name = path.rpartition("/")[2]
    read = path in design.read
    told = "." in name.strip(".") or name in PLAIN or not name
    if read and not told and "format" not in design.files.get(instructions_of(worker.name), "").casefold():
        text = f"others read {path}, and neither its name nor its instructions say in which format it is"
        remedy = "give the file an ending, or name its format in agent_instructions.md"
        yield design.find("format-unknown", worker, path, text, remedy)


# ---- checkpoints ---------------------------------------------------------------------------------


def examine_checkpoints(design: Blueprint) -> Iterator[Finding]:
    """Every hand-over has a checkpoint, by the verifier of what is handed over."""
    given: dict[tuple[str, str], Checkpoint] = {}
    for point in design.plan.checkpoints:
        pair = (point.giver, point.taker)
        if pair in given:
            text = f"there are two checkpoints from {point.giver} to {point.taker}"
            yield _at(point, "duplicate-checkpoint", text, "make one of them")
        else:
            given[pair] = point
            yield from _checkpoint(design, point)
    for (giver, taker), why in design.handoffs.items():
        if (giver, taker) not in given:
            by = design.plan.workers[giver].verifier or "its verifier"
            text = f"{why}, and no checkpoint stands between them"
            remedy = f"add {{from: {giver}, to: {taker}, by: {by}, criteria: …, on_failure: …}} to checkpoints"
            yield design.find("missing-checkpoint", design.plan.workers[taker], giver, text, remedy)


def _checkpoint(design: Blueprint, point: Checkpoint) -> Iterator[Finding]:
    workers = design.plan.workers
    unknown = [name for name in (point.giver, point.taker, point.by) if name and name not in workers]
    for name in dict.fromkeys(unknown):
        yield _at(
            point,
            "unknown-in-checkpoint",
            f"a checkpoint names {name}, and there is no such agent",
            f"add {name} to agents, or correct it",
        )
    if unknown or not (point.giver and point.taker and point.by):
        return
    way = f"the checkpoint from {point.giver} to {point.taker}"
    giver = workers[point.giver]
    if (point.giver, point.taker) not in design.handoffs and point.giver not in design.before[point.taker]:
        text = f"{way} stands where nothing is handed over: no dependency leads from one to the other"
        yield _at(
            point,
            "checkpoint-without-handoff",
            text,
            f"add {point.giver} to the depends_on of {point.taker}, or remove it",
        )
    if giver.task is Task.DOER and point.by != giver.verifier:
        text = f"{way} is by {point.by}, which does not verify {point.giver}"
        yield _at(point, "checkpoint-by", text, f"write `by: {giver.verifier or 'its verifier'}`")
    why = unclear(point.criteria) if point.criteria.strip() else ""
    if why:
        yield _at(point, "unclear-criteria", f"the criterion of {way} {why}", "say what can be seen or counted")
    if not point.on_failure.strip():
        yield _at(point, "missing-on-failure", f"{way} does not say what happens if it fails", "add `on_failure: …`")


def _at(point: Checkpoint, rule: str, text: str, remedy: str) -> Finding:
    return Finding(file=PLAN, line=point.line, agent=point.giver, rule=rule, text=text, remedy=remedy)


# ---- the first status ----------------------------------------------------------------------------


def examine_status(design: Blueprint) -> Iterator[Finding]:
    """The first shared_status.json, if there is one, says what the plan says; a later one has no strangers."""
    text = design.files.get(SHARED_STATUS)
    if text is None:
        return
    shared, findings = read_status(text)
    yield from findings
    if shared is None:
        return
    begun = any(entry.last_update is not None for entry in shared.agents.values())
    for one in (_strangers if begun else _disagreements)(design.plan, shared):
        line = next((at for at, line in enumerate(text.split("\n"), 1) if f'"{one.agent}":' in line), 1)
        yield replace(one, line=line)


def _differs(agent: str, wrong: str, remedy: str) -> Finding:
    """A finding about what the file says of an agent; its line is looked up where the text is at hand."""
    return Finding(file=SHARED_STATUS, line=0, agent=agent, rule="status-disagrees", text=wrong, remedy=remedy)


def _strangers(plan: Plan, shared: SharedStatus) -> Iterator[Finding]:
    """Agents in the file that are neither in the plan nor helpers, once work has begun."""
    for name in sorted((shared.agents.keys() | shared.verification.keys()) - plan.workers.keys()):
        if not is_helper(name):
            yield _differs(
                name, "it is neither in the plan nor a helper", "remove it; the file is made from the job's bus"
            )


def _disagreements(plan: Plan, shared: SharedStatus) -> Iterator[Finding]:
    """What the file says otherwise than the plan, before work has begun."""
    expected = shared_of(plan)
    for key, given, wanted in (
        ("agents", shared.agents, expected.agents),
        ("verification", shared.verification, expected.verification),
    ):
        for name in sorted(wanted.keys() - given.keys()):
            yield _differs(name, f"{key} lacks it", "add it, or remove the file: it is made from the plan")
        for name in sorted(given.keys() - wanted.keys()):
            yield _differs(name, f"{key} has it, and the plan does not", "remove it, or add it to the plan")
        for name in sorted(given.keys() & wanted.keys()):
            if given[name].status is not Status.PENDING:
                yield _differs(name, "its status is not pending, though nothing has begun", 'write "status": "pending"')
    for name in sorted(shared.agents.keys() & expected.agents.keys()):
        if set(shared.agents[name].dependencies) != set(wanted_ones := expected.agents[name].dependencies):
            remedy = f'write "dependencies": {json.dumps(wanted_ones)}'
            yield _differs(name, "its dependencies are not those of the plan", remedy)
    for name in sorted(shared.verification.keys() & expected.verification.keys()):
        if set(shared.verification[name].agents) != set(assigned := expected.verification[name].agents):
            remedy = f'write "assigned_agents": {json.dumps(assigned)}'
            yield _differs(name, "its assigned_agents are not those of the plan", remedy)
