"""The files that the protocol writes of one worker: its contract, its notes, and what its verifiers said."""

from __future__ import annotations

from parley.workflow.contract import render_contract
from parley.workflow.rounds import render_round
from parley.workflow.session import render_session
from parley.workflow.terms import Plan, Standing, Status, Task, Worker, round_of, session_of, task_base_of


def papers_of(plan: Plan, worker: Worker, standing: Standing, instructions: str) -> dict[str, str]:
    """A worker's files by their paths, as it stands. A session that is complete is archived, and not among them."""
    papers = {task_base_of(worker.name): render_contract(plan, worker, instructions)}
    if worker.task is not Task.DOER:
        return papers
    if standing.session is not None and standing.status is not Status.COMPLETE:
        papers[session_of(worker.name)] = render_session(standing.session)
    for one in standing.rounds:
        papers[round_of(worker.name, one.number)] = render_round(worker, one)
    return papers
