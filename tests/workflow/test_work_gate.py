"""From an approved design to approved work: only that design is run, and the summary tells what was assumed."""

from __future__ import annotations

from typing import Any

import pytest

from parley.workflow.model.flow_slots import CURRENT, current
from parley.workflow.model.terms import EXECUTOR, PLAN, instructions_of
from tests.engine.job_harness import (
    ROOT,
    YES,
    HarnessWorkspace,
    JobHarness,
    always,
    ask,
    asserts,
    book,
    close,
    on,
    outcome,
    say,
    send,
    write,
)
from tests.workflow.design_actions import design, plan
from tests.workflow.test_designing import NEW_ROLE, verdict

APPROVED = r"^\[ANSWER approve\]"
NOTE = {"note": {"description": "names are short", "context": "making db", "category": "implementation_detail"}}
SETTLE = {"note": {"note_id": "note_001", "status": "resolved", "resolution": "they are"}}


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HarnessWorkspace, "most_files", 100)


def job(*execute: Any, plan_acts: Any = None, human: Any = YES, **more: Any) -> JobHarness:
    """A job with an approved workflow of one doer."""
    first = on(r"^\[PLAN\]", write("PLAN.md", "the plan"), *(plan_acts or design()), asserts("PLAN.md"), state="PLAN")
    agents = {
        "db": [
            on(r"^\[TASK\]", NOTE, write("db/db.sql", "x"), write("orchestration/agents/db/task_output/out.txt", "x")),
            always(r"^\[REVIEW\]", SETTLE, say("looked")),
        ],
        "checker": [always(r"^\[VERIFY\]", verdict("verified"))],
        "prover": [always(".", say('{"proofs": [{"command": "true", "code": 0, "output": "", "seconds": 0.1}]}'))],
    }
    play = book(
        plan=[first, *more.pop("plan", ()), always(APPROVED, outcome("APPROVED_PLAN"), state="PLAN")],
        execute=execute,
        human=human,
    )
    play["agents"] |= agents
    return JobHarness(play, **more)


START = on(r"^\[EXECUTE\]", send(EXECUTOR, "begin", "w"), state="EXECUTE")
END = on(
    r"^\[WORKFLOW complete\]",
    close("w"),
    write("WORK_SUMMARY.md", "# Done\n"),
    asserts("WORK_SUMMARY.md"),
    state="EXECUTE",
)
SHIP = always(APPROVED, outcome("APPROVED_WORK"), state="EXECUTE")


def test_a_workflow_that_is_through_lets_its_work_be_approved_with_all_that_was_assumed() -> None:
    stage = job(START, END, SHIP).run()
    assert stage.state == "DONE"
    summary = stage.files(ROOT)["WORK_SUMMARY.md"]
    assert summary.startswith("# Done\n\n## Assumptions\n")
    assert "names are short" in summary
    assert "they are" in summary
    assert "the agent itself" in summary


def test_a_lead_that_deletes_the_assumptions_gets_them_back_and_its_approval_stays() -> None:
    stage = job(
        START, END, on(APPROVED, write("WORK_SUMMARY.md", "# Done\n"), outcome("APPROVED_WORK"), state="EXECUTE")
    )
    assert stage.run().state == "DONE"
    assert "names are short" in stage.files(ROOT)["WORK_SUMMARY.md"]


def test_a_summary_that_nothing_can_be_written_into_is_not_asserted() -> None:
    huge = write("WORK_SUMMARY.md", "x" * 4_100_000)
    stage = job(
        START, on(r"^\[WORKFLOW complete\]", close("w"), huge, asserts("WORK_SUMMARY.md"), state="EXECUTE")
    ).run()
    assert any("WORK_SUMMARY.md is no text of up to" in text for text in stage.refusals)
    assert "APPROVED_WORK" not in stage.actions


def test_a_lead_that_changes_the_design_as_it_starts_the_executor_has_the_approved_one_run() -> None:
    sly = on(
        r"^\[EXECUTE\]",
        write(instructions_of("db"), "do something else"),
        send(EXECUTOR, "begin", "w"),
        state="EXECUTE",
    )
    stage = job(sly, END, SHIP).run()
    assert stage.state == "DONE"
    told = stage.files(stage.order("db").thread)[instructions_of("db")]
    assert told == next(act["write"]["text"] for act in design() if act["write"]["path"] == instructions_of("db"))


def test_no_workflow_is_run_that_nobody_has_approved() -> None:
    early = on(r"^\[PLAN\]", *design(), send(EXECUTOR, "begin", "w"), state="PLAN")
    stage = JobHarness(book(plan=[early], human=YES)).run()
    assert any(text.startswith("[WORKFLOW refused]") for text in stage.bodies("project-lead"))
    assert current(stage.live.kept) is None


def test_a_backtrack_voids_the_workflow_that_was_under_way() -> None:
    again = on(r"^\[ANSWER backtrack plan\]", outcome("REPLAN"), state="EXECUTE")
    realigned = on(r"^\[PLAN\]", asserts("PLAN.md"), state="PLAN")
    late = on(r"^\[EXECUTE\]", write("WORK_SUMMARY.md", "# Done\n"), asserts("WORK_SUMMARY.md"), state="EXECUTE")
    stage = job({**START, "visit": 1}, END, again, {**late, "visit": 2}, plan=[realigned], human=None).run()
    for _ in range(2):
        stage.approve()
    assert current(stage.live.kept) is not None
    stage.answer("backtrack plan", "another way").run()
    assert CURRENT not in stage.live.kept
    stage.approve()
    assert stage.actions == ["APPROVED_INTENT", "APPROVED_PLAN", "REPLAN", "APPROVED_PLAN"]
    assert any("overall_completion_drive_gate is blocked" in text for text in stage.refusals)


def test_who_works_as_a_drafted_role_is_told_what_the_draft_says() -> None:
    drafted = [*design(role="data_engineer"), write("orchestration/roles/data_engineer.md", NEW_ROLE)]
    stage = job(START, END, SHIP, plan_acts=drafted).run()
    assert stage.state == "DONE"
    assert "You make tables." in stage.order("db").role
    assert plan(role="data_engineer") == stage.files(ROOT)[PLAN]


UNSURE = {
    "note": {
        "description": "which database?", "context": "making db", "category": "architecture",
        "status": "escalated", "escalation_reason": "not mine to decide",
    }
}  # fmt: skip
HELP = {"resolve": {"agent": "db", "note_id": "note_001", "answer": "sqlite", "source": "user"}}


def changed_plan(*execute: Any, architect: Any = ()) -> JobHarness:
    """A job whose plan the architect changes while it is carried out, with the human's yes."""
    stage = job(START, *execute, SHIP)
    db = [
        on(r"^\[TASK\]", UNSURE),
        always(".", write("db/db.sql", "x"), write("orchestration/agents/db/task_output/out.txt", "x")),
    ]
    helps = [
        on(r"^\[ESCALATION\]", ask("which database?")),
        on(r"^\[ANSWER", write(PLAN, plan(goal="with sqlite")), *architect, HELP, say("changed")),
        always(".", say("so be it")),
    ]
    play = {**stage.settings["agents"], "db": db, "workflow-architect": helps}
    again = JobHarness({"agents": play, "human": YES})
    return again.run()


def test_a_plan_that_was_changed_with_the_humans_yes_is_the_one_that_the_work_is_held_against() -> None:
    stage = changed_plan(END)
    assert "with sqlite" in stage.files(ROOT)[PLAN]
    assert sum("EXECUTE PLAN.md" in body for body in stage.bodies("human")) == 1
    assert stage.state == "DONE", stage.told("project-lead")


def test_no_role_is_drafted_while_the_workflow_runs() -> None:
    stage = changed_plan(END, architect=[write("orchestration/roles/data_engineer.md", NEW_ROLE)])
    assert any("no role is drafted while the workflow runs" in text for text in stage.told("workflow-architect"))
    assert "with sqlite" not in stage.files(ROOT)[PLAN]


def test_a_crash_anywhere_on_the_way_to_the_approval_loses_no_gate_and_no_assumption() -> None:
    acts = len(job(START, END, SHIP).run().fuse.seen)
    for number in range(acts // 2, acts, acts // 9):
        stage = job(START, END, SHIP).die_at("", number).run()
        assert (stage.processes, stage.state) == (2, "DONE"), number
        assert "names are short" in stage.files(ROOT)["WORK_SUMMARY.md"], number
