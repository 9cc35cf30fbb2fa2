"""A plan's ownership for code that does not know plans: claims beside a turn, and the scope of a workspace.

The tool check, the end of a turn and a merge get the same answer.
"""

from __future__ import annotations

from functools import lru_cache

from parley.ports.turns import Claim, Site
from parley.ports.workspaces import Scope
from parley.workflow.model.terms import Plan, Task, Worker
from parley.workflow.paths.ownership import refuse_write


def claims_of(plan: Plan) -> tuple[Claim, ...]:
    """The owned and forbidden paths of each worker: all that a refusal depends on."""
    return tuple(
        Claim(worker.name, worker.owns if worker.task is Task.DOER else (), worker.forbids)
        for worker in plan.workers.values()
    )


def scope_of(plan: Plan, agent: str) -> Scope:
    """What an agent of a plan may change of a tree."""

    def allowed(path: str) -> str:
        refusal = refuse_write(plan, agent, path)
        return refusal.reason if refusal is not None else ""

    return Scope(allowed)


def refuse_at(site: Site, path: str) -> str:
    """Why a path from the tree's root must not be written at a site, in one line; empty if it may."""
    if not site.worker and not site.claims:
        return ""
    return str(refuse_write(_plan(site.claims), site.worker, path) or "")


@lru_cache(maxsize=16)
def _plan(claims: tuple[Claim, ...]) -> Plan:
    """A plan with just the ownership of paths."""
    found = (Worker(it.worker, Task.DOER, it.worker, owns=it.owns, forbids=it.forbids) for it in claims)
    return Plan("", "", {worker.name: worker for worker in found}, ())
