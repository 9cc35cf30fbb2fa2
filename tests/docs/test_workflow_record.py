"""The page about a workflow's record shows what the program writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from parley.workflow.files.archive import read_index, read_log, render_index, render_log
from parley.workflow.files.assumptions import render_assumptions
from parley.workflow.files.contract import HEADING
from parley.workflow.files.rounds import read_round
from parley.workflow.files.session import render_session
from parley.workflow.files.task_record import read_record, render_record
from parley.workflow.host.archiving import NotRestored, restore
from parley.workflow.model.terms import Category, Note, NoteStatus, Session
from parley.workflow.paths.disjointness import disjoint
from parley.workspaces.checkout.users_workflow_files import UsersWorkflowFiles

PAGE = (Path(__file__).parents[2] / "docs" / "workflow-record.md").read_text(encoding="utf-8")
LONG = re.findall(r"``````markdown\n(.*?)``````", PAGE, re.DOTALL)
JSON = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
NOTE = Note(
    note_id="note_001",
    timestamp=1790000100,
    description="Emails are unique",
    context="Making the table of users",
    status=NoteStatus.RESOLVED,
    category=Category.REQUIREMENTS,
    resolution="Yes: one account for each email",
    resolved_by="user",
    resolution_timestamp=1790000240,
    escalation_reason="The request does not say",
)
SESSION = Session("create_user_table_1790000000", 1790000010, (NOTE,))


def test_the_page_of_the_guide_is_one_that_the_program_writes_and_its_claim_holds() -> None:
    record, findings = read_record(LONG[0])
    assert findings == []
    assert record is not None
    assert render_record(record) == LONG[0]
    assert disjoint(LONG[0]) == []


def test_the_overlap_of_the_guide_is_told_as_the_guide_says() -> None:
    record, _ = read_record(LONG[0])
    assert record is not None
    changed = (
        LONG[0]
        .replace("`db/**` | `web/**`", "`src/[a-m]*` | `web/**`")
        .replace("| working | `api/**`<br>`Makefile`", "| working | `src/[!a-k]*`")
    )
    (said,) = re.findall(r"```\n(orchestration/task-orchestration.md.*)\n```", PAGE)
    told = [str(finding) for finding in disjoint(changed) if finding.rule == "overlap"]
    assert [line for line in told if "until" not in line] == [
        said.replace("one:", "api_agent:")
        .replace(":14:", ":15:")
        .replace("`src/[a-m]*` and `src/[!a-k]*` of `two`", "`src/[!a-k]*` and `src/[a-m]*` of `database_agent`")
    ]


def test_the_contract_of_the_guide_begins_as_every_contract() -> None:
    assert LONG[1].startswith(HEADING)
    assert "\n## Task\n" in LONG[1]


def test_the_files_of_the_guide_are_read_by_the_program() -> None:
    one, index, log = JSON
    assert read_round(one, "database_agent", 1)[1] == []
    entries, findings = read_index(index)
    assert findings == []
    assert render_index(entries or ()) == index
    logged, findings = read_log(log)
    assert findings == []
    assert render_log(logged or ()) == log


def test_the_assumptions_of_the_guide_are_those_of_its_session() -> None:
    assert render_assumptions([("database_agent", SESSION)]) in PAGE


def test_the_archive_of_the_guide_comes_back_and_what_is_not_there_is_refused_in_these_words(tmp_path: Path) -> None:
    (entry,) = read_index(JSON[1])[0] or ()
    shelf = UsersWorkflowFiles(tmp_path)
    shelf.write(
        {entry.file: render_session(SESSION), "orchestration/agents/archival_agent/archive_index.json": JSON[1]}
    )
    assert restore(shelf, "database_agent", "session_20260921", 5) == entry.file
    with pytest.raises(NotRestored) as refused:
        restore(shelf, "database_agent", "session_1999", 5)
    assert f"parley: {refused.value}\n" in PAGE
