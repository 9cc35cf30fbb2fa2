"""Gathers the roles from the package, the user's `.claude/agents/` and `parley.toml`; later ones take precedence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path

from parley.base.documents.node import DocumentError, Place
from parley.base.wording import near
from parley.protocol.molecules import AGENT_NAME
from parley.roles.role_file import (
    FOLDER,
    MIXED_REMEDY,
    PACKAGE,
    NoRole,
    RoleFile,
    messages_problem,
    not_given,
    parse,
    text_of,
    unfit_messages,
    with_bus_tools,
    with_team,
)
from parley.settings.schema import FILE, RoleSettings, Settings

OWN = ("proxy",)  # a role that no agent may send to
RESERVED = ("orchestrator", "human")


def shipped() -> dict[str, RoleFile]:
    """The roles that come with Parley."""
    return dict(_shipped())


@cache
def _shipped() -> Mapping[str, RoleFile]:
    """Read them once: a command asks for them several times, and reading them takes longer than all else in it."""
    folder = files("parley").joinpath("roles")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".md") and entry.name[0] != "_")
    roles = [parse(folder.joinpath(name).read_text(encoding="utf-8"), Path(name)) for name in names]
    return {role.name: replace(role, source=PACKAGE) for role in roles}


def read(root: Path, bases: Mapping[str, RoleFile] | None = None) -> dict[str, RoleFile]:
    """The roles that a folder's own files define, by name."""
    found: dict[str, RoleFile] = {}
    for path, role in _files(root, bases or {}):
        if isinstance(role, NoRole):
            continue
        if role.name in found:
            raise DocumentError(
                Place(str(path), 1, 1), f"the role {role.name!r} is defined twice", "rename one of them"
            )
        found[role.name] = role
    return found


def skipped(root: Path) -> list[str]:
    """The files in the roles folder that define no role, each with the reason, one line each."""
    told = []
    for path, problem in _files(root, shipped()):
        if isinstance(problem, NoRole):
            why = f"{problem.problem}; {problem.remedy}"
            told.append(f"{path.relative_to(root)} is skipped, it is no role: {why}")
    return told


def lacking_tools(root: Path, roles: Mapping[str, RoleFile]) -> list[str]:
    """The tools that the user's roles name and no agent gets here, one line for each role."""
    told = []
    for name, role in roles.items():
        if role.origin != PACKAGE and (missing := not_given(role.tools)):
            where = role.origin.removeprefix(f"{root}/")
            told.append(f"{where}: Parley does not give {', '.join(missing)}; {name} works without")
    return told


def _files(root: Path, bases: Mapping[str, RoleFile]) -> Iterator[tuple[Path, RoleFile | NoRole]]:
    """Each file among a folder's roles, with what it defines, or why it defines nothing.

    Claude Code keeps its agents in the same folder, and people keep notes there: a file that is no role does not stop a
    job. A file with the name of a shipped role is meant to be one, and has to be valid.
    """
    for path in sorted((root / FOLDER).glob("*.md")):
        try:
            yield path, parse(text_of(path, root), path, bases)
        except DocumentError as error:
            if path.stem in bases or (not isinstance(error, NoRole) and AGENT_NAME.fullmatch(path.stem)):
                raise
            yield path, NoRole(error.place, error.problem, error.remedy)


def defined(root: Path, settings: Settings) -> dict[str, RoleFile]:
    """Every role as written, without checking them against each other."""
    roles = shipped()
    roles.update(read(root, roles))
    for name, given in settings.roles.items():
        roles[name] = _settled(root, name, given, roles.get(name))
    return roles


def gather(root: Path, settings: Settings, also: Iterable[str] = ()) -> dict[str, RoleFile]:
    """Every role, checked. `also` are agents that a playbook knows: a team may name them too."""
    roles = defined(root, settings)
    known = {*roles, *also} - {*OWN, *RESERVED}
    for name, role in roles.items():
        if name in RESERVED:
            raise _error(settings, role, "name", f"{name!r} is the protocol's own name", "call the role something else")
        if why := unfit_messages(role):
            raise _error(settings, role, "messages", *why)
        for member in role.team:
            if member not in known:
                meant = near(member, known)
                instead = f"did you mean {meant!r}?" if meant else f"use some of: {', '.join(sorted(known))}"
                problem = f"the team of {name!r} has {member!r}, and there is no such role to send to"
                raise _error(settings, role, "team", problem, instead)
    return dict(sorted(roles.items()))


def _settled(root: Path, name: str, given: RoleSettings, base: RoleFile | None) -> RoleFile:
    """A role with what `parley.toml` says of it."""
    if not AGENT_NAME.fullmatch(name):
        problem = f"{name!r:.80} can't be a role's name"
        raise _settings_error(name, given, "", problem, "use small letters, digits, - and _")
    role = base or RoleFile(
        name=name, description="", tools=with_bus_tools(("Read", "Edit", "Write", "Bash"), name), team=(), prompt=""
    )
    if given.runner is not None:
        role = replace(role, runner=given.runner)
    if given.team is not None:
        try:
            role = replace(role, team=with_team(role.team, given.team))
        except ValueError as error:
            raise _settings_error(name, given, "team", str(error), MIXED_REMEDY) from error
    if given.model is not None:
        role = replace(role, model="" if given.model == "inherit" else given.model)
    if given.tools is not None:
        role = replace(role, tools=with_bus_tools(given.tools, name))
    if given.limits:
        role = replace(role, limits={**role.limits, **given.limits})
    if given.messages is not None:
        if unknown := messages_problem(given.messages):
            raise _settings_error(name, given, "messages", *unknown)
        role = replace(role, messages=given.messages)
    if given.prompt is not None:
        role = replace(role, prompt=text_of(root / given.prompt, root).strip())
    return replace(role, settled=True) if base else replace(role, source=FILE)


def _error(settings: Settings, role: RoleFile, key: str, problem: str, remedy: str) -> DocumentError:
    """What is wrong with a role among the others, at the place where a key of it is said."""
    given = settings.roles.get(role.name)
    if given is not None and (key in given.places or role.source == FILE):
        return _settings_error(role.name, given, key, problem, remedy)
    return DocumentError(role.places.get(key, Place(role.source, 1, 1)), problem, remedy)


def _settings_error(name: str, given: RoleSettings, key: str, problem: str, remedy: str) -> DocumentError:
    where = f"[roles.{name}] {key}".rstrip()
    return DocumentError(given.places.get(key) or given.places[""], f"{where}: {problem}", remedy)
