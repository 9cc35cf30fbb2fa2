"""Who takes part in a job: the roles that ship, those that the user defines, those that a playbook names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from parley.core.states import PHASES
from parley.core.terms import ORCHESTRATOR, PROXY, Charter, Policy, Role

WORKERS = ("coder", "tester", "researcher", "writer", "reviewer")
LEADS = tuple(dict.fromkeys(phase.lead for phase in PHASES.values()))
TOOLS = ("Send", "CloseConversation", "AskQuestion")

SHIPPED: Mapping[str, frozenset[str]] = {
    "intent-lead": frozenset({"researcher", "writer"}),
    "project-lead": frozenset(WORKERS),
    **{name: frozenset() for name in WORKERS},
}


def teams(defined: Mapping[str, Iterable[str]], sends: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Each agent's team. `defined` are the user's own roles; `sends` is whom each agent of a playbook sends to.

    A role that is defined, shipped or the user's, has the team that it says. An agent that only the
    playbook knows belongs to whoever sends to it there, and its own team is whom it sends to.
    """
    known: dict[str, frozenset[str]] = {**SHIPPED, **{name: frozenset(team) for name, team in defined.items()}}
    unknown = {name for name in sends if name not in known}
    for name in unknown:
        known[name] = frozenset(to for to in sends[name] if to in known or to in sends)
    for name, recipients in sends.items():
        known[name] |= recipients & unknown
    return known


def roles(defined: Mapping[str, Iterable[str]], sends: Mapping[str, frozenset[str]]) -> list[dict[str, Any]]:
    """The roles of a job, as its snapshot keeps them."""
    return [{"name": name, "team": sorted(team)} for name, team in sorted(teams(defined, sends).items())]


def charter_of(job: str, settings: Mapping[str, Any]) -> Charter:
    """The charter that a job's snapshot of settings gives it."""
    given = tuple(Role(role["name"], frozenset(role["team"]), TOOLS) for role in settings["roles"])
    own = (
        Role(ORCHESTRATOR, frozenset(LEADS), ()),
        Role(PROXY, frozenset(), ("Answer", "AskHuman"), ("question", "human")),
    )
    intent, plan, execute = (Policy(policy) for policy in settings["policies"])
    return Charter(
        job,
        (*own, *given),
        (intent, plan, execute),
        settings["fan_out"],
        settings["crash_budget"],
        settings["retry_budget"],
    )
