"""What a change of the plan does to who owns what is recorded, and the page proves it afterwards."""

from __future__ import annotations

import json
from itertools import count

from parley.workflow.execution import escalate, executor, plan_change
from parley.workflow.execution.executor_turn import AskTheHuman, ExecutorTurn, WorkflowLimits
from parley.workflow.files.task_record import read_record, record_of, render_record
from parley.workflow.host.worker_reports import whole_plan
from parley.workflow.model.flow import Flow, PlanReview
from parley.workflow.paths.disjointness import disjoint


def plan(**owned: list[str]) -> str:
    """A plan whose doers own these."""
    agents = {
        name: {
            "role": "coder",
            "task_id": f"{name}_{1727539200 + number}",
            "verifier": "judge",
            "owns": patterns,
            "objective": f"make {name}",
            "boundaries": "no more",
            "deliverable": name,
            "acceptance": {"text": "it is there"},
        }
        for number, (name, patterns) in enumerate(owned.items())
    }
    judge = {"judge": {"task": "verifier", "role": "reviewer"}}
    document = {"task": "service", "goal": "a service", "stages": [list(owned)], "agents": {**agents, **judge}}
    return f"---\n{json.dumps(document)}\n---\n"


def changed(flow: Flow, text: str, now: int) -> None:
    """The architecture group changes the plan, and the human approves."""
    names = count(now)
    act = ExecutorTurn(flow, WorkflowLimits(3), now, lambda: f"thread:q{next(names)}")
    plan_change.propose(act, PlanReview(text), plan_change.APPROVED)
    (asked,) = [action for action in act.actions if isinstance(action, AskTheHuman)]
    escalate.answered(act, asked.question, escalate.HumanAnswer("", "approve", "yes"))


def page(flow: Flow) -> str:
    """`task-orchestration.md`."""
    return render_record(record_of(whole_plan(flow), {}, flow.merges, flow.rescopes, flow.actions))


def begun(text: str) -> Flow:
    """A workflow that has begun."""
    flow, names = Flow("dispatch:w"), count()
    executor.begin(ExecutorTurn(flow, WorkflowLimits(3), 1000, lambda: f"dispatch:d{next(names)}"), text)
    return flow


def test_a_path_that_goes_to_a_new_worker_is_recorded_for_both_and_had_one_owner_at_all_times() -> None:
    flow = begun(plan(one=["src/**", "api/**"], two=["web/**"]))
    changed(flow, plan(one=["src/**"], two=["web/**"], three=["api/**"]), 2000)
    record, _ = read_record(page(flow))
    assert record is not None
    assert [(one.time, one.agent, one.before, one.after) for one in record.rescopes] == [
        (2000, "one", ("src/**", "api/**"), ("src/**",)),
        (2000, "three", (), ("api/**",)),
    ]
    assert disjoint(page(flow)) == []


def test_several_changes_are_one_history() -> None:
    flow = begun(plan(one=["src/**"], two=["web/**"]))
    changed(flow, plan(one=["src/**", "Makefile"], two=["web/**"]), 2000)
    changed(flow, plan(one=["src/**"], two=["web/**", "Makefile"]), 3000)
    assert [one.agent for one in flow.rescopes] == ["one", "one", "two"]
    assert disjoint(page(flow)) == []
