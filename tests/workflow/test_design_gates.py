"""The gates of a workflow: no plan with gaps, no change after its approval, no work before it is through."""

from __future__ import annotations

import json
from typing import Any

import pytest

from parley.workflow.design.binding import has_workflow
from parley.workflow.model.terms import PLAN, SHARED_STATUS, TASK_ORCHESTRATION, instructions_of
from tests.engine.job_harness import (
    INTENT,
    ROOT,
    YES,
    HarnessWorkspace,
    JobHarness,
    always,
    asserts,
    book,
    on,
    outcome,
    write,
)
from tests.workflow.design_actions import design, plan

APPROVED = r"^\[ANSWER approve\]"
BEGIN = r"^\[PLAN\]"


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HarnessWorkspace, "most_files", 100)


def planning(*do: Any, rules: Any = ()) -> JobHarness:
    """A job whose plan is written by these acts and asserted; who asks is told yes."""
    first = on(BEGIN, write("PLAN.md", "the plan"), *do, asserts("PLAN.md"), state="PLAN")
    last = always(APPROVED, outcome("APPROVED_PLAN"), state="PLAN")
    return JobHarness(book(plan=[first, *rules, last], human=YES))


def approved(*execute: Any) -> JobHarness:
    """A job with an approved workflow, whose lead goes on by these rules."""
    first = on(BEGIN, write("PLAN.md", "the plan"), *design(), asserts("PLAN.md"), state="PLAN")
    last = always(APPROVED, outcome("APPROVED_PLAN"), state="PLAN")
    return JobHarness(book(plan=[first, last], execute=execute, human=YES))


# ---- the plan ----------------------------------------------------------------------------------------


def test_a_plan_with_gaps_is_refused_with_all_of_them_where_it_is_asserted() -> None:
    stage = planning(*design(("db", "api"), without=("db", "api"))).run()
    told = next(text for text in stage.refusals if "the design of the workflow has" in text)
    assert instructions_of("db") in told
    assert instructions_of("api") in told
    assert not any("[QUESTION] PLAN PLAN.md" in body for body in stage.bodies("proxy"))


def test_a_plan_that_was_mended_is_put_before_the_human() -> None:
    mended = on("PENDING", *design(), asserts("PLAN.md"), state="PLAN")
    stage = planning(*design(without=("db",)), rules=[mended]).run()
    assert "APPROVED_PLAN" in stage.actions
    assert has_workflow(dict(stage.record.approved)["PLAN.md"])


def test_gaps_that_come_after_the_call_are_found_at_the_turns_end() -> None:
    stage = planning(*design(), asserts("PLAN.md"), write(PLAN, "no plan")).run()
    assert "APPROVED_PLAN" not in stage.actions


def test_the_human_is_told_of_the_workflow_in_words_that_are_not_the_askers() -> None:
    stage = JobHarness(
        book(plan=[on(BEGIN, write("PLAN.md", "p"), *design(), asserts("PLAN.md", "a\nb"), state="PLAN")])
    ).run()
    stage.approve()
    asked = stage.bodies("human")[-1]
    head, _, words = asked.partition("In the asker's words:")
    assert "A workflow of 1 doer and 1 verifier in 1 stage" in head
    assert "db (coder, verified by checker)" in head
    assert "No design verifier has approved it" in head
    assert words.strip() == "a\nb"


@pytest.mark.parametrize(
    "path",
    [PLAN, instructions_of("db"), "orchestration/conversation_summary_x.md", "orchestration/roles/new.md"],
)
def test_an_approval_is_void_once_any_file_of_the_design_is_changed(path: str) -> None:
    changed = write(path, plan(goal="another")) if path == PLAN else write(path, "another")
    sly = on(APPROVED, changed, outcome("APPROVED_PLAN"), state="PLAN")
    stage = planning(*design(), rules=[sly]).run()
    told = stage.told("project-lead")
    assert any(text.startswith("[VIOLATION]") for text in told)
    assert all(entry.action != "APPROVED_PLAN" for entry in stage.record.history[:2])


def test_what_is_derived_may_change_after_the_approval() -> None:
    derived = on(APPROVED, write(TASK_ORCHESTRATION, "x"), outcome("APPROVED_PLAN"), state="PLAN")
    stage = planning(*design(), rules=[derived]).run()
    assert "APPROVED_PLAN" in stage.actions
    assert not any(text.startswith("[VIOLATION]") and "PLAN.md" in text for text in stage.told("project-lead"))


# ---- the work ----------------------------------------------------------------------------------------

FORGED = json.dumps({"task_id": "service", "status": "complete", "overall_completion_drive_gate": "clear"})


@pytest.mark.parametrize("forged", [[], [write(SHARED_STATUS, FORGED)]])
def test_no_work_is_asserted_while_the_executor_was_never_started(forged: list[Any]) -> None:
    stage = approved(on(r"^\[EXECUTE\]", *forged, write("WORK_SUMMARY.md", "done"), asserts("WORK_SUMMARY.md"))).run()
    assert any("overall_completion_drive_gate is blocked" in text for text in stage.refusals)
    assert "APPROVED_WORK" not in stage.actions
    assert not any("WORK_SUMMARY.md" in body for body in stage.bodies("proxy"))


def test_no_outcome_counts_while_the_workflow_is_blocked() -> None:
    stage = approved(on(r"^\[EXECUTE\]", write("WORK_SUMMARY.md", "done"), outcome("APPROVED_WORK"))).run()
    assert "APPROVED_WORK" not in stage.actions
    assert any(text.startswith("[VIOLATION]") for text in stage.told("project-lead"))


def test_a_lead_that_changes_the_approved_design_finds_it_put_back() -> None:
    stage = approved(
        on(r"^\[EXECUTE\]", write(PLAN, plan(goal="mine")), write("orchestration/roles/x.md", "x"), state="EXECUTE"),
        on("PENDING", write("a.txt", "a"), state="EXECUTE"),
    ).run()
    files = stage.files(ROOT)
    assert "a service" in files[PLAN]
    assert "orchestration/roles/x.md" not in files
    told = stage.told("project-lead")
    assert any(f"{PLAN}: it is approved, and was put back as it was" in text for text in told)


def test_without_a_workflow_nothing_is_asked_of_the_work() -> None:
    assert JobHarness(book(intent=INTENT, human=YES)).run().state == "DONE"
