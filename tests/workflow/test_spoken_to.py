"""A doer that the human speaks to while others have its work: nothing is merged that its verifier has not seen."""

import pytest

from tests.engine.job_harness import JOB, Rule, always, on, say, sleep, write
from tests.workflow.workflow_harness import PROVER, WorkflowHarness, doer, note, output, plan, proved, resolve, verdict

SECOND = write("src/one/one.py", "second thoughts")
ONE: list[Rule] = [
    on(r"^\[TASK\]", write("src/one/one.py", "first"), write(output("one"), "one")),
    on(r"^\[INTERVENE", SECOND, note(description="it may be so", context="c", category="documentation")),
    always(r"note_001 \[open", note(note_id="note_001", status="resolved", resolution="it is so")),
    always(".", say("so")),
]
SLOW_JUDGE = [on(r"one, round 1", sleep(5), verdict("verified")), always(".", verdict("verified"))]
SLOW_PROVER = [on("one, merge 1", sleep(5), proved()), *PROVER]


@pytest.mark.parametrize("slow,agent", [({"judge": SLOW_JUDGE}, "judge"), ({"prover": SLOW_PROVER}, "prover")])
def test_what_is_changed_while_it_is_checked_is_checked_again(slow: dict[str, list[Rule]], agent: str) -> None:
    stage = WorkflowHarness(plan({"name": "one"}), {"one": ONE, **slow})
    stage.until(lambda s: s.busy(agent) and (agent == "judge" or s.flow.merging)).intervene(
        "think again", stage.thread("one")
    )
    stage.done()

    taken = [merge for merge in stage.flow.merges if merge.taken]
    assert [merge.agent for merge in taken] == ["one"]
    last = stage.disk.trees[f"{JOB}|{stage.order('judge').thread}"]
    assert last["src/one/one.py"] == stage.files()["src/one/one.py"] == "second thoughts"
    assert "`it may be so`. Settled by the agent itself" in stage.files()["WORK_SUMMARY.md"]


def test_what_is_changed_when_its_verdict_comes_is_not_merged_unseen() -> None:
    """The verdict and the end of the doer's turn come at once, and the verdict is heard first."""
    judge = [on(r"one, round 1", verdict("verified"), sleep(50)), always(".", verdict("verified"))]
    one = [ONE[0], on(r"^\[INTERVENE", SECOND, sleep(50)), ONE[-1]]
    stage = WorkflowHarness(plan({"name": "one", "acceptance": {"text": "it is there"}}), {"one": one, "judge": judge})
    stage.sleeping("judge")
    stage.intervene("think again", stage.thread("one")).until(lambda s: s.started("one") == 3 and s.slept("one"))
    stage.end(stage.order("judge"), "good").end(stage.order("one"), "so")
    stage.done()

    rounds = stage.flow.members["one"].standing.rounds
    assert [one.verdict for one in rounds] == ["verified", "verified"]
    last = stage.disk.trees[f"{JOB}|{stage.order('judge').thread}"]
    assert last["src/one/one.py"] == stage.files()["src/one/one.py"] == "second thoughts"


def test_a_note_that_is_made_while_its_maker_is_blocked_is_not_lost() -> None:
    asks = note(description="which?", context="c", status="escalated", escalation_reason="r", category="scope")
    one = [
        on(r"^\[TASK\]", asks),
        on(r"^\[INTERVENE", note(description="one more", context="c", status="escalated", escalation_reason="r")),
        on(r"^\[ANSWERS\]", write(output("one"), "one")),
        always(".", say("so")),
    ]
    both = [resolve(agent="one", note_id=f"note_00{number}", answer="x", source="planning") for number in (1, 2)]
    architect = [on(r"^\[ESCALATION\]", sleep(5)), always(r"^\[ESCALATION\]", *both)]
    stage = WorkflowHarness(plan({"name": "one"}), {"one": one, "workflow-architect": architect})
    stage.until(lambda s: s.busy("workflow-architect")).intervene("think again", stage.thread("one"))
    stage.done()

    session = stage.flow.members["one"].standing.session
    assert session is not None
    assert [(one.description, one.status) for one in session.notes] == [
        ("which?", "resolved"),
        ("one more", "resolved"),
    ]
    assert next(text for text in stage.told("one") if text.startswith("[ANSWERS]")).count("resolved") == 2


def test_nothing_is_taken_while_its_maker_is_at_work_on_what_the_human_said() -> None:
    """Its conversation would end with its turn, and the human's words with that."""
    one = [ONE[0], on(r"^\[INTERVENE", sleep(20), SECOND), ONE[-1]]
    stage = WorkflowHarness(plan({"name": "one"}), {"one": one, "prover": SLOW_PROVER})
    stage.until(lambda s: s.busy("prover") and s.flow.merging).intervene("think again", stage.thread("one"))
    stage.done()

    assert stage.files()["src/one/one.py"] == "second thoughts"
    assert (stage.flow.merges[0].taken, stage.flow.merges[0].reason) == (False, "one is at work again")


def test_a_doer_that_is_withdrawn_while_its_work_is_merged_leaves_the_others_a_tree_without_it() -> None:
    text = plan({"name": "one"}, {"name": "two"}, stages=[["one", "two"]])
    human = [{"match": "one has failed", "verdict": "abandon"}, {"match": ".", "verdict": "approve", "repeat": True}]
    agents = {"one": [ONE[0], ONE[-1]], "two": doer("two", on(r"^\[TASK\]", sleep(10))), "prover": SLOW_PROVER}
    stage = WorkflowHarness(text, agents, human)
    stage.until(lambda s: s.busy("prover") and s.flow.merging).withdraw(stage.thread("one"))
    stage.done()

    assert stage.statuses() == {"one": "failed", "two": "session_complete"}
    assert [(merge.agent, merge.taken) for merge in stage.flow.merges] == [("one", False), ("two", True)]
    assert "src/one/one.py" not in stage.files()
