"""Who runs the agents of a job here: the scripted player, Claude Code, the programs of the settings, and proofs."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from parley.adapters import roles as role_files
from parley.adapters.boundary import Boundary
from parley.adapters.boundary.cage import HOME
from parley.adapters.claude import ClaudeError, available, claude_runner, find_program, lacking
from parley.adapters.command import agents as programs
from parley.adapters.command.runner import CommandRunner
from parley.adapters.playing import Playing
from parley.adapters.proving import ProofRunner
from parley.config import Settings
from parley.engine.budgets import limit_words
from parley.faces.cli import Trouble
from parley.faces.cli.desk import Place
from parley.ports import Bind, Ended, Order, Runner, TurnEvent
from parley.wording import advice
from parley.workflow.claims import refuse_at
from parley.workflow.persona import SKILL as PERSONA

SCRIPTED, CLAUDE, PROOF = "scripted", "claude", "proof"
SET_UP = "parley setup"


class Late:
    """A runner that is made when its first turn comes: what it needs may be missing, and nobody may need it."""

    def __init__(self, make: Callable[[], Runner]) -> None:
        self._make = make
        self._made: Runner | None = None
        self._lock = threading.Lock()

    def start(self, order: Order, tell: Callable[[TurnEvent], None]) -> None:
        """Begin a turn, or tell what is missing."""
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


def runners(place: Place, settings: Settings, boundary: Boundary) -> dict[str, Runner]:
    """Every runner, by the name that a role gives it."""
    known = programs.read(settings.agents, place.root)

    def claude() -> Runner:
        return claude_runner(
            settings.claude,
            boundary,
            prompt=lambda order: composed(boundary, order),
            binds=lambda order: dressed(place, order),
            judge=refuse_at,
        )

    made: dict[str, Runner] = {
        SCRIPTED: Playing(boundary, refuse_at),
        CLAUDE: Late(claude),
        PROOF: ProofRunner(boundary),
    }
    command = CommandRunner(boundary, known, instruct=lambda order: told(boundary, order))
    return made | dict.fromkeys(known, command)


def composed(boundary: Boundary, order: Order) -> str:
    """What an instance is told of its role and of the protocol: by what it has, and the same for all of its role."""
    role = role_files.from_text(order.role)
    path, seconds = boundary.search_path(), order.time_limit_seconds
    return role_files.system_prompt(role, order.skill, order.tools, path=path, seconds=seconds)


def told(boundary: Boundary, order: Order) -> str:
    """The same for a program that knows no roles of its own."""
    return f"You are {order.agent}.\n\n{composed(boundary, order)}"


def dressed(place: Place, order: Order) -> tuple[Bind, ...]:
    """The instance's `.claude`, made of its role and bound over the workspace's: it sees it, and can't change it.

    Over a file of that name nothing can be bound, and it is not Parley's to move: the role is in the prompt as well,
    and no program reads settings out of a file there.
    """
    target = f"{order.site.workspace}/.claude"
    with contextlib.suppress(OSError):
        if not stat.S_ISDIR(mode := os.lstat(target).st_mode) and not stat.S_ISLNK(mode):
            return ()
    role = role_files.from_text(order.role)
    phase = order.skill.partition(" ")[0]
    folder = place.home / "jobs" / order.job / "dress" / f"{order.agent}-{phase or 'none'}"
    made = role_files.dress(folder, {**role, "name": order.agent}, [phase] if phase else [])
    return (Bind(str(made), target),)


def at_home() -> tuple[Bind, ...]:
    """What every instance finds in its home and can't change: the protocols, and the skill that a lead may call for."""
    protocols = Bind(str(role_files.protocols()), f"{HOME}/{role_files.PROTOCOLS}")
    return (protocols, Bind(str(role_files.skill_folder(PERSONA)), f"{HOME}/.claude/skills/{PERSONA}"))


# ---- who it is to be -------------------------------------------------------------------------------


def choose(wanted: str | None, settings: Settings, place: Place, *, playbook: bool) -> str:
    """The agent of a new job: the one that was named, else a playbook's, else Claude Code where it is logged in."""
    names = (SCRIPTED, CLAUDE, *programs.read(settings.agents, place.root))
    if wanted is not None and wanted not in names:
        raise Trouble(f"there is no agent {wanted!r}; {advice(wanted, names)}")
    agent = wanted or (SCRIPTED if playbook else CLAUDE)
    if agent == SCRIPTED and not playbook:
        raise Trouble("the scripted agent needs a playbook; name one with --playbook FILE, or try `parley demo`")
    if agent == CLAUDE and (problem := claude_problem(settings)):
        guide = "" if SET_UP in problem else f"; `{SET_UP}` shows what is there"
        hint = "" if wanted else "; or let scripted agents play: --playbook FILE, or `parley demo`"
        raise Trouble(f"{problem}{guide}{hint}")
    return agent


def claude_problem(settings: Settings) -> str:
    """What keeps Claude Code from running here, and what to do, in one line; empty if nothing does."""
    if problem := lacking(settings.claude, os.environ):
        return problem
    try:
        find_program(settings.claude, os.environ)
    except ClaudeError as error:
        return str(error)
    return ""


def assign(roles: Iterable[dict[str, Any]], agent: str, played: Iterable[str]) -> None:
    """Give each role its runner: its own, the player where the playbook knows it, else the job's."""
    known = set(played)
    for role in roles:
        role["runner"] = role.get("runner") or (SCRIPTED if role["name"] in known else agent)


def check(roles: Iterable[Mapping[str, Any]], settings: Settings, place: Place) -> None:
    """Refuse in one line what some role's runner lacks, before anything starts."""
    known = programs.read(settings.agents, place.root)
    for role in roles:
        runner = role["runner"]
        if runner in (SCRIPTED, PROOF):
            continue
        if runner == CLAUDE:
            problem = claude_problem(settings)
        elif runner in known:
            problem = programs.problem(known[runner])
        else:
            problem = f"there is no runner {runner!r}; {advice(runner, (SCRIPTED, CLAUDE, *known))}"
        if problem:
            raise Trouble(f"the role {role['name']}: {problem}")


def reports_cost(roles: Iterable[Mapping[str, Any]]) -> bool:
    """Whether some role's agent tells what its turns cost in money."""
    return any(role["runner"] == CLAUDE for role in roles)


def announced(agent: str, settings: Settings, snapshot: Mapping[str, Any]) -> str:
    """Who does the work, with which model and login, and how much it may use: one line for people."""
    said = [f"agent: {agent_words(agent, settings)}"]
    if agent != SCRIPTED:
        said.append(f"model: {model_words(agent, settings, snapshot)}")
    login = available(settings.claude, os.environ) if agent == CLAUDE else None
    if login is not None:
        said.append(f"login: {login.origin}")
    return ", ".join([*said, f"budget: {limit_words(snapshot['budget'])}"])


def agent_words(agent: str, settings: Settings) -> str:
    """An agent's name, with its version where it has one."""
    if agent != CLAUDE:
        return agent
    return f"Claude Code {'.'.join(map(str, find_program(settings.claude, os.environ).version))}"


def model_words(agent: str, settings: Settings, snapshot: Mapping[str, Any]) -> str:
    """The model that is asked for, and those of roles that have another."""
    model = snapshot["model"] or usual_model(agent, settings) or default_model(agent)
    others = [
        f"{role['name']}: {role['model']}"
        for role in snapshot["roles"]
        if role["runner"] == agent and role.get("model") not in (None, "", "inherit", model)
    ]
    return f"{model} ({', '.join(others)})" if others else model


def usual_model(agent: str, settings: Settings) -> str:
    """The model that the settings name for an agent; empty: its program's default."""
    if agent == CLAUDE:
        return settings.claude.model
    given = settings.agents.get(agent)
    return str(given.get("model") or "") if isinstance(given, dict) else ""


def default_model(agent: str) -> str:
    """What is said of the model where none is asked for."""
    return "Claude Code's default" if agent == CLAUDE else f"{agent}'s default"
