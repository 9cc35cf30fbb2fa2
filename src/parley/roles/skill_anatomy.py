"""The structure that the three phase skills share: their steps, the edges between them, and their marks.

The skills are prose for agents; a test compares each with these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from parley.protocol.states import BACKTRACK, LIVE, State, skill_outcomes
from parley.roles.phases import PHASES

SKILLS: Mapping[State, str] = MappingProxyType({state: phase.skill for state, phase in PHASES.items()})
"""The skill that the lead of a state follows."""

PLANNING = "workflow-planning"  # a lead's in PLAN besides, where the plan is or may become a workflow

STEPS = ("START", "DRAFT", "ALIGN", "ASK", "REVISE", "ASSERT", "APPROVE", "BACKTRACK", "WITHDRAW")
ENDS = ("APPROVE", "BACKTRACK", "WITHDRAW")  # these steps write the outcome record

EDGES: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("START", "ALIGN"): "the artifact is there",
        ("START", "DRAFT"): "the artifact is absent",
        ("DRAFT", "ASSERT"): "ready",
        ("DRAFT", "ASK"): "questions remain",
        ("ALIGN", "ASSERT"): "ready",
        ("ALIGN", "ASK"): "questions remain",
        ("ASK", "REVISE"): "questions resolved",
        ("ASK", "BACKTRACK"): "backtrack needed",
        ("ASK", "WITHDRAW"): "the human gives up",
        ("REVISE", "ASSERT"): "ready",
        ("REVISE", "ASK"): "questions remain",
        ("ASSERT", "APPROVE"): "approved",
        ("ASSERT", "REVISE"): "needs revision",
        ("ASSERT", "BACKTRACK"): "backtrack needed",
        ("ASSERT", "WITHDRAW"): "the human gives up",
    }
)

_ALWAYS = (
    "REPORT",
    "ANSWER",
    "ANSWER approve",
    "ANSWER revise",
    "WITHDRAW",
    "PENDING",
    "VIOLATION",
    "INTERVENE advisory",
    "INTERVENE authoritative",
    "LEFT OUT",
    "MERGE clean",
    "MERGE conflict",
    "FAILED",
    "STALLED",
    "RECOVERED",
)


WORKFLOW: Mapping[State, tuple[str, ...]] = MappingProxyType(
    {
        State.INTENT: (),
        State.PLAN: ("DESIGN ready", "DESIGN gaps", "DESIGN failed", "DESIGN stalled"),
        State.EXECUTE: ("WORKFLOW", "WORKFLOW complete", "WORKFLOW refused", "WORKFLOW stopped"),
    }
)
"""Further marks that a lead may find where its job has a workflow."""


def marks(state: State) -> tuple[str, ...]:
    """The marks that a lead may find on its messages in a state."""
    outcomes = skill_outcomes(state)
    back = [f"ANSWER backtrack {target.lower()}" for target in LIVE if BACKTRACK.get(target) in outcomes]
    return (str(state), *_ALWAYS, *back)
