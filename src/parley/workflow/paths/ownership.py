"""Who may write where: each path has at most one owner, and the protocol's paths have none.

The tool check, the end of a turn and the merge give the same answer. It names the owner and the rule, so that a worker
that needs the path knows whom to ask, and how.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from parley.workflow.model.terms import FOLDER, SHARED_STATUS, Plan, Task, Worker, output_of, session_of
from parley.workflow.paths.patterns import MalformedPattern, matches, path_problem, spelled

ARTIFACTS = ("INTENT.md", "PLAN.md", "WORK_SUMMARY.md")
HIDDEN = (".parley", ".claude")  # at the root
GIT = ".git"  # at any depth: the folder of a repository within this one would be run by git, too

ASK = "leave it; if your task needs it, make an escalated note of the category scope"


class WriteRefusal(NamedTuple):
    """Why an agent may not write a path, said of that path, and what it should do instead."""

    path: str  # as people read it
    why: str
    remedy: str = ""

    @property
    def reason(self) -> str:
        """The reason and the remedy, without the path."""
        return f"{self.why}; {self.remedy}" if self.remedy else self.why

    def __str__(self) -> str:
        return f"{self.path} {self.reason}"


def refuse_write(plan: Plan, agent: str, path: str) -> WriteRefusal | None:
    """Why an agent may not write a path from the root of the tree; None if it may."""
    wrong = path_problem(path)
    if wrong:
        return WriteRefusal(f"{path!a}", f"is not a path of the tree: {wrong}")
    return _refuse(plan, agent, _composed(path))


def owner_of(plan: Plan, path: str) -> str:
    """The agent that owns a path; empty if none does, or if it is the protocol's."""
    path = _composed(path)
    maker = _maker(plan, path)
    if maker or reserved(path):
        return maker
    return next((worker.name for worker, _ in _owners(plan, path)), "")


def reserved(path: str) -> str:
    """Which path of the protocol's this is or lies below; empty if it is a path of the product.

    Case is ignored, as some machines ignore it.
    """
    names = path.casefold().split("/")
    if GIT in names:
        return GIT
    return next((it for it in (*HIDDEN, FOLDER, *ARTIFACTS) if names[0] == it.casefold()), "")


def claim_on_reserved(agent: str, pattern: str) -> str:
    """Which path of the protocol's a pattern of an agent's `owns` spells out; empty if it does not. May be Malformed.

    A wildcard that would take one in among others claims nothing: that path stays the protocol's all the same.
    """
    mine = tuple(output_of(agent).split("/"))
    for names in spelled(pattern):
        path = "/".join(name or "*" for name in names)
        if names[: len(mine)] != mine and reserved(path):
            return reserved(path)
    return ""


def _refuse(plan: Plan, agent: str, path: str) -> WriteRefusal | None:
    if _below(path, output_of(agent)) or path in {session_of(agent), SHARED_STATUS}:
        return None
    shown = path if path.isprintable() else ascii(path)
    maker = _maker(plan, path)
    if maker:
        return WriteRefusal(shown, f"belongs to {maker} (rule: only {maker} writes {output_of(maker)})", ASK)
    held = reserved(path)
    if held:
        mine = f"write what others read into {output_of(agent)}" if held == FOLDER else "leave it as it is"
        return WriteRefusal(shown, f"belongs to the protocol (rule: {held} is reserved)", mine)
    worker = plan.workers.get(agent)
    forbidden = _first(worker.forbids, path) if worker else ""
    if worker and worker.task is Task.DOER and not forbidden and _first(worker.owns, path):
        return None
    owners = list(_owners(plan, path))
    if forbidden:
        whose = next((f", it belongs to {it.name}" for it, _ in owners if it.name != agent), "")
        return WriteRefusal(shown, f"is forbidden to {agent} (rule: forbids {forbidden}){whose}", ASK)
    for owner, pattern in owners:
        return WriteRefusal(shown, f"belongs to {owner.name} (rule: {owner.name} owns {pattern})", ASK)
    mine = ", ".join(worker.owns) if worker and worker.owns else "nothing but its task_output/"
    return WriteRefusal(shown, f"has no owner (rule: {agent} owns {mine})", ASK)


def _owners(plan: Plan, path: str) -> Iterator[tuple[Worker, str]]:
    """The owners of a path, each with its pattern. In a design without findings there is at most one."""
    for worker in plan.workers.values():
        if worker.task is Task.DOER:
            pattern = _first(worker.owns, path)
            if pattern:
                yield worker, pattern


def _first(patterns: Iterable[str], path: str) -> str:
    """The first of the patterns that matches a path."""
    for pattern in patterns:
        try:
            if matches(pattern, path):
                return pattern
        except MalformedPattern:
            continue
    return ""


def _maker(plan: Plan, path: str) -> str:
    """Whose task_output/ a path lies in."""
    parts = path.split("/")
    name = parts[2] if len(parts) > 3 else ""  # noqa: PLR2004 - orchestration/agents/<name>/…
    return name if name in plan.workers and _below(path, output_of(name)) else ""


def _composed(path: str) -> str:
    """A path in Unicode's composed form, in which patterns are written: on some machines both forms are one file."""
    return unicodedata.normalize("NFC", path)


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/")
