"""A workflow of many agents: each starts when it may, and a change of status costs the same however many there are."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from parley.audit.audit import audit
from parley.bus.memory_store import MemoryStore
from parley.workflow.model.flow import MET
from parley.workflow.model.terms import Status
from tests.engine.job_harness import JOB, always, say
from tests.workflow.workflow_harness import WorkflowHarness, plan, verdict


def large(agents: int, dependencies: int, seed: int = 5) -> tuple[str, list[dict[str, Any]]]:
    """A plan of so many doers with so many dependencies, in four stages, each after the one before."""
    rng, quarter = Random(seed), -(-agents // 4)
    above: dict[int, set[int]] = {number: set() for number in range(agents)}
    while sum(map(len, above.values())) < dependencies:
        below = rng.randrange(quarter, agents)
        above[below].add(rng.randrange(below // quarter * quarter))
    doers = [
        {
            "name": f"a{n:03}",
            "depends_on": [f"a{d:03}" for d in sorted(above[n])],
            "acceptance": {"text": "it is there"},
        }
        for n in range(agents)
    ]
    names = [str(doer["name"]) for doer in doers]
    return plan(*doers, stages=[names[at : at + quarter] for at in range(0, agents, quarter)]), doers


def played(agents: int, dependencies: int) -> WorkflowHarness:
    text, doers = large(agents, dependencies)
    rules = {str(doer["name"]): [always(".", say("so"))] for doer in doers}
    rules["prover"] = [always(".", say('{"proofs": [{"command": "test -f x", "code": 0, "output": ""}]}'))]
    rules["judge"] = [always(".", verdict("verified"))]
    return WorkflowHarness(text, rules, fan_out=8)


def ran(agents: int, dependencies: int) -> WorkflowHarness:
    stage = played(agents, dependencies)
    stage.start()
    cranks = 0
    while stage.crank() or stage.turns.running:
        cranks += 1
        assert cranks < 200 * agents
    assert stage.state == "DONE"
    return stage


def judge(stage: WorkflowHarness, agents: int) -> None:
    flow = stage.flow
    assert flow.statuses == Counter({Status.COMPLETE: agents})
    verified: set[str] = set()
    for row in stage.messages():
        if row.sender == "workflow-executor" and row.body.startswith("[TASK]"):
            assert set(flow.workers[row.agent].depends_on) <= verified, row.agent
        if row.sender == "judge" and row.agent == "workflow-executor":
            talked = next(m for m in reversed(stage.messages("judge")) if m.thread == row.sender_thread)
            verified.add(talked.body.split()[1].rstrip(","))
    assert len(verified) == agents


def cost(stage: WorkflowHarness) -> float:
    """Rows of a workflow's state that are written for one change of status."""
    steps = [row for row in stage.steps("send-step", "nosend-step") if '"event":"status"' in row.extra]
    changes = sum(row.extra.count('"event":"status"') for row in steps)
    events = sum(row.extra.count('"event":') for row in steps)
    return events / changes


def test_a_workflow_of_forty_agents_keeps_its_order_and_its_cost_does_not_grow() -> None:
    small, bigger = ran(10, 20), ran(40, 120)
    judge(bigger, 40)

    assert cost(bigger) <= cost(small) * 1.2
    assert audit(MemoryStore(bigger.bus, "auditor"), JOB, None).ok


@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_a_workflow_of_two_hundred_agents_with_six_hundred_dependencies_runs() -> None:
    stage = ran(200, 600)
    flow = stage.flow

    assert all(member.standing.status in MET for member in flow.members.values())
    assert len(flow.merges) == 200
    assert cost(stage) <= cost(ran(10, 20)) * 1.2
    assert audit(MemoryStore(stage.bus, "auditor"), JOB, None).ok
