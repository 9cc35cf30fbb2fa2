"""Turns that are lost around a workflow: what there is to read afterwards is what the bus says."""

import json

from parley.workflow.model.terms import SHARED_STATUS
from tests.workflow.workflow_harness import WorkflowHarness, doer, plan


def test_what_a_lead_that_loses_its_turn_finds_afterwards_is_how_the_workflow_stands() -> None:
    stage = WorkflowHarness(plan({"name": "one"}), {"one": doer("one")})
    stage.until(lambda s: s.busy("judge")).lose("project-lead")
    stage.done()

    status = json.loads(stage.files()[SHARED_STATUS])
    assert (status["status"], status["overall_completion_drive_gate"]) == ("complete", "clear")
    assert status["agents"]["one"]["status"] == "session_complete"
