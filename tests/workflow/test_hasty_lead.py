"""A lead that makes an end while its workflow is under way: nothing that is not proved gets into the job's tree."""

import pytest

from tests.engine.job_harness import Action, asserts, close, on, outcome, say, sleep, write
from tests.workflow.workflow_harness import LEAD, WorkflowHarness, doer, plan

SUMMARY = write("WORK_SUMMARY.md", "done")


@pytest.mark.parametrize("hasty", [[outcome("APPROVED_WORK")], [asserts("WORK_SUMMARY.md")], [close("w")]])
def test_what_a_doer_has_made_and_nobody_verified_is_not_in_the_jobs_tree(hasty: list[Action]) -> None:
    lead = [
        LEAD[0],
        on(r"^\[INTERVENE", SUMMARY, *hasty, state="EXECUTE"),
        on(r"^\[VIOLATION", say("so"), state="EXECUTE"),
        *LEAD[1:],
    ]
    judge = [on(".", sleep(5))]
    stage = WorkflowHarness(plan({"name": "one"}), {"one": doer("one"), "judge": judge}, execute=lead)
    stage.until(lambda s: s.busy("judge")).intervene("make an end", "state:j1/3")
    stage.until(lambda s: s.told("project-lead")[-1].startswith("[INTERVENE") and s.busy("project-lead"))
    stage.until(lambda s: not s.busy("project-lead"))

    assert "src/one/one.py" not in stage.files()
