"""The design check: what can be told of a workflow's design without running it.

It runs before the design verifier and before the human see the design. A finding is a gap: the design goes back.
docs/workflow-design-check.md says which rule stands for which point of the checklist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import chain

from parley.workflow.blueprint import Blueprint
from parley.workflow.handoffs import examine_checkpoints, examine_files, examine_status
from parley.workflow.instructions import examine_instructions
from parley.workflow.plan import read_plan
from parley.workflow.precedence import examine_order
from parley.workflow.roster import examine_roster
from parley.workflow.scopes import examine_scopes
from parley.workflow.terms import PLAN, Finding, instructions_of
from parley.workflow.unwritten import examine_unwritten

EXAMINATIONS = (
    examine_roster,
    examine_order,
    examine_files,
    examine_checkpoints,
    examine_scopes,
    examine_instructions,
    examine_status,
    examine_unwritten,
)


def check_design(
    files: Mapping[str, str], roles: Collection[str], existing: Callable[[str], bool] | None = None
) -> list[Finding]:
    """All gaps of a design, in the order of its files. `files`: all of orchestration/, by path from the tree's root.

    `roles` are the roles that exist. `existing` tells whether the tree has a path; without it, whatever lies outside
    of orchestration/ is taken to be there.
    """
    if PLAN not in files:
        return [Finding(PLAN, 0, "", "missing-plan", "there is no plan", f"write {PLAN}")]
    plan, findings = read_plan(files[PLAN])
    if plan is None:
        return findings
    design = Blueprint(files, plan, roles, existing)
    found = dict.fromkeys(chain(findings, chain.from_iterable(examine(design) for examine in EXAMINATIONS)))
    ranks = {PLAN: 0, **{instructions_of(name): number for number, name in enumerate(plan.workers, 1)}}
    return sorted(found, key=lambda finding: (ranks.get(finding.file, len(ranks)), finding.file, finding.line))
