"""`task-base.md`: a worker's task, which begins with its contract with the workflow."""

from __future__ import annotations

from collections.abc import Iterable

from parley.base.wording import count
from parley.workflow.files.reading.markdown_codec import code, quoted
from parley.workflow.model.remedies import MEANS
from parley.workflow.model.terms import Checkpoint, Plan, Worker, instructions_of, output_of, session_of

HEADING = "## Parent contract"


def render_contract(plan: Plan, worker: Worker, instructions: str) -> str:
    """A worker's task: the contract, then its own instructions as they are.

    The plan's own words are quoted, so that no line of them can pass for a part of the contract.
    """
    lines = [HEADING, "", f"For {code(worker.name)}, task {code(worker.task_id)} of the workflow {code(plan.task)}."]
    lines.extend(_part("Goal of the whole", plan.goal))
    lines.extend(_part("Objective", worker.objective))
    lines.extend(_part("Boundaries", worker.boundaries))
    lines.extend(_paths("Owned paths", (*worker.owns, f"{output_of(worker.name)}/**"), "You may write these:"))
    lines.extend(_paths("Forbidden paths", worker.forbids, "You must not write these:"))
    lines.extend(("", "All else belongs to others. If you need a path of theirs, escalate a note of category `scope`."))
    lines.extend(_paths("Inputs", worker.inputs, "Read these; each is verified before you start:"))
    lines.extend(_part("Deliverable", worker.deliverable))
    lines.extend(_paths("Outputs", worker.outputs, "Others read these; make them under these very names:"))
    lines.extend(_part("Acceptance", worker.acceptance.text))
    lines.extend(_paths("Acceptance commands", worker.acceptance.commands, "Each must end with 0 in your tree:"))
    lines.extend(_checkpoints(plan.checkpoints_of(worker.name)))
    lines.extend(_verification(worker))
    lines.extend(_liveness(worker))
    return "\n".join([*lines, "", "## Task", "", instructions.strip("\n")]) + "\n"


def _part(title: str, text: str) -> list[str]:
    return ["", f"### {title}", "", *(quoted(text) if text else ["Nothing is said."])]


def _paths(title: str, items: Iterable[str], about: str) -> list[str]:
    listed = [f"- {code(item)}" for item in items]
    return ["", f"### {title}", "", about, "", *(listed or ["- none"])]


def _checkpoints(points: Iterable[Checkpoint]) -> list[str]:
    """Where the output is handed over: by which criteria, and what happens where they are not met."""
    lines = ["", "### Checkpoints", ""]
    for point in points:
        lines += [f"To {code(point.taker)}, judged by {code(point.by)}:", "", *quoted(point.criteria), ""]
        lines += [f"If it fails: {code(point.remedy)}, {MEANS[point.remedy]}. The plan says:", ""]
        lines += [*(quoted(point.on_failure) if point.on_failure else ["Nothing is said."]), ""]
    return lines[:-1] if lines[-1] == "" and len(lines) > 3 else [*lines, "Nothing is handed over."]  # noqa: PLR2004


def _verification(worker: Worker) -> list[str]:
    by = (
        f"{code(worker.verifier)} verifies your work, never you." if worker.verifier else "No agent verifies this task."
    )
    notes = f"Your notes are in {code(session_of(worker.name))}; none may be open or escalated when you are done."
    return ["", "### Verification", "", by, notes]


def _liveness(worker: Worker) -> list[str]:
    stall = count(worker.stall_seconds, "second") if worker.stall_seconds else "the job's limit"
    turn = count(worker.time_limit_seconds, "second") if worker.time_limit_seconds else "the job's limit"
    return [
        "",
        "### Liveness",
        "",
        f"- no sign of life for {stall}: you have stalled, and the answer is {code(str(worker.on_stall))}",
        f"- one turn lasts at most {turn}; a turn that is cut off counts as a crash",
        f"- your instructions, as the architect wrote them: {code(instructions_of(worker.name))}",
    ]
