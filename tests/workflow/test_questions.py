"""What people ask about workflows, tried with whole jobs: who is helped when, and what is left at the end."""

from __future__ import annotations

import json

from parley.workflow.files.archive import INDEX, LOG, archive_of, is_archive, read_index, read_log
from parley.workflow.files.contract import HEADING
from parley.workflow.files.rounds import read_round
from parley.workflow.files.session import read_session
from parley.workflow.files.task_record import read_record
from parley.workflow.model.terms import TASK_ORCHESTRATION, Status, instructions_of, round_of, session_of, task_base_of
from parley.workflow.paths.disjointness import disjoint
from tests.engine.job_harness import JOB, ROOT, Action, always, ask, on, say, sleep, write
from tests.workflow.workflow_harness import PLAN_FILE, WorkflowHarness, doer, note, output, plan, resolve, verdict

SCOPE = {"context": "at work", "category": "scope", "status": "escalated", "escalation_reason": "not mine"}


def test_whoever_was_blocked_first_is_helped_first() -> None:
    """The second is blocked while the first is being helped, and waits for its turn."""
    blocked = {
        name: doer(name, on(r"^\[TASK\]", sleep(wait), note(description=f"what of {name}?", **SCOPE), say("stuck")))
        for name, wait in (("one", 3.0), ("two", 1.0), ("three", 2.0))
    }
    answers = [
        on(
            rf"- note_001 [^\n]*what of {name}\?",
            resolve(agent=name, note_id="note_001", answer="as you like", source="planning"),
            say("answered"),
        )
        for name in blocked
    ]
    text = plan(*({"name": name} for name in blocked), stages=[list(blocked)])
    job = WorkflowHarness(text, {**blocked, "workflow-architect": answers}, fan_out=5).done()
    helped = [name for told in job.told("workflow-architect") for name in blocked if f"what of {name}?" in told]
    assert helped == ["two", "three", "one"]


def designed(text: str) -> str:
    """A plan of two, the second of which reads what the first makes, without gaps."""
    document = json.loads(text.split("---\n")[1])
    document["escalation"] = "the architecture group answers; requirements go to the user"
    document["agents"]["two"]["inputs"] = [output("one")]
    handed = {"from": "one", "to": "two", "by": "judge", "criteria": "it is there", "on_failure": "back to one"}
    document["checkpoints"] = [handed]
    return f"---\n{json.dumps(document)}\n---\n"


def instructed(name: str, reads: str) -> Action:
    """Instructions without gaps."""
    parts = {
        "Input Requirements": reads,
        "Output Requirements": f"- Write `{output(name)}` as text.",
        "Success Criteria": "- Its command ends with 0.",
        "Completion Drive": "- Note every assumption.",
    }
    text = "\n".join(f"## {title}\n{said}\n" for title, said in parts.items())
    return write(instructions_of(name), f"# {name}\n\n{text}")


FIRST, SECOND = {"name": "one"}, {"name": "two", "depends_on": ["one"]}
BEFORE = designed(plan(FIRST, SECOND))
ASKS = on(r"^\[TASK\]", note(description="one's output lacks a column", **SCOPE), say("stuck"))
REPLANS = on(
    r"one's output lacks a column",
    write(PLAN_FILE, designed(plan({**FIRST, "objective": "make one anew"}, SECOND))),
    instructed("one", "- Nothing."),
    instructed("two", f"- Read `{output('one')}`"),
    write(instructions_of("judge"), "# judge\n\nRead what each agent made, and give your verdict.\n"),
    resolve(agent="two", note_id="note_001", answer="it will have it", source="planning"),
    say("planned"),
)


def test_whoever_read_an_older_output_is_told_of_the_newer() -> None:
    """A change of the plan sends the first back to work while the second is at its own."""
    goes_on = on(r"^\[ANSWERS\]", sleep(30.0), say("made"))
    team = {"one": doer("one"), "two": doer("two", ASKS, goes_on), "workflow-architect": [REPLANS]}
    job = WorkflowHarness(BEFORE, team)
    job.until(lambda _: job.bodies("project-lead", sender="workflow-executor"))
    assert job.flow.members["one"].standing.version == 2
    assert dict(job.flow.members["two"].standing.read)["one"] == 2
    assert any(text.startswith("[VERSION] two: there is a newer output of one") for text in job.told("two"))


def test_what_was_approved_on_an_older_output_is_not_merged_before_its_maker_has_read_the_newer() -> None:
    """The first is verified anew while the second is with its verifier."""
    slow = on(r"^\[VERIFY\] two, round 1", sleep(40.0), verdict("verified"), say("good"))
    judge = [slow, always(r"^\[VERIFY\]", verdict("verified"), say("good"))]
    team = {"one": doer("one"), "two": doer("two", ASKS), "judge": judge, "workflow-architect": [REPLANS]}
    job = WorkflowHarness(BEFORE, team)
    job.until(lambda _: job.bodies("project-lead", sender="workflow-executor"))
    assert dict(job.flow.members["two"].standing.read)["one"] == 2
    assert [one.verdict for one in job.flow.members["two"].standing.rounds] == ["verified", "verified"]
    assert any(text.startswith("[VERSION] two: there is a newer output of one") for text in job.told("two"))
    assert [merge.agent for merge in job.flow.merges if merge.taken] == ["one", "one", "two"]


def test_a_worker_that_keeps_crashing_has_failed_and_the_human_hears_of_it_when_the_others_have_ended() -> None:
    slow = doer("two", on(r"^\[TASK\]", sleep(50.0), write(output("two"), "two"), say("made")))
    job = WorkflowHarness(
        plan({"name": "one"}, {"name": "two"}, stages=[["one", "two"]]), {"one": doer("one"), "two": slow}, human=None
    )
    job.lose("one", 3)
    job.run().approve("INTENT.md").answer("approve", about="PLAN.md").running("two")
    job.until(lambda _: job.statuses()["one"] == Status.FAILED)
    assert job.busy("two")
    assert not [text for text in job.bodies("proxy") if "has failed" in text]
    job.until(lambda stage: [text for text in stage.bodies("proxy") if "one has failed" in text])
    assert not job.busy("two")
    job.run().approve("has failed")
    assert job.statuses() == {"one": Status.COMPLETE, "two": Status.COMPLETE}


def test_a_turn_lasts_as_long_as_the_plan_says_and_as_the_job_says_where_it_says_nothing() -> None:
    text = plan({"name": "one", "time_limit_seconds": 7}, {"name": "two"})
    job = WorkflowHarness(text, {"one": doer("one"), "two": doer("two")}).done()
    limits = {order.agent: order.time_limit_seconds for order in job.orders}
    assert (limits["one"], limits["two"]) == (7, 60)


def test_a_turn_over_its_limit_is_a_crash_and_is_tried_again() -> None:
    slow = doer("one", on(r"^\[TASK\]", sleep(30.0), say("never")))
    job = WorkflowHarness(plan({"name": "one", "time_limit_seconds": 7}), {"one": slow}, human=None)
    for gate in ("INTENT.md", "PLAN.md"):
        job.run().approve(gate)
    job.run()
    assert job.statuses() == {"one": Status.FAILED}
    assert job.started("one") == 3


def test_what_is_left_in_the_jobs_tree_tells_it_all() -> None:
    """As somebody reads it who was not there."""
    rejects = [on(r"^\[VERIFY\] one, round 1", verdict("rejected", "mend it"), say("no"))]
    judge = [*rejects, always(r"^\[VERIFY\]", verdict("verified"), say("good"))]
    notes = [on(r"^\[TASK\]", note(description="tabs or spaces?", context="at work", category="code_consistency",
        status="resolved", resolution="spaces, as everywhere"), write(output("one"), "1"), say("made"))]  # fmt: skip
    team = {"one": doer("one", *notes), "two": doer("two"), "judge": judge}
    job = WorkflowHarness(plan({"name": "one"}, {"name": "two", "depends_on": ["one"]}), team).done()
    files = job.disk.work[JOB, ROOT]

    page = files[TASK_ORCHESTRATION]
    record, findings = read_record(page)
    assert findings == []
    assert record is not None
    assert disjoint(page) == []
    assert [(one.agent, one.status) for one in record.tracked] == [
        ("one", "session_complete"),
        ("two", "session_complete"),
    ]
    assert [(merge.agent, merge.taken) for merge in record.merges] == [("one", True), ("two", True)]
    assert all(proof.holds for merge in record.merges for proof in merge.proofs)
    assert files[task_base_of("one")].startswith(HEADING)
    first, _ = read_round(files[round_of("one", 1)], "one", 1)
    assert first is not None
    assert (first.verdict, first.findings) == ("rejected", ("mend it",))
    assert "Settled by the agent itself: `spaces, as everywhere`." in files["WORK_SUMMARY.md"]


def test_complete_sessions_are_archived_and_can_be_read_again() -> None:
    team = {"one": doer("one"), "two": doer("two")}
    job = WorkflowHarness(plan({"name": "one"}, {"name": "two", "depends_on": ["one"]}), team).done()
    files = job.disk.work[JOB, ROOT]
    standing = job.flow.members["one"].standing
    assert standing.session is not None
    path = archive_of("one", "service", standing.session.session_start)
    assert read_session(files[path], "one") == (standing.session, [])
    assert session_of("one") not in files
    listed, _ = read_index(files[INDEX])
    assert [entry.agent for entry in listed or ()] == ["one", "two"]
    logged, _ = read_log(files[LOG])
    assert {(entry.agent, entry.action) for entry in logged or ()} == {
        (name, action) for name in ("one", "two") for action in ("archived", "removed")
    }
    assert len([path for path in files if is_archive(path)]) == 2
    assert "Archival is code" in files[instructions_of("archival_agent")]


def test_a_verifier_may_block_and_what_it_asks_is_answered_above() -> None:
    blocks = [on(r"^\[VERIFY\] one, round 1", verdict("blocked", "which port is right?"), say("no"))]
    judge = [*blocks, always(r"^\[VERIFY\]", verdict("verified"), say("good"))]
    architect = [
        on(
            r"which port is right\?",
            resolve(agent="one", note_id="note_001", answer="8000", source="user"),
            ask("port?"),
        ),
        on(r"^\[ANSWER", resolve(agent="one", note_id="note_001", answer="8000", source="user"), say("answered")),
    ]
    job = WorkflowHarness(
        plan({"name": "one"}), {"one": doer("one"), "judge": judge, "workflow-architect": architect}
    ).done()
    standing = job.flow.members["one"].standing
    assert [one.verdict for one in standing.rounds] == ["blocked", "verified"]
    assert any("8000" in text for text in job.told("one") if text.startswith("[ANSWERS]"))


def test_an_architect_that_never_mends_its_plan_is_left_out_and_the_human_decides() -> None:
    asks = [on(r"^\[TASK\]", note(description="what now?", **SCOPE), say("stuck"))]
    breaks = [always(r".", write(PLAN_FILE, "no plan at all"), say("planned"))]
    human = [
        {"match": "has not answered", "text": "go on as it is"},
        {"match": ".", "verdict": "approve", "text": "yes", "repeat": True},
    ]
    team = {"one": doer("one", *asks), "workflow-architect": breaks}
    job = WorkflowHarness(plan({"name": "one"}), team, human=human).done()
    assert job.started("workflow-architect") == 6  # three plans with gaps, then three times without an answer
    assert any("go on as it is" in text for text in job.told("one") if text.startswith("[ANSWERS]"))
