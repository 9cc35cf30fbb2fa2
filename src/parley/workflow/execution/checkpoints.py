"""Checkpoints: a verifier's judgement of each, and the remedy where one fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parley.base.text import cut
from parley.workflow.execution import doer_moves
from parley.workflow.execution.executor_turn import ExecutorTurn
from parley.workflow.model.flow import PendingQuestion
from parley.workflow.model.notes import BY_EXECUTOR, MOST_TEXT
from parley.workflow.model.remedies import OnFailure
from parley.workflow.model.terms import Category, Checkpoint, Round
from parley.workflow.model.worker_result import Criterion


def remedy(act: ExecutorTurn, agent: str, found: Round, failing: Sequence[Checkpoint]) -> None:
    """Carry out what `on_failure` says; of several failed checkpoints the gravest."""
    told = [f"the checkpoint from {agent} to {point.taker} failed ({point.criteria})" for point in failing]
    says = "; ".join(dict.fromkeys(point.on_failure for point in failing if point.remedy == found.action))
    why = f"{'; '.join(told)}, and on_failure says: {says}"
    what = cut(f"{why}. {found.verifier} found: {'; '.join(found.findings) or 'nothing more'}", MOST_TEXT)
    match found.action:
        case OnFailure.STOP:
            doer_moves.undo_merge(act, "the workflow was stopped")  # nothing that is not proved is left behind
            doer_moves.stop(act, what)
        case OnFailure.ABANDON:
            doer_moves.abandon(act, agent, why, BY_EXECUTOR)
        case OnFailure.ESCALATE:
            act.escalate(agent, what, f"its checkpoint says {found.action}", Category.REQUIREMENTS)
            doer_moves.block(act, agent, why)
            act.ask(PendingQuestion("unresolved", agent), f"{agent} is blocked: {what}")
        case _:
            category = Category.SCOPE if found.action == OnFailure.RESCOPE else Category.CONFLICT
            act.escalate(agent, what, f"its checkpoint says {found.action}", category)
            doer_moves.block(act, agent, why)


def read_criteria(given: Any, points: Sequence[Checkpoint]) -> tuple[tuple[Criterion, ...], str]:
    """What a verifier says of the checkpoints, or why it can't be taken: it is an agent's to mend."""
    form = "criteria is a list of {to, met: true or false, evidence}, one for each checkpoint"
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        return (), form
    takers, found = [point.taker for point in points], []
    for one in given:
        met, evidence = one.get("met"), one.get("evidence", "")
        if not one.keys() <= {"to", "met", "evidence"} or not isinstance(met, bool):
            return (), form
        if not isinstance(evidence, str) or len(evidence) > MOST_TEXT:
            return (), f"evidence is a text of {MOST_TEXT} characters at most"
        if one.get("to") not in takers:
            listed = ", ".join(takers) or "no agent: give no criteria"
            return (), f"there is no checkpoint to {str(one.get('to'))!r:.60}; what you verify is handed to: {listed}"
        found.append(Criterion(one["to"], met, evidence))
    return tuple(found), ""


def refuse_criteria(points: Sequence[Checkpoint], verdict: str, given: Sequence[Criterion]) -> str:
    """Why a verifier's judgement of the checkpoints does not count; empty: it does. All are judged, or none is."""
    said = [one.to for one in given]
    if len(set(said)) < len(said):
        return "criteria judges a checkpoint twice; judge each once"
    if given and (missing := [point.taker for point in points if point.taker not in said]):
        return f"criteria leaves out the checkpoint to {', '.join(missing)}; judge each"
    failed = [one.to for one in given if not one.met]
    if verdict == "verified" and failed:
        return f"the checkpoint to {', '.join(failed)} is not met, so the verdict is rejected, or blocked"
    return ""
