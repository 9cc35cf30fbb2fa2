"""The agents that a job in a repository may have, each with what keeps it from running here."""

from __future__ import annotations

from parley.base.documents.node import DocumentError
from parley.cli import CommandError
from parley.cli.common import Workplace
from parley.cli.machine.trust import layers_of
from parley.cli.running.job_runners import agent_names, claude_problem
from parley.ports.turns import BUILT_IN, CLAUDE
from parley.runners.command import configured_agents as programs
from parley.settings.schema import Settings


def agents_here(place: Workplace) -> list[tuple[str, str]]:
    """Each agent's name, and why it can't run here in one line; empty if it can."""
    try:
        settings = layers_of(place).given
        known = programs.read(settings.agents, place.root)
        return [(name, _problem(name, settings, known)) for name in agent_names(known)]
    except (CommandError, DocumentError) as error:  # the settings can't be used: then no agent can
        return [(name, str(error)) for name in agent_names(())]


def _problem(name: str, settings: Settings, known: dict[str, programs.Agent]) -> str:
    if name == CLAUDE:
        return claude_problem(settings)
    return "" if name in BUILT_IN else programs.problem(known[name])
