"""`parley demo --workflow`: from a request to DONE through all that can happen, with a sound record of it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.workflow.files.summary import read_summary, summary_of
from parley.workflow.files.task_record import read_record
from parley.workflow.model.flow import Flow
from parley.workflow.model.flow_slots import current
from parley.workflow.model.terms import TASK_ORCHESTRATION, Remedy, Status, session_of
from tests.cli.home import PARLEY, Home

SECONDS = 200


def test_the_worked_example_comes_to_its_end_through_all_that_it_promises(tmp_path: Path) -> None:
    home = Home(tmp_path, {"TMPDIR": str(tmp_path)})  # its folder stays, but not on this machine
    played = subprocess.run(
        [str(PARLEY), "demo", "--workflow", "--fast"], cwd=tmp_path, env=home.env(), capture_output=True, text=True,
        stdin=subprocess.DEVNULL, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stdout[-4000:] + played.stderr
    for said in ("the record is sound", "no findings in", "overall_completion_drive_gate clear"):
        assert said in played.stdout
    place = re.search(r"look around: parley show (\w+) --repo (\S+)", played.stdout)
    assert place is not None
    folder, job = Path(place[2]), place[1]

    store = SqliteStore(folder / ".parley")
    try:
        flow = current(store.load(job).molecules)
    finally:
        store.close()
    assert flow is not None
    tree = folder / ".parley/jobs" / job / "work"
    _check_what_happened(flow)
    _check_the_files(flow, tree)
    _check_the_messages(Home(folder).here("log", job).out)

    tests = subprocess.run(
        [sys.executable, "-B", "-m", "unittest", "tests.test_store", "tests.test_api", "tests.test_page"],
        cwd=tree, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (tests.returncode, "Ran 5 tests" in tests.stderr) == (0, True), tests.stderr


def _check_what_happened(flow: Flow) -> None:
    doers = ["database_agent", "api_agent", "frontend_agent", "solution_architect"]
    assert {name: member.standing.status for name, member in flow.members.items()} == dict.fromkeys(
        doers, Status.COMPLETE
    )
    # the stall, and what its contract says
    assert [(one.agent, one.action) for one in flow.actions] == [("database_agent", Remedy.ESCALATE)]
    # who settled what
    notes: dict[tuple[str, str], str | None] = {}
    for name, member in flow.members.items():
        session = member.standing.session
        notes |= {(name, str(note.category)): note.resolved_by for note in (session.notes if session else ())}
    assert notes["database_agent", "requirements"] == "user"
    assert notes["api_agent", "technology"] == "workflow_executor"
    assert notes["api_agent", "scope"] == notes["frontend_agent", "scope"] == "workflow_executor"
    assert notes["frontend_agent", "implementation_detail"] == "agent_self"
    assert [one.verdict for one in flow.members["solution_architect"].standing.rounds] == ["verified"]
    # a verification that failed, with what was found
    first, second = flow.members["api_agent"].standing.rounds
    assert (first.verdict, second.verdict) == ("rejected", "verified")
    assert "without a title" in first.findings[0]
    # a path that was first one's, then the other's, then the first one's again; and the conflict about it
    path = "service/routes.py"
    assert [(one.agent, path in one.after) for one in flow.rescopes] == [
        ("api_agent", False), ("frontend_agent", True), ("api_agent", True), ("frontend_agent", False),
    ]  # fmt: skip
    assert sorted(one.agent for one in flow.merges) == sorted(doers)
    last = flow.merges[-1]
    assert (last.agent, last.conflicts, last.resolved_by, last.trivial) == ("api_agent", (path,), "integrator", False)
    assert {proof.command.split()[-1]: proof.holds for proof in last.proofs} == {
        "tests.test_api": True, "tests.test_page": True,
    }  # fmt: skip


def _check_the_files(flow: Flow, tree: Path) -> None:
    record, findings = read_record((tree / TASK_ORCHESTRATION).read_text(encoding="utf-8"))
    assert record is not None
    assert not findings
    assert [one.agent for one in record.merges] == [one.agent for one in flow.merges]
    told = (tree / summary_of("notes_service")).read_text(encoding="utf-8")
    assert read_summary(told, "it")[1] == []
    summary = (tree / "WORK_SUMMARY.md").read_text(encoding="utf-8")
    for name, member in flow.members.items():
        current_session = tree / session_of(name)
        assert not current_session.exists()
        assert len(list(current_session.parent.glob("session_*_notes_service.json"))) == 1
        session = member.standing.session
        for note in session.notes if session is not None else ():
            assert note.description in summary
            assert str(note.resolution) in summary


def _check_the_messages(log: str) -> None:
    # both were at work before either had said anything
    begun = [log.index(f"[TASK] {name}") for name in ("api_agent", "frontend_agent")]
    said = [log.index(words) for words in ("All but the server is written", "nothing sends it yet")]
    assert max(begun) < min(said)
    assert "frontend_agent was refused: write service/routes.py" in log
    assert "belongs to api_agent (rule: api_agent owns service/routes.py)" in log
    for mark in ("[DELEGATE]", "[DESIGN ready]", "is stalled", "[INTEGRATE]", "[WORKFLOW complete]"):
        assert mark in log
