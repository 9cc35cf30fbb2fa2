"""The digest that binds an approval of PLAN.md to the workflow's design files, the blueprint.

These are the plan, the instructions of its agents, the summaries that it was made from, and the roles that it drafts.
All else below `orchestration/` is derived while the workflow runs, and changes with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from parley.protocol.gates import JOIN, has_companion
from parley.workflow.model.terms import FOLDER, PLAN, ROLES, instructions_of

SUMMARIES = f"{FOLDER}/conversation_summary_*.md"
DRAFTS = f"{ROLES}/*.md"
INSTRUCTIONS = instructions_of("*")


def is_covered(path: str, agents: Collection[str] | None = None) -> bool:
    """Whether a file belongs to the blueprint; of instructions those of the plan's agents, where these are known."""
    if path == PLAN or any(is_like(path, pattern) for pattern in (SUMMARIES, DRAFTS)):
        return True
    return is_like(path, INSTRUCTIONS) and (agents is None or path.split("/")[2] in agents)


def is_like(path: str, pattern: str) -> bool:
    """Whether a path matches a pattern folder by folder."""
    return path.count("/") == pattern.count("/") and fnmatchcase(path, pattern)


def digest_of(files: Mapping[str, str | None]) -> str:
    """The digest of a blueprint's files; None: something is there that is no file to be read."""
    whole = hashlib.sha256()
    for path, text in sorted(files.items()):
        for part in (path, "-" if text is None else f"+{text}"):
            data = part.encode("utf-8", "surrogatepass")
            whole.update(f"{len(data)}:".encode())
            whole.update(data)
    return whole.hexdigest()


def has_workflow(digest: str) -> bool:
    """Whether what was approved as PLAN.md has a workflow with it."""
    return has_companion(digest)


def bound(plan: str, blueprint: str) -> str:
    """The digest that an approval of PLAN.md is bound to where there is a workflow."""
    return f"{plan}{JOIN}{blueprint}"
