"""The statuses of a workflow's agents, from a job's bus or from a folder's files; one document for both."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from parley.cli import FAILED, CommandError, home_bus
from parley.cli.common import Workplace, columns, one_line, safe
from parley.cli.open_bus import find_job, known_secrets, open_bus
from parley.cli.shared_home import job_files
from parley.cli.workflow.workflow_folder import read_tree
from parley.views.job_view import Present
from parley.views.vitals import vitals
from parley.views.workflow_view import flow_document, flow_of, status_document
from parley.workflow.files.plan import read_plan
from parley.workflow.files.session import read_session
from parley.workflow.files.status_file import DONE, read_status, shared_of
from parley.workflow.files.task_record import read_record
from parley.workflow.model.terms import (
    PLAN,
    SHARED_STATUS,
    TASK_ORCHESTRATION,
    Session,
    Status,
    session_of,
)
from parley.workflow.model.times import moment

LONGEST_LINE = 2_000
NARROWEST = 60
_SLOT = "a free slot"  # of the fan-out


def on_the_bus(place: Workplace, what: str) -> dict[str, Any] | None:
    """The workflow of a job, or of the newest job that has one; None: there is none on the bus."""
    if not home_bus.exists(place.home):
        return None
    with open_bus(place) as store:
        rows = [find_job(store.jobs(), what)] if what else sorted(store.jobs(), key=lambda row: -row.created)
        for row in rows:
            present = Present(store, row.job)
            flow = flow_of(present.loaded.molecules)
            if flow is not None:
                heard = {one.thread: int(one.last) for one in vitals(present, job_files(place.home), 0.0).values()}
                return {"place": f"job {row.job}", **flow_document(flow, heard, known_secrets(place).redact)}
    return None


def from_files(root: Path) -> dict[str, Any]:
    """A workflow as its files have it."""
    files, _ = read_tree(root)
    plan = read_plan(files.get(PLAN, ""))[0]
    if SHARED_STATUS in files:
        shared, findings = read_status(files[SHARED_STATUS])
        if shared is None:
            raise CommandError(f"{findings[0]}; `parley workflow check {root}` lists all findings", FAILED)
    elif plan is not None:
        shared = shared_of(plan)  # planned, not begun
    else:
        raise CommandError(
            f"{root / SHARED_STATUS} is not there; `parley workflow check {root}` lists what else is missing"
        )
    sessions: dict[str, list[Session]] = {}
    for name in (*shared.agents, *shared.verification):
        session = read_session(files.get(session_of(name), ""), name)[0]
        if session is not None:
            sessions[name] = [session]
    verifiers = {name: worker.verifier for name, worker in plan.workers.items()} if plan else {}
    document = status_document(shared, verifiers, sessions, str)
    record = read_record(files.get(TASK_ORCHESTRATION, ""))[0]
    progress = {one.agent: one.last_progress for one in record.tracked} if record else {}
    for agent in document["agents"]:
        last = progress.get(agent["name"])
        agent["last_progress"] = None if last is None else moment(last)
    return document


# ---- for people ----------------------------------------------------------------------------------


def show(document: dict[str, Any]) -> None:
    """Print the table, with unsettled notes below it."""
    gate = f"overall_completion_drive_gate {document['gate']}"
    print(safe(f"{document['task']}: {document['status']}, {gate}  ({document['place']})"))
    if not document["agents"]:
        print("no agents yet: the plan names none")
        return
    standing = {agent["name"]: agent["status"] for agent in document["agents"]}
    rows: list[tuple[str, ...]] = [
        ("agent", "status", "notes", "version", "verifier", "waits for", "last update", "last progress")
    ]
    rows += [_row(agent, standing) for agent in document["agents"]]
    _table(rows)
    print()
    checks = [(check["name"], check["status"], ", ".join(check["agents"]) or "-") for check in document["verification"]]
    _table([("verifier", "status", "agents"), *checks])
    for agent in (*document["agents"], *document["verification"]):
        if agent.get("reason"):
            print(one_line(f"{agent['name']} is {agent['status']}: {agent['reason']}", LONGEST_LINE))
        for note in agent["unsettled"]:
            about = f" ({note['category']})" if note["category"] else ""
            head = f"{agent['name']} {note['note_id']} {note['status']}{about}: "
            print(one_line(head + note["description"], max(columns(), NARROWEST)))


def _row(agent: dict[str, Any], standing: dict[str, str]) -> tuple[str, ...]:
    counted = [f"{agent[name]} {name}" for name in ("unresolved", "pending") if agent[name]]
    left = f" ({', '.join(counted)})" if counted else ""
    waits = [name for name in agent["dependencies"] if standing.get(name) not in DONE]
    return (
        agent["name"],
        agent["status"],
        f"{agent['notes']}{left}",
        str(agent["version"] or "-"),
        agent["verifier"] or "-",
        ", ".join(waits) if agent["status"] == Status.PENDING and waits else _SLOT if agent.get("held_back") else "-",
        agent["last_update"] or "-",
        agent["last_progress"] or "-",
    )


def _table(rows: Sequence[tuple[str, ...]]) -> None:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        print(safe(line.rstrip()))
