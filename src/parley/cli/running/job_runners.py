"""Makes the runners of a job: scripted agents, Claude Code, the programs of the settings, and proofs."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from parley import roles as role_files
from parley.base.documents.node import plain
from parley.base.wording import advice
from parley.cli import CommandError, home_bus
from parley.cli.common import Workplace
from parley.cli.starting.job_snapshot import JobSnapshot
from parley.features.budgets.arithmetic import limit_words
from parley.features.lead_engineer import SKILL as PERSONA
from parley.ports.turns import BUILT_IN, CLAUDE, PROOF, SCRIPTED, Bind, Ended, Order, Runner, TurnEvent
from parley.roles.role_snapshot import RoleSnapshot
from parley.runners.claude import ClaudeError, available, claude_runner, find_program, lacking
from parley.runners.command import configured_agents as programs
from parley.runners.command.command_runner import CommandRunner
from parley.runners.proof import ProofRunner
from parley.runners.scripted.scripted_runner import ScriptedRunner
from parley.sandbox import Boundary
from parley.sandbox.cage import HOME
from parley.settings.schema import Settings
from parley.workflow.paths.claims import refuse_at

SET_UP = "parley setup"


class LazyRunner:
    """A runner that is made with its first turn: what it needs may be missing, and no role may use it."""

    def __init__(self, make: Callable[[], Runner]) -> None:
        self._make = make
        self._made: Runner | None = None
        self._lock = threading.Lock()

    def start(self, order: Order, tell: Callable[[TurnEvent], None]) -> None:
        """Begin a turn, or report what is missing."""
        try:
            with self._lock:
                self._made = self._made or self._make()
        except ClaudeError as error:
            tell(Ended(order.job, order.turn, order.epoch, fault=str(error), hard=True))
            return
        self._made.start(order, tell)

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """Answer a call."""
        if self._made is not None:
            self._made.reply(job, turn, number, ok, text, data)

    def cancel(self, job: str, turn: str) -> None:
        """End a turn."""
        if self._made is not None:
            self._made.cancel(job, turn)

    def wrap_up(self, job: str, turn: str) -> bool:
        """Ask a turn to come to an end."""
        return self._made is not None and self._made.wrap_up(job, turn)

    def stop(self, job: str, turn: str) -> bool:
        """End a turn where it is."""
        return self._made is not None and self._made.stop(job, turn)

    def rest(self, job: str) -> None:
        """End what is kept ready."""
        if self._made is not None:
            self._made.rest(job)

    def close(self) -> None:
        """End everything."""
        if self._made is not None:
            self._made.close()


def runners(place: Workplace, settings: Settings, boundary: Boundary) -> dict[str, Runner]:
    """Every runner, by the name that a role gives it."""
    known = programs.read(settings.agents, place.root)

    def claude() -> Runner:
        return claude_runner(
            settings.claude,
            boundary,
            prompt=lambda order: role_prompt(boundary, order),
            binds=lambda order: claude_folder_binds(place, order),
            judge=refuse_at,
        )

    made: dict[str, Runner] = {
        SCRIPTED: ScriptedRunner(boundary, refuse_at),
        CLAUDE: LazyRunner(claude),
        PROOF: ProofRunner(boundary),
    }
    command = CommandRunner(boundary, known, instruct=lambda order: program_prompt(boundary, order))
    return made | dict.fromkeys(known, command)


def role_prompt(boundary: Boundary, order: Order) -> str:
    """An instance's prompt about its role and the protocol; the same for all instances of a role."""
    role = role_files.from_text(order.role)
    path, seconds = boundary.search_path(), order.time_limit_seconds
    return role_files.system_prompt(role, order.skills, order.tools, path=path, seconds=seconds)


def program_prompt(boundary: Boundary, order: Order) -> str:
    """The same for a program that knows no roles of its own."""
    return f"You are {order.agent}.\n\n{role_prompt(boundary, order)}"


def claude_folder_binds(place: Workplace, order: Order) -> tuple[Bind, ...]:
    """The instance's `.claude`, made from its role and bound read-only over the workspace's.

    Nothing can be bound over a file of that name, and Parley must not move it: the role is in the prompt too, and no
    program reads settings from a file there.
    """
    target = f"{order.site.workspace}/.claude"
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(mode := os.lstat(target).st_mode) and not stat.S_ISLNK(mode):
            return ()
    role = role_files.from_text(order.role)
    folder = place.home / "jobs" / order.job / "dress" / f"{order.agent}-{order.skills[0] if order.skills else 'none'}"
    made = role_files.make_claude_folder(folder, replace(role, name=order.agent), order.skills[:1])
    return (Bind(str(made), target),)


def home_binds() -> tuple[Bind, ...]:
    """What every instance has read-only in its home: the protocols, and the skill that a lead may request."""
    protocols = Bind(str(role_files.protocols()), f"{HOME}/{role_files.PROTOCOLS}")
    return (protocols, Bind(str(role_files.skill_folder(PERSONA)), f"{HOME}/.claude/skills/{PERSONA}"))


# ---- choosing the agent -------------------------------------------------------------------------------


def agent_names(known: Iterable[str]) -> tuple[str, ...]:
    """The runners that a job's agents may have: a proof asks no agent."""
    return (*(name for name in BUILT_IN if name != PROOF), *known)


def choose(wanted: str | None, settings: Settings, place: Workplace, *, playbook: bool) -> str:
    """The agent of a new job: the one that was named, else a playbook's, else Claude Code where it is logged in."""
    names = agent_names(programs.read(settings.agents, place.root))
    if wanted is not None and wanted not in names:
        raise CommandError(f"there is no agent {wanted!r}; {advice(wanted, names)}")
    agent = wanted or (SCRIPTED if playbook else CLAUDE)
    if agent == SCRIPTED and not playbook:
        raise CommandError("the scripted agent needs a playbook; name one with --playbook FILE, or try `parley demo`")
    if agent == CLAUDE and not elsewhere(settings, place) and (problem := claude_problem(settings)):
        guide = "" if SET_UP in problem else f"; `{SET_UP}` shows what is there"
        hint = "" if wanted else "; or let scripted agents play: --playbook FILE, or `parley demo`"
        raise CommandError(f"{problem}{guide}{hint}")
    return agent


def elsewhere(settings: Settings, place: Workplace) -> bool:
    """Whether turns run on other hosts: those have programs and logins of their own, and need none here."""
    return bool(settings.hosts.temporal) and home_bus.exists(place.home) and home_bus.on_server(place.home) is not None


def claude_problem(settings: Settings) -> str:
    """Why Claude Code can't run here, and what to do, in one line; empty if it can."""
    if problem := lacking(settings.claude, os.environ):
        return problem
    try:
        find_program(settings.claude, os.environ)
    except ClaudeError as error:
        return str(error)
    return ""


def with_runners(roles: Iterable[RoleSnapshot], agent: str, played: Iterable[str]) -> tuple[RoleSnapshot, ...]:
    """Each role with its runner: its own, the scripted one where the playbook names the role, else the job's."""
    known = set(played)
    return tuple(replace(role, runner=role.runner or (SCRIPTED if role.name in known else agent)) for role in roles)


def check(roles: Iterable[RoleSnapshot], settings: Settings, place: Workplace) -> None:
    """Refuse a role whose runner lacks something, in one line, before anything starts."""
    known, here = programs.read(settings.agents, place.root), not elsewhere(settings, place)
    for role in roles:
        runner, problem = role.runner, ""
        if runner == CLAUDE:
            problem = claude_problem(settings) if here else ""
        elif runner in known:
            problem = programs.problem(known[runner]) if here else ""
        elif runner not in BUILT_IN:
            problem = f"there is no runner {runner!r}; {advice(runner, agent_names(known))}"
        if problem:
            raise CommandError(f"the role {role.name}: {problem}")


def reports_cost(roles: Iterable[RoleSnapshot]) -> bool:
    """Whether some role's agent reports what its turns cost in money."""
    return any(role.runner == CLAUDE for role in roles)


def announced(agent: str, settings: Settings, snapshot: JobSnapshot, place: Workplace) -> str:
    """The agent, its model and login, and its budget, in one line for people."""
    here = not elsewhere(settings, place)
    said = [agent_words(agent, settings) if here else f"{agent_name(agent)} on other hosts (`parley hosts`)"]
    if agent != SCRIPTED:
        said.append(f"model: {model_words(agent, settings, snapshot)}")
    login = available(settings.claude, os.environ) if agent == CLAUDE and here else None
    if login is not None:
        said.append(f"login: {login.origin}")
    return ", ".join([*said, f"budget: {limit_words(snapshot.budget)}"])


def agent_name(agent: str) -> str:
    """An agent's name for people."""
    return "Claude Code" if agent == CLAUDE else agent


def agent_words(agent: str, settings: Settings) -> str:
    """An agent's name, with its version where it has one."""
    if agent != CLAUDE:
        return agent
    return f"{agent_name(agent)} {'.'.join(map(str, find_program(settings.claude, os.environ).version))}"


def model_words(agent: str, settings: Settings, snapshot: JobSnapshot) -> str:
    """The requested model, and those of roles with another."""
    model = snapshot.model or usual_model(agent, settings) or default_model(agent)
    others = [
        f"{role.name}: {role.model}"
        for role in snapshot.roles
        if role.runner == agent and role.model not in ("", "inherit", model)
    ]
    return f"{model} ({', '.join(others)})" if others else model


def usual_model(agent: str, settings: Settings) -> str:
    """The model that the settings name for an agent; empty: its program's default."""
    if agent == CLAUDE:
        return settings.claude.model
    given = plain(settings.agents).get(agent)
    return str(given.get("model") or "") if isinstance(given, dict) else ""


def takes_model(agent: str, settings: Settings, place: Workplace) -> bool:
    """Whether a model that the command names reaches the agent's program."""
    found = programs.read(settings.agents, place.root).get(agent)
    if found is None or found.preset:
        return True
    lines = [line for line in (found.command, found.resume) if line]
    return all(any("{model}" in word for word in line) for line in lines)


def default_model(agent: str) -> str:
    """The text for the model where none is requested."""
    return "Claude Code's default" if agent == CLAUDE else f"{agent}'s default"
