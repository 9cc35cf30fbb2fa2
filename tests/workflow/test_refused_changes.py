"""A plan change that is refused takes its answers with it; and the design verifier looks at every change again."""

from typing import Any

import pytest

from parley.workflow.files.task_record import read_record
from parley.workflow.model.terms import TASK_ORCHESTRATION
from tests.engine.job_harness import Rule, always, on, say, write
from tests.workflow.test_plan_changes import AFTER, ANSWER, BEFORE, SCOPE, designed
from tests.workflow.workflow_harness import LEAD, PLAN_FILE, WorkflowHarness, doer, output, plan, resolve, verdict

CHANGED = "changed the workflow's plan"
GATES = [{"match": ".", "verdict": "approve", "text": "yes", "repeat": True}]
GOOD: list[Rule] = [always(r"^\[VERIFY\]", verdict("verified"), say("good"))]
OTHERWISE = resolve(agent="one", note_id="note_001", answer="do without lib", source="planning")
ONE: list[Rule] = [
    on(r"^\[TASK\]", SCOPE),
    on(r"^\[ANSWERS\]", write(output("one"), "one")),
    always(".", say("so")),
]


def changing(
    *architect: Rule, human: Any = (), verifier: Any = GOOD, text: str = BEFORE, **more: Any
) -> WorkflowHarness:
    agents = {"one": ONE, "two": doer("two"), "workflow-architect": list(architect), "design-verifier": list(verifier)}
    return WorkflowHarness(text, agents, [*human, *GATES], **more)


NO = {"match": CHANGED, "verdict": "revise", "text": "lib stays as it is"}
TRIED = on(r"^\[ESCALATION\]", *designed(AFTER), ANSWER)


def test_a_refused_change_opens_the_notes_again_that_it_answered() -> None:
    stage = changing(TRIED, on(r"^\[ANSWER revise\]", OTHERWISE), human=[NO]).done()

    (note,) = stage.noted("one")
    assert (note.resolution, note.resolved_by) == ("do without lib", "workflow_executor")
    (told,) = [text for text in stage.told("one") if text.startswith("[ANSWERS]")]  # not started on the refused answer
    assert "do without lib" in told
    assert "`lib is yours` does not hold" in told
    assert "which the human refused: lib stays as it is" in told


def test_while_it_is_refused_the_note_is_escalated_and_nothing_of_the_answer_is_left() -> None:
    stage = changing(TRIED, on(r"^\[ANSWER revise\]", say("I think")), human=[NO])
    stage.until(lambda s: any(t.startswith("[ANSWER revise]") for t in s.told("workflow-architect")))

    (note,) = stage.noted("one")
    assert (note.status, note.resolution, note.resolved_by) == ("escalated", None, None)
    assert stage.statuses()["one"] == "blocked"
    (told,) = [text for text in stage.told("workflow-architect") if text.startswith("[ANSWER revise]")]
    assert "lib stays as it is" in told
    assert "one note_001, which you answered: lib is yours" in told


def test_the_summary_and_the_record_say_what_was_decided_in_the_end() -> None:
    stage = changing(TRIED, on(r"^\[ANSWER revise\]", OTHERWISE), human=[NO]).done()
    files = stage.files()

    assert "Settled by the architecture group: `do without lib`." in files["WORK_SUMMARY.md"]
    history = "Before, `lib is yours` was refused by the human with the change of the plan it came with"
    assert f"{history}: `lib stays as it is`." in files["WORK_SUMMARY.md"]
    record, findings = read_record(files[TASK_ORCHESTRATION])
    assert record is not None, findings
    (change,) = record.changes
    assert (change.decision, change.by, change.reason) == ("refused", "the human", "lib stays as it is")
    assert change.answers == ("one note_001: lib is yours",)


def test_an_approved_change_keeps_its_answers_and_is_recorded() -> None:
    stage = changing(TRIED).done()

    (note,) = stage.noted("one")
    assert note.resolution == "lib is yours"
    (change,) = stage.flow.changes
    assert (change.decision, change.by) == ("approved", "the human")
    assert "Before," not in stage.files()["WORK_SUMMARY.md"]


def test_the_reason_of_the_human_may_be_the_answer_without_asking_again() -> None:
    note = {**SCOPE["note"], "category": "requirements"}
    asked = resolve(agent="one", note_id="note_001", answer="lib is yours", source="user")
    own = resolve(agent="one", note_id="note_001", answer="lib stays as it is", source="user")
    architect = [
        on(r"^\[ESCALATION\]", {"ask": {"text": "whose is lib?"}}),
        on(r"^\[ANSWER approve\]", *designed(AFTER), asked),
        on(r"^\[ANSWER revise\]", own),
    ]
    agents = {"one": [on(r"^\[TASK\]", {"note": note}), *ONE[1:]], "workflow-architect": architect}
    stage = WorkflowHarness(BEFORE, {**agents, "design-verifier": GOOD}, [NO, *GATES]).done()

    (found,) = stage.noted("one")
    assert (found.resolution, found.resolved_by) == ("lib stays as it is", "user")


def test_a_change_that_the_architect_takes_back_takes_its_answers_too() -> None:
    broken = AFTER.replace('"verifier": "judge"', '"verifier": "nobody"')
    stage = changing(
        on(r"^\[ESCALATION\]", *designed(broken), ANSWER),
        on(r"^\[DESIGN gaps\]", *designed(BEFORE)),
        on(r"^\[ESCALATION\]", OTHERWISE),
    ).done()

    (note,) = stage.noted("one")
    assert note.resolution == "do without lib"
    assert [(change.decision, change.by) for change in stage.flow.changes] == [("refused", "the architecture group")]


def test_a_change_that_the_check_refuses_for_good_takes_its_answers() -> None:
    broken = AFTER.replace('"verifier": "judge"', '"verifier": "nobody"')
    stage = changing(
        on(r"^\[ESCALATION\]", *designed(broken), ANSWER),
        *(on(r"^\[DESIGN gaps\]", write(PLAN_FILE, broken + "\n" * number)) for number in (1, 2)),
        on(r"^\[DESIGN gaps\]", say("I leave it")),
        on(r"^\[ESCALATION\]", OTHERWISE),
    ).done()

    (note,) = stage.noted("one")
    assert note.resolution == "do without lib"
    (change,) = stage.flow.changes
    assert (change.decision, change.by) == ("refused", "the design check")
    (told,) = [text for text in stage.told("one") if text.startswith("[ANSWERS]")]
    assert "which the design check refused" in told


def test_a_workflow_that_is_stopped_over_a_change_leaves_no_answer_of_it() -> None:
    stop = {"match": CHANGED, "verdict": "stop", "text": "no more"}
    stage = changing(TRIED, human=[stop], execute=[LEAD[0], on(r"^\[WORKFLOW stopped\]", say("so"))]).run()

    (note,) = stage.noted("one")
    assert (note.status, note.resolution) == ("escalated", None)
    assert stage.flow.changes[0].decision == "refused"


# ---- the design verifier -------------------------------------------------------------------------


def asked(stage: WorkflowHarness) -> list[str]:
    return [body for body in stage.bodies("human") if CHANGED in body]


def test_every_change_is_looked_at_by_the_design_verifier_before_the_human() -> None:
    stage = changing(TRIED).done()

    (told,) = stage.told("design-verifier")
    assert told.startswith("[VERIFY] The architecture group has changed orchestration/workflow_coordination_plan.md")
    assert "lib/**" in told
    (body,) = asked(stage)
    assert "The design check finds no gap in it; a design verifier has approved this very change." in body
    assert stage.flow.changes[0].judged == "a design verifier has approved this very change"


def test_the_verifier_has_the_changed_plan_in_its_tree() -> None:
    look = always(r"^\[VERIFY\]", {"shell": "true"}, verdict("verified"))
    stage = changing(TRIED, verifier=[look])
    stage.until(lambda s: s.started("design-verifier"))
    thread = stage.thread("design-verifier")

    assert stage.files(thread)[PLAN_FILE] == AFTER


def test_what_the_verifier_finds_goes_back_before_the_human_sees_it() -> None:
    better = AFTER.replace("make one", "make one well")
    stage = changing(
        TRIED,
        on(r"^\[DESIGN gaps\]", *designed(better)),
        verifier=[on("make one well", verdict("verified")), always(r"^\[VERIFY\]", verdict("rejected", "too vague"))],
    ).done()

    assert len(asked(stage)) == 1
    (told,) = [text for text in stage.told("workflow-architect") if text.startswith("[DESIGN gaps]")]
    assert "the design verifier rejects the plan as you changed it" in told
    assert "too vague" in told
    assert stage.flow.plan is not None
    assert stage.flow.plan.text == better


def test_a_change_that_the_verifier_keeps_rejecting_is_refused() -> None:
    tries = [on(r"^\[DESIGN gaps\]", write(PLAN_FILE, AFTER + "\n" * number)) for number in (1, 2)]
    stage = changing(
        TRIED, *tries, on(r"^\[DESIGN gaps\]", OTHERWISE),
        verifier=[always(r"^\[VERIFY\]", verdict("rejected", "too vague"))],
    ).done()  # fmt: skip

    assert asked(stage) == []
    assert [(change.decision, change.by) for change in stage.flow.changes] == [("refused", "the design verifier")]
    (note,) = stage.noted("one")
    assert note.resolution == "do without lib"


@pytest.mark.parametrize(
    "verifier, said",
    [
        ([always(".", say("hm"))], "a design verifier was asked 3 times and gave no verdict on the change"),
        ([always(".", {"crash": 9})], "a design verifier was asked and could not look at the change: "),
    ],
)
def test_where_the_verifier_says_nothing_the_human_is_told_so(verifier: list[Rule], said: str) -> None:
    stage = changing(TRIED, verifier=verifier).done()

    (body,) = asked(stage)
    assert said in body
    assert "has approved this very change" not in body


@pytest.mark.parametrize("fan_out", [1, 2])
def test_there_is_always_room_for_the_verifier_in_the_end(fan_out: int) -> None:
    better = AFTER.replace("make one", "make one well")
    stage = changing(
        TRIED,
        always(r"^\[DESIGN gaps\]", *designed(better)),
        verifier=[on("make one well", verdict("verified")), always(r"^\[VERIFY\]", verdict("rejected", "too vague"))],
        text=BEFORE,
        fan_out=fan_out,
    ).done()

    assert stage.flow.plan is not None
    assert stage.flow.plan.text == better


def test_two_doers_wait_for_one_change_and_both_go_on() -> None:
    both = plan({"name": "one"}, {"name": "two"}, stages=[["one", "two"]])
    stage = changing(
        always("two .task", resolve(agent="two", note_id="note_001", answer="no", source="planning")),
        always("one .task", OTHERWISE),
        text=both,
    ).done()

    assert stage.statuses() == {"one": "session_complete", "two": "session_complete"}
