"""The outline of a workflow that people read before they approve it: agents, order, new roles."""

from __future__ import annotations

from collections.abc import Mapping

from parley.base.wording import count
from parley.roles.role_snapshot import RoleSnapshot
from parley.workflow.model.remedies import MEANS, OnFailure
from parley.workflow.model.terms import ROLES, Plan, Task

LISTED = 40  # lines of one kind
LONGEST = 160  # characters of a quoted text
TURNS = 3  # of a doer at least: the work, the review, the verification


def levels(plan: Plan) -> int:
    """How many agents wait for one another at most. A cycle counts each of its agents once."""
    depth: dict[str, int] = {}
    for start in plan.workers:
        waiting = [start]
        under_way: set[str] = set()
        while waiting:
            name = waiting[-1]
            needs = [other for other in plan.workers[name].depends_on if other in plan.workers]
            under_way.add(name)
            missing = [other for other in needs if other not in depth and other not in under_way]
            if missing:
                waiting.extend(missing)
            else:
                waiting.pop()
                depth.setdefault(name, 1 + max((depth.get(other, 0) for other in needs), default=0))
    return max(depth.values(), default=0)


def is_complex(plan: Plan, most_agents: int, most_levels: int) -> bool:
    """Whether a workflow is more than its architect should design alone. Verifiers do not count: each doer has one."""
    return len(plan.doers) > most_agents or levels(plan) > most_levels


def outline(plan: Plan, drafts: Mapping[str, RoleSnapshot]) -> list[str]:
    """The workflow in a few lines."""
    doers = plan.doers
    verifiers = len(plan.workers) - len(doers)
    head = (
        f"A workflow of {count(len(doers), 'doer')} and {count(verifiers, 'verifier')} in"
        f" {count(len(plan.stages), 'stage')}, {count(levels(plan), 'level')} of dependency;"
        f" {count(TURNS * len(doers), 'turn')} of agents at least."
    )
    stages = [
        f"{number}. {'; '.join(_worker(plan, name) for name in stage)}" for number, stage in enumerate(plan.stages, 1)
    ]
    news = [
        f"New role, drafted in {ROLES}/{name}.md: {name}: {_words(role.description)}"
        f" (tools: {', '.join(_own(role)) or 'none'})"
        for name, role in sorted(drafts.items())
    ]
    ends = [
        f"If {point.giver} fails its checkpoint to {point.taker} ({_words(point.criteria)}): {MEANS[point.remedy]}."
        for point in plan.checkpoints
        if point.remedy is not OnFailure.REWORK
    ]
    lines = [head, *_bounded(stages), *_bounded(ends), *_bounded(news)]
    if news:
        lines.append("Approving the plan approves these roles too; until then no agent works as them.")
    return lines


def _own(role: RoleSnapshot) -> list[str]:
    return [tool for tool in role.tools if tool not in ("Send", "CloseConversation", "AskQuestion")]


def _worker(plan: Plan, name: str) -> str:
    worker = plan.workers.get(name)
    if worker is None or worker.task is not Task.DOER:
        return _words(name)
    return f"{name} ({_words(worker.role)}, verified by {_words(worker.verifier)})"


def _words(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"


def _bounded(lines: list[str]) -> list[str]:
    more = len(lines) - LISTED
    return [*lines[:LISTED], *([f"and {more} more"] if more > 0 else [])]
