"""Who takes part in a job: the roles that are defined, and those that only a playbook names."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from parley.core.states import PHASES
from parley.core.terms import EVERYDAY, ORCHESTRATOR, PROXY, Charter, MessageKind, Policy, Role
from parley.workflow.terms import ARCHITECT, DESIGN_VERIFIER, EXECUTOR, GROUP, INTEGRATOR, PROVER, SOLUTION

LEADS = tuple(dict.fromkeys(phase.lead for phase in PHASES.values()))
CODE = frozenset((ORCHESTRATOR, EXECUTOR, GROUP))  # whose turns are the engine's own and take no time
IN_WORKFLOWS = CODE | {ARCHITECT, DESIGN_VERIFIER, INTEGRATOR, PROVER, SOLUTION}
TOOLS = ("Send", "CloseConversation", "AskQuestion")
TEAM_TOOLS = ("Send", "CloseConversation")
BUS: Mapping[str, tuple[str, ...]] = {
    ARCHITECT: (*TOOLS, "Resolve"),
    DESIGN_VERIFIER: ("Verdict",),
    INTEGRATOR: ("Note",),
    PROVER: (),
    **dict.fromkeys(CODE, ()),
}
"""The tools of the protocol that a role has, where they are not everybody's."""


def messages_of(name: str, bus: Collection[str], said: Collection[str] | None = None) -> tuple[MessageKind, ...]:
    """The kinds of messages that a role takes: those that its tools make sense of, or fewer, where it says so.

    Without AskQuestion it takes no answers, without Send no reports. The prover runs commands: nothing redirects it.
    Those that code of the engine's talks to take all that they can.
    """
    unfit = set()
    if name not in CODE:
        unfit |= {MessageKind.ANSWER} if "AskQuestion" not in bus else set()
        unfit |= {MessageKind.REPORT} if "Send" not in bus else set()
    if name == PROVER:
        unfit.add(MessageKind.INTERVENTION)
    chosen = EVERYDAY if said is None or name in IN_WORKFLOWS else (*said, MessageKind.NOTICE)
    return tuple(kind for kind in EVERYDAY if kind in chosen and kind not in unfit)


def offered(tools: tuple[str, ...], team: Collection[str]) -> tuple[str, ...]:
    """The tools that an instance is shown: one without a team can't open a conversation, and reports by its last words.

    The others are still taken where a playbook or a program calls them.
    """
    return tuple(tool for tool in tools if tool not in TEAM_TOOLS) if tools == TOOLS and not team else tools


def teams(defined: Mapping[str, Mapping[str, Any]], sends: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Each agent's team. `defined` are the roles by name; `sends` is whom each agent of a playbook sends to.

    A role that is defined, shipped or the user's, has the team that it says. An agent that only the
    playbook knows belongs to whoever sends to it there, and its own team is whom it sends to.
    """
    known = {name: frozenset(role["team"]) for name, role in defined.items()}
    unknown = {name for name in sends if name not in known}
    for name in unknown:
        known[name] = frozenset(to for to in sends[name] if to in known or to in sends)
    for name, recipients in sends.items():
        known[name] |= recipients & unknown
    return known


def roles(defined: Mapping[str, Mapping[str, Any]], sends: Mapping[str, frozenset[str]]) -> list[dict[str, Any]]:
    """The roles of a job, as its snapshot keeps them: each with what its team's members are there for."""
    blank: dict[str, Any] = {
        "tools": list(TOOLS), "description": "", "prompt": "", "model": "", "runner": "", "limits": {},
        "messages": None,
    }  # fmt: skip
    found = []
    for name, team in sorted(teams(defined, sends).items()):
        members = {member: defined[member]["description"] if member in defined else "" for member in sorted(team)}
        found.append({**blank, **defined.get(name, {}), "name": name, "team": sorted(team), "members": members})
    return found


def time_limit(settings: Mapping[str, Any], role: Mapping[str, Any]) -> float:
    """How many seconds a turn of a role may take: its own limit, or the job's."""
    own = role.get("limits", {}).get("turn_seconds")
    return float(own or settings.get("time_limit_seconds", 1800))


def _given(role: Mapping[str, Any]) -> Role:
    """A role of the snapshot, as the charter has it."""
    name = role["name"]
    team, bus = frozenset() if name in CODE else frozenset(role["team"]), BUS.get(name, TOOLS)
    return Role(name, team, bus, messages_of(name, bus, role.get("messages")))


def charter_of(job: str, settings: Mapping[str, Any]) -> Charter:
    """The charter that a job's snapshot of settings gives it."""
    given = tuple(_given(role) for role in settings["roles"] if role["name"] != PROXY)
    own = (
        Role(ORCHESTRATOR, frozenset(LEADS), ()),
        Role(PROXY, frozenset(), ("Answer", "AskHuman", "Predict")),
    )
    intent, plan, execute = (Policy(policy) for policy in settings["policies"])
    return Charter(
        job,
        (*own, *given),
        (intent, plan, execute),
        settings["fan_out"],
        settings["crash_budget"],
        settings["retry_budget"],
        bool(settings.get("brief_human", True)),
        bool(settings.get("activation")),
        **{name: int(settings[name]) for name in ("backtracks", "repeats", "exchanges") if name in settings},
    )
