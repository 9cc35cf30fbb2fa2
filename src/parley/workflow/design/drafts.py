"""Role drafts: new agent types that come with a plan, and wait for the human's approval.

A draft is an agent's text. It may say what its agent is for and which of the known tools it needs. It gives that agent
no program, model, tool or team that the job does not have already.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from msgspec.structs import replace

from parley.base.documents.node import DocumentError, Items, Scalar
from parley.base.documents.reader import Fields
from parley.base.text import cut
from parley.roles.role_file import BUS_TOOLS, front_matter, role_of, snapshot_of
from parley.roles.role_snapshot import RoleLimits, RoleSnapshot
from parley.workflow.design.binding import DRAFTS
from parley.workflow.files.reading.finding_reader import finding_of
from parley.workflow.model.terms import EXECUTOR, GROUP, PROVER, ROLES, Finding

KEYS = ("name", "description", "tools", "model")
PROTOCOL_TOOLS = (*BUS_TOOLS, "Note", "Status", "Verdict", "Resolve", "Answer", "AskHuman", "Predict")
RESERVED = ("orchestrator", "human", "proxy", EXECUTOR, GROUP, PROVER)
LONGEST = 64 * 1024  # characters


@dataclass(frozen=True, slots=True)
class DraftLimits:
    """The names, tools and models of the job's own roles: no draft goes beyond them."""

    names: frozenset[str]
    tools: frozenset[str]
    models: frozenset[str]

    @classmethod
    def by(cls, roles: Iterable[RoleSnapshot]) -> DraftLimits:
        """What the roles of a job's snapshot allow."""
        known = tuple(roles)
        tools = {tool for role in known for tool in role.tools if tool not in PROTOCOL_TOOLS}
        models = {role.model for role in known}
        return cls(frozenset(role.name for role in known), frozenset(tools), frozenset({"", *models}))


def read_drafts(
    files: Mapping[str, str], roles: Iterable[RoleSnapshot]
) -> tuple[dict[str, RoleSnapshot], list[Finding]]:
    """The roles that a design drafts, as a job's snapshot would keep them, and what is wrong with the others."""
    allowed = DraftLimits.by(roles)
    drafts: dict[str, RoleSnapshot] = {}
    findings: list[Finding] = []
    for path, text in sorted(files.items()):
        if PurePosixPath(path).match(DRAFTS) and path.count("/") == DRAFTS.count("/"):
            role, wrong = read_draft(path, text, allowed)
            findings.extend(wrong)
            if role is not None:
                drafts[role.name] = role
    return drafts, findings


def read_draft(path: str, text: str, allowed: DraftLimits) -> tuple[RoleSnapshot | None, list[Finding]]:
    """One draft: the role, or what is wrong with it."""
    stem = PurePosixPath(path).stem
    if len(text) > LONGEST:
        return None, [
            Finding(
                file=path,
                line=0,
                agent=stem,
                rule="draft",
                text=f"it is longer than {LONGEST} characters",
                remedy="make it shorter",
            )
        ]
    try:
        fields, prompt = front_matter(text, Path(path), aliases=False)
        role = role_of(fields, prompt, Path(path), {})
    except DocumentError as error:
        return None, [finding_of(error, stem, "draft")]
    found: list[Finding] = []

    def wrong(key: str, problem: str, remedy: str) -> None:
        line = fields.keys[key].place.line if key in fields else 1
        found.append(Finding(file=path, line=line, agent=stem, rule="draft", text=problem, remedy=remedy))

    if role.name != stem:
        wrong("name", f"it is called {role.name!r}, and its file {stem!r}", "give both one name")
    if role.name in allowed.names or role.name in RESERVED:
        wrong("name", f"there is a role {role.name!r} already", f"use that, or give the draft in {ROLES}/ another name")
    for key in fields:
        if key not in KEYS:
            wrong(key, f"a draft can't set `{cut(key, 80)}`", f"leave it to the user; a draft has: {', '.join(KEYS)}")
    if not role.description:
        wrong("description", "it does not say what the role is for", "write `description: …`")
    if not role.prompt:
        wrong("", "it has no prompt", "say below the front matter how the agent is to work")
    named = _named_tools(fields)
    given = [tool for tool in role.tools if tool not in PROTOCOL_TOOLS or tool in named]
    if beyond := [tool for tool in given if tool not in allowed.tools]:
        known = ", ".join(sorted(allowed.tools)) or "none"
        wrong("tools", f"no role of this job has {cut(', '.join(beyond), 200)}", f"use some of: {known}")
    if role.model not in allowed.models:
        known = ", ".join(sorted(allowed.models - {""})) or "none"
        wrong("model", f"no role of this job has the model {role.model!r}", f"leave it out, or use one of: {known}")
    if found:
        return None, found
    return replace(snapshot_of(role), team=(), runner="", limits=RoleLimits()), []


def _named_tools(fields: Fields) -> set[str]:
    """The tools that it asks for by name: every role gets the bus's without that."""
    given = fields.get("tools")
    listed = given.nodes if isinstance(given, Items) else (given,)
    texts = (str(node.written or "") for node in listed if isinstance(node, Scalar))
    return {word.strip() for text in texts for word in text.split(",")}
