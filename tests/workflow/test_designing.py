"""The architecture group: the architect designs, code and a verifier look, gaps go back, and the lead gets it whole."""

from __future__ import annotations

from typing import Any

import pytest

from parley.workflow.design.binding import has_workflow
from parley.workflow.model.terms import ARCHITECT, DESIGN_REPORT, DESIGN_VERIFIER, GROUP, PLAN, instructions_of
from tests.engine.job_harness import (
    CRASH,
    ROOT,
    YES,
    HarnessWorkspace,
    JobHarness,
    Rule,
    always,
    ask,
    asserts,
    book,
    close,
    on,
    outcome,
    say,
    send,
    sleep,
    tell,
    write,
)
from tests.workflow.design_actions import design

BEGIN = r"^\[PLAN\]"
HAND_IN = say("here it is")


@pytest.fixture(autouse=True)
def _room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HarnessWorkspace, "most_files", 100)


def verdict(said: str, *findings: str) -> dict[str, Any]:
    return {"verdict": {"verdict": said, "findings": list(findings)}}


def designed(*architect: Rule, verifier: Any = None, lead: Any = (), human: Any = YES, **more: Any) -> JobHarness:
    """A job whose lead has a workflow designed, and asserts the plan when it is ready."""
    plan = [
        on(BEGIN, send(GROUP, "a service with a database", "group"), state="PLAN"),
        *lead,
        on(r"^\[DESIGN ready\]", close("group"), state="PLAN"),
        on(r"^\[MERGE clean\]", write("PLAN.md", "the plan"), asserts("PLAN.md"), state="PLAN"),
        always(r"^\[ANSWER approve\]", outcome("APPROVED_PLAN"), state="PLAN"),
    ]
    looks = verifier if verifier is not None else [always(r"^\[VERIFY\]", verdict("verified"), say("sound"))]
    agents = {"workflow-architect": list(architect), "design-verifier": looks}
    for helper in ("instruction-writer", "file-structure-designer", "checkpoint-designer"):
        agents[helper] = more.pop(helper, [])
    play = book(plan=plan, execute=[], human=human)
    play["agents"].update(agents)
    return JobHarness(play, **more)


WHOLE = on(r"^\[DESIGN\]", *design(), HAND_IN)


def test_gaps_of_the_first_plan_go_back_to_the_architect_all_at_once() -> None:
    stage = designed(
        on(r"^\[DESIGN\]", *design(("db", "api"), without=("db", "api")), HAND_IN),
        on(r"^\[CHECK 1 of 3\]", *design(("db", "api")), HAND_IN),
    ).run()
    back = next(text for text in stage.told(ARCHITECT) if text.startswith("[CHECK 1 of 3]"))
    assert instructions_of("db") in back
    assert instructions_of("api") in back
    assert stage.started(DESIGN_VERIFIER) == 1
    assert "APPROVED_PLAN" in stage.actions


def test_a_design_that_stays_wrong_goes_up_to_the_lead_after_three_rounds() -> None:
    wrong = design(without=("db",))
    stage = designed(
        always(r"^\[(DESIGN|CHECK)", *wrong, HAND_IN), lead=[on(r"^\[DESIGN gaps\]", close("group"), state="PLAN")]
    ).run()
    marks = [text.partition("]")[0] for text in stage.told(ARCHITECT)]
    assert marks == ["[DESIGN", "[CHECK 1 of 3", "[CHECK 2 of 3", "[CHECK 3 of 3"]
    up = next(text for text in stage.bodies("project-lead") if text.startswith("[DESIGN gaps]"))
    assert instructions_of("db") in up
    assert PLAN not in stage.files(ROOT)  # nothing that the check did not pass is brought along


def test_no_plan_at_all_is_a_gap() -> None:
    stage = designed(on(r"^\[DESIGN\]", HAND_IN), on(r"^\[CHECK", *design(), HAND_IN)).run()
    assert f"there is no {PLAN}" in stage.told(ARCHITECT)[1]
    assert "APPROVED_PLAN" in stage.actions


def test_what_the_verifier_finds_goes_back_with_its_report() -> None:
    looks = [
        on(r"(?s)^\[VERIFY\].*mended", write(DESIGN_REPORT, "# Report\nsound"), verdict("verified")),
        on(r"^\[VERIFY\]", write(DESIGN_REPORT, "# Report\nnobody tests it"), verdict("rejected", "no login test")),
    ]
    mended = on(r"^\[GAPS 1 of 3\]", *design(goal="with a login test"), say("mended"))
    stage = designed(WHOLE, mended, verifier=looks).run()
    back = next(text for text in stage.told(ARCHITECT) if text.startswith("[GAPS 1 of 3]"))
    assert "no login test" in back
    assert "nobody tests it" in back
    assert stage.files(ROOT)[DESIGN_REPORT] == "# Report\nsound"
    assert "with a login test" in stage.files(ROOT)[PLAN]


def test_the_lead_is_told_of_a_design_that_the_verifier_never_approves() -> None:
    looks = [always(r"^\[VERIFY\]", verdict("rejected", "it is too large"))]
    stage = designed(
        always(r"^\[(DESIGN|GAPS)", *design(), HAND_IN),
        verifier=looks,
        lead=[on(r"^\[DESIGN gaps\]", close("group"), state="PLAN")],
    ).run()
    assert stage.started(DESIGN_VERIFIER) == 4
    assert any(text.startswith("[DESIGN gaps] the design verifier") for text in stage.bodies("project-lead"))


def test_a_verifier_without_a_verdict_is_reminded_and_then_does_not_count() -> None:
    looks = [on(r"^\[VERIFY\]", say("looks fine")), on(r"^\[VERDICT\]", verdict("verified"))]
    assert "APPROVED_PLAN" in designed(WHOLE, verifier=looks).run().actions
    silent = [always(".", say("looks fine"))]
    stage = designed(WHOLE, verifier=silent, lead=[on(r"^\[DESIGN gaps\]", close("group"))]).run()
    assert PLAN not in stage.files(ROOT)
    assert not has_workflow(dict(stage.record.approved).get("PLAN.md", ""))


def test_the_human_hears_that_a_verifier_has_approved_this_very_design() -> None:
    stage = designed(WHOLE, human=None).run()
    stage.approve()
    assert "A design verifier has approved this very design." in stage.bodies("human")[-1]


def test_a_design_that_the_lead_has_changed_since_was_approved_by_no_verifier() -> None:
    from_lead = on(r"^\[MERGE clean\]", write("PLAN.md", "p"), *design(goal="mine"), asserts("PLAN.md"), state="PLAN")
    stage = designed(WHOLE, human=None, lead=[from_lead]).run()
    stage.approve()
    assert "No design verifier has approved it as it is now." in stage.bodies("human")[-1]


def test_the_architect_asks_the_human_and_goes_on_with_the_answer() -> None:
    stage = designed(on(r"^\[DESIGN\]", ask("which database?")), on(r"^\[ANSWER", *design(), HAND_IN), human=YES).run()
    assert any("which database?" in body for body in stage.bodies("human"))
    assert "APPROVED_PLAN" in stage.actions


SIX = ("a1", "a2", "a3", "a4", "a5", "a6")


def test_the_architect_of_a_complex_workflow_gets_helpers() -> None:
    stage = designed(
        on(r"^\[DESIGN\]", *design(SIX, without=SIX), HAND_IN),
        on(r"^\[DELEGATE\]", send("instruction-writer", "write them", "writer")),
        on(r"^\[REPORT\][\s\S]*written$", close("writer"), HAND_IN),
        **{"instruction-writer": [on("write them", *design(SIX), write("sly.py", "x"), say("written"))]},
    ).run()
    told = stage.told(ARCHITECT)[1]
    assert told.startswith("[DELEGATE] The workflow is complex: 6 doers, 1 level of dependency")
    assert stage.started("instruction-writer") == 1
    assert instructions_of("a6") in stage.files(ROOT)  # what the helper wrote is in the architect's design
    assert "sly.py" not in stage.files(stage.order(ARCHITECT).thread)
    assert "APPROVED_PLAN" in stage.actions


def test_nobody_joins_the_team_of_an_architect_whose_workflow_is_simple() -> None:
    stage = designed(WHOLE).run()
    assert [step.at.split()[0] for step in stage.steps("enrol")][:1] == [GROUP]
    assert not any(step.at.startswith(ARCHITECT) for step in stage.steps("enrol"))


def test_nothing_but_the_design_comes_into_the_leads_tree() -> None:
    stage = designed(on(r"^\[DESIGN\]", *design(), write("src/sly.py", "x"), write("INTENT.md", "y"), HAND_IN)).run()
    files = stage.files(ROOT)
    assert PLAN in files
    assert "src/sly.py" not in files
    assert files["INTENT.md"] == "the intent"


def test_an_architect_that_fails_is_the_leads_to_hear_of_and_to_replace() -> None:
    stage = designed(
        on("again", *design(), HAND_IN),
        always(r"^\[DESIGN\]", CRASH),
        lead=[on(r"^\[DESIGN failed\]", tell("group", "try it again"), state="PLAN")],
        crash_budget=2,
    ).run()
    assert any(text.startswith("[DESIGN failed]") for text in stage.bodies("project-lead"))
    assert "APPROVED_PLAN" in stage.actions


def test_a_crash_at_any_act_of_a_design_loses_nothing() -> None:
    whole = designed(on(r"^\[DESIGN\]", *design(without=("db",)), HAND_IN), on(r"^\[CHECK", *design(), HAND_IN), WHOLE)
    acts = len(whole.run().fuse.seen)
    for number in range(3, acts, 13):
        stage = designed(
            on(r"^\[DESIGN\]", *design(without=("db",)), HAND_IN), on(r"^\[CHECK", *design(), HAND_IN), WHOLE
        )
        stage.die_at("", number).run()
        assert stage.processes == 2, number
        assert "APPROVED_PLAN" in stage.actions, number


def test_one_slot_is_enough_for_a_design() -> None:
    looks = [
        on(r"(?s)^\[VERIFY\].*mended", verdict("verified")),
        on(r"^\[VERIFY\]", verdict("rejected", "no login test")),
    ]
    mended = on(r"^\[GAPS", *design(goal="with a login test"), say("mended"))
    stage = designed(mended, WHOLE, verifier=looks, fan_out=1).run()
    assert "APPROVED_PLAN" in stage.actions
    assert "with a login test" in stage.files(ROOT)[PLAN]


def test_an_architect_that_the_human_withdraws_is_replaced_when_the_lead_asks_again() -> None:
    stage = designed(
        on("again", *design(), HAND_IN),
        on(r"^\[DESIGN\]", sleep(5)),
        lead=[on(r"^\[DESIGN failed\]", tell("group", "try it again"), state="PLAN")],
    ).running(ARCHITECT)
    stage.withdraw(stage.thread(ARCHITECT)).run()
    assert stage.started(ARCHITECT) == 2
    assert "APPROVED_PLAN" in stage.actions


def test_what_the_human_tells_the_group_goes_to_the_architect() -> None:
    stage = designed(on(r"^\[DESIGN\] a service", sleep(5), *design(), HAND_IN), always(".", *design(), HAND_IN))
    stage.running(ARCHITECT).intervene("use sqlite", stage.thread(GROUP)).run()
    assert any("use sqlite" in text for text in stage.told(ARCHITECT))
    assert "APPROVED_PLAN" in stage.actions


def test_a_lead_that_says_more_while_the_verifier_looks_has_it_designed_anew() -> None:
    looks = [on(r"(?s)^\[VERIFY\].*first", sleep(30)), always(r"^\[VERIFY\]", verdict("verified"))]
    stage = designed(
        on(r"^\[DESIGN\] a service", *design(), say("first")),
        on(r"^\[DESIGN\] with", *design(goal="with a login"), HAND_IN),
        verifier=looks,
        lead=[on("needs a login", tell("group", "with a login"), state="PLAN")],
    ).running(DESIGN_VERIFIER)
    stage.intervene("it needs a login", stage.thread("project-lead")).run()
    assert stage.started(DESIGN_VERIFIER) == 2
    assert "with a login" in stage.files(ROOT)[PLAN]
    assert "APPROVED_PLAN" in stage.actions


NEW_ROLE = """---
name: data_engineer
description: Makes the tables of a database.
tools: Read, Edit
---
You make tables.
"""


def test_a_role_that_does_not_exist_yet_is_drafted_and_waits_for_the_human() -> None:
    drafted = [*design(role="data_engineer"), write("orchestration/roles/data_engineer.md", NEW_ROLE)]
    stage = designed(on(r"^\[DESIGN\]", *drafted, HAND_IN), human=None).run()
    stage.approve()
    asked = stage.bodies("human")[-1]
    assert "New role, drafted in orchestration/roles/data_engineer.md: data_engineer: Makes the tables" in asked
    assert "(tools: Read, Edit)" in asked
    assert stage.soup.charter.role("data_engineer") is None


def test_a_draft_that_gives_itself_a_program_is_a_gap() -> None:
    sly = NEW_ROLE.replace("tools:", "runner: shell\ntools:")
    drafted = [*design(role="data_engineer"), write("orchestration/roles/data_engineer.md", sly)]
    stage = designed(on(r"^\[DESIGN\]", *drafted, HAND_IN), on(r"^\[CHECK", *design(), HAND_IN)).run()
    assert "a draft can't set `runner`" in stage.told(ARCHITECT)[1]
