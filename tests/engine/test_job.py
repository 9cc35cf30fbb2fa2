"""The life of a job: its gates, its threads, its silences, and the records that are made of it."""

from __future__ import annotations

import itertools
import json

from parley.ports.turns import Order
from parley.protocol.molecules import Entry, Surface
from tests.engine.job_harness import (
    EXECUTE,
    INTENT,
    JOB,
    PLAN,
    ROOT,
    YES,
    JobHarness,
    always,
    asserts,
    book,
    close,
    on,
    outcome,
    say,
    send,
    sleep,
    tell,
    write,
)

OUTCOME = ".parley/outcome.json"
REPLAN = [
    {"match": ".", "state": "EXECUTE", "visit": 1, "verdict": "backtrack plan", "text": "another way"},
    *YES,
]
GOING_BACK = [*EXECUTE, always(r"^\[ANSWER backtrack plan\]", outcome("REPLAN", "another way"), state="EXECUTE")]


def test_a_request_reaches_done_through_its_three_gates() -> None:
    stage = JobHarness(book(human=YES)).run()
    assert stage.state == "DONE"
    assert stage.actions == ["APPROVED_INTENT", "APPROVED_PLAN", "APPROVED_WORK"]
    assert [step.who for step in stage.steps("respond")] == ["human"] * 3
    assert [entry.actor for entry in stage.record.history] == ["intent-lead", "project-lead", "project-lead"]


def test_without_a_human_it_waits_at_the_first_gate() -> None:
    stage = JobHarness(book()).run()
    assert (stage.state, stage.live.row.needs_human, stage.live.standing.asking) == ("INTENT", 1, 1)
    stage.approve()
    assert stage.state == "PLAN"


def test_the_orchestrator_is_an_agent_on_the_jobs_thread() -> None:
    stage = JobHarness(book()).run()
    assert stage.soup.need(Surface, ROOT).agent == "orchestrator"
    assert stage.soup.parent("state:j1/1") == ROOT
    woken = [step.at for step in stage.steps("wake") if step.who == "orchestrator"]
    assert woken == [f"orchestrator {ROOT}"]


def test_each_visit_of_a_state_has_its_own_thread() -> None:
    stage = JobHarness(book(execute=GOING_BACK, human=REPLAN)).run()
    assert stage.state == "DONE"
    threads = [order.thread for order in stage.orders if order.agent.endswith("lead")]
    assert list(dict.fromkeys(threads)) == [f"state:j1/{visit}" for visit in range(1, 6)]
    visits = [(order.state, order.visit) for order in stage.orders if order.agent == "project-lead"]
    assert list(dict.fromkeys(visits)) == [("PLAN", 1), ("EXECUTE", 1), ("PLAN", 2), ("EXECUTE", 2)]


def test_a_backtrack_is_counted_and_the_history_only_grows() -> None:
    stage = JobHarness(book(execute=GOING_BACK, human=REPLAN))
    histories: list[tuple[Entry, ...]] = [()]
    for visit in range(2, 6):
        stage.until(lambda s, visit=visit: s.record.visit >= visit)  # type: ignore[misc]  # a lambda with a default
        histories.append(stage.record.history)
    assert all(after[: len(before)] == before for before, after in itertools.pairwise(histories))
    stage.run()
    assert (stage.state, stage.record.backtrack_count) == ("DONE", 1)
    assert stage.actions == ["APPROVED_INTENT", "APPROVED_PLAN", "REPLAN", "APPROVED_PLAN", "APPROVED_WORK"]


BACK = "[PLAN] another way\n\nThe human's own words (backtrack plan): another way\n\nThe request: do it"


def test_whoever_comes_back_to_a_state_is_told_why_and_in_the_humans_words() -> None:
    stage = JobHarness(book(execute=GOING_BACK, human=REPLAN)).run()
    back = [text for text in stage.told("project-lead") if text.startswith("[PLAN]")]
    assert back == ["[PLAN] do it", BACK]


# ---- PENDING ---------------------------------------------------------------------------------------


def test_a_lead_that_leaves_no_outcome_is_told_that_the_state_is_pending() -> None:
    goes_on = on(r"^\[PENDING\]", write("INTENT.md", "x"), asserts("INTENT.md"))
    stage = JobHarness(book(intent=[on(r"^\[INTENT\]", say("hm")), goes_on])).run()
    told = stage.told("intent-lead")
    assert len(told) == 2
    assert told[1].startswith("[PENDING] INTENT")
    assert "APPROVED_INTENT, WITHDRAW" in told[1]
    assert (stage.record.pendings, stage.fired("strike"), stage.live.standing.asking) == (1, 1, 1)


def test_pending_names_the_conversations_that_were_left_open() -> None:
    stage = JobHarness(
        book(intent=[on(r"^\[INTENT\]", send("writer", "look"))], writer=[on("look", say("seen"))]), retry_budget=1
    ).run()
    assert f"Still open: writer on {stage.thread('writer')}." in stage.told("intent-lead")[-1]


def test_a_child_that_ended_without_telling_anyone_makes_the_state_pending() -> None:
    opening = on(r"^\[INTENT\]", send("writer", "look", "w"), close("w"))
    stage = JobHarness(book(intent=[opening, on(r"^\[PENDING\]", write("INTENT.md", "x"), asserts("INTENT.md"))])).run()
    assert stage.started("writer") == 0
    assert stage.fired("pending") == 1


def test_nothing_is_pending_while_a_child_works_or_a_question_is_open() -> None:
    opening = on(r"^\[INTENT\]", send("writer", "look"))
    stage = JobHarness(book(intent=[opening, *INTENT], writer=[on("look", sleep(40), say("seen"))]))
    stage.sleeping("writer")
    for _ in range(6):
        stage.crank()
    assert stage.fired("pending") == 0
    assert JobHarness(book()).run().fired("pending") == 0


# ---- silence ---------------------------------------------------------------------------------------


def test_a_dispatched_turn_that_ends_silently_reports_its_final_text_to_its_dispatcher() -> None:
    intent = [on(r"^\[INTENT\]", send("writer", "look")), on("\nseen$", *INTENT[0]["do"])]
    stage = JobHarness(book(intent=intent, writer=[on("look", say("seen"))])).run()
    assert stage.told("intent-lead") == ["[INTENT] do it", "[REPORT] writer on dispatch:n1 (changed: no file)\nseen"]
    assert stage.reports("intent-lead", "writer") == ["seen"]


def test_a_turn_that_spoke_to_its_dispatcher_does_not_report_again() -> None:
    intent = [on(r"^\[INTENT\]", send("writer", "look")), on("\ntold$", *INTENT[0]["do"])]
    stage = JobHarness(book(intent=intent, writer=[on("look", tell("dispatcher", "told"), say("seen"))])).run()
    assert stage.reports("intent-lead", "writer") == ["told"]


def squad_play(*last: dict[str, object]) -> dict[str, object]:
    execute = [on(r"^\[EXECUTE\]", send("squad", "go")), on("ready", *EXECUTE[0]["do"]), EXECUTE[1]]
    squad = [on("go", send("helper", "help", "h"), say("begun")), on("helped", *last, say("ready"))]
    return book(execute=execute, squad=squad, helper=[on("help", sleep(3), say("helped"))], human=YES)


def test_a_turn_does_not_report_while_its_own_children_work() -> None:
    stage = JobHarness(squad_play()).run()
    assert stage.state == "DONE"
    assert stage.reports("project-lead", "squad") == ["ready"]


def test_a_turn_that_only_closes_conversations_reports_too() -> None:
    stage = JobHarness(squad_play(close("h"))).run()
    assert stage.state == "DONE"
    assert stage.reports("project-lead", "squad") == ["ready"]


# ---- records ---------------------------------------------------------------------------------------


def test_the_state_record_has_all_its_fields_and_equals_the_bus() -> None:
    stage = JobHarness(book(execute=GOING_BACK, human=REPLAN)).run()
    document = stage.document()
    fields = {
        "phase", "state", "actor", "history", "backtrack_count", "task_id", "parent_id", "team_id", "depth",
    }  # fmt: skip
    assert fields <= set(document)
    assert (document["phase"], document["state"], document["backtrack_count"]) == ("execution", "DONE", 1)
    assert [entry["action"] for entry in document["history"]] == stage.actions
    assert all({"state", "action", "actor", "timestamp"} <= set(entry) for entry in document["history"])
    assert document["head"]["hash"] == stage.live.counters.head


def test_each_leads_turns_are_streamed_to_its_phases_file_and_every_other_thread_has_its_own() -> None:
    stage = JobHarness(squad_play()).run()
    streams = {name for job, name in stage.disk.streams if job == JOB}
    squad, helper = (stage.order(agent).thread.partition(":")[2] for agent in ("squad", "helper"))
    leads = {".intent-stream.jsonl", ".plan-stream.jsonl", ".exec-stream.jsonl"}
    assert leads <= streams
    assert {f"streams/dispatch-{squad}.jsonl", f"streams/dispatch-{helper}.jsonl"} <= streams
    assert all(name.startswith(("streams/dispatch-", "streams/escalation-")) for name in streams - leads)
    events = [(line["event"], line.get("tool")) for line in stage.stream(".intent-stream.jsonl")]
    assert events == [
        ("start", None), ("progress", None), ("call", "AskQuestion"), ("end", None),
        ("start", None), ("progress", None), ("end", None),
    ]  # fmt: skip


def test_outcome_records_are_kept_and_gone_from_the_workspace() -> None:
    stage = JobHarness(book(human=YES)).run()
    names = stage.kept("outcomes")
    assert [name.rpartition("-")[2] for name in names] == ["INTENT.json", "PLAN.json", "EXECUTE.json"]
    first = stage.document(names[0])
    assert (first["outcome"], first["reason"], first["actor"]) == ("APPROVED_INTENT", "so it is", "intent-lead")
    assert OUTCOME not in stage.files()


def test_an_outcome_that_a_worker_leaves_in_the_shared_workspace_is_nobodys() -> None:
    forged = write(OUTCOME, json.dumps({"outcome": "APPROVED_INTENT", "reason": "mine"}))
    opening = on(r"^\[INTENT\]", write("INTENT.md", "x"), send("writer", "go"), asserts("INTENT.md"))
    stage = JobHarness(book(intent=[opening], writer=[on("go", forged, say("written"))])).run()
    assert OUTCOME not in stage.files()  # the lead was woken by the worker's report: it starts with none
    assert stage.approve().state == "INTENT"
    assert stage.fired("observe") == 0


def test_an_outcome_written_the_moment_a_turn_starts_is_not_swept_away() -> None:
    """The last turn's record is kept and removed before the next turn is started in the same workspace."""
    stage = JobHarness(book(plan=[on(r"^\[PLAN\]", sleep(1)), *PLAN], human=YES), retry_budget=9).start()

    def eager(order: Order) -> None:
        if order.agent == "project-lead" and order.message.startswith("[PLAN]"):
            stage.files()[OUTCOME] = '{"outcome": "REPLAN", "reason": "x"}'

    stage.turns.eager = eager
    stage.until(lambda s: s.started("project-lead") > 1)
    assert stage.told("project-lead")[1].startswith("[VIOLATION] REPLAN is not an outcome of PLAN")
