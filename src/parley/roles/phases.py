"""The three phases of a job as people see them: the names that the protocol itself does not know."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from parley.protocol.molecules import Record
from parley.protocol.states import State


class NamedPhase(NamedTuple):
    """A live state: what it is called, its lead, its artifact, the file its turns are streamed to, and its skill."""

    name: str
    lead: str
    artifact: str
    stream: str
    skill: str


PHASES: Mapping[State, NamedPhase] = MappingProxyType(
    {
        State.INTENT: NamedPhase(
            name="intent",
            lead="intent-lead",
            artifact="INTENT.md",
            stream=".intent-stream.jsonl",
            skill="intent-alignment",
        ),
        State.PLAN: NamedPhase(
            name="planning", lead="project-lead", artifact="PLAN.md", stream=".plan-stream.jsonl", skill="planning"
        ),
        State.EXECUTE: NamedPhase(
            name="execution",
            lead="project-lead",
            artifact="WORK_SUMMARY.md",
            stream=".exec-stream.jsonl",
            skill="execute",
        ),
    }
)

LEADS = tuple(dict.fromkeys(phase.lead for phase in PHASES.values()))


def phase_of(record: Record) -> str:
    """The name of a record's phase; of the last one, once the record has ended."""
    return PHASES[record.state if record.live else record.history[-1].state].name
