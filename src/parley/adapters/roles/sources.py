"""Where roles come from: the package, the user's `.claude/agents/`, and `parley.toml`, each going before the last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from parley.adapters.roles.files import (
    FOLDER,
    MIXED_REMEDY,
    NoRole,
    RoleError,
    RoleFile,
    line_of,
    messages_problem,
    not_given,
    parse,
    text_of,
    unfit_messages,
    with_bus_tools,
    with_team,
)
from parley.config import FILE, Settings
from parley.core.terms import AGENT_NAME
from parley.wording import near

OWN = ("proxy",)  # has a role, and is nobody's to send to
RESERVED = ("orchestrator", "human")


def shipped() -> dict[str, RoleFile]:
    """The roles that come with Parley."""
    folder = files("parley").joinpath("roles")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".md") and entry.name[0] != "_")
    roles = [parse(folder.joinpath(name).read_text(encoding="utf-8"), Path(name)) for name in names]
    return {role.name: replace(role, source="package") for role in roles}


def read(root: Path, bases: Mapping[str, RoleFile] | None = None) -> dict[str, RoleFile]:
    """The roles that a folder's own files define, by name."""
    found: dict[str, RoleFile] = {}
    for path, role in _files(root, bases or {}):
        if isinstance(role, NoRole):
            continue
        if role.name in found:
            raise RoleError(f"{path}:1: the role {role.name!r} is defined twice; rename one of them")
        found[role.name] = role
    return found


def skipped(root: Path) -> list[str]:
    """The files among the roles that define none, each with the reason: one line for each."""
    told = []
    for path, problem in _files(root, shipped()):
        if isinstance(problem, NoRole):
            why = str(problem).removeprefix(f"{path}:").partition(" ")[2]
            told.append(f"{path.relative_to(root)} is skipped, it is no role: {why}")
    return told


def lacking_tools(root: Path, roles: Mapping[str, RoleFile]) -> list[str]:
    """What the user's roles name that no agent gets here: one line for each role."""
    told = []
    for name, role in roles.items():
        if role.source != "package" and (missing := not_given(role.tools)):
            where = role.source.removeprefix(f"{root}/")
            told.append(f"{where}: Parley does not give {', '.join(missing)}; {name} works without")
    return told


def _files(root: Path, bases: Mapping[str, RoleFile]) -> Iterator[tuple[Path, RoleFile | NoRole]]:
    """Each file among a folder's roles, with what it defines, or why it defines nothing.

    Claude Code keeps its agents in the same folder, and people keep notes there: what is no role here does not stop a
    job. A file that is called as a shipped role is meant to be one, and has to be right.
    """
    for path in sorted((root / FOLDER).glob("*.md")):
        try:
            yield path, parse(text_of(path, root), path, bases)
        except RoleError as error:
            if path.stem in bases or (not isinstance(error, NoRole) and AGENT_NAME.fullmatch(path.stem)):
                raise
            yield path, error if isinstance(error, NoRole) else NoRole(str(error))


def defined(root: Path, settings: Settings) -> dict[str, RoleFile]:
    """Every role as it is written, whether it fits the others or not."""
    roles = shipped()
    roles.update(read(root, roles))
    for name, given in settings.roles.items():
        roles[name] = _settled(root, name, given, roles.get(name))
    return roles


def gather(root: Path, settings: Settings, also: Iterable[str] = ()) -> dict[str, RoleFile]:
    """Every role, as it stands now. `also` are agents that a playbook knows: a team may name them too."""
    roles = defined(root, settings)
    teams_in_settings = {name for name, given in settings.roles.items() if "team" in given}
    known = {*roles, *also} - {*OWN, *RESERVED}
    for name, role in roles.items():
        where = _place(root, role, name if name in teams_in_settings else "")
        if name in RESERVED:
            raise RoleError(f"{where}: {name!r} is the protocol's own name; call the role something else")
        if why := unfit_messages(role):
            raise RoleError(f"{_place(root, role, '', 'messages')}: {why}")
        for member in role.team:
            if member not in known:
                meant = near(member, known)
                instead = f"did you mean {meant!r}?" if meant else f"use some of: {', '.join(sorted(known))}"
                raise RoleError(
                    f"{where}: the team of {name!r} has {member!r}, and there is no such role to send to; {instead}"
                )
    return dict(sorted(roles.items()))


def _settled(root: Path, name: str, given: Mapping[str, Any], base: RoleFile | None) -> RoleFile:
    """A role with what `parley.toml` says of it."""
    where = f"{root / FILE}: [roles.{name}]"
    if not AGENT_NAME.fullmatch(name):
        raise RoleError(f"{where}: {name!r:.80} can't be a role's name; use small letters, digits, - and _")
    role = base or RoleFile(name, "", with_bus_tools(("Read", "Edit", "Write", "Bash"), name), (), "")
    if "runner" in given:
        role = replace(role, runner=given["runner"])
    if "team" in given:
        try:
            role = replace(role, team=with_team(role.team, tuple(given["team"])))
        except ValueError as error:
            raise RoleError(f"{where} team: {error}; {MIXED_REMEDY}") from error
    if "model" in given:
        role = replace(role, model="" if given["model"] == "inherit" else given["model"])
    if "tools" in given:
        role = replace(role, tools=with_bus_tools(given["tools"], name))
    if "limits" in given:
        role = replace(role, limits={**role.limits, **given["limits"]})
    if "messages" in given:
        if problem := messages_problem(given["messages"]):
            raise RoleError(f"{where} `messages`: {problem[0]}; {problem[1]}")
        role = replace(role, messages=given["messages"])
    if "prompt" in given:
        role = replace(role, prompt=text_of(root / given["prompt"], root).strip())
    return replace(role, source=f"{role.source} + {FILE}" if base else FILE)


def _place(root: Path, role: RoleFile, in_settings: str, key: str = "team") -> str:
    """Where a role's team, or another key, is said, for an error."""
    if in_settings:
        return f"{root / FILE}: [roles.{in_settings}] team"
    path = role.source.removesuffix(f" + {FILE}")
    return f"{path}:{line_of(text_of(Path(path), root).splitlines(), key)}" if path.endswith(".md") else path
