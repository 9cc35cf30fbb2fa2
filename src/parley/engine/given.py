"""What an instance is given for a turn besides its message: the skills that apply, the trees that it may look at."""

from __future__ import annotations

from parley.core.states import PHASES, Record, State
from parley.core.terms import Surface, thread_kind
from parley.engine.live import LiveJob
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.workflow.persona import SKILL as PERSONA
from parley.workflow.terms import PLAN


def skills_of(live: LiveJob, world: World, turn: Turn, record: Record, why: str) -> str:
    """The skills that a lead follows: its state's, a lead engineer's where that is called for, a workflow's."""
    names = [PHASES[record.state].skill, *([PERSONA] if why else ())]
    workspace = live.soup.need(Surface, turn.thread, turn.agent).workspace
    if record.state is State.EXECUTE and turn.design:
        names.append("workflow-execution")
    elif record.state is State.PLAN and (why or world.workspace.read(live.job, workspace, PLAN)):
        names.append("workflow-planning")
    return " ".join(names)


def shown_to(live: LiveJob, surface: Surface) -> list[str] | None:
    """The workspaces of those whom an instance has dispatched; None for one that has no team."""
    if not surface.team:
        return None
    found = (live.soup.get(Surface, child) for child in live.soup.children(surface.thread))
    return [child.workspace for child in found if child is not None and thread_kind(child.thread) == "dispatch"]
