"""The human activates the workflow architect: PLAN can't be had without a workflow, and begins with what they gave."""

from __future__ import annotations

from typing import Any

import pytest

from parley.protocol.states import State
from parley.workflow.design.activation import Activation
from parley.workflow.design.binding import has_workflow
from parley.workflow.model.terms import ARCHITECT, DESIGN_VERIFIER, PLAN, instructions_of
from tests.engine.job_harness import (
    ROOT,
    YES,
    HarnessWorkspace,
    JobHarness,
    always,
    asserts,
    book,
    on,
    outcome,
    say,
    write,
)
from tests.workflow.design_actions import design
from tests.workflow.test_designing import BEGIN, HAND_IN, WHOLE, designed, verdict
from tests.workflow.test_summary import TEXT

SUMMARY = "orchestration/conversation_summary_user_management.md"
LEAD = "project-lead"


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HarnessWorkspace, "most_files", 100)


def files(*, without: tuple[str, ...] = (), **more: Any) -> dict[str, str]:
    """The files of a design, as a human would have them."""
    return {action["write"]["path"]: action["write"]["text"] for action in design(without=without, **more)}


def given(files: dict[str, str] | None = None) -> dict[str, Any]:
    return {"activation": Activation(files or {}, "orchestration/")}


def test_a_lead_that_makes_do_without_a_workflow_gets_nowhere() -> None:
    plan = [
        on(BEGIN, write("PLAN.md", "just a list"), asserts("PLAN.md"), state="PLAN"),
        always(r"^\[ANSWER approve\]|^\[PENDING\]|^\[VIOLATION\]", outcome("APPROVED_PLAN"), state="PLAN"),
    ]
    play = book(plan=plan, human=[{**YES[0], "state": "INTENT"}])
    stage = JobHarness(play, policies=("always", "never", "never"), **given()).run()
    assert "APPROVED_PLAN" not in stage.actions
    assert stage.state == "FAILURE"
    assert any("activated the workflow architect, and this plan has no workflow" in text for text in stage.refusals)
    (begins,) = [text for text in stage.told(LEAD) if text.startswith("[PLAN]")]
    assert "The human has activated the workflow architect" in begins
    assert "Send what is wanted to architecture-group." in begins


def test_a_design_that_the_architect_had_no_part_in_is_not_put_forward() -> None:
    plan = [on(BEGIN, write("PLAN.md", "mine"), *design(), asserts("PLAN.md"), state="PLAN")]
    stage = JobHarness(book(plan=plan, human=[{**YES[0], "state": "INTENT"}]), **given()).run()
    assert any("and it was not asked; send what is wanted to architecture-group" in text for text in stage.refusals)
    assert not any("PLAN PLAN.md" in body for body in stage.bodies("human"))


def test_without_files_the_architect_begins_with_nothing() -> None:
    stage = designed(WHOLE, **given()).run()
    assert "APPROVED_PLAN" in stage.actions
    assert stage.told(ARCHITECT)[0] == "[DESIGN] a service with a database"


def test_a_summary_is_the_architects_and_the_intent_leads_beginning() -> None:
    stage = designed(WHOLE, **given({SUMMARY: TEXT})).run()
    first = stage.told(ARCHITECT)[0]
    assert first.startswith("[DESIGN] a service with a database\n\nThe human's own summary is " + SUMMARY)
    (begins,) = [text for text in stage.told("intent-lead") if text.startswith("[INTENT]")]
    assert "Alternatives considered: PostgreSQL" in begins
    assert stage.files(ROOT)[SUMMARY] == TEXT
    assert has_workflow(dict(stage.record.approved)["PLAN.md"])


def test_a_plan_with_gaps_goes_to_the_architect_with_all_that_is_wrong() -> None:
    drafted = files(without=("db",))
    mends = on(r"^\[DESIGN\]", *[action for action in design() if action["write"]["path"] != PLAN], HAND_IN)
    stage = designed(mends, **given(drafted)).run()
    first = stage.told(ARCHITECT)[0]
    assert "The human's own plan lies in orchestration/, and is your draft" in first
    assert f"{instructions_of('db')} is not there" in first
    assert "APPROVED_PLAN" in stage.actions
    assert stage.files(ROOT)[PLAN] == drafted[PLAN]  # what the human decided stands
    assert any(f"It is not as you gave it: {instructions_of('db')} differs." in body for body in stage.bodies("human"))


def test_a_whole_design_is_verified_and_approved_like_any() -> None:
    stage = designed(**given(files()), human=None).run()
    stage.approve()
    assert (stage.started(ARCHITECT), stage.started(DESIGN_VERIFIER)) == (0, 1)
    assert {path: stage.files(ROOT)[path] for path in files()} == files()
    question = stage.bodies("human")[-1]
    assert "A design verifier has approved this very design." in question
    assert "It is the design that you gave, word for word." in question
    assert "APPROVED_PLAN" not in stage.actions  # the human has not spoken
    stage.approve()
    assert "APPROVED_PLAN" in stage.actions


def test_what_the_verifier_finds_in_a_given_design_goes_to_an_architect_that_knows_what_is_wanted() -> None:
    looks = [
        on(r"(?s)^\[VERIFY\].*mended", verdict("verified")),
        on(r"^\[VERIFY\]", verdict("rejected", "nobody tests the login")),
    ]
    mended = on(r"^\[GAPS 1 of 3\]", *design(goal="with a login test"), say("mended"))
    stage = designed(mended, verifier=looks, **given(files())).run()
    (told,) = stage.told(ARCHITECT)
    assert "nobody tests the login" in told
    assert told.endswith("What the lead asked for: a service with a database")
    assert "APPROVED_PLAN" in stage.actions


def test_a_second_visit_goes_on_from_the_design_and_not_from_the_draft() -> None:
    """What an earlier visit has come to is not overwritten by what the human once gave."""
    lead = [on(r"^\[ANSWER backtrack intent\]", outcome("REALIGN"), state="PLAN")]
    architect = on(r"^\[DESIGN\] a service with a database$", *design(goal="again"), HAND_IN)
    stage = designed(architect, lead=lead, **given(files()), human=None).run().approve()
    stage.answer("backtrack intent", "it has to be in German").run().approve()
    assert stage.record.visits(State.PLAN) == 2
    assert "goal: again" in stage.files(ROOT)[PLAN]
    assert "It is not as you gave it" in stage.bodies("human")[-1]


def test_a_crash_while_the_draft_is_taken_changes_nothing() -> None:
    for number in range(1, 14):
        stage = designed(**given(files())).die_at("commit", number)
        stage.run()
        if "j1" not in stage.engine.jobs:
            stage.adopt().run()
        assert "APPROVED_PLAN" in stage.actions, number
        assert stage.started(ARCHITECT) == 0
