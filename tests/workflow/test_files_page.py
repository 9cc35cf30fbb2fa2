"""The page about a workflow's files shows files that are right, and lines that the program prints."""

from __future__ import annotations

import re
from pathlib import Path

from parley.workflow.design.design_check import check_design
from parley.workflow.files.plan import read_plan
from parley.workflow.files.session import read_session, render_session
from parley.workflow.files.status_file import read_status
from parley.workflow.files.structure import check_structure
from parley.workflow.files.summary import read_summary
from parley.workflow.model.notes import CATEGORIES, MOST_NOTES, MOST_TEXT, MUST_ESCALATE
from parley.workflow.model.terms import MAY_SELF_RESOLVE, PLAN, Status, session_of

PAGE = (Path(__file__).parents[2] / "docs/workflow-files.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The page's examples."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_are_right() -> None:
    summary, plan = blocks("markdown")
    session, status = blocks("json")

    assert read_summary(summary, "")[1] == []
    assert read_plan(plan)[1] == []
    assert {it.rule for it in check_design({PLAN: plan}, ("coder", "reviewer"))} == {"missing-instructions"}
    assert read_status(status)[1] == []
    read, findings = read_session(session)
    assert findings == []
    assert read is not None
    assert render_session(read) == session


def test_the_page_names_every_category_status_and_limit() -> None:
    row = next(line for line in PAGE.splitlines() if line.endswith("its maker may resolve it |"))

    assert set(re.findall(r"`(\w+)`", row)) == {category.value for category in MAY_SELF_RESOLVE}
    assert all(f"`{word}`" in PAGE for word in (*CATEGORIES, *MUST_ESCALATE, *Status))
    assert f"{MOST_TEXT} characters, a session {MOST_NOTES} notes" in " ".join(PAGE.split())


def test_the_findings_that_the_page_shows_are_those_that_are_told() -> None:
    _, plan = blocks("markdown")
    session = (
        '{"task_id": "api_endpoints_1727539284", "session_start": 1727539800, "notes": [\n'
        '{"note_id": "note_001", "timestamp": 1, "description": "a", "context": "b", "status": "escalated"},\n'
        '{"note_id": "note_001", "timestamp": 1, "description": "a", "context": "b", "status": "open"}]}'
    )
    wrong = plan.replace("time_limit_seconds: 900", "time_limit_seconds: soon")
    files = {"orchestration/workflow_coordination_plan.md": wrong, session_of("api_agent"): session}
    shown = [line for line in PAGE.splitlines() if line.startswith("orchestration/") and line.endswith("]")]

    assert sorted(shown) == sorted(map(str, check_structure(files)))
