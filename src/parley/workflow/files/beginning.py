"""The first files of a workflow, made from a conversation summary, and from a plan if there is one.

The files name what is missing, and the design check finds each such place.
"""

from __future__ import annotations

from dataclasses import dataclass

from parley.workflow.design.instructions import SECTIONS, marker_of
from parley.workflow.design.placeholders import OPEN
from parley.workflow.files.archive import ARCHIVIST, INDEX, INSTRUCTIONS, LOG, folder_of, render_index, render_log
from parley.workflow.files.plan import render_plan
from parley.workflow.files.status_file import render_status, shared_of
from parley.workflow.files.summary import Summary, summary_of
from parley.workflow.model.terms import PLAN, SHARED_STATUS, Plan, Task, Worker, instructions_of, output_of


@dataclass(frozen=True, slots=True)
class WorkflowFiles:
    """The files and folders to make, by path from the tree's root."""

    files: dict[str, str]
    folders: tuple[str, ...]


def begin(summary: Summary, text: str, plan: Plan | None = None) -> WorkflowFiles:
    """The whole structure. `text` is the summary's file as it was given; a plan that is there already is kept."""
    made = plan or _skeleton(summary)
    files = {summary_of(summary.task): text}
    if plan is None:
        files[PLAN] = made.text
    files[SHARED_STATUS] = render_status(shared_of(made))
    files |= {instructions_of(ARCHIVIST): INSTRUCTIONS, INDEX: render_index(()), LOG: render_log(())}
    folders = [folder_of(ARCHIVIST)]
    for worker in made.workers.values():
        files[instructions_of(worker.name)] = _instructions(worker)
        folders.append(folder_of(worker.name))
        if worker.task is Task.DOER:
            folders.append(output_of(worker.name))
    return WorkflowFiles(files, tuple(folders))


def _skeleton(summary: Summary) -> Plan:
    """A plan with the task and the goal, and the prose that says what it still lacks."""
    goal = _line(summary.goal)
    bare = Plan(summary.task, goal, {}, ())
    matter = render_plan(bare).split("\n---\n", 1)[0]
    return Plan(summary.task, goal, {}, (), text=f"{matter}\n{EXAMPLE}---\n\n{_prose(summary)}")


EXAMPLE = f"""\
# An example: two agents, the second of which builds on the first, and who verifies both. Take away the # and the empty
# `stages` and `agents` above, and give all of it names, paths and words of your own: no check passes it as it is.
#
# stages:
#   - [example_doer]
#   - [example_reader]          # names in one list work at the same time
# agents:
#   example_doer:
#     role: coder
#     task_id: example_task_1700000000          # a slug and Unix seconds
#     verifier: example_verifier
#     outputs: [orchestration/agents/example_doer/task_output/schema.md]
#     owns: ["db/**"]           # the paths that it alone may change
#     forbids: ["web/**"]
#     objective: "{OPEN}: what it is to reach"
#     boundaries: "{OPEN}: what it leaves alone"
#     deliverable: "{OPEN}: what it hands over"
#     acceptance: {{text: "{OPEN}: what must hold at the end", commands: ["python -m pytest -q tests/db"]}}
#   example_reader:
#     role: coder
#     task_id: example_task_1700000001
#     depends_on: [example_doer]
#     verifier: example_verifier
#     inputs: [orchestration/agents/example_doer/task_output/schema.md]
#     owns: ["web/**"]
#     objective: "{OPEN}: what it is to reach"
#     boundaries: "{OPEN}: what it leaves alone"
#     deliverable: "{OPEN}: what it hands over"
#     acceptance: {{text: "{OPEN}: what must hold at the end", commands: ["python -m pytest -q tests/web"]}}
#   example_verifier: {{task: verifier, role: reviewer}}
# checkpoints:
#   - {{from: example_doer, to: example_reader, by: example_verifier, criteria: "{OPEN}", on_failure: "{OPEN}"}}
# escalation: "{OPEN}: who answers what when an agent is blocked, and what is asked of the user"
"""


def _prose(summary: Summary) -> str:
    lines = [
        f"# Workflow: {summary.title}",
        "",
        f"Made from {summary_of(summary.task)}. The part above, between the lines of ---, is what is carried out.",
        "",
        "## To be filled in",
        "",
        "- `agents`: for each who does something: role, task_id (a slug and Unix seconds), depends_on, verifier,",
        "  inputs, outputs, owns, forbids, objective, boundaries, deliverable, acceptance (text and commands)",
        "- `agents`: for each who verifies: `task: verifier` and its role",
        "- `stages`: who comes after whom; the names in one list work at the same time",
        "- `checkpoints`: for each hand-over: from, to, by, criteria, on_failure",
        "- `escalation`: who answers what when an agent is blocked, and where the user comes in",
        "- `agents/NAME/agent_instructions.md` for each agent",
    ]
    lines += _block("Open items to settle first", summary.open_items)
    lines += _block(
        "Decisions that hold", [f"{_line(each.what)} ({_line(each.rationale)})" for each in summary.decisions]
    )
    lines += _block("Constraints and assumptions", summary.constraints)
    lines += _block("Depends on", summary.dependencies)
    return "\n".join((*lines, ""))


def _block(title: str, items: tuple[str, ...] | list[str]) -> list[str]:
    return ["", f"## {title}", "", *(f"- {_line(item)}" for item in items)] if items else []


def _instructions(worker: Worker) -> str:
    """Instructions as far as the plan gives them; the rest is marked as not written."""
    if worker.task is Task.VERIFIER:
        parts = {
            "What to look at": ["To be defined: which outputs, notes and acceptance commands."],
            "Success Criteria": ["To be defined: when the work is verified, rejected or blocked."],
        }
    else:
        parts = {
            "Objective": [worker.objective.strip() or "To be defined."],
            "Boundaries": [worker.boundaries.strip() or "To be defined."],
            "Input Requirements": [f"- Read `{path}`" for path in worker.inputs] or ["Nothing of other agents."],
            "Output Requirements": [f"- Write `{path}`" for path in worker.outputs] or ["To be defined: which files."],
            "Success Criteria": _bar(worker),
            "Completion Drive": ["To be defined: which assumptions to note, and which to escalate."],
        }
    marks = {name: f"{marker_of(key)}\n" for key, (_, heading) in SECTIONS.items() for name in [heading[3:]]}
    marked = {f"{marks.get(name, '')}## {name}": lines for name, lines in parts.items()}
    blocks = [f"# {worker.name}", *("\n".join((head, "", *lines)) for head, lines in marked.items())]
    return "\n\n".join(blocks) + "\n"


def _bar(worker: Worker) -> list[str]:
    said = [worker.acceptance.text.strip()] if worker.acceptance.text.strip() else []
    said += [f"- `{command}` ends with 0" for command in worker.acceptance.commands]
    return said or ["To be defined: what must be true at the end, and the commands that show it."]


def _line(text: str) -> str:
    return " ".join(text.split())
