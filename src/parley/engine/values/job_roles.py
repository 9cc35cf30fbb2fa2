"""Who takes part in a job: the roles of its snapshot, those that only a playbook names, and those that join later."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, TypeVar

from msgspec import Raw, Struct, structs

from parley.base.json_codec import decode, encode
from parley.bus.rows import JobRow
from parley.engine.values import job_settings
from parley.engine.values.job_settings import Crew, JobSettings
from parley.protocol.molecules import (
    EVERYDAY,
    ORCHESTRATOR,
    PROXY,
    Charter,
    MessageKind,
    Phase,
    Role,
    Surface,
    thread_kind,
)
from parley.roles.phases import LEADS, PHASES
from parley.roles.role_snapshot import NO_TRAITS, TOOLS, OrderedRole, RoleSnapshot, Traits

S = TypeVar("S", bound=Struct)

TEAM_TOOLS = ("Send", "CloseConversation")
_NO_RULES = Raw(b"[]")


# ---- the snapshot --------------------------------------------------------------------------------


def teams(defined: Mapping[str, RoleSnapshot], sends: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Each agent's team. `defined` are the roles by name; `sends` is whom each agent of a playbook sends to.

    A role that is defined, shipped or the user's, has the team that it says. An agent that only the playbook knows
    belongs to every agent that sends to it there, and its own team is whom it sends to.
    """
    known = {name: frozenset(role.team) for name, role in defined.items()}
    unknown = {name for name in sends if name not in known}
    for name in unknown:
        known[name] = frozenset(to for to in sends[name] if to in known or to in sends)
    for name, recipients in sends.items():
        known[name] |= recipients & unknown
    return known


def roles(
    defined: Mapping[str, RoleSnapshot],
    sends: Mapping[str, frozenset[str]],
    traits: Mapping[str, Traits] = NO_TRAITS,
) -> tuple[RoleSnapshot, ...]:
    """The roles of a job, as its snapshot keeps them: each with what its team's members are there for."""
    found = []
    for name, team in sorted(teams(defined, sends).items()):
        members = {member: defined[member].description if member in defined else "" for member in sorted(team)}
        role = defined.get(name) or RoleSnapshot(name=name, tools=TOOLS)
        found.append(structs.replace(role, team=tuple(sorted(team)), members=members, traits=traits.get(name)))
    return tuple(found)


# ---- the charter ---------------------------------------------------------------------------------


def messages_of(
    tools: Collection[str], said: Collection[str] | None = None, traits: Traits | None = None
) -> tuple[MessageKind, ...]:
    """The kinds of messages that a role takes: those that its tools make sense of, or fewer, where it says so.

    Without AskQuestion it takes no answers, without Send no reports. An agent that is code takes all that it can.
    """
    unfit = set()
    if traits is None or not traits.code:
        unfit |= {MessageKind.ANSWER} if "AskQuestion" not in tools else set()
        unfit |= {MessageKind.REPORT} if "Send" not in tools else set()
    if traits is not None and not traits.redirected:
        unfit.add(MessageKind.INTERVENTION)
    chosen = EVERYDAY if said is None or traits is not None else (*said, MessageKind.NOTICE)
    return tuple(kind for kind in EVERYDAY if kind in chosen and kind not in unfit)


def role_of(role: RoleSnapshot) -> Role:
    """A role of the snapshot, or one that joins later, as the charter has it."""
    traits = role.traits
    tools = role.bus if role.bus is not None else traits.tools if traits is not None else TOOLS
    team = frozenset[str]() if traits is not None and traits.code else frozenset(role.team)
    taken = messages_of(tools, role.messages if role.bus is None else None, traits)
    if traits is None:
        return Role(role.name, team, tools, taken)
    return Role(role.name, team, tools, taken, asserts=traits.asserts, rounds=traits.rounds)


def charter_of(row: JobRow) -> Charter:
    """The charter that a job's settings give it."""
    settings = job_settings.read(row, JobSettings)
    given = tuple(role_of(role) for role in settings.roles if role.name != PROXY)
    own = (
        Role(ORCHESTRATOR, frozenset(LEADS), ()),
        Role(PROXY, frozenset(), ("Answer", "AskHuman", "Predict")),
    )
    intent, plan, execute = (
        Phase(phase.lead, phase.artifact, policy)
        for phase, policy in zip(PHASES.values(), settings.policies, strict=True)
    )
    return Charter(
        row.job,
        (*own, *given),
        (intent, plan, execute),
        fan_out=settings.fan_out,
        crash_budget=settings.crash_budget,
        retry_budget=settings.retry_budget,
        brief_human=settings.brief_human,
        companions=(plan.artifact,) if settings.has_design else (),
        backtracks=settings.backtracks,
        repeats=settings.repeats,
        exchanges=settings.exchanges,
    )


def code_of(row: JobRow) -> frozenset[str]:
    """The agents of a job whose turns are code."""
    found = (role.name for role in job_settings.read(row, Crew).roles if role.traits is not None and role.traits.code)
    return frozenset((ORCHESTRATOR, *found))


def offered(tools: tuple[str, ...], team: Collection[str]) -> tuple[str, ...]:
    """The tools that an instance is shown: one without a team can't open a conversation, and reports by its last words.

    The others are still taken where a playbook or a program calls them.
    """
    return tuple(tool for tool in tools if tool not in TEAM_TOOLS) if tools == TOOLS and not team else tools


def time_limit(settings: JobSettings, role: RoleSnapshot) -> float:
    """How many seconds a turn of a role may take: its own limit, or the job's."""
    return role.limits.turn_seconds or settings.time_limit_seconds


# ---- a job's roles, as its owner needs them --------------------------------------------------------


class Kit(NamedTuple):
    """What all orders of one instance have in common."""

    home: str  # its own folder, which outlives its turns
    stream: str  # where its turns are logged; empty for a state's lead, whose stream is its state's
    role: str  # as JSON
    rules: str  # the scripted agent's, as JSON
    runner: str
    tools: tuple[str, ...]
    time_limit_seconds: float


class JobRoles:
    """A job's snapshot, with what each turn's order takes from it made once."""

    def __init__(self, row: JobRow) -> None:
        self.settings = job_settings.read(row, JobSettings)
        self.code = code_of(row)
        self.sending = self.settings.sending
        self._row = row
        self._parts: dict[type[Struct], Any] = {}
        self._given = {role.name: role for role in self.settings.roles}
        self._enrolled: dict[str, RoleSnapshot] = {}
        self._texts: dict[tuple[str, bool], str] = {}
        self._rules: dict[str, str] = {}
        self.kits: dict[tuple[str, str, frozenset[str]], Kit] = {}  # by agent, thread and team

    def part(self, kind: type[S]) -> S:
        """A feature's own part of the settings, read once."""
        found: S | None = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = job_settings.read(self._row, kind)
        return found

    def given(self, agent: str) -> RoleSnapshot:
        """A role as the snapshot has it."""
        return self._given.get(agent) or RoleSnapshot(name=agent)

    def enrolled(self, agent: str, said: str) -> RoleSnapshot:
        """A role that has joined a team since, as the bus keeps it."""
        if agent not in self._enrolled:
            self._enrolled[agent] = decode(said, RoleSnapshot)
        return self._enrolled[agent]

    def forget(self, agent: str) -> None:
        """A role joins anew: what was made of it before holds no more."""
        self._enrolled.pop(agent, None)
        self._texts.pop((agent, True), None)
        self.kits.clear()

    def keep_kit(self, key: tuple[str, str, frozenset[str]], kit: Kit) -> None:
        """What orders of an agent on a thread have in common, as long as its team stays the same."""
        self.kits[key] = kit

    def runner(self, role: RoleSnapshot) -> str:
        """Who runs a role's turns."""
        return role.runner or self._row.agent

    def order_text(self, agent: str, role: RoleSnapshot) -> str:
        """A role as an order carries it (JSON), with the job's notes and the model that was asked for."""
        key = (agent, role.bus is not None)
        said = self._texts.get(key)
        if said is None:
            wanted = self.settings.model if self.runner(role) == self._row.agent else ""
            told = structs.asdict(role) | {"model": role.model or wanted, "notes": self.settings.notes}
            said = self._texts[key] = encode(OrderedRole(**told))
        return said

    def rules_for(self, agent: str) -> str:
        """The scripted agent's rules, as its orders carry them; `null` for a proxy that has none."""
        said = self._rules.get(agent)
        if said is None:
            rules = self.settings.proxy if agent == PROXY else self.settings.agents.get(agent, _NO_RULES)
            said = self._rules[agent] = bytes(rules).decode()
        return said


def kit_of(roles: JobRoles, surface: Surface, role: RoleSnapshot, tools: tuple[str, ...], home: str) -> Kit:
    """The kit of an instance; `home`: where the job's files lie."""
    thread = surface.thread.replace(":", "-").replace("/", "-")
    return Kit(
        home=f"{home}/homes/{surface.agent}-{thread}",
        stream="" if thread_kind(surface.thread) == "state" else f"streams/{thread}.jsonl",
        role=roles.order_text(surface.agent, role),
        rules=roles.rules_for(surface.agent),
        runner=roles.runner(role),
        tools=offered(tools, surface.team),
        time_limit_seconds=time_limit(roles.settings, role),
    )
