"""Those who join a workflow that has begun, and the plan that changes under them."""

from parley.workflow.model.events import AgentJoined, PlanInForce, apply
from parley.workflow.model.flow import Flow
from parley.workflow.model.flow_slots import CURRENT, current, entities, slot, text
from parley.workflow.model.terms import Task, Worker
from tests.workflow.workflow_harness import plan


def test_a_plan_comes_into_force_with_a_doer_and_a_verifier_who_are_not_in_it() -> None:
    flow = Flow("dispatch:w")
    apply(flow, PlanInForce(plan({"name": "one"}), 1))
    for worker in (Worker("check", Task.VERIFIER, "reviewer"), Worker("more", Task.DOER, "coder", "more_1727539299")):
        apply(flow, AgentJoined(worker, 1, "to verify one"))
    apply(flow, PlanInForce(plan({"name": "one"}, {"name": "two"}), 2))
    assert list(flow.members) == ["one", "two", "more"]
    assert "check" in flow.workers

    kept = {slot(flow, entity): body for entity in entities(flow) if (body := text(flow, entity)) is not None}
    again = current(kept | {CURRENT: flow.thread})
    assert again is not None
    assert list(again.members) == list(flow.members)
