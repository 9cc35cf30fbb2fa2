"""What workflows live through though nobody would plan it: taken names, files that stay broken, untimely changes."""

import pytest

from parley.workflow.files.plan import read_plan
from parley.workflow.files.status_file import read_status, render_status, shared_of
from parley.workflow.model.terms import instructions_of, session_of
from tests.engine.job_harness import Rule, always, on, say, sleep, write
from tests.workflow.complete_design import VERIFIER
from tests.workflow.complete_design import doer as instructions
from tests.workflow.workflow_harness import (
    PLAN_FILE,
    PROVER,
    WorkflowHarness,
    doer,
    note,
    output,
    plan,
    proved,
    resolve,
    verdict,
)

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
    stage = WorkflowHarness(plan({"name": taken}, {"name": "one"}), agents).done()

    assert stage.statuses() == dict.fromkeys((taken, "one", solver), "session_complete")
    assert stage.flow.members[solver].standing.rounds[0].verifier == check
    assert any(f"orchestration/agents/{solver}/task_output/" in text for text in stage.told("workflow-architect"))


def test_notes_in_a_file_that_stays_broken_go_up_and_are_not_lost() -> None:
    half = write(session_of("one"), '{"task_id": "one_1727539200", "session_start": 1, "notes": [{"note_id": "no')
    made = (write("src/one/one.py", "one"), write(output("one"), "one"))
    architect = [
        on(r"^\[ESCALATION\]", resolve(agent="one", note_id="note_001", answer="leave the file", source="planning"))
    ]
    withdrawn = {"note_id": "pending_001", "status": "withdrawn", "resolution": "it says nothing"}
    agents = {
        "one": [on(r"^\[TASK\]", *made, half), on(r"^\[ANSWERS\]", note(**withdrawn)), *[on(r"^\[REVIEW\]", half)] * 4,
                always(".", say("so"))],
        "workflow-architect": architect,
    }  # fmt: skip
    stage = WorkflowHarness(plan({"name": "one"}), agents).done()

    assert "session_current.json" in stage.told("workflow-architect")[0]
    session = stage.flow.members["one"].standing.session
    assert session is not None
    [noted] = session.notes
    assert (noted.status, noted.resolution) == ("resolved", "leave the file")


@pytest.mark.parametrize("seconds", [4, 20])  # before the doer is ready again, and after
def test_a_contract_that_changes_while_its_work_is_merged_is_merged_as_it_is_then(seconds: float) -> None:
    before = plan({"name": "one"}, {"name": "two"}, stages=[["one", "two"]])
    scope = note(description="a", context="c", status="escalated", category="scope", escalation_reason="r")
    told = [
        write(instructions_of(name), instructions(name, "- nothing", f"- `{output(name)}`: text"))
        for name in ("one", "two")
    ]
    agents = {
        "one": doer("one", on(r"^\[PLAN changed\]", sleep(3), write("src/one/well.py", "well"))),
        "two": [on(r"^\[TASK\]", sleep(3), scope),
                on(r"^\[ANSWERS\]", write("src/two/two.py", "two"), write(output("two"), "two")),
                always(".", say("so"))],
        "prover": [on("one, merge 1", sleep(seconds), proved()), *PROVER],
        "workflow-architect": [on(
            r"^\[ESCALATION\]", write(PLAN_FILE, before.replace("make one", "make one well")), *told,
            write(instructions_of("judge"), VERIFIER.format(name="judge")),
            resolve(agent="two", note_id="note_001", answer="so", source="planning"))],
    }  # fmt: skip
    stage = WorkflowHarness(before, agents, fan_out=6).done()

    assert stage.statuses() == {"one": "session_complete", "two": "session_complete"}
    assert stage.files()["src/one/well.py"] == "well"
    taken = [one.taken for one in stage.flow.merges if one.agent == "one"]
    assert taken == [False, True]


def test_the_work_is_not_approved_without_word_of_who_was_abandoned() -> None:
    text = plan({"name": "one"}, {"name": "two", "stall_seconds": 5, "on_stall": "abandon"}, stages=[["one", "two"]])
    stage = WorkflowHarness(text, {"one": doer("one"), "two": [always(".", sleep(50))]}).done()

    assert "`two` was **abandoned**, its work is missing: `it stalled" in stage.files()["WORK_SUMMARY.md"]


def test_assumptions_of_an_earlier_session_stay_in_the_summary_of_the_work() -> None:
    more = note(description="how long?", context="c", status="escalated", escalation_reason="r", category="security")
    solver = "solution_architect"
    detail = {"description": "short names", "context": "c", "category": "implementation_detail"}
    settled = note(note_id="note_001", status="resolved", resolution="they do")
    decided = write(f"orchestration/agents/{solver}/task_output/decisions.md", "so")
    routed = [resolve(agent="one", note_id=f"note_00{n}", route=solver, task="which?") for n in (1, 2)]
    solved = [resolve(agent="one", note_id=f"note_00{n}", answer="so", source=solver) for n in (1, 2)]
    agents = {
        "one": [on(r"^\[TASK\]", SECURITY), on(r"^\[ANSWERS\]", more), always(".", write(output("one"), "one"))],
        solver: [on(r"^\[TASK\][^\n]*note_001", note(**detail), settled, decided), always(".", decided)],
        "design_verifier": [always(".", verdict("verified"))],
        "workflow-architect": [
            on(r"^\[ESCALATION\]", routed[0]), on(r"^\[ESCALATION\]", solved[0]),
            on(r"^\[ESCALATION\]", routed[1]), on(r"^\[ESCALATION\]", solved[1]),
        ],
    }  # fmt: skip
    stage = WorkflowHarness(plan({"name": "one"}), agents).done()

    assert len(stage.flow.members[solver].past) == 1
    assert "`short names`. Settled by the agent itself: `they do`" in stage.files()["WORK_SUMMARY.md"]


def test_what_the_proxy_answers_by_itself_is_not_recorded_as_the_users_word() -> None:
    wanted = note(description="blue?", context="c", status="escalated", escalation_reason="r", category="requirements")
    agents = {
        "one": [on(r"^\[TASK\]", wanted), always(".", write(output("one"), "one"))],
        "workflow-architect": [
            on(r"^\[ESCALATION\]", {"ask": {"text": "blue?"}}),
            on(r"^\[ANSWER", resolve(agent="one", note_id="note_001", answer="blue", source="user")),
        ],
    }
    stage = WorkflowHarness(plan({"name": "one"}), agents, policies=("always", "always", "never")).run()

    session = stage.flow.members["one"].standing.session
    assert session is not None
    assert [one.resolved_by for one in session.notes] == ["workflow_executor"]


def test_a_status_file_is_not_complete_while_an_agent_is_at_work() -> None:
    found, _ = read_plan(plan({"name": "one"}))
    assert found is not None
    text = render_status(shared_of(found)).replace('"status": "pending"', '"status": "complete"', 1)

    [finding] = read_status(text)[1]
    assert "status is complete, but one is pending" in str(finding)
