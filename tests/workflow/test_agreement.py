"""The files of a workflow have to agree: whatever contradicts the plan, or another file, is told with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from parley.workflow.files.agreement import contradictions
from parley.workflow.files.archive import INDEX, render_index
from parley.workflow.files.plan import read_plan
from parley.workflow.files.rounds import render_round
from parley.workflow.files.status_file import COMPLETE, render_status, shared_of
from parley.workflow.model.terms import PLAN, SHARED_STATUS, Plan, Round, Status, WorkerStanding, round_of, session_of
from tests.workflow.plan_strategies import PLAN_TEXT

DB, API = "database_agent", "api_agent"
Files = dict[str, str]


def the_plan() -> Plan:
    plan, _ = read_plan(PLAN_TEXT)
    assert plan is not None
    return plan


def done() -> Files:
    """A workflow that is complete, with files that agree."""
    plan = the_plan()
    rounds = {worker.name: Round(1, worker.verifier, "verified", time=5) for worker in plan.doers}
    standings = [WorkerStanding(name, Status.COMPLETE, version=1, last_update=9) for name in rounds]
    shared = shared_of(plan, standings, started=1, status=COMPLETE, gate="clear")
    files = {PLAN: PLAN_TEXT, SHARED_STATUS: render_status(shared), INDEX: render_index(())}
    return files | {round_of(name, 1): render_round(plan.workers[name], one) for name, one in rounds.items()}


def status(change: Callable[[dict[str, Any]], object]) -> Callable[[Files], None]:
    """Change what shared_status.json says."""

    def act(files: Files) -> None:
        document = json.loads(files[SHARED_STATUS])
        change(document)
        files[SHARED_STATUS] = json.dumps(document, indent=2) + "\n"

    return act


def agent(name: str, **fields: Any) -> Callable[[Files], None]:
    return status(lambda document: document["agents"][name].update(fields))


def at_work(name: str, version: int) -> Callable[[Files], None]:
    """An agent of a workflow that goes on is at work."""

    def change(document: dict[str, Any]) -> None:
        document["status"] = "in_progress"
        document["agents"][name].update(status="working", output_version=version)

    return status(change)


def rejected(files: Files) -> None:
    one = Round(2, the_plan().workers[DB].verifier, "rejected", ("no",), time=6)
    files[round_of(DB, 2)] = render_round(the_plan().workers[DB], one)


def by_another(files: Files) -> None:
    files[round_of(DB, 1)] = render_round(the_plan().workers[DB], Round(1, "somebody_else", "verified", time=5))


def test_files_that_agree_have_no_findings() -> None:
    assert list(contradictions(done())) == []


def only_begun(files: Files) -> None:
    files[SHARED_STATUS] = render_status(shared_of(the_plan(), started=1, status="in_progress"))


def test_a_workflow_that_has_just_begun_has_no_findings() -> None:
    files = {PLAN: PLAN_TEXT}
    only_begun(files)
    assert list(contradictions(files)) == []


WRONG: list[tuple[str, Callable[[Files], object], str]] = [
    (SHARED_STATUS, at_work(DB, 1), f"gate is clear, but {DB} is not verified"),
    (SHARED_STATUS, at_work(DB, 0), f"{API}.status is session_complete, but {DB}, on"),
    (SHARED_STATUS, agent(API, dependencies=[]), f"agents.{API}.dependencies are none, but the plan says {DB}"),
    (SHARED_STATUS, agent(DB, dependencies=[API]), f"agents.{DB}.dependencies are {API}, but the plan says none"),
    (SHARED_STATUS, status(lambda it: it.update(status="in_progress")), "but the workflow's status is in_progress"),
    (SHARED_STATUS, status(lambda it: it.update(task_id="other")), "task_id is other, but the plan's task is"),
    (
        SHARED_STATUS,
        status(lambda it: it["agents"].update(stranger=it["agents"][DB])),
        "agents.stranger is no doer of the plan",
    ),
    (
        SHARED_STATUS,
        status(lambda it: it["verification"].update(stranger={"status": "pending", "assigned_agents": []})),
        "verification.stranger is no verifier of the plan",
    ),
    (
        SHARED_STATUS,
        status(lambda it: next(iter(it["verification"].values())).update(assigned_agents=[])),
        "assigned_agents are none, but the plan says",
    ),
    (SHARED_STATUS, status(lambda it: it.update(verification={})), "is missing, but the plan has this verifier"),
    (SHARED_STATUS, rejected, f"agents.{DB}.status is session_complete, but its last round says rejected"),
    (SHARED_STATUS, lambda files: files.pop(round_of(DB, 1)), "but no round of verification says so"),
    (round_of(DB, 1), by_another, "round 1 was given by somebody_else, but the plan's verifier is"),
    (
        round_of(DB, 1),
        lambda files: files.update({round_of(DB, 1): files[round_of(DB, 1)].replace("create_user", "other")}),
        "task_id is other_table_1727539200, but the plan says create_user_table_1727539200",
    ),
]


@pytest.mark.parametrize("file, change, told", WRONG, ids=[told for *_, told in WRONG])
def test_what_contradicts_the_plan_is_told_with_its_file_and_line(
    file: str, change: Callable[[Files], object], told: str
) -> None:
    files = done()
    change(files)
    found = [one for one in contradictions(files) if told in one.text]

    assert found, [str(one) for one in contradictions(files)]
    assert found[0].file == file
    assert found[0].line > 0
    assert found[0].remedy


def test_a_round_that_is_left_out_and_an_archive_that_no_index_names_are_told() -> None:
    files = done()
    files[round_of(DB, 3)] = files[round_of(DB, 1)].replace('"round": 1', '"round": 3')
    archive = f"{session_of(DB).rpartition('/')[0]}/session_20250928_143022_user_management.json"
    files[archive] = "{}"

    told = [(one.file, one.rule) for one in contradictions(files)]
    assert told == [(archive, "missing-entry"), (round_of(DB, 2), "disagrees")]
