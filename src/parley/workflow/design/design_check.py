"""The design check: finds gaps in a workflow's design without running it.

It runs before the design verifier and the human see the design. With a finding the design goes back.
docs/workflow-design-check.md says which rule stands for which point of the checklist.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import chain

from parley.workflow.design.blueprint import Blueprint
from parley.workflow.design.handoffs import examine_checkpoints, examine_files, examine_status
from parley.workflow.design.instructions import examine_instructions
from parley.workflow.design.precedence import examine_order
from parley.workflow.design.roster import examine_roster
from parley.workflow.design.scopes import examine_scopes
from parley.workflow.design.unwritten import examine_unwritten
from parley.workflow.files.plan import read_plan
from parley.workflow.model.terms import PLAN, Finding, instructions_of

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

    `roles` are the roles that exist. `existing` tells whether the tree has a path; without it, every path outside
    of orchestration/ is taken to be there.
    """
    if PLAN not in files:
        return [
            Finding(file=PLAN, line=0, agent="", rule="missing-plan", text="there is no plan", remedy=f"write {PLAN}")
        ]
    plan, findings = read_plan(files[PLAN])
    if plan is None:
        return findings
    design = Blueprint(files, plan, roles, existing)
    found = dict.fromkeys(chain(findings, chain.from_iterable(examine(design) for examine in EXAMINATIONS)))
    ranks = {PLAN: 0, **{instructions_of(name): number for number, name in enumerate(plan.workers, 1)}}
    return sorted(found, key=lambda finding: (ranks.get(finding.file, len(ranks)), finding.file, finding.line))
