"""What workflows live through though nobody would plan it: taken names, files that stay broken, untimely changes."""

import pytest

from tests.engine.stage import Rule, always, on, say, write
from tests.workflow.book import Workflow, doer, note, output, plan, proved, resolve, verdict

SECURITY = note(description="which hash?", context="c", status="escalated", escalation_reason="r", category="security")


def unsure(name: str) -> list[Rule]:
    """A doer that has a technical question, and makes its output when it is answered."""
    made = (write(f"src/{name}/{name}.py", name), write(output(name), name))
    return [on(r"^\[TASK\]", SECURITY), on(r"^\[ANSWERS\]", *made), always(".", say("so"))]


@pytest.mark.parametrize("taken", ["solution_architect", "design_verifier"])
def test_the_solution_architect_joins_also_where_the_plan_has_somebody_of_its_name(taken: str) -> None:
    solver = "solution_architect_2" if taken == "solution_architect" else "solution_architect"
    check = "design_verifier_2" if taken == "design_verifier" else "design_verifier"
    agents = {
        taken: doer(taken),
        "one": unsure("one"),
        solver: [on(r"^\[TASK\]", write(f"orchestration/agents/{solver}/task_output/decisions.md", "argon2")),
                 always(".", say("so"))],
        check: [always(".", verdict("verified"))],
        "workflow-architect": [
            on(r"^\[ESCALATION\]", resolve(agent="one", note_id="note_001", route="solution_architect", task="which?")),
            on(r"The solution architect's answers are in ", resolve(
                agent="one", note_id="note_001", answer="argon2", source="solution_architect")),
        ],
        "prover": [always(".", proved(0, taken, "one"))],
    }  # fmt: skip
    stage = Workflow(plan({"name": taken}, {"name": "one"}), agents).done()

    assert stage.statuses() == dict.fromkeys((taken, "one", solver), "session_complete")
    assert stage.flow.members[solver].standing.rounds[0].verifier == check
    assert any(f"orchestration/agents/{solver}/task_output/" in text for text in stage.told("workflow-architect"))
