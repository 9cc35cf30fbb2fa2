"""Every file of the structure is held against its format, and the files against each other."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from parley.workflow.files.archive import INDEX, LOG, Logged, archived, render_index, render_log
from parley.workflow.files.plan import read_plan
from parley.workflow.files.rounds import render_round
from parley.workflow.files.session import render_session
from parley.workflow.files.status_file import IN_PROGRESS, render_status, shared_of
from parley.workflow.files.structure import check_structure, is_output
from parley.workflow.model.terms import (
    PLAN,
    SHARED_STATUS,
    Category,
    Note,
    NoteStatus,
    Round,
    Session,
    Status,
    WorkerStanding,
    round_of,
    session_of,
    task_base_of,
)
from tests.workflow.plan_strategies import PLAN_TEXT, mutations

DB = "database_agent"
HOME = f"orchestration/agents/{DB}"
SESSION = Session(
    "create_user_table_1727539200",
    1727539800,
    (
        Note(
            note_id="note_001",
            timestamp=1727539900,
            description="Which hash",
            context="Passwords",
            status=NoteStatus.ESCALATED,
            category=Category.SECURITY,
            escalation_reason="not mine",
        ),
    ),
)
OLD = Session("create_user_table_1727539200", 1727530000)
ARCHIVE = f"{HOME}/completion_drive/session_20240928_132640_user_management.json"


def whole() -> dict[str, str]:
    """A workflow in the middle, with all kinds of files."""
    plan, findings = read_plan(PLAN_TEXT)
    assert findings == []
    assert plan is not None
    standing = WorkerStanding(DB, Status.BLOCKED, 1727540000, session=SESSION)
    shared = shared_of(plan, [standing], started=1727539700, status=IN_PROGRESS)
    old = render_session(OLD)
    return {
        PLAN: PLAN_TEXT,
        SHARED_STATUS: render_status(shared),
        session_of(DB): render_session(SESSION),
        ARCHIVE: old,
        round_of(DB, 1): render_round(
            plan.workers[DB],
            Round(number=1, verifier="database_verifier", verdict="rejected", findings=("no",), proofs=(), time=5),
        ),
        task_base_of(DB): "## Parent contract\n",
        f"{HOME}/agent_instructions.md": "Make the table.\n",
        f"{HOME}/task_output/any.json": "{not json",
        "orchestration/design_verification_report.md": "fine\n",
        INDEX: render_index([archived(ARCHIVE, "user_management", OLD, old, 1727539000)]),
        LOG: render_log([Logged(1727539000, DB, "archived", ARCHIVE)]),
    }


def test_a_workflow_in_the_middle_is_as_it_should_be() -> None:
    assert [str(finding) for finding in check_structure(whole())] == []


@settings(max_examples=60)
@given(st.data())
def test_whatever_happens_to_a_file_is_told_in_lines_that_name_one(data: st.DataObject) -> None:
    files = whole()
    path = data.draw(st.sampled_from(sorted(files)))
    files[path] = data.draw(mutations(files[path]))

    for finding in check_structure(files):
        assert finding.file in files
        assert "\n" not in str(finding)


@pytest.mark.parametrize(
    "path, text, told",
    [
        (f"{HOME}/completion_drive/session_old.json", "{}", "an archived one session_YYYYMMDD_HHMMSS_taskname.json"),
        (f"{HOME}/completion_drive/session_20250928_143022.json", "{}", "task_id is missing"),
        (f"{HOME}/verification/first.json", "{}", "a round of verification is round_1.json"),
        (f"{HOME}/verification/round_2.json", "{}", "verification/round_2.json"),
        (f"{HOME}/notes.json", "{}", "put it into task_output/"),
        (f"{HOME}/agent_instructions.md", " \n", "it is empty"),
        (task_base_of(DB), "# Task\n", "it does not begin with the contract"),
        ("orchestration/status.json", "{}", "the only JSON here is orchestration/shared_status.json"),
        ("orchestration/conversation_summary_My Task.md", "", "name it conversation_summary_taskname.md"),
        ("orchestration/conversation_summary_x.md", "", "there is no title"),
        ("orchestration/task-orchestration.md", "# nothing", "orchestration/task-orchestration.md"),
        ("orchestration/agents/x.md", "", "agents/ holds a folder for each agent"),
        ("orchestration/agents/My Agent/agent_instructions.md", "x", "'My Agent' can't be an agent's name"),
        (INDEX, "[]", "archive_index.json"),
        (LOG, "{}", "cleanup_log.json"),
        (SHARED_STATUS, "{", "this is not JSON"),
        (PLAN, "", "there is no front matter"),
        (session_of(DB), render_session(replace(SESSION, task_id="x_1727539200")), "but the plan says create_user"),
        (session_of(DB), render_session(replace(SESSION, notes=())), "notes_count is 1, but its session has 0"),
        (ARCHIVE, render_session(replace(OLD, session_start=7)), "it is not what was archived"),
    ],
)
def test_what_is_wrong_with_one_file_is_told(path: str, text: str, told: str) -> None:
    found = [str(finding) for finding in check_structure({**whole(), path: text})]

    assert [line for line in found if told in line], found


def test_an_archive_that_is_gone_is_missed() -> None:
    files = {path: text for path, text in whole().items() if path != ARCHIVE}

    assert [finding.rule for finding in check_structure(files)] == ["missing-archive"]


def test_the_gate_is_not_clear_while_a_session_that_the_status_does_not_know_has_a_note() -> None:
    files = whole()
    status = json.loads(files[SHARED_STATUS])
    status["overall_completion_drive_gate"] = "clear"
    del status["agents"][DB]
    for entry in status["agents"].values():
        entry.pop("dependencies", None)
    status["verification"]["database_verifier"]["assigned_agents"] = []
    files[SHARED_STATUS] = json.dumps(status)

    told = [asdict(each)["text"] for each in check_structure(files)]
    assert sum("notes of database_agent are unresolved" in text for text in told) == 1


def test_only_what_lies_in_an_output_folder_is_an_output() -> None:
    assert is_output(f"{HOME}/task_output/a/b.json")
    assert not is_output(f"{HOME}/task_output")
    assert not is_output("orchestration/agents/task_output/x")
    assert not is_output(session_of(DB))
