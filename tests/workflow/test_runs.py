"""Nothing overwrites a record: what a run left is kept when another follows, and every session says how it ended."""

import json
from typing import Any

import pytest

from parley.workflow.files.archive import INDEX, Archived, read_index
from parley.workflow.files.structure import check_structure
from parley.workflow.files.task_record import read_record
from parley.workflow.model.terms import SHARED_STATUS, TASK_ORCHESTRATION, instructions_of
from tests.engine.job_harness import Rule, always, asserts, close, on, outcome, say, send, sleep, write
from tests.workflow.workflow_harness import (
    LEAD,
    PLAN_FILE,
    YES,
    WorkflowHarness,
    doer,
    note,
    output,
    plan,
    resolve,
    verdict,
)

FIRST = plan({"name": "one"}, {"name": "two"}, stages=[["one", "two"]])
RUN = "orchestration/runs/run_1"


def index(stage: WorkflowHarness) -> dict[str, Archived]:
    entries, findings = read_index(stage.files()[INDEX])
    assert entries is not None, findings
    return {entry.agent: entry for entry in entries}


def notes_of(name: str) -> list[Rule]:
    made = note(
        description=f"{name} is small", context="c", status="resolved", category="documentation", resolution="so"
    )
    return doer(name, on(r"^\[TASK\]", made, write(f"src/{name}/{name}.py", name), write(output(name), name)))


BACK: list[Rule] = [
    on(r"^\[EXECUTE\]", send("workflow-executor", "run it", "w"), state="EXECUTE", visit=1),
    on(r"^\[WORKFLOW complete\]", close("w"), write("WORK_SUMMARY.md", "x"), asserts("WORK_SUMMARY.md"), visit=1,
       state="EXECUTE"),
    on(r"^\[ANSWER backtrack plan\]", outcome("REPLAN"), state="EXECUTE"),
    on(r"^\[EXECUTE\]", send("workflow-executor", "run it", "v"), state="EXECUTE", visit=2),
    on(r"^\[WORKFLOW complete\]", close("v"), write("WORK_SUMMARY.md", "y"), asserts("WORK_SUMMARY.md"), visit=2,
       state="EXECUTE"),
    on(r"^\[ANSWER approve\]", outcome("APPROVED_WORK"), state="EXECUTE"),
]  # fmt: skip
AGAIN = [{"match": "^EXECUTE WORK_SUMMARY", "verdict": "backtrack plan", "text": "think again"}, *YES]
PICKY: list[Rule] = [
    on(r"(?s)^\[VERIFY\] one, round 1.*\ba first\b", verdict("rejected", "not yet")),
    always(r"^\[VERIFY\]", verdict("verified"), say("good")),
]


def twice(**more: Any) -> WorkflowHarness:
    agents = {"one": notes_of("one"), "two": notes_of("two")}
    return WorkflowHarness(FIRST, agents, AGAIN, execute=BACK, **more)


def test_a_second_run_after_a_backtrack_leaves_the_first_as_it_was() -> None:
    gates = [{"match": "^(INTENT|PLAN) ", "verdict": "approve", "text": "yes", "repeat": True}]
    agents = {"one": notes_of("one"), "two": notes_of("two")}
    stage = WorkflowHarness(FIRST, agents, gates, execute=BACK).run()
    before = dict(stage.files())
    assert read_record(before[TASK_ORCHESTRATION])[0] is not None
    stage.answer("backtrack plan", "think again").run()
    stage.approve()
    assert stage.state == "DONE"
    after = dict(stage.files())

    kept = {path: text for path, text in before.items() if path in (PLAN_FILE, SHARED_STATUS, TASK_ORCHESTRATION)}
    kept |= {path: text for path, text in before.items() if "/verification/" in path}
    assert kept
    for path, text in kept.items():
        assert after[path.replace("orchestration/", f"{RUN}/", 1)] == text, path
    for path in (path for path in before if "/completion_drive/session_2" in path):
        assert after[path] == before[path]
    assert sum("/one/completion_drive/session_" in path for path in after) == 2
    assert check_structure({path: text for path, text in after.items() if path.startswith("orchestration/")}) == []


def test_what_only_the_first_run_had_is_not_taken_for_the_seconds() -> None:
    agents = {"one": notes_of("one"), "two": notes_of("two"), "judge": PICKY}
    stage = WorkflowHarness(FIRST, agents, AGAIN, execute=BACK).done()
    assert stage.flow.run == 2
    rounds = [path for path in stage.files() if path.startswith("orchestration/agents/one/verification/")]
    assert len(rounds) == len(stage.flow.members["one"].standing.rounds)


@pytest.mark.parametrize("choice, status", [("abandon", "abandoned"), ("stop", "failed")])
def test_a_session_that_does_not_come_to_its_end_is_archived_with_how_it_ended(choice: str, status: str) -> None:
    human = [{"match": "one has failed", "verdict": choice, "text": "enough"}, *YES]
    lead = [*LEAD, on(r"^\[WORKFLOW stopped\]", say("so"), state="EXECUTE")]
    stage = (
        WorkflowHarness(FIRST, {"one": notes_of("one"), "two": notes_of("two")}, human, execute=lead)
        .lose("one", 3)
        .run()
    )

    entry = index(stage)["one"]
    assert entry.status == status
    assert "it was killed by signal 9" in entry.reason
    assert not any(path.endswith("session_current.json") for path in stage.files())
    two = index(stage)["two"]
    assert two.status == ("session_complete" if choice == "abandon" else "stopped")


def test_an_abandoned_session_is_archived_while_the_others_go_on() -> None:
    slow = [on(r"^\[TASK\]", sleep(500), write(output("two"), "two")), always(".", say("so"))]
    human = [{"match": "one shows no sign of life", "verdict": "abandon", "text": "enough"}, *YES]
    silent = [on(r"^\[TASK\]", sleep(10_000))]
    text = plan({"name": "one", "stall_seconds": 50, "on_stall": "abandon"}, {"name": "two", "stall_seconds": 5000},
                stages=[["one", "two"]])  # fmt: skip
    stage = WorkflowHarness(text, {"one": silent, "two": slow}, human)
    stage.until(lambda s: s.started("two"))
    stage.until(lambda s: s.flow.members["one"].given_up)
    stage.until(lambda s: INDEX in s.files())

    assert index(stage)["one"].status == "abandoned"
    assert "orchestration/agents/one/completion_drive/session_current.json" not in stage.files()


@pytest.mark.parametrize("how", ["withdraw", "backtrack"])
def test_a_workflow_whose_executor_is_gone_is_stopped_and_its_sessions_are_put_away(how: str) -> None:
    slow = [on(r"^\[TASK\]", sleep(10_000))]
    lead = [LEAD[0], on(r"^\[INTERVENE", {"ask": {"text": "back?"}}, state="EXECUTE"),
            on(r"^\[ANSWER backtrack plan\]", outcome("REPLAN"), state="EXECUTE")]  # fmt: skip
    human = [{"match": "back\\?", "verdict": "backtrack plan", "text": "think again"},
             {"match": "^(INTENT|PLAN) ", "verdict": "approve", "text": "yes"},
             {"match": "^(INTENT|PLAN) ", "verdict": "approve", "text": "yes"}]  # fmt: skip
    stage = WorkflowHarness(plan({"name": "one"}), {"one": slow}, human, execute=lead)
    stage.until(lambda s: s.started("one") and s.busy("one"))
    if how == "withdraw":
        stage.withdraw(reason="no use").run()
        assert stage.state == "WITHDRAWN"
    else:
        stage.intervene("go back").until(lambda s: s.state == "PLAN" and s.live.standing.asking)
        assert stage.files()[f"{RUN}/task-orchestration.md"]
        assert TASK_ORCHESTRATION not in stage.files()
    entry = index(stage)["one"]
    assert (entry.status, entry.reason) == (
        "stopped",
        f"it was working; {'it was withdrawn' if how == 'withdraw' else 'its state was left backward'}",
    )
    assert not any(path.endswith("session_current.json") for path in stage.files())


def test_a_crash_before_any_commit_keeps_the_first_run() -> None:
    stage = twice().until(lambda s: s.state == "PLAN" and len(s.actions) > 2)
    stage.kill()
    stage.done()

    shared = json.loads(stage.files()[f"{RUN}/shared_status.json"])
    assert shared["overall_completion_drive_gate"] == "clear"


def test_the_instructions_of_an_agent_that_joined_the_first_run_stay_and_the_audit_knows_them() -> None:
    asks = note(description="which db?", context="c", status="escalated", escalation_reason="r", category="technology")
    route = resolve(agent="one", note_id="note_001", route="solution_architect", task="choose a database")
    lead = [on(r"^\[EXECUTE\]", send("workflow-executor", "run it", "w"), state="EXECUTE"),
            on(r"^\[INTERVENE", close("w"), state="EXECUTE"),
            on(r"^\[INTERVENE", send("workflow-executor", "run it", "v"), state="EXECUTE")]  # fmt: skip
    agents = {
        "one": [on(r"^\[TASK\]", asks), always(".", sleep(10_000))],
        "workflow-architect": [on(r"^\[ESCALATION\]", route)],
        "solution_architect": [on(r"^\[TASK\]", sleep(10_000))],
    }
    stage = WorkflowHarness(plan({"name": "one"}), agents, YES, execute=lead)
    stage.until(lambda s: s.started("solution_architect") and s.busy("solution_architect"))
    told = instructions_of("solution_architect")
    stage.until(lambda s: told in s.files())
    stage.intervene("not so")
    stage.until(lambda s: s.flow.phase == "stopped")
    stage.intervene("once more")
    stage.until(lambda s: s.flow.run == 2 and s.busy("one"))

    assert told in stage.files()
    stage.withdraw(reason="enough").run()
    assert stage.state == "WITHDRAWN"
    stage.check()
