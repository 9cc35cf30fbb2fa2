"""The human's hand in a workflow that runs: whom it withdraws, what it says, and what a lead says when it is over."""

import pytest

from parley.cli.running.withdraw import agreed
from parley.views.job_view import Present
from parley.views.questions.next_actions import situations
from tests.engine.job_harness import JOB, Rule, always, on, sleep
from tests.workflow.workflow_harness import LEAD, WorkflowHarness, doer, plan, proved, resolve, verdict

ALONE = plan({"name": "one"})
UNSURE = {
    "description": "which path?", "context": "looking", "status": "escalated", "escalation_reason": "not mine",
    "category": "scope",
}  # fmt: skip
SLOW: list[Rule] = [on(r"^\[TASK\]", sleep(20)), *doer("one")]


def at_work(
    agents: dict[str, list[Rule]] | None = None, human: list[dict[str, object]] | None = None
) -> WorkflowHarness:
    said = [*(human or ()), {"match": ".", "verdict": "approve", "text": "once more", "repeat": True}]
    return WorkflowHarness(ALONE, {"one": SLOW, **(agents or {})}, said).until(
        lambda s: s.started("one") and s.busy("one")
    )


def test_a_doer_that_the_human_withdraws_has_failed_and_the_human_says_how_it_goes_on() -> None:
    stage = at_work()
    stage.withdraw(stage.thread("one"))

    assert stage.done().statuses() == {"one": "session_complete"}
    assert any("one has failed: it was withdrawn" in body for body in stage.bodies("human"))


def test_that_a_whole_workflow_goes_with_its_executor_is_said_in_advance(capsys: pytest.CaptureFixture[str]) -> None:
    stage = at_work()
    present, executor = Present(stage.outside, JOB), stage.thread("workflow-executor")

    assert agreed(present, stage.thread("one"))
    assert capsys.readouterr().err == ""
    assert agreed(present, executor)  # there is no terminal to ask on: nothing waits
    told = (
        f"parley: {executor} is the workflow executor: the whole workflow ends with it, and its 1 open conversation\n"
    )
    assert capsys.readouterr().err == told
    ways = {way.command: way.words for situation in situations(present) for way in situation.exits}
    assert ways[f"parley withdraw {JOB} --thread {executor}"] == "end the whole workflow"


@pytest.mark.parametrize("helper", ["judge", "prover", "workflow-architect"])
def test_one_that_checks_or_helps_may_be_withdrawn_too(helper: str) -> None:
    answers = [resolve(agent="one", note_id=f"note_00{number}", answer="a", source="planning") for number in (1, 2)]
    agents = {
        "one": doer("one", on(r"^\[TASK\]", {"note": UNSURE})),
        "judge": [always(".", sleep(20), verdict("verified"))],
        "prover": [always(".", sleep(20), proved())],
        "workflow-architect": [always("note_001", sleep(20), answers[0]), always("note_002", answers[1])],
    }
    stage = WorkflowHarness(ALONE, agents).until(lambda s: s.started(helper) and s.busy(helper))
    stage.withdraw(stage.thread(helper))

    assert stage.done().statuses() == {"one": "session_complete"}


def test_what_the_human_says_waits_until_there_is_room_for_whom_it_concerns() -> None:
    stage = WorkflowHarness(ALONE, {"one": SLOW}, fan_out=1).until(lambda s: s.started("one") and s.busy("one"))
    for text in ("make it blue", "and round"):
        stage.intervene(text, stage.thread("workflow-executor"))

    assert stage.done().statuses() == {"one": "session_complete"}
    (told,) = stage.told("workflow-architect")
    assert "make it blue" in told
    assert "and round" in told


@pytest.mark.parametrize("word, phase", [("stop", "was stopped"), ("retry", "is through")])
def test_a_lead_that_writes_to_a_workflow_that_is_over_hears_so(word: str, phase: str) -> None:
    ask = on(r"^\[WORKFLOW (stopped|complete)\]", {"send": {"thread": "w", "text": "do more"}}, state="EXECUTE")
    human = [{"match": "one has failed", "verdict": word}, {"match": ".", "verdict": "approve", "repeat": True}]
    stage = WorkflowHarness(ALONE, {"one": doer("one")}, human, execute=[LEAD[0], ask]).lose("one", 3).run()

    assert any(body.startswith(f"[WORKFLOW] It {phase}") for body in stage.bodies("project-lead"))
