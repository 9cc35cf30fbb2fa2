"""A plan's ownership as those need it who know no plans: as data beside a turn, and as the scope of a workspace.

Whoever asks gets the same answer: a tool before it writes, the end of a turn, a merge.
"""

from __future__ import annotations

from functools import lru_cache

from parley.ports import Claim, Scope, Site
from parley.workflow.ownership import refuse_write
from parley.workflow.terms import Plan, Task, Worker


def claims_of(plan: Plan) -> tuple[Claim, ...]:
    """Who owns what, and who must not touch what: all that a refusal depends on."""
    return tuple(
        Claim(worker.name, worker.owns if worker.task is Task.DOER else (), worker.forbids)
        for worker in plan.workers.values()
    )


def scope_of(plan: Plan, agent: str) -> Scope:
    """What an agent of a plan may change of a tree."""
    return Scope(lambda path: refuse_write(plan, agent, path))


def refuse_at(site: Site, path: str) -> str:
    """Why a path from the tree's root must not be written at a site, in one line; empty if it may."""
    if not site.worker and not site.claims:
        return ""
    return refuse_write(_plan(site.claims), site.worker, path)


@lru_cache(maxsize=16)
def _plan(claims: tuple[Claim, ...]) -> Plan:
    """As much of a plan as says whose a path is."""
    found = (Worker(it.worker, Task.DOER, it.worker, owns=it.owns, forbids=it.forbids) for it in claims)
    return Plan("", "", {worker.name: worker for worker in found}, ())
