"""Who takes part in a job: the roles of its snapshot, those that only a playbook names, and those that join later."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from parley.base.json_codec import Unreadable, encode
from parley.bus.rows import JobRow
from parley.protocol.molecules import (
    EVERYDAY,
    ORCHESTRATOR,
    PROXY,
    Charter,
    MessageKind,
    Phase,
    Policy,
    Role,
    Rounds,
    Surface,
    thread_kind,
)
from parley.roles.phases import LEADS, PHASES
from parley.settings.schema import SendingSettings

TOOLS = ("Send", "CloseConversation", "AskQuestion")
TEAM_TOOLS = ("Send", "CloseConversation")


class Traits(NamedTuple):
    """What is particular about a role that a feature brings along. Its messages are no setting of the user's."""

    tools: tuple[str, ...] = TOOLS
    code: bool = False  # its turns are code, and take no time
    redirected: bool = True  # whether an intervention reaches it
    asserts: tuple[str, ...] = ()  # the artifacts that it may assert for a lead that has dispatched it
    rounds: Rounds = Rounds.OWN


NO_TRAITS: Mapping[str, Traits] = {}


# ---- the snapshot --------------------------------------------------------------------------------


def teams(defined: Mapping[str, Mapping[str, Any]], sends: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """Each agent's team. `defined` are the roles by name; `sends` is whom each agent of a playbook sends to.

    A role that is defined, shipped or the user's, has the team that it says. An agent that only the playbook knows
    belongs to every agent that sends to it there, and its own team is whom it sends to.
    """
    known = {name: frozenset(role["team"]) for name, role in defined.items()}
    unknown = {name for name in sends if name not in known}
    for name in unknown:
        known[name] = frozenset(to for to in sends[name] if to in known or to in sends)
    for name, recipients in sends.items():
        known[name] |= recipients & unknown
    return known


def roles(
    defined: Mapping[str, Mapping[str, Any]],
    sends: Mapping[str, frozenset[str]],
    traits: Mapping[str, Traits] = NO_TRAITS,
) -> list[dict[str, Any]]:
    """The roles of a job, as its snapshot keeps them: each with what its team's members are there for."""
    blank: dict[str, Any] = {
        "tools": list(TOOLS), "description": "", "prompt": "", "model": "", "runner": "", "limits": {},
        "messages": None,
    }  # fmt: skip
    found = []
    for name, team in sorted(teams(defined, sends).items()):
        members = {member: defined[member]["description"] if member in defined else "" for member in sorted(team)}
        own = {"traits": traits[name]._asdict()} if name in traits else {}
        found.append({**blank, **defined.get(name, {}), "name": name, "team": sorted(team), "members": members, **own})
    return found


def traits_of(role: Mapping[str, Any]) -> Traits | None:
    """What is particular about a role of the snapshot; None: nothing."""
    said = role.get("traits")
    if not said:
        return None
    asserts, rounds = tuple(said["asserts"]), Rounds(said["rounds"])
    return Traits(
        tools=tuple(said["tools"]),
        code=bool(said["code"]),
        redirected=bool(said["redirected"]),
        asserts=asserts,
        rounds=rounds,
    )


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


def role_of(role: Mapping[str, Any]) -> Role:
    """A role of the snapshot, or one that joins later (`bus`: its tools of the protocol), as the charter has it."""
    traits = traits_of(role)
    tools = tuple(role["bus"]) if "bus" in role else traits.tools if traits is not None else TOOLS
    team = frozenset() if traits is not None and traits.code else frozenset(role["team"])
    said = None if "bus" in role else role.get("messages")
    taken = messages_of(tools, said, traits)
    if traits is None:
        return Role(role["name"], team, tools, taken)
    return Role(role["name"], team, tools, taken, asserts=traits.asserts, rounds=traits.rounds)


def charter_of(job: str, settings: Mapping[str, Any]) -> Charter:
    """The charter that a job's snapshot of settings gives it."""
    given = tuple(role_of(role) for role in settings["roles"] if role["name"] != PROXY)
    own = (
        Role(ORCHESTRATOR, frozenset(LEADS), ()),
        Role(PROXY, frozenset(), ("Answer", "AskHuman", "Predict")),
    )
    intent, plan, execute = (
        Phase(phase.lead, phase.artifact, Policy(policy))
        for phase, policy in zip(PHASES.values(), settings["policies"], strict=True)
    )
    return Charter(
        job,
        (*own, *given),
        (intent, plan, execute),
        fan_out=settings["fan_out"],
        crash_budget=settings["crash_budget"],
        retry_budget=settings["retry_budget"],
        brief_human=bool(settings.get("brief_human", True)),
        companions=(plan.artifact,) if settings.get("activation") else (),
        **{name: int(settings[name]) for name in ("backtracks", "repeats", "exchanges") if name in settings},
    )


def code_of(settings: Mapping[str, Any]) -> frozenset[str]:
    """The agents of a job whose turns are code."""
    found = (role["name"] for role in settings["roles"] if (traits := traits_of(role)) is not None and traits.code)
    return frozenset((ORCHESTRATOR, *found))


def offered(tools: tuple[str, ...], team: Collection[str]) -> tuple[str, ...]:
    """The tools that an instance is shown: one without a team can't open a conversation, and reports by its last words.

    The others are still taken where a playbook or a program calls them.
    """
    return tuple(tool for tool in tools if tool not in TEAM_TOOLS) if tools == TOOLS and not team else tools


def time_limit(settings: Mapping[str, Any], role: Mapping[str, Any]) -> float:
    """How many seconds a turn of a role may take: its own limit, or the job's."""
    own = role.get("limits", {}).get("turn_seconds")
    return float(own or settings.get("time_limit_seconds", 1800))


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


def settings_of(row: JobRow) -> dict[str, Any]:
    """What a job was started with. Unreadable if its row holds something else."""
    try:
        found = json.loads(row.settings)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the settings of job {row.job}: {error}") from error
    if not isinstance(found, dict):
        raise Unreadable(f"the settings of job {row.job} are not a JSON object")
    return found


class JobRoles:
    """A job's snapshot, with what each turn's order takes from it made once."""

    def __init__(self, row: JobRow) -> None:
        self.settings = settings_of(row)
        self.code = code_of(self.settings)
        self.sending = SendingSettings(**self.settings.get("sending", {}))  # how much one message may carry
        self._agent = row.agent
        self._given = {role["name"]: role for role in self.settings["roles"]}
        self._enrolled: dict[str, dict[str, Any]] = {}
        self._texts: dict[tuple[str, bool], str] = {}
        self._rules: dict[str, str] = {}
        self.kits: dict[tuple[str, str, frozenset[str]], Kit] = {}  # by agent, thread and team

    def given(self, agent: str) -> dict[str, Any]:
        """A role as the snapshot has it."""
        return self._given.get(agent) or {"name": agent}

    def enrolled(self, agent: str, said: str) -> dict[str, Any]:
        """A role that has joined a team since, as the bus keeps it."""
        if agent not in self._enrolled:
            self._enrolled[agent] = json.loads(said)
        return self._enrolled[agent]

    def forget(self, agent: str) -> None:
        """A role joins anew: what was made of it before holds no more."""
        self._enrolled.pop(agent, None)
        self._texts.pop((agent, True), None)
        self.kits.clear()

    def keep_kit(self, key: tuple[str, str, frozenset[str]], kit: Kit) -> None:
        """What orders of an agent on a thread have in common, as long as its team stays the same."""
        self.kits[key] = kit

    def runner(self, role: Mapping[str, Any]) -> str:
        """Who runs a role's turns."""
        return str(role.get("runner") or self._agent)

    def order_text(self, agent: str, role: Mapping[str, Any]) -> str:
        """A role as an order carries it (JSON), with the job's notes and the model that was asked for."""
        key = (agent, "bus" in role)
        said = self._texts.get(key)
        if said is None:
            notes, wanted = self.settings.get("notes", ""), self.settings.get("model") or ""
            if wanted and not role.get("model") and self.runner(role) == self._agent:
                role = {**role, "model": wanted}
            said = self._texts[key] = encode({**role, "notes": notes})
        return said

    def rules_for(self, agent: str) -> str:
        """The scripted agent's rules, as its orders carry them; `null` for a proxy that has none."""
        said = self._rules.get(agent)
        if said is None:
            rules = self.settings.get("proxy") if agent == PROXY else self.settings.get("agents", {}).get(agent, [])
            said = self._rules[agent] = encode(rules)
        return said


def kit_of(roles: JobRoles, surface: Surface, role: Mapping[str, Any], tools: tuple[str, ...], home: str) -> Kit:
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
