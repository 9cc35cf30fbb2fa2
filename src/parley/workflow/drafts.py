"""Drafts of roles: an agent type that does not exist yet is written down with the plan, and waits for the human.

A draft is an agent's text. It may say what its agent is for and which of the known tools it needs. It gives nobody
a program, a model, a tool or a team that the job does not have already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from parley.adapters.nodes import load
from parley.adapters.roles.files import BUS_TOOLS, RoleError, parse, to_json
from parley.text import cut
from parley.workflow.binding import DRAFTS
from parley.workflow.terms import EXECUTOR, GROUP, PROVER, ROLES, Finding

KEYS = ("name", "description", "tools", "model")
PROTOCOL_TOOLS = (*BUS_TOOLS, "Note", "Status", "Verdict", "Resolve", "Answer", "AskHuman", "Predict")
RESERVED = ("orchestrator", "human", "proxy", EXECUTOR, GROUP, PROVER)
LONGEST = 64 * 1024  # characters
_KEY = re.compile(r"([A-Za-z_][\w-]*)\s*:")
_PLACE = re.compile(r"[^:]*:(\d+): (.*?)(?:; ([^;]*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the job's own roles have: no draft goes beyond it."""

    names: frozenset[str]
    tools: frozenset[str]
    models: frozenset[str]

    @classmethod
    def by(cls, roles: Iterable[Mapping[str, Any]]) -> Allowed:
        """What the roles of a job's snapshot allow."""
        known = tuple(roles)
        tools = {tool for role in known for tool in role.get("tools", ()) if tool not in PROTOCOL_TOOLS}
        models = {str(role.get("model") or "") for role in known}
        return cls(frozenset(str(role["name"]) for role in known), frozenset(tools), frozenset({"", *models}))


def read_drafts(
    files: Mapping[str, str], roles: Iterable[Mapping[str, Any]]
) -> tuple[dict[str, dict[str, Any]], list[Finding]]:
    """The roles that a design drafts, as a job's snapshot would keep them, and what is wrong with the others."""
    allowed = Allowed.by(roles)
    drafts: dict[str, dict[str, Any]] = {}
    findings: list[Finding] = []
    for path, text in sorted(files.items()):
        if PurePosixPath(path).match(DRAFTS) and path.count("/") == DRAFTS.count("/"):
            role, wrong = read_draft(path, text, allowed)
            findings.extend(wrong)
            if role is not None:
                drafts[role["name"]] = role
    return drafts, findings


def read_draft(path: str, text: str, allowed: Allowed) -> tuple[dict[str, Any] | None, list[Finding]]:
    """One draft: the role, or what is wrong with it."""
    stem = PurePosixPath(path).stem
    if len(text) > LONGEST:
        return None, [Finding(path, 0, stem, "draft", f"it is longer than {LONGEST} characters", "make it shorter")]
    head = _front(text)
    lines = head.splitlines()
    # twice: a role's description may be no YAML, and is set aside then
    plain = "\n".join(line for line in lines if not line.startswith("description:"))
    if any(isinstance(event, yaml.AliasEvent) for front in (head, plain) for event in _events(front)):
        return None, [Finding(path, 2, stem, "draft", "its front matter has an alias (*)", "write every value out")]
    try:
        role = parse(text, Path(path))
    except RoleError as error:
        return None, [_finding(path, stem, str(error))]
    found: list[Finding] = []

    def wrong(key: str, problem: str, remedy: str) -> None:
        found.append(Finding(path, _line(lines, key), stem, "draft", problem, remedy))

    if role.name != stem:
        wrong("name", f"it is called {role.name!r}, and its file {stem!r}", "give both one name")
    if role.name in allowed.names or role.name in RESERVED:
        wrong("name", f"there is a role {role.name!r} already", f"use that, or give the draft in {ROLES}/ another name")
    for key in dict.fromkeys((*_keys(head), *_set(role.team, role.runner, role.limits))):
        if key not in KEYS:
            wrong(key, f"a draft can't set `{key}`", f"leave it to the user; a draft has: {', '.join(KEYS)}")
    if not role.description:
        wrong("description", "it does not say what the role is for", "write `description: …`")
    if not role.prompt:
        wrong("---", "it has no prompt", "say below the front matter how the agent is to work")
    named = _named(head)
    given = [tool for tool in role.tools if tool not in PROTOCOL_TOOLS or tool in named]
    if beyond := [tool for tool in given if tool not in allowed.tools]:
        known = ", ".join(sorted(allowed.tools)) or "none"
        wrong("tools", f"no role of this job has {cut(', '.join(beyond), 200)}", f"use some of: {known}")
    if role.model not in allowed.models:
        known = ", ".join(sorted(allowed.models - {""})) or "none"
        wrong("model", f"no role of this job has the model {role.model!r}", f"leave it out, or use one of: {known}")
    if found:
        return None, found
    return {**to_json(role), "team": [], "members": {}, "runner": "", "limits": {}}, []


def _front(text: str) -> str:
    """The front matter without its fences; empty where there is none."""
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != "---":
        return ""
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0)
    return "\n".join(lines[1:end])


def _events(head: str) -> Iterable[yaml.Event]:
    try:
        yield from yaml.parse(head, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError):
        return  # whoever reads it as a role says what is wrong


def _matter(head: str) -> dict[Any, Any]:
    try:
        matter = load(head)
    except (yaml.YAMLError, ValueError):
        return {}
    return matter if isinstance(matter, dict) else {}


def _keys(head: str) -> list[str]:
    """The keys that it sets; a description with a colon in it is no YAML, and is a role all the same."""
    matter = _matter(head)
    if matter:
        return [cut(str(key), 80) for key in matter]
    return [found[1] for line in head.splitlines() if (found := _KEY.match(line))]


def _set(team: tuple[str, ...], runner: str, limits: Mapping[str, float]) -> list[str]:
    """What the role as it was read sets, however it was written."""
    return [key for key, value in (("team", team), ("runner", runner), ("limits", limits)) if value]


def _named(head: str) -> set[str]:
    """The tools that it asks for by name: every role gets the bus's without that."""
    given = _matter(head).get("tools")
    if given is None:
        given = next((line.partition(":")[2] for line in head.splitlines() if line.startswith("tools:")), "")
    words = given if isinstance(given, list) else str(given).split(",")
    return {str(word).strip() for word in words}


def _line(lines: list[str], key: str) -> int:
    """Where a key stands in the file; its first line if it is nowhere."""
    return next((number for number, line in enumerate(lines, 2) if line.startswith(f"{key}:")), 1)


def _finding(path: str, stem: str, said: str) -> Finding:
    match = _PLACE.fullmatch(said)
    if match is None:
        return Finding(path, 1, stem, "draft", said, "correct it")
    return Finding(path, int(match[1]), stem, "draft", match[2], match[3] or "correct it there")
