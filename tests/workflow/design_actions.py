"""Designs of workflows for tests, in few words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from parley.workflow.files.plan import read_plan
from parley.workflow.model.terms import PLAN, Task, instructions_of, output_of
from tests.engine.job_harness import Action, write


def plan(doers: Sequence[str] = ("db",), *, role: str = "coder", chain: bool = False, goal: str = "a service") -> str:
    """A plan whose doers work one after another, each verified by one and the same reviewer."""
    lines = ["---", "task: service", f"goal: {goal}", "stages:"]
    lines += [f"  - [{name}]" for name in doers]
    lines += ["agents:"]
    for number, name in enumerate(doers):
        before = [doers[number - 1]] if chain and number else []
        inputs = [f"{output_of(other)}/out.txt" for other in before]
        lines += [
            f"  {name}:",
            f"    role: {role}",
            f"    task_id: make_{name}_{1727539200 + number}",
            f"    depends_on: [{', '.join(before)}]",
            "    verifier: checker",
            f"    inputs: [{', '.join(inputs)}]",
            f"    outputs: [{output_of(name)}/out.txt]",
            f'    owns: ["{name}/**"]',
            f"    objective: make {name}",
            f"    boundaries: nothing but {name}",
            f"    deliverable: the files of {name}",
            "    acceptance: {text: it is there, commands: ['true']}",
        ]
    lines += ["  checker: {task: verifier, role: reviewer}"]
    if chain and len(doers) > 1:
        lines += ["checkpoints:"]
        pairs = pairwise(doers)
        lines += [
            f"  - {{from: {one}, to: {other}, by: checker, criteria: out.txt is whole, on_failure: back to {one}}}"
            for one, other in pairs
        ]
    lines += [
        "escalation: blocked agents are helped by the architect; the user answers requirements",
        "---",
        "# Service",
    ]
    return "\n".join([*lines, ""])


def instructions(name: str, inputs: Sequence[str] = ()) -> str:
    """What an agent is told, with every part that a design check looks for."""
    read = "\n".join(f"- Read `{path}`" for path in inputs) or "- Nothing."
    return (
        f"# {name}\n\n## Input Requirements\n{read}\n\n## Output Requirements\n- Write `{output_of(name)}/out.txt`"
        " as plain text.\n\n## Success Criteria\n- The file is there; `true` ends with 0.\n\n## Completion Drive\n"
        "- Note every assumption; escalate what is not yours to decide.\n"
    )


def design(doers: Sequence[str] = ("db",), *, without: Sequence[str] = (), **more: Any) -> list[Action]:
    """What writes a whole design; `without`: agents whose instructions are missing."""
    chain = bool(more.get("chain"))
    told = [write(PLAN, plan(doers, **more))]
    for number, name in enumerate(doers):
        inputs = [f"{output_of(doers[number - 1])}/out.txt"] if chain and number else []
        if name not in without:
            told.append(write(instructions_of(name), instructions(name, inputs)))
    looks = "# checker\n\nRead what each agent made, run its commands, and give your verdict with what you found.\n"
    return [*told, write(instructions_of("checker"), looks)]


def instructed(text: str) -> list[Action]:
    """What writes instructions for every agent of a plan, as its design check wants them."""
    found, _ = read_plan(text)
    assert found is not None
    made = []
    for worker in found.workers.values():
        if worker.task is Task.VERIFIER:
            words = f"# {worker.name}\n\nRead what each agent made, run its commands, and give your verdict.\n"
        else:
            inputs = "\n".join(f"- Read `{path}`" for path in worker.inputs) or "- Nothing."
            outputs = "\n".join(f"- Write `{path}` as plain text." for path in worker.outputs) or "- The files it owns."
            words = (
                f"# {worker.name}\n\n## Input Requirements\n{inputs}\n\n## Output Requirements\n{outputs}\n\n"
                "## Success Criteria\n- Its commands end with 0.\n\n## Completion Drive\n- Note every assumption.\n"
            )
        made.append(write(instructions_of(worker.name), words))
    return made
