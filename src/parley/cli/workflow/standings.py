"""The statuses of a workflow's agents, from a job's bus or from a folder's files; one document for both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.cli import FAILED, CommandError
from parley.cli.common import Workplace, columns, one_line, safe
from parley.cli.open_bus import find_job, known_secrets, open_bus
from parley.cli.workflow.workflow_folder import read_tree
from parley.machine.job_files import JobFiles
from parley.views.job_view import Present
from parley.views.vitals import vitals
from parley.workflow.files.plan import read_plan
from parley.workflow.files.session import read_session
from parley.workflow.files.status_file import DONE, PHASES, SharedStatus, read_status, shared_of
from parley.workflow.files.task_record import read_record
from parley.workflow.model.flow import Flow
from parley.workflow.model.flow_slots import CURRENT, current
from parley.workflow.model.notes import unsettled
from parley.workflow.model.terms import (
    PLAN,
    SHARED_STATUS,
    TASK_ORCHESTRATION,
    Plan,
    Session,
    Status,
    WorkerStanding,
    session_of,
)
from parley.workflow.model.times import moment

LONGEST_LINE = 2_000
NARROWEST = 60
_SLOT = "a free slot"  # of the fan-out


def on_the_bus(place: Workplace, what: str) -> dict[str, Any] | None:
    """The workflow of a job, or of the newest job that has one; None: there is none on the bus."""
    if not SqliteStore.exists(place.home):
        return None
    with open_bus(place) as store:
        rows = [find_job(store.jobs(), what)] if what else sorted(store.jobs(), key=lambda row: -row.created)
        for row in rows:
            present = Present(store, row.job)
            slots = present.loaded.molecules
            flow = current(slots) if CURRENT in slots else None
            if flow is not None:
                heard = {one.thread: int(one.last) for one in vitals(present, JobFiles(place.home), 0.0).values()}
                return {"place": f"job {row.job}", **_from_flow(flow, heard, known_secrets(place).redact)}
    return None


def _from_flow(flow: Flow, heard: Mapping[str, int], redact: Callable[[str], str]) -> dict[str, Any]:
    """`heard`: when each running thread last reported, by its stream."""
    plan = flow.plan or Plan("", "", {}, ())
    status = PHASES[flow.phase]
    shared = shared_of(
        plan,
        flow.standings(),
        started=flow.started,
        status=status,
        gate=flow.gate,
        more=flow.added.values(),
        reviews=flow.reviews(),
    )
    standings = {standing.name: standing for standing in flow.standings()}
    sessions = {name: [standing.session] for name, standing in standings.items() if standing.session is not None}
    for verifier, session in flow.reviews():
        sessions.setdefault(verifier, []).append(session)
    document = _document(shared, {name: worker.verifier for name, worker in flow.workers.items()}, sessions, redact)
    for agent in document["agents"]:
        standing = standings.get(agent["name"]) or WorkerStanding(agent["name"])
        last = max(standing.last_progress or 0, heard.get(standing.thread, 0))
        agent.update(_more(replace(standing, last_progress=last or None), redact))
        agent["held_back"] = agent["name"] in flow.held
    return document


def _more(standing: WorkerStanding, redact: Callable[[str], str]) -> dict[str, Any]:
    """What only the bus knows of an agent."""
    return {
        "rounds": [{"number": one.number, "verifier": one.verifier, "verdict": one.verdict} for one in standing.rounds],
        "read": [{"agent": agent, "version": version} for agent, version in standing.read],
        "last_progress": None if standing.last_progress is None else moment(standing.last_progress),
        "crashes": standing.crashes,
        "reason": redact(standing.reason),
    }


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
    document = _document(shared, verifiers, sessions, str)
    record = read_record(files.get(TASK_ORCHESTRATION, ""))[0]
    progress = {one.agent: one.last_progress for one in record.tracked} if record else {}
    for agent in document["agents"]:
        last = progress.get(agent["name"])
        agent["last_progress"] = None if last is None else moment(last)
    return document


def _document(
    shared: SharedStatus, verifiers: dict[str, str], sessions: dict[str, list[Session]], redact: Callable[[str], str]
) -> dict[str, Any]:
    left = {
        name: [note for session in listed for note in _not_settled(session, redact)]
        for name, listed in sessions.items()
    }
    agents: list[dict[str, Any]] = []
    for name, entry in shared.agents.items():
        agents.append(
            {
                "name": name,
                "status": str(entry.status),
                "notes": entry.notes,
                "unresolved": entry.unresolved,
                "pending": entry.pending,
                "version": entry.version,
                "verifier": verifiers.get(name, ""),
                "dependencies": list(entry.dependencies),
                "last_update": None if entry.last_update is None else moment(entry.last_update),
                "unsettled": left.get(name, []),
            }
        )
    return {
        "task": shared.task_id,
        "status": shared.status,
        "gate": shared.gate,
        "agents": agents,
        "verification": [
            {
                "name": name,
                "status": str(check.status),
                "agents": list(check.agents),
                "notes": check.notes,
                "unresolved": check.unresolved,
                "pending": check.pending,
                "unsettled": left.get(name, []),
            }
            for name, check in shared.verification.items()
        ],
    }


def _not_settled(session: Session, redact: Callable[[str], str]) -> list[dict[str, str]]:
    """The notes of a session that keep the gate closed."""
    left = [
        {
            "note_id": note.note_id,
            "status": str(note.status),
            "category": str(note.category),
            "description": redact(note.description),
        }
        for note in unsettled(session)
    ]
    return left + [
        {
            "note_id": one.pending_id,
            "status": "pending",
            "category": "",
            "description": redact(f"{'; '.join(one.problems)}; it was written as {one.written}"),
        }
        for one in session.pending
    ]


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
