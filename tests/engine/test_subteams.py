"""A role with a team gets a record of its own: it acknowledges the intent it is given, plans, works, and reports."""

from __future__ import annotations

from typing import Any

import pytest

from parley.protocol.molecules import AskHuman
from parley.roles.phases import phase_of
from tests.engine.job_harness import (
    EXECUTE,
    YES,
    JobHarness,
    always,
    ask,
    asserts,
    book,
    close,
    on,
    outcome,
    say,
    send,
    sleep,
    tell,
    words_of,
    write,
)

GO = on(r"^\[EXECUTE\]", send("squad", "go", "s"))
READY = on("ready", close("s"), *EXECUTE[0]["do"])
TEAM = on("never", send("helper", "help"))  # what makes it a role with a team
OWN_GATES = [
    TEAM,
    on("^go$", outcome("APPROVED_INTENT", "understood")),
    on(r"^\[PLAN\] understood", write("PLAN.md", "the squad's plan"), asserts("PLAN.md", "squad plan?")),
    on(r"^\[ANSWER approve\]", outcome("APPROVED_PLAN", "planned"), state="PLAN"),
    on(r"^\[EXECUTE\] planned", write("s.txt", "s"), write("WORK_SUMMARY.md", "s"), asserts("WORK_SUMMARY.md")),
    on(r"^\[ANSWER approve\]", outcome("APPROVED_WORK", "all done"), say("ready"), state="EXECUTE"),
]


def play(squad: list[Any], *execute: Any, human: Any = YES, **agents: Any) -> dict[str, Any]:
    return book(
        execute=[GO, *execute, READY, *EXECUTE], squad=squad, helper=agents.pop("helper", []), human=human, **agents
    )


def test_a_role_with_a_team_gets_a_record_below_its_dispatchers() -> None:
    opening = on(r"^\[EXECUTE\]", send("squad", "go", "s"), sleep(5))
    stage = JobHarness(
        book(execute=[opening, READY, *EXECUTE], squad=[TEAM, on("^go$", say("ready"))], helper=[], human=YES)
    )
    stage.sleeping("project-lead").pause().run()  # it is there, and has not set to work
    (record,) = stage.subteams
    thread = stage.thread("squad")
    assert record.id == record.task_id == record.thread == thread
    assert (record.depth, record.parent_id, record.team_id, record.actor) == (1, "j1", "squad", "squad")
    assert (record.state, phase_of(record), record.history) == ("INTENT", "intent", ())
    assert dict(record.approved) == {"INTENT.md": dict(stage.record.approved)["INTENT.md"]}
    stage.resume().running("squad")
    (record,) = stage.subteams
    assert (record.state, record.history[0].action) == ("PLAN", "APPROVED_INTENT")
    assert record.history[0].reason == "acknowledges the intent it was given"
    assert stage.order("squad").state == "PLAN"
    assert stage.run().state == "DONE"


def test_what_it_must_hear_first_does_not_keep_it_from_starting() -> None:
    opening = on(r"^\[EXECUTE\]", send("squad", "go", "s"), sleep(5))
    squad = [TEAM, always("INTERVENE", say("heard")), on("^go$", say("ready"))]
    stage = JobHarness(book(execute=[opening, READY, *EXECUTE], squad=squad, helper=[], human=YES))
    stage.sleeping("project-lead").pause().run()
    for text in ("this", "and that"):
        stage.intervene(text, stage.thread("squad"), authoritative=True)
    stage.run().resume().run()
    assert [text.partition("]")[2] for text in stage.told("squad")] == [" this", " and that", ""]
    assert stage.state == "DONE"


def test_a_role_without_a_team_has_no_record() -> None:
    stage = JobHarness(play([on("^go$", say("ready"))])).run()
    assert (stage.state, stage.subteams) == ("DONE", [])


def test_it_goes_through_its_own_gates_to_done_and_reports() -> None:
    stage = JobHarness(play(OWN_GATES)).run()
    (record,) = stage.subteams
    assert stage.state == "DONE"
    assert [str(entry.action) for entry in record.history] == ["APPROVED_INTENT", "APPROVED_PLAN", "APPROVED_WORK"]
    assert (record.state, record.depth) == ("DONE", 1)
    assert [order.state for order in stage.orders if order.agent == "squad"] == [
        "PLAN", "PLAN", "PLAN", "EXECUTE", "EXECUTE",
    ]  # fmt: skip
    assert words_of(stage.told("project-lead")[3]) == "ready"
    assert stage.files()["s.txt"] == "s"
    assert stage.files()["PLAN.md"] == "the plan"  # its artifacts are its own


def test_its_record_lies_beside_the_jobs() -> None:
    stage = JobHarness(play(OWN_GATES)).run()
    (record,) = stage.subteams
    document = stage.document(f"records/{record.id.partition(':')[2]}.json")
    assert (document["state"], document["depth"], document["parent_id"], document["team_id"]) == (
        "DONE",
        1,
        "j1",
        "squad",
    )
    assert [entry["action"] for entry in document["history"]][-1] == "APPROVED_WORK"
    names = [name.rpartition("-")[2] for name in stage.kept("outcomes")]
    assert names.count(f"{record.id.partition(':')[2]}.json") == 3


def test_its_gates_are_gates() -> None:
    """An approval of the job's plan is none of the squad's plan, and the squad's own is bound to its content."""
    squad = [
        TEAM,
        on("^go$", outcome("APPROVED_INTENT")),
        on(r"^\[PLAN\]", write("PLAN.md", "mine"), outcome("APPROVED_PLAN")),
        on("no live approval", asserts("PLAN.md")),
        on(r"^\[ANSWER approve\]", write("PLAN.md", "another"), outcome("APPROVED_PLAN")),
        on("was changed after it was approved", say("ready")),
    ]
    stage = JobHarness(play(squad)).until(lambda s: s.fired("strike") == 2).until(lambda s: s.started("squad") == 5)
    (record,) = stage.subteams
    assert [str(entry.action) for entry in record.history] == ["APPROVED_INTENT"]
    assert stage.run().state == "DONE"


def test_it_may_plan_in_its_first_turn() -> None:
    squad = [TEAM, on("^go$", *OWN_GATES[2]["do"]), *OWN_GATES[3:]]
    stage = JobHarness(play(squad)).run()
    assert (stage.state, stage.subteams[0].state, stage.refusals) == ("DONE", "DONE", [])


def test_it_may_not_write_another_intent() -> None:
    squad = [
        TEAM,
        on("^go$", write("INTENT.md", "something else"), write("PLAN.md", "p"), asserts("PLAN.md")),
        on(r"^\[ANSWER approve\]", outcome("APPROVED_PLAN")),
        on("VIOLATION", say("ready")),
    ]
    stage = JobHarness(play(squad)).until(lambda s: s.started("squad") == 3)
    told = stage.told("squad")[2]
    assert told.startswith("[VIOLATION] INTENT.md is not what was approved")
    assert [str(entry.action) for entry in stage.subteams[0].history] == ["APPROVED_INTENT"]
    assert stage.run().files()["INTENT.md"] == "the intent"


def test_what_it_can_not_decide_becomes_a_message_to_its_dispatcher() -> None:
    squad = [TEAM, on("^go$", outcome("APPROVED_INTENT")), on(r"^\[PLAN\]", outcome("REALIGN", "it makes no sense"))]
    stage = JobHarness(play(squad, on(r"^\[FAILED\] squad", ask("what now?"))))
    stage.until(lambda s: s.started("project-lead") == 4)
    told = stage.told("project-lead")[3]
    thread = stage.thread("squad")
    assert told == f"[FAILED] squad on {thread} says REALIGN: it makes no sense"
    assert stage.subteams[0].state == "INTENT"
    assert stage.state == "EXECUTE"
    assert stage.record.backtrack_count == 0
    assert stage.subteams[0].backtrack_count == 1


# ---- how it ends ------------------------------------------------------------------------------------

ACCEPTED = "its dispatcher closed it when it had finished, and so accepted its work"
UNFINISHED = "closed by its dispatcher before it had finished"


def ends(stage: JobHarness) -> list[tuple[str, str, str]]:
    """How each subteam has ended: its state, on whose action, why."""
    return [(str(r.state), r.history[-1].actor, r.history[-1].reason) for r in stage.subteams]


def test_one_that_has_finished_is_done_when_its_dispatcher_closes_it() -> None:
    stage = JobHarness(play([TEAM, on("^go$", say("ready"))])).run()
    (record,) = stage.subteams
    assert ends(stage) == [("DONE", "project-lead", ACCEPTED)]
    assert [str(entry.action) for entry in record.history] == ["APPROVED_INTENT", "APPROVED_PLAN", "APPROVED_WORK"]
    assert dict(record.approved) == {"INTENT.md": dict(stage.record.approved)["INTENT.md"]}  # a close approves no text
    document = stage.document(f"records/{record.id.partition(':')[2]}.json")
    assert (document["state"], document["history"][-1]["reason"]) == ("DONE", ACCEPTED)
    assert stage.state == "DONE"


@pytest.mark.parametrize(
    "squad, helper",
    [
        ([on("^go$", tell("dispatcher", "ready"), sleep(9))], []),
        ([on("^go$", tell("dispatcher", "ready"), ask("and this?"))], []),
        ([on("^go$", tell("dispatcher", "ready"), send("helper", "help"))], [on("help", sleep(9))]),
    ],
    ids=["in its turn", "with a question", "with a helper at work"],
)
def test_one_that_is_closed_unfinished_has_failed(squad: list[Any], helper: list[Any]) -> None:
    others = [{**YES[0], "match": "right"}]  # its own question waits
    if "sleep" in squad[0]["do"][-1]:  # its turn is under way: its dispatcher closes it without a report
        execute = [GO, on("now", close("s"), *EXECUTE[0]["do"]), *EXECUTE]
        stage = JobHarness(book(execute=execute, squad=[TEAM, *squad], helper=helper, human=others)).sleeping("squad")
        stage.intervene("now", "state:j1/3").run()
    else:
        stage = JobHarness(play([TEAM, *squad], helper=helper, human=others)).run()
    assert ends(stage) == [("FAILURE", "orchestrator", UNFINISHED)]
    assert stage.state == "DONE"


def test_one_that_lost_its_last_turn_for_good_has_failed_when_it_is_closed() -> None:
    execute = [GO, on(r"^\[FAILED\]", close("s"), *EXECUTE[0]["do"]), *EXECUTE]
    stage = JobHarness(book(execute=execute, squad=[TEAM], helper=[], human=YES)).lose("squad", 3).run()
    assert ends(stage) == [("FAILURE", "orchestrator", "closed by its dispatcher after it had lost its last turn")]
    assert stage.state == "DONE"


def test_one_that_was_tried_again_and_finished_is_done() -> None:
    execute = [GO, on(r"^\[FAILED\]", tell("s", "again")), READY, *EXECUTE]
    squad = [TEAM, on("^again$", say("ready"))]
    stage = JobHarness(book(execute=execute, squad=squad, helper=[], human=YES)).lose("squad", 3).run()
    assert ends(stage) == [("DONE", "project-lead", ACCEPTED)]


def test_one_that_is_left_open_when_its_phase_ends_has_failed() -> None:
    execute = [GO, on("ready", *EXECUTE[0]["do"]), *EXECUTE]
    stage = JobHarness(book(execute=execute, squad=[TEAM, on("^go$", say("ready"))], helper=[], human=YES)).run()
    assert ends(stage) == [("FAILURE", "orchestrator", "left open when EXECUTE ended")]
    assert stage.state == "DONE"


def test_one_that_a_backtrack_leaves_behind_has_failed() -> None:
    execute = [GO, on("ready", ask("go back?")), on("backtrack plan", outcome("REPLAN"), state="EXECUTE"), *EXECUTE]
    human = [{"match": "go back", "verdict": "backtrack plan", "text": "yes"}, *YES]
    stage = JobHarness(book(execute=execute, squad=[TEAM, on("^go$", say("ready"))], helper=[], human=human))
    stage.until(lambda s: s.record.backtrack_count == 1)
    assert ends(stage) == [("FAILURE", "orchestrator", "left behind by a backtrack from EXECUTE")]


def test_one_whose_job_fails_has_failed() -> None:
    execute = [GO, always("ready|PENDING|VIOLATION", outcome("NONSENSE"))]
    stage = JobHarness(
        book(execute=execute, squad=[TEAM, on("^go$", say("ready"))], helper=[], proxy=[always(".", APPROVES)]), "never"
    ).run()
    assert (stage.state, ends(stage)) == ("FAILURE", [("FAILURE", "orchestrator", "left open when EXECUTE ended")])


APPROVES = {"answer": {"verdict": "approve", "text": "ok"}}


def test_the_human_alone_gives_one_up_by_itself_or_with_the_job() -> None:
    squad = [TEAM, on("^go$", sleep(9))]
    stage = JobHarness(play(squad)).sleeping("squad").withdraw("", "too dear").run()
    assert ends(stage) == [("WITHDRAWN", "human", "given up with the job: too dear")]
    stage = JobHarness(play(squad)).sleeping("squad")
    stage.withdraw(stage.thread("squad"), "too dear").until(lambda s: not s.busy("squad"))
    assert ends(stage) == [("WITHDRAWN", "human", "given up by the human: too dear")]


def test_it_can_not_give_itself_up() -> None:
    """WITHDRAWN is the human's abandonment, at every depth: it is told so, and reports."""
    squad = [TEAM, on("^go$", outcome("WITHDRAW", "too hard")), on("VIOLATION", say("ready"))]
    stage = JobHarness(play(squad)).run()
    assert stage.told("squad")[1] == (
        "[VIOLATION] WITHDRAW needs the verdict 'withdraw'; ask first, or tell your dispatcher what keeps you from your"
        " task. Only the human gives it"
    )
    assert (stage.state, ends(stage)) == ("DONE", [("DONE", "project-lead", ACCEPTED)])


def test_what_lies_below_one_that_is_accepted_is_accepted_with_it() -> None:
    squad = [on("^go$", send("inner", "dig")), on("dug", say("ready"))]
    inner = [on("never", send("helper", "help")), on("dig", say("dug"))]
    stage = JobHarness(play(squad, inner=inner)).run()
    assert ends(stage) == [("DONE", "project-lead", ACCEPTED), ("DONE", "squad", ACCEPTED)]


def test_records_nest_and_a_close_brings_all_their_work_up() -> None:
    squad = [on("^go$", send("inner", "dig", "i")), on("dug", write("outer.txt", "o"), say("ready"))]
    inner = [on("dig", send("helper", "help")), on("helped", write("inner.txt", "i"), say("dug"))]
    stage = JobHarness(play(squad, inner=inner, helper=[on("help", write("helper.txt", "h"), say("helped"))])).run()
    outer, below = stage.subteams
    assert [(record.depth, record.team_id) for record in (outer, below)] == [(1, "squad"), (2, "inner")]
    assert below.parent_id == outer.id
    assert stage.soup.parent(below.id) is None
    assert stage.state == "DONE"
    assert {"outer.txt", "inner.txt", "helper.txt"} <= set(stage.files())
    assert len(stage.kept("records")) == 2


def test_work_that_was_left_open_is_brought_up_before_it_is_asserted() -> None:
    squad = [TEAM, on("^go$", write("s.txt", "s"), say("ready"))]
    execute = [GO, on("ready", *EXECUTE[0]["do"]), *EXECUTE]
    stage = JobHarness(book(execute=execute, squad=squad, helper=[], human=YES)).run()
    assert (stage.state, stage.fired("strike")) == ("DONE", 0)
    assert stage.files()["s.txt"] == "s"


def test_work_that_went_on_after_the_assert_is_brought_up_before_the_outcome_counts() -> None:
    """What the human approved did not hold it: it has to be asserted with it."""
    execute = [
        GO,
        on("ready", tell("s", "more"), *EXECUTE[0]["do"]),
        on("was changed after it was approved", asserts("WORK_SUMMARY.md", "with the squad's?")),
        *EXECUTE,
    ]
    squad = [TEAM, on("^go$", say("ready")), on("^more$", write("s.txt", "s"), say("and this"))]
    stage = JobHarness(book(execute=execute, squad=squad, helper=[], human=YES)).run()
    assert (stage.state, stage.fired("strike"), stage.fired("human-reply")) == ("DONE", 1, 4)
    assert stage.files()["s.txt"] == "s"


def test_an_assert_in_the_turn_of_a_close_is_about_the_merged_work() -> None:
    stage = JobHarness(play([TEAM, on("^go$", write("s.txt", "s"), say("ready"))])).run()
    assert (stage.state, stage.fired("strike")) == ("DONE", 0)
    assert stage.files()["s.txt"] == "s"


def test_its_workspace_is_its_own_until_it_is_closed() -> None:
    squad = [TEAM, on("^go$", write("s.txt", "s"), sleep(9), say("ready"))]
    stage = JobHarness(play(squad)).sleeping("squad")
    thread = stage.thread("squad")
    assert "s.txt" in stage.files(thread)
    assert "s.txt" not in stage.files()
    assert stage.files(thread)["INTENT.md"] == "the intent"
    assert stage.files(thread)["PLAN.md"] == "the plan"


def test_a_subteam_that_keeps_violating_its_contract_fails_and_its_dispatcher_is_told() -> None:
    """It must not go on for ever: nobody else would be woken."""
    squad = [TEAM, always(".", outcome("NONSENSE"))]
    stage = JobHarness(play(squad, on(r"^\[FAILED\] squad", *EXECUTE[0]["do"])), retry_budget=2).run()
    (record,) = stage.subteams
    assert (stage.state, record.state, stage.started("squad")) == ("DONE", "FAILURE", 3)
    why = "3 outcome records of its lead did not count, the last because 'NONSENSE' is not an outcome of PLAN"
    assert f"says FAILURE: {why}" in stage.told("project-lead")[3]
    assert stage.record.violations == 0


def test_a_subteam_that_has_ended_can_be_spoken_to_and_reports() -> None:
    squad = [*OWN_GATES, on("one more thing", outcome("APPROVED_WORK"), say("even that"))]
    squad[-2] = on(r"^\[ANSWER approve\]", outcome("APPROVED_WORK", "all done"), say("almost"), state="EXECUTE")
    execute = [on("almost", tell("s", "one more thing")), on("even that", close("s"), *EXECUTE[0]["do"])]
    stage = JobHarness(play(squad, *execute)).run()
    assert stage.state == "DONE"
    assert [words_of(text) for text in stage.told("project-lead")[3:5]] == ["almost", "even that"]
    assert stage.subteams[0].state == "DONE"


def test_a_crashed_subteam_has_three_tries_and_the_jobs_budget_is_untouched() -> None:
    stage = JobHarness(play([TEAM], on(r"^\[FAILED\]", *EXECUTE[0]["do"]))).lose("squad", 3).run()
    assert stage.started("squad") == 3
    assert (stage.state, stage.fired("strike")) == ("DONE", 0)


def test_its_questions_follow_the_policy_of_its_own_state() -> None:
    squad = [TEAM, on("^go$", ask("what is meant?")), on(r"^\[ANSWER", say("ready"))]
    answers = [always("QUESTION", {"answer": {"verdict": "approve", "text": "ok"}})]
    stage = JobHarness(
        book(execute=[GO, READY, *EXECUTE], squad=squad, helper=[], proxy=answers), ["never", "always", "never"]
    )
    stage.run().answer("approve").until(lambda s: s.state == "EXECUTE").run()
    assert [asked.agent for asked in stage.soup.of(AskHuman)] == ["squad"]  # it plans; its dispatcher executes
    assert stage.approve().state == "DONE"
