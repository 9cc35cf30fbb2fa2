"""Checkpoints: what a verifier says of each, and what is done where one fails and the plan says more than rework."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parley.text import cut
from parley.workflow import moving
from parley.workflow.conduct import Conduct
from parley.workflow.flow import Pending
from parley.workflow.notes import BY_EXECUTOR, MOST_TEXT
from parley.workflow.remedies import OnFailure
from parley.workflow.terms import Category, Checkpoint, Round


def remedy(act: Conduct, agent: str, found: Round, failing: Sequence[Checkpoint]) -> None:
    """Carry out what `on_failure` says; of several failed checkpoints the gravest."""
    told = [f"the checkpoint from {agent} to {point.taker} failed ({point.criteria})" for point in failing]
    says = "; ".join(dict.fromkeys(point.on_failure for point in failing if point.remedy == found.action))
    why = f"{'; '.join(told)}, and on_failure says: {says}"
    what = cut(f"{why}. {found.verifier} found: {'; '.join(found.findings) or 'nothing more'}", MOST_TEXT)
    match found.action:
        case OnFailure.STOP:
            moving.undo_merge(act, "the workflow was stopped")  # nothing that is not proved is left behind
            moving.stop(act, what)
        case OnFailure.ABANDON:
            moving.abandon(act, agent, why, BY_EXECUTOR)
        case OnFailure.ESCALATE:
            act.escalate(agent, what, f"its checkpoint says {found.action}", Category.REQUIREMENTS)
            moving.block(act, agent, why)
            act.ask(Pending("unresolved", agent), f"{agent} is blocked: {what}")
        case _:
            category = Category.SCOPE if found.action == OnFailure.RESCOPE else Category.CONFLICT
            act.escalate(agent, what, f"its checkpoint says {found.action}", category)
            moving.block(act, agent, why)


def refuse_criteria(points: Sequence[Checkpoint], verdict: str, given: Any) -> str:
    """Why a verifier's judgement of the checkpoints can't be taken; empty: it can. All are judged, or none is."""
    form = "criteria is a list of {to, met: true or false, evidence}, one for each checkpoint"
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        return form
    takers = [point.taker for point in points]
    for one in given:
        if not one.keys() <= {"to", "met", "evidence"} or not isinstance(one.get("met"), bool):
            return form
        evidence = one.get("evidence", "")
        if not isinstance(evidence, str) or len(evidence) > MOST_TEXT:
            return f"evidence is a text of {MOST_TEXT} characters at most"
        if one.get("to") not in takers:
            listed = ", ".join(takers) or "nobody: give no criteria"
            return f"there is no checkpoint to {str(one.get('to'))!r:.60}; what you verify is handed to: {listed}"
    said = [one["to"] for one in given]
    if len(set(said)) < len(said):
        return "criteria judges a checkpoint twice; judge each once"
    if given and (missing := [taker for taker in takers if taker not in said]):
        return f"criteria leaves out the checkpoint to {', '.join(missing)}; judge each"
    failed = [one["to"] for one in given if not one["met"]]
    if verdict == "verified" and failed:
        return f"the checkpoint to {', '.join(failed)} is not met, so the verdict is rejected, or blocked"
    return ""
