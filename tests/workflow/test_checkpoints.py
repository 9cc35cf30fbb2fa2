"""Checkpoints count: their criteria are judged and recorded, and a failed one does what the plan says."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.workflow.execution.checkpoints import read_criteria, refuse_criteria
from parley.workflow.files.rounds import read_round
from parley.workflow.model.remedies import OnFailure, gravest, meant
from parley.workflow.model.terms import Checkpoint, instructions_of, round_of, task_base_of
from tests.engine.job_harness import JOB, Rule, always, on, say, sleep
from tests.workflow.workflow_harness import JUDGE, WorkflowHarness, doer, output, plan, proved, resolve, verdict
from tests.workflow.workflow_harness import PROVER as HOLDS


def planned(on_failure: str) -> str:
    text = plan({"name": "one"}, {"name": "two", "depends_on": ["one"]})
    return text.replace('"back to one"', json.dumps(on_failure))


def played(on_failure: str, judge: list[Rule], human: Any = None, **agents: Any) -> WorkflowHarness:
    said = [*(human or ()), {"match": ".", "verdict": "approve", "repeat": True}]
    everybody = {"one": doer("one"), "two": doer("two"), "judge": judge, **agents}
    return WorkflowHarness(planned(on_failure), everybody, said)


REJECTS: list[Rule] = [
    on(r"^\[VERIFY\] one, round 1", verdict("rejected", "too short")),
    always(".", verdict("verified")),
]


def judges(*criteria: dict[str, Any], word: str = "rejected") -> dict[str, Any]:
    return {"verdict": {"verdict": word, "findings": ["too short"], "criteria": list(criteria)}}


# ---- who is told ---------------------------------------------------------------------------------


def test_criteria_and_on_failure_reach_the_verifier_the_contract_and_the_rounds_file() -> None:
    stage = played("escalate to the user", [always(".", verdict("verified"))]).done()

    told = next(text for text in stage.told("judge") if text.startswith("[VERIFY] one"))
    assert "- to two: two can begin (if it fails, escalate to the user: escalate: the human is asked)" in told
    assert "criteria: [{to, met: true or false, evidence}, …]" in told
    assert "- to two: two can begin" in stage.told("one")[0]
    contract = stage.files()[task_base_of("one")]
    assert "### Checkpoints" in contract
    assert "> two can begin" in contract
    assert "> escalate to the user" in contract
    [judged] = json.loads(stage.files()[round_of("one", 1)])["criteria"]
    assert judged == {"to": "two", "criteria": "two can begin", "result": "met", "evidence": ""}


def test_a_verifier_judges_each_criterion_with_evidence_or_is_told_what_is_missing() -> None:
    judge = [
        on(
            r"^\[VERIFY\] one, round 1",
            judges({"to": "three", "met": True}),
            judges({"to": "two", "met": "yes"}),
            judges({"to": "two", "met": False}, word="verified"),
            judges({"to": "two", "met": False, "evidence": "it is empty"}),
        ),
        always(".", verdict("verified")),
    ]
    stage = played("back to one", judge).done()

    assert "there is no checkpoint to 'three'" in stage.refusals[0]
    assert "criteria is a list of" in stage.refusals[1]
    assert "the checkpoint to two is not met" in stage.refusals[2]
    first = stage.flow.members["one"].standing.rounds[0]
    assert (first.criteria[0].met, first.criteria[0].evidence, first.action) == (False, "it is empty", "rework")
    again = next(text for text in stage.told("one") if text.startswith("[REJECTED]"))
    assert "- the checkpoint to two failed: two can begin (it is empty); on_failure: back to one" in again
    found, findings = read_round(stage.files()[round_of("one", 1)], "one", 1)
    assert (found, findings) == (first, [])


def test_criteria_may_be_judged_in_the_rounds_file() -> None:
    said = {"verdict": "rejected", "findings": ["no"], "criteria": [{"to": "two", "met": False, "evidence": "empty"}]}
    judge = [
        on(r"^\[VERIFY\] one, round 1", {"write": {"path": round_of("one", 1), "text": json.dumps(said)}}),
        always(".", verdict("verified")),
    ]
    stage = played("back to one", judge).done()

    assert stage.flow.members["one"].standing.rounds[0].criteria[0].evidence == "empty"


def test_a_verifier_is_told_of_its_instructions_and_has_every_file_that_its_message_names() -> None:
    two = {"name": "two", "depends_on": ["one"], "inputs": [output("one")]}
    agents = {"one": doer("one"), "two": doer("two"), "judge": [on("two, round 1", sleep(5)), *JUDGE]}
    stage = WorkflowHarness(plan({"name": "one"}, two), agents)
    stage.until(lambda s: any("[VERIFY] two" in text for text in s.told("judge")) and s.busy("judge"))

    told = next(text for text in stage.told("judge") if text.startswith("[VERIFY] two"))
    named = [instructions_of("judge"), instructions_of("two"), task_base_of("two"), output("one"), output("two")]
    tree = stage.disk.work[JOB, stage.order("judge").thread]
    assert [path for path in named if path not in told or path not in tree] == []
    assert "give your verdict" in tree[instructions_of("judge")]


# ---- what is done --------------------------------------------------------------------------------


def test_rework_sends_the_doer_back_as_often_as_the_rounds_allow() -> None:
    stage = played("Back to one, which mends it", REJECTS).done()

    assert [one.action for one in stage.flow.members["one"].standing.rounds] == ["rework", ""]


def test_escalate_asks_the_human_at_once_and_the_answer_goes_to_the_doer() -> None:
    stage = played("escalate", REJECTS, [{"match": "one is blocked", "text": "make it longer"}]).done()

    [asked] = [row.body for row in stage.messages("human") if "one is blocked" in row.body]
    assert "the checkpoint from one to two failed (two can begin), and on_failure says: escalate" in asked
    assert "too short" in asked
    assert any("[ANSWERS]" in text and "make it longer" in text for text in stage.told("one"))


@pytest.mark.parametrize("word", ["re-plan", "re-scope"])
def test_re_plan_and_re_scope_go_to_the_architect_at_once(word: str) -> None:
    answer = resolve(agent="one", note_id="note_001", answer="longer", source="planning")
    stage = played(word, REJECTS, **{"workflow-architect": [on(r"^\[ESCALATION\] one", answer)]}).done()

    assert f"on_failure says: {word}" in stage.told("workflow-architect")[0]
    assert any("[ANSWERS]" in text and "longer" in text for text in stage.told("one"))


def test_abandon_goes_on_without_the_doer_and_all_that_depends_on_it() -> None:
    stage = played("abandon", REJECTS).done()

    assert stage.statuses() == {"one": "failed", "two": "failed"}
    assert stage.flow.members["one"].given_up
    assert "on_failure says: abandon" in stage.flow.members["one"].standing.reason


def test_stop_stops_the_workflow_and_its_lead_hears_why() -> None:
    stage = played("Stop: nothing can be built on it", REJECTS).run()

    assert (stage.flow.phase, stage.started("two")) == ("stopped", 0)
    [told] = [text for text in stage.bodies("project-lead") if text.startswith("[WORKFLOW stopped]")]
    assert "the checkpoint from one to two failed (two can begin)" in told
    assert "too short" in told


def test_a_rejection_with_every_checkpoint_met_is_rework_whatever_they_say() -> None:
    judge = [on("one, round 1", judges({"to": "two", "met": True})), always(".", verdict("verified"))]
    stage = played("stop", judge).done()

    assert stage.flow.members["one"].standing.rounds[0].action == ""


def test_a_command_that_fails_comes_before_every_checkpoint() -> None:
    stage = played("stop", [always(".", verdict("verified"))], prover=[on("one, round 1", proved(1)), *HOLDS]).done()

    first = stage.flow.members["one"].standing.rounds[0]
    assert (first.verifier, first.criteria[0].result, first.action) == ("prover", "not judged", "")


def test_a_failed_checkpoint_that_comes_back_is_a_loop_which_the_user_ends() -> None:
    rejecting = [on(f"one, round {number}", verdict("rejected", "too short")) for number in (1, 2, 3)]
    planned_ = [resolve(agent="one", note_id=f"note_00{n}", answer="on", source="planning") for n in (1, 2)]
    architect = [
        *(on(r"^\[ESCALATION\]", action) for action in planned_),
        on(r"^\[LOOP\]", {"ask": {"text": "?"}}),
        on(r"^\[ANSWER", resolve(agent="one", note_id="note_003", answer="let it be", source="user")),
    ]
    judge = [*rejecting, always(".", verdict("verified"))]
    stage = played("re-plan", judge, **{"workflow-architect": architect}).done()

    assert any(text.startswith("[LOOP]") for text in stage.told("workflow-architect"))


# ---- the words -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, action",
    [
        ("rework", "rework"),
        ("back to database", "rework"),
        ("", "rework"),
        ("the user may stop it", "rework"),
        ("Escalate: the user decides", "escalate"),
        ("ask the user", "escalate"),
        ("re-plan", "re-plan"),
        ("Replan the stage", "re-plan"),
        ("re-scope.", "re-scope"),
        ("abandon, and go on", "abandon"),
        ("skip it", "abandon"),
        ("STOP", "stop"),
        ("`halt` everything", "stop"),
    ],
)
def test_an_action_is_the_word_that_on_failure_begins_with(text: str, action: str) -> None:
    assert meant(text) == action


@given(st.text())
def test_every_text_means_one_action(text: str) -> None:
    assert meant(text) in tuple(OnFailure)


@given(st.lists(st.sampled_from(OnFailure), max_size=4))
def test_of_several_the_gravest_is_done(actions: list[OnFailure]) -> None:
    order = list(OnFailure)
    assert order.index(gravest(actions)) == max(map(order.index, actions), default=0)


POINTS = (Checkpoint("one", "two", "judge", "a"), Checkpoint("one", "three", "judge", "b"))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3) | st.sampled_from(["two", "three"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["to", "met", "evidence", "x"]), inner),
    max_leaves=8,
)


@given(ANYTHING, st.sampled_from(["verified", "rejected", "blocked"]))
def test_whatever_a_verifier_says_of_checkpoints_is_taken_whole_or_refused(said: Any, word: str) -> None:
    read, problem = read_criteria(said, POINTS)
    if problem or refuse_criteria(POINTS, word, read):
        return
    assert {one.to for one in read} in (set(), {"two", "three"})
    assert all(type(one.met) is bool for one in read)
    assert word != "verified" or all(one.met for one in read)


def test_an_agent_without_a_checkpoint_is_judged_as_before() -> None:
    stage = WorkflowHarness(
        plan({"name": "one"}), {"one": doer("one"), "judge": [always(".", verdict("verified"), say("x"))]}
    )

    assert json.loads(stage.done().files()[round_of("one", 1)])["criteria"] == []
