"""Where roles come from: the package, the user's `.claude/agents/`, and `parley.toml`, each going before the last."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from parley.adapters.roles.files import FOLDER, NAME, RoleError, RoleFile, line_of, parse, text_of, with_bus_tools
from parley.config import FILE, Settings

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
    for path in sorted((root / FOLDER).glob("*.md")):
        role = parse(text_of(path, root), path, bases)
        if role.name in found:
            raise RoleError(f"{path}:1: the role {role.name!r} is defined twice; rename one of them")
        found[role.name] = role
    return found


def gather(root: Path, settings: Settings, also: Iterable[str] = ()) -> dict[str, RoleFile]:
    """Every role, as it stands now. `also` are agents that a playbook knows: a team may name them too."""
    roles = shipped()
    roles.update(read(root, roles))
    teams_in_settings = set()
    for name, given in settings.roles.items():
        roles[name] = _settled(root, name, given, roles.get(name))
        if "team" in given:
            teams_in_settings.add(name)
    known = {*roles, *also} - {*OWN, *RESERVED}
    for name, role in roles.items():
        where = _place(root, role, name if name in teams_in_settings else "")
        if name in RESERVED:
            raise RoleError(f"{where}: {name!r} is the protocol's own name; call the role something else")
        for member in role.team:
            if member not in known:
                raise RoleError(
                    f"{where}: the team of {name!r} has {member!r}, and there is no such role to send to;"
                    f" use some of: {', '.join(sorted(known))}"
                )
    return dict(sorted(roles.items()))


def _settled(root: Path, name: str, given: Mapping[str, Any], base: RoleFile | None) -> RoleFile:
    """A role with what `parley.toml` says of it."""
    where = f"{root / FILE}: [roles.{name}]"
    if not NAME.fullmatch(name):
        raise RoleError(f"{where}: {name!r:.80} can't be a role's name; use small letters, digits, - and _")
    role = base or RoleFile(name, "", with_bus_tools(("Read", "Edit", "Write", "Bash"), name), (), "")
    role = replace(role, **{key: given[key] for key in ("team", "runner") if key in given})
    if "model" in given:
        role = replace(role, model="" if given["model"] == "inherit" else given["model"])
    if "tools" in given:
        role = replace(role, tools=with_bus_tools(given["tools"], name))
    if "limits" in given:
        role = replace(role, limits={**role.limits, **given["limits"]})
    if "prompt" in given:
        role = replace(role, prompt=text_of(root / given["prompt"], root).strip())
    return replace(role, source=f"{role.source} + {FILE}" if base else FILE)


def _place(root: Path, role: RoleFile, in_settings: str) -> str:
    """Where a role's team is said, for an error."""
    if in_settings:
        return f"{root / FILE}: [roles.{in_settings}] team"
    path = role.source.removesuffix(f" + {FILE}")
    return f"{path}:{line_of(text_of(Path(path), root).splitlines(), 'team')}" if path.endswith(".md") else path
