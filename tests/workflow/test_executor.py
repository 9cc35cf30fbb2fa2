"""Workflows run by the engine, from their plan to their report, with scripted agents."""

import json
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pytest
from msgspec.structs import replace

from parley.base.json_codec import encode
from parley.views.history.chronicle import Follower
from parley.workflow.execution import executor
from parley.workflow.model.flow import IllegalEvent
from parley.workflow.model.terms import SHARED_STATUS, TASK_ORCHESTRATION, session_of
from parley.workflow.model.times import moment
from tests.engine.job_harness import JOB, Action, Rule, always, asserts, close, on, say, send, sleep, write
from tests.workflow.workflow_harness import (
    LEAD,
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

ONE_TWO = plan({"name": "one"}, {"name": "two", "depends_on": ["one"]})
ALONE = plan({"name": "one"})


def test_two_doers_one_after_the_other_come_to_their_end() -> None:
    stage = WorkflowHarness(ONE_TWO, {"one": doer("one"), "two": doer("two")}).done()

    assert stage.statuses() == {"one": "session_complete", "two": "session_complete"}
    assert stage.files()["src/one/one.py"] == "one"
    assert stage.files()[output("two")] == "two"
    order = [order.agent for order in stage.orders if order.agent in ("one", "two", "judge")]
    assert order == ["one", "one", "judge", "two", "two", "judge"]


def test_what_the_plan_lets_run_in_parallel_does_under_the_fan_out() -> None:
    text = plan({"name": "one"}, {"name": "two"}, {"name": "three"}, stages=[["one", "two", "three"]])
    agents = {name: doer(name) for name in ("one", "two", "three")}

    stage = WorkflowHarness(text, agents, fan_out=3).until(lambda s: s.started("three"))

    assert [stage.busy(name) for name in agents] == [True, True, True]
    assert stage.flow.held == []
    assert stage.done().statuses() == dict.fromkeys(agents, "session_complete")


def test_the_fan_out_counts_doers_and_says_whom_it_holds_back() -> None:
    text = plan({"name": "one"}, {"name": "two"}, {"name": "three"}, stages=[["one", "two", "three"]])
    agents = {name: doer(name) for name in ("one", "two", "three")}

    stage = WorkflowHarness(text, agents, fan_out=2).until(lambda s: s.started("two"))

    said = "one and two are at work; three waits for a free slot (fan_out 2)"
    assert (stage.started("three"), stage.flow.held) == (0, ["three"])
    assert said in [event.text for event in Follower(stage.outside, JOB).read()]
    stage.done()
    assert stage.flow.held == []
    [report] = [body for body in stage.bodies("project-lead") if body.startswith("[WORKFLOW complete]")]
    assert "For some time three had to wait for a free slot (fan_out 2)." in report


def test_a_doer_that_waits_holds_no_slot() -> None:
    text = plan({"name": "one"}, {"name": "two"}, {"name": "three"}, stages=[["one", "two", "three"]])
    asks = {"ask": {"text": "which?"}}
    agents = {
        "one": blocked_at_first("one", category="requirements"),
        "two": blocked_at_first("two", category="requirements"),
        "three": doer("three"),
        "workflow-architect": [on(r"^\[ESCALATION\]", asks), on(r"^\[ESCALATION\]", asks)],
    }
    human = [{"match": "PLAN|INTENT", "verdict": "approve", "repeat": True}]
    stage = WorkflowHarness(text, agents, human, fan_out=2).run()

    assert stage.statuses() == {"one": "blocked", "two": "blocked", "three": "verified"}


UNSURE = {"description": "which path?", "context": "looking", "status": "escalated", "escalation_reason": "not mine"}


def blocked_at_first(name: str, **fields: str) -> list[Rule]:
    """A doer that escalates a note, and makes its output once it has the answer."""
    made = (write(f"src/{name}/{name}.py", name), write(output(name), name), say("made"))
    return [
        on(r"^\[TASK\]", note(**{**UNSURE, **fields}), say("stuck")),
        on(r"^\[ANSWERS\]", *made),
        always(".", say("looked")),
    ]


def answers(name: str, text: str, source: str = "planning", number: int = 1) -> Rule:
    """What the architect does about the first blocked."""
    return always(
        rf"^\[(ESCALATION|LOOP|STALLED)\] {name} ",
        resolve(agent=name, note_id=f"note_{number:03}", answer=text, source=source),
    )


def test_one_conversation_at_a_time_is_enough() -> None:
    text = plan({"name": "one"}, {"name": "two"}, stages=[["one", "two"]])
    agents = {
        "one": blocked_at_first("one", category="scope"),
        "two": doer("two"),
        "judge": [on("one, round 1", verdict("rejected", "too short")), always(".", verdict("verified"))],
        "workflow-architect": [answers("one", "so")],
    }
    stage = WorkflowHarness(text, agents, fan_out=1).done()

    assert [one.verdict for one in stage.flow.members["one"].standing.rounds] == ["rejected", "verified"]
    assert stage.files()["src/one/one.py"] == "one"


def test_a_rejected_output_goes_back_with_the_findings_and_three_times_goes_up() -> None:
    rejecting = [on(f"round {number}", verdict("rejected", f"fault {number}")) for number in (1, 2, 3)]
    agents = {
        "one": doer("one"),
        "judge": [*rejecting, always(".", verdict("verified"))],
        "workflow-architect": [answers("one", "drop it")],
    }
    stage = WorkflowHarness(ALONE, agents).done()

    told = stage.told("one")
    assert ["fault 1" in told[2], "fault 2" in told[4], "[ANSWERS]" in told[6]] == [True] * 3
    assert "fault 3" in stage.told("workflow-architect")[0]
    assert [one.verdict for one in stage.flow.members["one"].standing.rounds] == ["rejected"] * 3 + ["verified"]
    assert "fault 2" in stage.files()["orchestration/agents/one/verification/round_2.json"]


def test_a_verdict_may_be_written_to_the_file_of_its_round_and_a_broken_one_is_told() -> None:
    def by_file(number: int, text: str) -> Action:
        return write(f"orchestration/agents/one/verification/round_{number}.json", text)

    judge = [
        on(r"^\[VERIFY\] one, round 1", by_file(1, '{"verdict": "rejec')),
        on("without a verdict", by_file(1, '{"verdict": "rejected", "findings": ["no test"]}')),
        on(r"^\[VERIFY\] one, round 2", by_file(2, '{"verdict": "verified", "findings": []}')),
    ]
    stage = WorkflowHarness(ALONE, {"one": doer("one"), "judge": judge}).done()

    rounds = stage.flow.members["one"].standing.rounds
    assert [(one.verdict, one.findings) for one in rounds] == [("rejected", ("no test",)), ("verified", ())]
    assert "round_1.json" in stage.told("judge")[1]


def test_a_verdict_that_a_doer_has_left_in_its_tree_is_nobodys() -> None:
    judge = [on(r"^\[VERIFY\] one, round 1", say("hm")), always(".", verdict("verified"))]
    prover = [on(".", sleep(5), proved()), *PROVER]
    stage = WorkflowHarness(ALONE, {"one": doer("one"), "judge": judge, "prover": prover})
    stage.until(lambda s: s.started("prover"))
    stage.disk.work[JOB, stage.thread("one")]["orchestration/agents/one/verification/round_1.json"] = (
        '{"verdict": "verified", "findings": []}'
    )

    assert "without a verdict" in stage.done().told("judge")[1]


def test_a_command_that_fails_goes_back_to_its_doer_and_spares_the_verifier() -> None:
    agents = {"one": doer("one"), "prover": [on("one, round 1", proved(1)), *PROVER]}
    stage = WorkflowHarness(ALONE, agents).done()

    first, second = stage.flow.members["one"].standing.rounds
    assert (first.verifier, first.verdict, first.proofs[0].code) == ("prover", "rejected", 1)
    assert (second.verifier, second.verdict) == ("judge", "verified")
    told = next(text for text in stage.told("one") if text.startswith("[REJECTED]"))
    assert "`test -f one` fails: ended with 1" in told
    assert "$ test -f one\n(ended with 1)\nout" in told
    assert [text.partition(".")[0] for text in stage.told("judge")] == ["[VERIFY] one, round 2"]
    assert '"verifier": "prover"' in stage.files()["orchestration/agents/one/verification/round_1.json"]


def test_commands_that_keep_failing_go_up_after_as_many_rounds_as_the_settings_say() -> None:
    failing = [on(f"one, round {number}", proved(1)) for number in (1, 2, 3)]
    agents = {"one": doer("one"), "prover": [*failing, *PROVER], "workflow-architect": [answers("one", "drop it")]}
    stage = WorkflowHarness(ALONE, agents).done()

    assert "3 rounds did not end well" in stage.told("workflow-architect")[0]
    assert [text.partition(".")[0] for text in stage.told("judge")] == ["[VERIFY] one, round 4"]


def test_a_merge_whose_proof_fails_is_not_taken() -> None:
    agents = {"one": doer("one"), "prover": [on("one, merge 1", proved(2)), *PROVER]}
    stage = WorkflowHarness(ALONE, agents).done()

    assert [(one.taken, bool(one.reason)) for one in stage.flow.merges] == [(False, True), (True, False)]
    assert any("[MERGE failed]" in text for text in stage.told("one"))


def test_a_workflow_that_is_run_twice_tells_the_assumptions_of_both() -> None:
    first = on(r"^\[WORKFLOW complete\]", close("w"), send("workflow-executor", "once more", "w2"), state="EXECUTE")
    last = on(
        r"^\[WORKFLOW complete\]", close("w2"), write("WORK_SUMMARY.md", "done"), asserts("WORK_SUMMARY.md"),
        state="EXECUTE",
    )  # fmt: skip
    noted = {"context": "c", "category": "implementation_detail"}
    settled = note(note_id="note_001", status="resolved", resolution="it is")
    one = [
        on(r"^\[TASK\]", note(description="the first time", **noted), settled, write(output("one"), "one")),
        on(r"^\[TASK\]", note(description="the second time", **noted), settled, write(output("one"), "two")),
        always(".", say("so")),
    ]
    stage = WorkflowHarness(ALONE, {"one": one}, execute=[LEAD[0], first, last, LEAD[-1]]).done()

    assert "the first time" in stage.files()["WORK_SUMMARY.md"]


def test_a_workflow_that_can_not_go_on_stops_and_its_lead_hears_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def impossible(*_: object) -> None:
        raise IllegalEvent("one is pending and can't become verified")

    monkeypatch.setattr(executor, "hear", impossible)
    stage = WorkflowHarness(ALONE, {"one": doer("one")}).run()

    [told] = [text for text in stage.bodies("project-lead") if text.startswith("[WORKFLOW stopped]")]
    assert "what came does not fit where it stands: one is pending" in told
    assert stage.flow.phase == "stopped"


# ---- those who can't go on -----------------------------------------------------------------------


def test_requirements_come_from_the_user_and_every_answer_comes_at_once() -> None:
    more = note(**{**UNSURE, "description": "what colour?", "category": "scope"})
    rules = blocked_at_first("one", category="requirements")
    rules[0]["do"].insert(1, more)
    architect = [
        on(r"^\[ESCALATION\]", resolve(agent="one", note_id="note_001", answer="unique", source="user"),
           resolve(agent="one", note_id="note_001", answer="unique", source="planning"), {"ask": {"text": "unique?"}}),
        on(r"^\[ANSWER\]", resolve(agent="one", note_id="note_001", answer="unique", source="user"),
           resolve(agent="one", note_id="note_002", answer="red", source="planning")),
    ]  # fmt: skip
    human = [{"match": "unique", "text": "yes, unique"}, {"match": ".", "verdict": "approve", "repeat": True}]
    stage = WorkflowHarness(ALONE, {"one": rules, "workflow-architect": architect}, human).done()

    assert "the user has not answered you since" in stage.refusals[0]
    assert "must be answered by: user" in stage.refusals[1]
    told = [text for text in stage.told("one") if text.startswith("[ANSWERS]")]
    assert len(told) == 1
    assert "unique (the user said: yes, unique) (user)" in told[0]
    assert "red (workflow_executor)" in told[0]


def test_an_answer_of_the_proxys_for_the_user_says_so() -> None:
    answer = resolve(agent="one", note_id="note_001", answer="unique", source="user", author="human")
    architect = [on(r"^\[ESCALATION\]", {"ask": {"text": "unique?"}}), on(r"^\[ANSWER", answer)]
    agents = {"one": blocked_at_first("one", category="requirements"), "workflow-architect": architect}
    stage = WorkflowHarness(ALONE, agents, policies=["always", "always", "never"]).run()

    [settled] = stage.noted("one")
    assert str(settled.resolution).startswith("unique (the proxy, for the user, said: no answer")
    assert settled.resolved_by == "workflow_executor"


def test_a_technical_question_goes_to_the_solution_architect_whose_answer_is_verified() -> None:
    architect = [
        on(r"^\[ESCALATION\] one", resolve(agent="one", note_id="note_001", answer="sqlite", source="planning"),
           resolve(agent="one", note_id="note_001", route="solution_architect", task="which database?")),
        on(r"The solution architect's answers",
           resolve(agent="one", note_id="note_001", answer="sqlite", source="solution_architect")),
    ]  # fmt: skip
    solver = [
        on(r"^\[TASK\]", write("orchestration/agents/solution_architect/task_output/decisions.md", "sqlite")),
        always(".", say("looked")),
    ]
    agents = {
        "one": blocked_at_first("one", category="technology"),
        "workflow-architect": architect,
        "solution_architect": solver,
        "design_verifier": [always(".", verdict("verified"))],
    }
    stage = WorkflowHarness(ALONE, agents).done()

    assert "must be answered by: user, solution_architect" in stage.refusals[0]
    where = "orchestration/agents/solution_architect/task_output/"
    assert f"`sqlite (decided by the solution architect: {where}, version 1)`" in stage.files()["WORK_SUMMARY.md"]
    assert stage.statuses() == {"one": "session_complete", "solution_architect": "session_complete"}
    assert stage.files()["orchestration/agents/solution_architect/task_output/decisions.md"] == "sqlite"


def test_what_was_noted_in_an_earlier_session_is_told_and_archived_too() -> None:
    """The solution architect has a session for each commission."""
    agents = {
        "one": [
            on(r"^\[TASK\]", note(**UNSURE, category="technology")),
            on(r"^\[ANSWERS\]", note(**{**UNSURE, "description": "and which port, then?"}, category="technology")),
            *doer("one"),
        ],
        "workflow-architect": [
            step
            for number in (1, 2)
            for step in (
                on(r"^\[ESCALATION\] one",
                   resolve(agent="one", note_id=f"note_00{number}", route="solution_architect", task="decide")),
                on(r"The solution architect's answers",
                   resolve(agent="one", note_id=f"note_00{number}", answer="so", source="solution_architect")),
            )
        ],
        "solution_architect": [
            on(r"^\[TASK\][\s\S]*note_001", write(output("solution_architect"), "so"),
               note(description="it is small", context="c", category="documentation")),
            on(r"note_001", note(note_id="note_001", status="resolved", resolution="seen")),
            always(".", say("looked")),
        ],
        "design_verifier": [always(".", verdict("verified"))],
    }  # fmt: skip
    stage = WorkflowHarness(ALONE, agents).done()

    assert stage.flow.members["solution_architect"].standing.version == 2
    assert "it is small" in stage.files()["WORK_SUMMARY.md"]
    archived = [text for path, text in stage.files().items() if path.startswith("orchestration/agents/solution_arch")]
    assert any("it is small" in text for text in archived)


def test_the_same_question_three_times_is_a_loop_which_only_the_user_ends() -> None:
    ask = note(**{**UNSURE, "description": "Which path is mine?", "category": "scope"})
    one = [on(r"^\[(TASK|ANSWERS)\]", ask), on(r"^\[ANSWERS\]", ask), on(r"^\[ANSWERS\]", ask), *doer("one")]
    planned = [resolve(agent="one", note_id=f"note_00{n}", answer="x", source="planning") for n in (1, 2, 3)]
    architect = [
        *(on(r"^\[ESCALATION\]", action) for action in planned[:2]),
        on(r"^\[LOOP\]", planned[2], {"ask": {"text": "?"}}),
        on(r"^\[ANSWER", resolve(agent="one", note_id="note_003", answer="src/one", source="user")),
    ]
    stage = WorkflowHarness(ALONE, {"one": one, "workflow-architect": architect}).done()

    loop = stage.told("workflow-architect")[2]
    assert loop.count("Which path is mine?") == 4  # the note, and all three of the history
    assert any("must be answered by: user" in text for text in stage.refusals)


def test_questions_of_one_turn_are_one_asking_however_alike_they_are() -> None:
    texts = [f"Which path is mine for part {part}?" for part in "abc"]
    asks = [note(**{**UNSURE, "description": text}, category="scope") for text in texts]
    one = [on(r"^\[TASK\]", *asks), *doer("one")]
    settled = [resolve(agent="one", note_id=f"note_00{n}", answer=f"p{n}", source="planning") for n in (1, 2, 3)]
    stage = WorkflowHarness(ALONE, {"one": one, "workflow-architect": [on(r"^\[ESCALATION\]", *settled)]}).done()

    assert stage.refusals == []
    assert [text.partition("]")[0] for text in stage.told("workflow-architect")] == ["[ESCALATION"]


def test_what_the_architect_calls_the_same_question_becomes_a_loop_in_whatever_words() -> None:
    texts = ("Which path is mine?", "Where am I to write?", "Whose folder is src?")
    ask = [note(**{**UNSURE, "description": text}, category="scope") for text in texts]
    one = [on(r"^\[TASK\]", ask[0]), on(r"^\[ANSWERS\]", ask[1]), on(r"^\[ANSWERS\]", ask[2]), *doer("one")]
    planned = [{"agent": "one", "note_id": f"note_00{n}", "answer": "x", "source": "planning"} for n in (1, 2, 3)]
    architect = [
        on(r"^\[ESCALATION\]", resolve(**planned[0], same_as="note_001"), resolve(**planned[0])),
        on(r"^\[ESCALATION\]", resolve(**planned[1], same_as="note_001")),
        on(r"^\[ESCALATION\]", resolve(**planned[2], same_as="note_002"),
           resolve(agent="one", note_id="note_003", same_as="note_002")),
        on(r"^\[LOOP\]", {"ask": {"text": "?"}}),
        on(r"^\[ANSWER", resolve(agent="one", note_id="note_003", answer="src/one", source="user")),
    ]  # fmt: skip
    stage = WorkflowHarness(ALONE, {"one": one, "workflow-architect": architect}).done()

    assert "same_as names a note that one asked before and that was answered: none is" in stage.refusals[0]
    assert "note_003 must be answered by: user" in stage.refusals[1]
    [told] = [text for text in stage.told("workflow-architect") if text.startswith("[LOOP]")]
    assert "Where am I to write? (the same as note_001) → x" in told


def test_a_doer_that_crashes_too_often_fails_and_the_human_decides() -> None:
    text = plan({"name": "one"}, {"name": "two"}, stages=[["one", "two"]])
    human = [{"match": "one has failed", "text": "once more"}, {"match": ".", "verdict": "approve", "repeat": True}]
    stage = WorkflowHarness(text, {"one": doer("one"), "two": doer("two")}, human).lose("one", 3).done()

    assert stage.statuses() == {"one": "session_complete", "two": "session_complete"}
    assert any("[AGAIN]" in body and "once more" in body for body in stage.told("one"))
    asked = [row.number for row in stage.messages("human") if "one has failed" in row.body]
    ended = [row.number for row in stage.messages("workflow-executor", "two")]
    assert asked[0] > ended[0]  # those beside it have ended their turns first


def test_what_depends_on_who_is_abandoned_is_abandoned_too() -> None:
    two = {"name": "two", "depends_on": ["one"]}
    text = plan({"name": "one"}, two, {"name": "three"}, stages=[["one", "three"], ["two"]])
    human = [{"match": "one has failed", "verdict": "abandon"}, {"match": ".", "verdict": "approve", "repeat": True}]
    agents = {name: doer(name) for name in ("one", "two", "three")}
    stage = WorkflowHarness(text, agents, human).lose("one", 3).done()

    assert stage.statuses() == {"one": "failed", "two": "failed", "three": "session_complete"}
    assert stage.started("two") == 0
    assert "Abandoned: one, two" in next(body for body in stage.bodies("project-lead") if "[WORKFLOW complete]" in body)


def test_the_human_may_stop_it() -> None:
    human = [{"match": "one has failed", "verdict": "stop"}, {"match": ".", "verdict": "approve", "repeat": True}]
    stage = WorkflowHarness(ALONE, {"one": doer("one")}, human).lose("one", 3).run()

    assert stage.flow.phase == "stopped"
    assert stage.flow.gate == "blocked"
    assert "[WORKFLOW stopped]" in "".join(stage.bodies("project-lead"))


# ---- silence -------------------------------------------------------------------------------------

SILENT = [on(r"^\[TASK\]", sleep(100)), *doer("one")]


def stalling(
    remedy: str, agents: Mapping[str, Sequence[Rule]] = MappingProxyType({}), human: Any = None
) -> WorkflowHarness:
    text = plan({"name": "one", "on_stall": remedy, "stall_seconds": 20}, {"name": "two"}, stages=[["one", "two"]])
    said = [*(human or ()), {"match": ".", "verdict": "approve", "repeat": True}]
    return WorkflowHarness(text, {"one": SILENT, "two": doer("two"), **agents}, said, time_limit_seconds=1000)


def stalls(stage: WorkflowHarness) -> list[str]:
    return [str(one.action) for one in stage.flow.actions]


def test_a_stalled_doer_is_told_of_to_the_human_where_its_contract_says_escalate() -> None:
    stage = stalling("escalate", human=[{"match": "one shows no sign of life", "text": "go on"}]).done()

    assert stage.statuses() == {"one": "session_complete", "two": "session_complete"}
    assert stalls(stage) == ["escalate"]
    [action] = stage.flow.actions
    assert action.outcome == "the human is asked; it is tried again, with the answer: go on"
    assert action.outcome in stage.files()["orchestration/task-orchestration.md"]
    assert any(text.startswith("[AGAIN] one: go on") for text in stage.told("one"))


def test_a_stalled_doer_is_abandoned_where_its_contract_says_so() -> None:
    stage = stalling("abandon").done()

    assert stage.statuses() == {"one": "failed", "two": "session_complete"}
    assert stalls(stage) == ["abandon"]


def test_the_record_tells_when_a_stalled_doer_was_last_heard_of() -> None:
    stage = stalling("escalate", human=[{"match": "one shows no sign of life", "verdict": "abandon"}])
    stage.until(lambda s: s.flow.actions if s.started("two") else [])

    [action], one = stage.flow.actions, stage.flow.members["one"].standing
    assert one.status == "stalled"
    assert one.last_progress is not None
    assert 20 <= action.time - one.last_progress < 30
    assert stage.done().flow.actions[0].outcome == "the human is asked; it is abandoned, as was answered"


@pytest.mark.parametrize("remedy", ["re-plan", "re-scope"])
def test_a_stalled_doer_is_the_architects_where_its_contract_says_so(remedy: str) -> None:
    stage = stalling(remedy, {"workflow-architect": [answers("one", "smaller steps")]}).done()

    assert stage.statuses() == {"one": "session_complete", "two": "session_complete"}
    assert stalls(stage) == [remedy]
    assert stage.told("workflow-architect")[0].startswith("[STALLED] one ")
    assert stage.flow.actions[0].outcome.endswith("; it goes on: smaller steps")
    assert f"| {remedy} |" in stage.files()["orchestration/task-orchestration.md"]


# ---- files instead of tools ----------------------------------------------------------------------


BY_FILE = {
    "note_id": "note_001", "timestamp": 1800000006, "description": "is it unique?", "context": "the table",
    "status": "resolved", "category": "implementation_detail", "resolution": "it is", "resolved_by": "agent_self",
    "resolution_timestamp": 1, "escalation_reason": None,
}  # fmt: skip
WRITING: list[Rule] = [
    on(r"^\[TASK\]", sleep(5), write(output("one"), "one")),
    on("pending_001", note(note_id="pending_001", status="withdrawn", resolution="it was not meant")),
    always(".", say("so")),
]


def at_its_files(note: Mapping[str, Any]) -> WorkflowHarness:
    """A doer in mid-turn, with this note in its file."""
    stage = WorkflowHarness(ALONE, {"one": WRITING}).until(lambda s: s.started("one") and s.busy("one"))
    files = stage.disk.work[JOB, stage.thread("one")]
    given = json.loads(files[session_of("one")])
    files[session_of("one")] = json.dumps({**given, "notes": [note]})
    return stage


def test_a_note_may_be_made_and_settled_in_its_file() -> None:
    found = at_its_files(BY_FILE).done().flow.members["one"].standing.session

    assert found is not None
    assert [(one.description, one.status) for one in found.notes] == [("is it unique?", "resolved")]
    assert found.notes[0].resolved_by == "agent_self"
    assert found.notes[0].resolution_timestamp != 1  # when that was is not its to say


def test_what_is_wrong_with_a_file_is_told_and_changes_nothing() -> None:
    stage = at_its_files({**BY_FILE, "status": "done"})
    stage.disk.work[JOB, stage.thread("one")][SHARED_STATUS] = '{"agents": {"one": {"status": "verified"}}}'
    stage.done()

    told = stage.told("one")[1]
    assert "session_current.json:1: one: notes[0].status" in told
    assert "shared_status.json" in told
    assert stage.noted("one") == ()


# ---- ownership and merges ------------------------------------------------------------------------


def test_what_belongs_to_another_stays_out_however_it_was_written() -> None:
    one = doer("one")
    one[0]["do"].insert(0, write("src/two/two.py", "by a tool"))
    stage = WorkflowHarness(ONE_TWO, {"one": one, "two": doer("two")}).until(lambda s: s.busy("one"))
    stage.disk.work[JOB, stage.thread("one")]["src/two/more.py"] = "by a shell"
    stage.done()

    assert stage.files()["src/two/two.py"] == "two"
    assert "src/two/more.py" not in stage.files()
    assert "src/two/more.py: belongs to two (rule: two owns src/two/**)" in stage.told("one")[1]
    [stray] = stage.flow.strays
    assert (stray.agent, stray.paths, stray.owners) == ("one", ("src/two/more.py",), ("two",))
    row = f"| {moment(stray.time)} | `one` | `src/two/more.py` | `two` | `{stray.ref}` |"
    assert "## Outside owned paths\n" in stage.files()[TASK_ORCHESTRATION]
    assert row in stage.files()[TASK_ORCHESTRATION]
    assert "src/two/more.py (of two); kept under refs/parley/left/" in stage.told("judge")[0]
    assert "one wrote outside the owned paths" in "".join(stage.told("project-lead"))


CONFLICT = plan(
    {"name": "one", "owns": ["src/one/**", "shared.txt"]},
    {"name": "two", "owns": ["src/two/**"]},
    stages=[["one", "two"]],
)
"""Two doers side by side; a re-scope gives one's file to the other in mid-work."""


def conflicting() -> WorkflowHarness:
    """Both sides have changed one file, each while it was theirs."""
    one, two = doer("one"), doer("two")
    one[0]["do"].insert(0, write("shared.txt", "of one"))
    two[0]["do"][:0] = [write("shared.txt", "of two"), sleep(15)]
    integrator = [always(r"^\[INTEGRATE\]", write("shared.txt", "of both"), say("settled"))]
    return WorkflowHarness(
        CONFLICT.replace('"src/two/**"', '"src/two/**",\n"shared.txt"'),
        {"one": one, "two": two, "integrator": integrator},
    )


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a plan pass whose check would say that two own one path: only so can two sides get in each other's way."""
    monkeypatch.setattr("parley.workflow.host.design_gates.findings", lambda live, design: [])


@pytest.mark.usefixtures("unchecked")
def test_a_conflict_is_settled_by_the_integrator_and_proved_by_the_commands_of_both_sides() -> None:
    stage = conflicting().done()

    assert stage.files()["shared.txt"] == "of both"
    last = stage.flow.merges[-1]
    assert (last.agent, last.taken, last.trivial, last.resolved_by) == ("two", True, False, "integrator")
    assert last.conflicts == ("shared.txt",)
    assert {proof.command for proof in last.proofs} == {"test -f one", "test -f two"}


@pytest.mark.usefixtures("unchecked")
def test_a_conflict_that_is_left_open_is_not_taken() -> None:
    stage = conflicting()
    stage.settings["agents"]["integrator"] = [
        on("bringing two", say("nothing to do")), always(".", say("nor now")),
    ]  # fmt: skip
    stage.settings["agents"]["workflow-architect"] = [always(".", say("?"))]
    stage.row = replace(stage.row, settings=encode(stage.settings))
    stage.until(lambda s: any(not one.taken for one in s.flow.merges) if s.started("one") else False)

    assert "conflicts are left in shared.txt" in stage.flow.merges[-1].reason
    assert stage.disk.work[JOB, stage.thread("workflow-executor")]["shared.txt"] == "of one"
