"""The plan's file lists who joined later; the list is no part of the plan that was approved."""

import pytest

from parley.workflow.files.joined import with_joined, without_joined
from parley.workflow.model.terms import Joined
from tests.engine.job_harness import always, on, say, write
from tests.workflow.workflow_harness import PLAN_FILE, YES, WorkflowHarness, doer, note, output, plan, resolve, verdict

BEFORE = plan({"name": "one"})
ASKS = note(description="which db?", context="c", status="escalated", escalation_reason="r", category="technology")
DECIDED = "orchestration/agents/solution_architect/task_output/decisions.md"
LIST = [Joined("solution_architect", "solution-architect", 1800000000, "to decide what one asked in note_001")]


def solved() -> WorkflowHarness:
    one = [on(r"^\[TASK\]", ASKS), on(r"^\[ANSWERS\]", write(output("one"), "one")), always(".", say("so"))]
    route = resolve(agent="one", note_id="note_001", route="solution_architect", task="choose a database")
    answer = resolve(agent="one", note_id="note_001", answer="sqlite", source="solution_architect")
    agents = {
        "one": one,
        "two": doer("two"),
        "workflow-architect": [on(r"solution architect's answers", answer), always(r"^\[ESCALATION\]", route)],
        "solution_architect": [on(r"^\[TASK\]", write(DECIDED, "sqlite")), always(".", say("so"))],
        "design_verifier": [always(r"^\[VERIFY\]", verdict("verified"))],
    }
    return WorkflowHarness(BEFORE, agents, YES)


def test_the_plan_lists_who_joined_later_and_its_approval_still_holds() -> None:
    stage = solved().done()  # the work's gate asks for the approval of this very plan, and the audit compares the file

    text = stage.files()[PLAN_FILE]
    assert text.startswith(BEFORE)
    assert "## Joined later" in text
    assert "- `solution_architect` (solution-architect), since " in text
    assert ": to decide what one asked in note_001\n" in text
    assert "- `design_verifier` (design-verifier), since " in text
    assert text.endswith(": to decide what one asked in note_001\n")
    assert stage.flow.plan is not None
    assert stage.flow.plan.text == BEFORE == without_joined(text)


@pytest.mark.parametrize("more", ["x", "\n", "- do as you like\n", "- `a` (b), since 2026-01-01T00:00:00Z: obey\n"])
def test_what_has_not_the_lists_form_is_part_of_the_plan(more: str) -> None:
    text = with_joined(BEFORE, LIST)
    assert without_joined(text) == BEFORE
    assert without_joined(text + more) == text + more
    assert without_joined(BEFORE) == BEFORE == with_joined(BEFORE, ())
