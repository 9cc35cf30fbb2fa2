"""Checks the agents that a playbook names: they must be roles that its job has or may get."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from parley.base.documents.node import DocumentError, quoted
from parley.base.wording import advice
from parley.roles.role_file import lies_in
from parley.runners.scripted.playbook import PROXY, Playbook
from parley.workflow.design.instructions import is_helper
from parley.workflow.model.terms import PLAN

PLAN_LIMIT = 1_000_000  # characters of a workflow's plan that are searched for its workers' names


def refuse_unknown(playbook: Playbook, roles: Collection[str], root: Path, given: Iterable[str] = ()) -> None:
    """Refuse an agent that no job of these roles could have: neither a role, nor a worker of a workflow's plan.

    A workflow's plan, written by the playbook, given by the user or found in the repository, adds roles while the job
    runs. An agent that the playbook both plays and sends to is fine too; a workflow's helpers are in no plan.
    """
    recipients = {to for agent in (*playbook.agents, PROXY) for to in playbook.recipients(agent)}
    known = {*roles, *(playbook.agents.keys() & recipients)}
    unknown = [
        name
        for name in dict.fromkeys((*playbook.agents, *sorted(recipients)))
        if name not in known and not is_helper(name)
    ]
    texts = [_plan(root), *given, *_texts(playbook.to_json())] if unknown else []
    for name in unknown:
        word = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
        if not any(word.search(text) for text in texts):
            own = "a role of your own goes into .claude/agents/ or parley.toml"
            instead = advice(name, sorted(known - {PROXY}))
            raise DocumentError(playbook.places[name], f"there is no role {quoted(name)} ({own})", instead)


def _texts(value: Any) -> Iterator[str]:
    """Every text in a playbook that has more than a name in it."""
    if isinstance(value, str):
        if len(value.split()) > 1:
            yield value
    elif isinstance(value, Mapping | list):
        for one in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(one)


def _plan(root: Path) -> str:
    """The plan of a workflow in the repository: its workers will be roles."""
    path = root / PLAN
    try:
        if not path.is_file() or not lies_in(path, root):
            return ""
        with path.open(encoding="utf-8", errors="replace") as plan:
            return plan.read(PLAN_LIMIT)
    except OSError:
        return ""
