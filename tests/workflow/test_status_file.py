"""shared_status.json says where every agent stands, in the fields of its format; of a worker's own only its status."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.base.text import DEEPEST
from parley.workflow.files.plan import read_plan
from parley.workflow.files.session import read_session
from parley.workflow.files.status_file import (
    CLEAR,
    COMPLETE,
    IN_PROGRESS,
    SETTLED,
    read_own_status,
    read_status,
    render_status,
    shared_of,
)
from parley.workflow.model.terms import (
    SHARED_STATUS,
    Acceptance,
    NoteStatus,
    Plan,
    Status,
    Task,
    Worker,
    WorkerStanding,
)
from tests.workflow.plan_strategies import PLAN_TEXT, mutations, sessions

# The format's own example.
EXAMPLE: dict[str, Any] = {
    "task_id": "implement_user_management",
    "status": "in_progress",
    "session_start": "2025-09-28T14:30:00Z",
    "agents": {
        "database_agent": {
            "status": "completion_drive_review",
            "completion_drive_notes_count": 3,
            "unresolved_notes": 1,
            "last_update": "2025-09-28T10:45:00Z",
        },
        "api_agent": {
            "status": "working",
            "completion_drive_notes_count": 0,
            "last_update": "2025-09-28T10:30:00Z",
        },
        "frontend_agent": {
            "status": "pending",
            "completion_drive_notes_count": 0,
            "dependencies": ["database_agent", "api_agent"],
            "last_update": None,
        },
    },
    "verification": {"database_verifier": {"status": "pending", "assigned_agents": ["database_agent"]}},
    "overall_completion_drive_gate": "blocked",
}


def plan() -> Plan:
    """The plan of the tests."""
    read, _ = read_plan(PLAN_TEXT)
    assert read is not None
    return read


@st.composite
def standings(draw: st.DrawFn) -> list[WorkerStanding]:
    """Where the doers of the plan may stand."""
    found = []
    for worker in plan().doers:
        session = draw(sessions() | st.none())
        left = session is not None and any(note.status is not NoteStatus.RESOLVED for note in session.notes)
        status = draw(st.sampled_from([status for status in Status if not (left and status in SETTLED)]))
        moment = st.none() | st.integers(0, 4_000_000_000)
        found.append(
            WorkerStanding(worker.name, status, draw(moment), session=session, version=draw(st.integers(0, 3)))
        )
    return found


@settings(max_examples=60)
@given(standings(), st.none() | st.integers(0, 4_000_000_000))
def test_what_is_written_is_read_again(where: list[WorkerStanding], started: int | None) -> None:
    shared = shared_of(plan(), where, started=started, status=IN_PROGRESS)

    assert read_status(render_status(shared)) == (shared, [])
    for standing in where:
        assert read_own_status(render_status(shared), standing.name) == (standing.status, [])


def test_the_formats_own_example_is_read_and_written_the_same() -> None:
    shared, findings = read_status(json.dumps(EXAMPLE))

    assert findings == []
    assert shared is not None
    assert render_status(shared) == json.dumps(EXAMPLE, indent=2) + "\n"


def test_a_workflow_that_has_not_begun_names_all_its_agents_and_their_dependencies() -> None:
    assert json.loads(render_status(shared_of(plan()))) == {
        "task_id": "user_management",
        "status": "pending",
        "session_start": None,
        "agents": {
            "database_agent": {"status": "pending", "completion_drive_notes_count": 0, "last_update": None},
            "api_agent": {
                "status": "pending",
                "completion_drive_notes_count": 0,
                "dependencies": ["database_agent"],
                "last_update": None,
            },
            "frontend_agent": {
                "status": "pending",
                "completion_drive_notes_count": 0,
                "dependencies": ["database_agent"],
                "last_update": None,
            },
        },
        "verification": {
            "database_verifier": {"status": "pending", "assigned_agents": ["database_agent"]},
            "api_verifier": {"status": "pending", "assigned_agents": ["api_agent", "frontend_agent"]},
        },
        "overall_completion_drive_gate": "blocked",
    }


def test_a_verifier_works_on_what_is_ready_and_is_done_when_all_is_approved() -> None:
    architect = Worker("solution_architect", Task.DOER, "solution-architect", verifier="api_verifier",
                       acceptance=Acceptance("decided"))  # fmt: skip
    ready = [
        WorkerStanding("database_agent", Status.VERIFIED, 5, version=2),
        WorkerStanding("api_agent", Status.READY, 6),
    ]
    shared = shared_of(plan(), ready, started=1, status=IN_PROGRESS, more=[architect])

    assert shared.verification["database_verifier"].status is Status.VERIFIED
    assert shared.verification["api_verifier"].status is Status.WORKING
    assert shared.verification["api_verifier"].agents == ("api_agent", "frontend_agent", "solution_architect")
    assert json.loads(render_status(shared))["agents"]["database_agent"]["output_version"] == 2

    done = [replace(WorkerStanding(worker.name), status=Status.COMPLETE) for worker in plan().doers]
    ended = shared_of(plan(), done, started=1, status=COMPLETE, gate=CLEAR)
    assert {check.status for check in ended.verification.values()} == {Status.VERIFIED}
    assert read_status(render_status(ended))[1] == []


def put(path: str, value: Any) -> str:
    """The example with one field changed; `...` takes it away."""
    document = json.loads(json.dumps(EXAMPLE))
    *above, last = path.split("/")
    at = document
    for name in above:
        at = at[name]
    at[last] = value
    if value is ...:
        del at[last]
    return json.dumps(document)


DB = "agents/database_agent"
WRONG = [
    (put("task_id", ...), "task_id is missing"),
    (put("task_id", "User Management"), 'task_id is "User Management"'),
    (put("status", 3), "status is 3"),
    (put("session_start", ...), "session_start is missing"),
    (put("session_start", 1727539800), "session_start is 1727539800"),
    (put("session_start", "yesterday"), 'session_start is "yesterday"'),
    (put("agents", []), "agents is a list"),
    (put("agents/x y", {}), "agents.\"x y\" can't be an agent's name"),
    (put("agents/extra", 1), "agents.extra is 1"),
    (put(f"{DB}/status", "done"), 'agents.database_agent.status is "done"'),
    (put(f"{DB}/status", ...), "agents.database_agent.status is missing"),
    (put(f"{DB}/status", ["working"]), "agents.database_agent.status is a list"),
    (put(f"{DB}/status", "ready_for_verification"), "agents.database_agent.status is ready_for_verification with 1"),
    (put(f"{DB}/completion_drive_notes_count", ...), "agents.database_agent.completion_drive_notes_count is missing"),
    (put(f"{DB}/completion_drive_notes_count", -1), "agents.database_agent.completion_drive_notes_count is -1"),
    (put(f"{DB}/completion_drive_notes_count", True), "agents.database_agent.completion_drive_notes_count is true"),
    (put(f"{DB}/unresolved_notes", 4), "agents.database_agent.unresolved_notes is 4, but the number of notes is 3"),
    (put(f"{DB}/unresolved_notes", "1"), 'agents.database_agent.unresolved_notes is "1"'),
    (put(f"{DB}/last_update", ...), "agents.database_agent.last_update is missing"),
    (put(f"{DB}/last_update", 17), "agents.database_agent.last_update is 17"),
    (put(f"{DB}/progress", 1), 'agents.database_agent."progress" is not a field'),
    (put(f"{DB}/dependencies", "api_agent"), 'agents.database_agent.dependencies is "api_agent"'),
    (put(f"{DB}/dependencies", ["nobody"]), "agents.database_agent.dependencies names nobody"),
    (put(f"{DB}/dependencies", ["database_agent"]), "agents.database_agent.dependencies names database_agent"),
    (put(f"{DB}/dependencies", ["api_agent"] * 2), "agents.database_agent.dependencies names an agent twice"),
    (put("verification", ...), "verification is missing"),
    (put("verification/database_verifier/assigned_agents", ["x"]), "assigned_agents names x"),
    (put("verification/database_verifier/status", None), "verification.database_verifier.status is null"),
    (put("overall_completion_drive_gate", "open"), 'overall_completion_drive_gate is "open"'),
    (put("overall_completion_drive_gate", "clear"), "is clear, but 1 note unresolved"),
    (put("other", 1), '"other" is not a field'),
    ('{"agents": {}, "agents": {}}', 'the key "agents" is given twice'),
    ("[]", "the file is a list"),
    ('{"agents": ', "this is not JSON"),
    ('{"a":' * 5000, f"nested deeper than {DEEPEST}"),
]


@pytest.mark.parametrize("text, told", WRONG, ids=[told for _, told in WRONG])
def test_what_is_wrong_is_told_with_field_and_what_is_expected(text: str, told: str) -> None:
    shared, findings = read_status(text)

    assert shared is None
    assert [finding for finding in findings if told in finding.text], [str(finding) for finding in findings]
    assert {finding.file for finding in findings} == {SHARED_STATUS}
    assert all(finding.remedy for finding in findings)


@settings(max_examples=60)
@given(st.data())
def test_whatever_happens_to_the_file_it_is_read_or_told(data: st.DataObject) -> None:
    text = data.draw(mutations(json.dumps(EXAMPLE, indent=1)))
    shared, findings = read_status(text)
    own, problems = read_own_status(text, "api_agent")

    assert (shared is None) == bool(findings)
    assert (own is None) == bool(problems)
    assert read_session(text)[0] is None


def test_a_workers_own_entry_counts_whatever_it_wrote_of_the_others() -> None:
    text = put("agents/api_agent/status", "rubbish")

    assert read_own_status(text, "database_agent") == (Status.REVIEW, [])
    assert "agents.api_agent.status" in read_own_status(text, "api_agent")[1][0].text
    assert "put your entry back" in read_own_status(text, "nobody")[1][0].remedy
