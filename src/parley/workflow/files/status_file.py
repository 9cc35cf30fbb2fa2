"""`shared_status.json`: the status of every agent of a workflow, for agents and people to read.

It is written from what the bus knows. Of what a worker writes into it only its own status is ever taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parley.base.documents.node import Entries, plain
from parley.base.wording import count
from parley.workflow.files.reading.strict_json import JsonFields, read_object, shown, write_json
from parley.workflow.model.grammar import LONGEST_SLUG, NAME_FORM, SLUG_FORM, is_name, is_slug, is_task_id
from parley.workflow.model.notes import MOST_TEXT, unsettled
from parley.workflow.model.terms import SHARED_STATUS, Finding, Plan, Session, Status, Task, Worker, WorkerStanding
from parley.workflow.model.times import moment, time_of

BLOCKED, CLEAR = "blocked", "clear"
NOT_BEGUN, IN_PROGRESS, COMPLETE, STOPPED = "pending", "in_progress", "complete", "stopped"
PHASES = {"running": IN_PROGRESS, "complete": COMPLETE, "stopped": STOPPED}  # what the file calls a flow's
# A worker that stands so has no note left that is open or escalated.
SETTLED = frozenset({Status.READY, Status.VERIFIED, Status.COMPLETE})
DONE = frozenset({Status.VERIFIED, Status.COMPLETE})

_FIELDS = ("task_id", "status", "session_start", "agents", "verification", "overall_completion_drive_gate")
_AGENT_FIELDS = (
    "status",
    "completion_drive_notes_count",
    "unresolved_notes",
    "pending_notes",
    "dependencies",
    "output_version",
    "last_update",
)
_CHECK_FIELDS = ("status", "assigned_agents", "completion_drive_notes_count", "unresolved_notes", "pending_notes")
_MOMENT = "a moment in UTC as in 2025-09-28T14:30:00Z, or null"
_MOST = 100_000  # of anything that is counted


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """One agent, as the file has it."""

    status: Status
    notes: int = 0
    unresolved: int = 0
    dependencies: tuple[str, ...] = ()
    version: int = 0
    last_update: int | None = None
    pending: int = 0  # notes that were refused for their form


@dataclass(frozen=True, slots=True)
class VerifierCheck:
    """One verifier, as the file has it."""

    status: Status
    agents: tuple[str, ...] = ()
    notes: int = 0  # its own, while it verified
    unresolved: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class SharedStatus:
    """The file."""

    task_id: str
    status: str
    session_start: int | None
    agents: dict[str, AgentEntry] = field(default_factory=dict)
    verification: dict[str, VerifierCheck] = field(default_factory=dict)
    gate: str = BLOCKED


# ---- writing -------------------------------------------------------------------------------------


def shared_of(
    plan: Plan,
    standings: Iterable[WorkerStanding] = (),
    *,
    started: int | None = None,
    status: str = NOT_BEGUN,
    gate: str = BLOCKED,
    more: Iterable[Worker] = (),
    reviews: Iterable[tuple[str, Session]] = (),
) -> SharedStatus:
    """What the file says of a workflow. `more` are workers that are not in the plan. As it is, it has not begun.

    `reviews` has what each verifier noted about each of its doers.
    """
    known = {standing.name: standing for standing in standings}
    workers = {**plan.workers, **{worker.name: worker for worker in more}}
    doers = [worker for worker in workers.values() if worker.task is Task.DOER]
    agents = {worker.name: _entry(worker, known.get(worker.name) or WorkerStanding(worker.name)) for worker in doers}
    assigned: dict[str, list[str]] = {worker.name: [] for worker in workers.values() if worker.task is Task.VERIFIER}
    for worker in doers:
        if worker.verifier:
            assigned.setdefault(worker.verifier, []).append(worker.name)
    noted: dict[str, list[Session]] = {}
    for name, session in reviews:
        noted.setdefault(name, []).append(session)
    verification = {
        name: _check([agents[each] for each in of], of, noted.get(name, ())) for name, of in assigned.items()
    }
    return SharedStatus(
        task_id=plan.task, status=status, session_start=started, agents=agents, verification=verification, gate=gate
    )


def render_status(shared: SharedStatus) -> str:
    """The file, with the fields that apply to each agent."""
    return write_json(
        {
            "task_id": shared.task_id,
            "status": shared.status,
            "session_start": None if shared.session_start is None else moment(shared.session_start),
            "agents": {name: _plain(entry) for name, entry in shared.agents.items()},
            "verification": {name: _plain_check(check) for name, check in shared.verification.items()},
            "overall_completion_drive_gate": shared.gate,
        }
    )


def _entry(worker: Worker, standing: WorkerStanding) -> AgentEntry:
    notes = standing.session.notes if standing.session else ()
    left = unsettled(standing.session)
    pending = len(standing.session.pending) if standing.session else 0
    return AgentEntry(
        status=standing.status,
        notes=len(notes),
        unresolved=len(left),
        dependencies=worker.depends_on,
        version=standing.version,
        last_update=standing.last_update,
        pending=pending,
    )


def _checking(entries: list[AgentEntry]) -> Status:
    """A verifier waits, works on what is ready, or has approved all that it was given."""
    if any(entry.status is Status.READY for entry in entries):
        return Status.WORKING
    return Status.VERIFIED if entries and all(entry.status in DONE for entry in entries) else Status.PENDING


def _check(entries: list[AgentEntry], of: Iterable[str], noted: Iterable[Session]) -> VerifierCheck:
    sessions = list(noted)
    return VerifierCheck(
        status=_checking(entries),
        agents=tuple(of),
        notes=sum(len(session.notes) for session in sessions),
        unresolved=sum(len(unsettled(session)) for session in sessions),
        pending=sum(len(session.pending) for session in sessions),
    )


def _plain_check(check: VerifierCheck) -> dict[str, Any]:
    plain: dict[str, Any] = {"status": check.status, "assigned_agents": list(check.agents)}
    if check.notes:
        plain |= {"completion_drive_notes_count": check.notes, "unresolved_notes": check.unresolved}
    return {**plain, "pending_notes": check.pending} if check.pending else plain


def _plain(entry: AgentEntry) -> dict[str, Any]:
    plain: dict[str, Any] = {"status": entry.status, "completion_drive_notes_count": entry.notes}
    if entry.notes:
        plain["unresolved_notes"] = entry.unresolved
    if entry.pending:
        plain["pending_notes"] = entry.pending
    if entry.dependencies:
        plain["dependencies"] = list(entry.dependencies)
    if entry.version:
        plain["output_version"] = entry.version
    plain["last_update"] = None if entry.last_update is None else moment(entry.last_update)
    return plain


# ---- reading -------------------------------------------------------------------------------------


def read_status(text: str) -> tuple[SharedStatus | None, list[Finding]]:
    """The file, or all that is wrong with it."""
    top, findings = read_object(text, SHARED_STATUS, "", "an object with agents")
    if top is None:
        return None, findings
    top.only(_FIELDS)
    task = top.text("task_id", f"{SLUG_FORM}: the workflow's task", MOST_TEXT)
    status = top.text("status", "one word, as in in_progress", LONGEST_SLUG)
    if task and not (is_slug(task) or is_task_id(task)):
        top.wrong("task_id", f"{SLUG_FORM}: the workflow's task")
    if status and not is_slug(status):
        top.wrong("status", "one word of small letters, digits, _ and -, as in in_progress")
    start = _moment(top, "session_start")
    agents = {name: _read_entry(fields) for name, fields in _named(top, "agents")}
    checks = {name: _read_check(fields) for name, fields in _named(top, "verification")}
    gate = top.word("overall_completion_drive_gate", (BLOCKED, CLEAR))
    shared = SharedStatus(
        task_id=task, status=status, session_start=start, agents=agents, verification=checks, gate=gate or BLOCKED
    )
    if not findings:
        _agree(top, shared)
    return (None, findings) if findings else (shared, [])


def read_own_status(text: str, agent: str) -> tuple[Status | None, list[Finding]]:
    """The status that a worker wrote for itself. The rest of the file is not its to write, and is not looked at."""
    top, findings = read_object(text, SHARED_STATUS, agent, "an object with agents")
    if top is None:
        return None, findings
    agents = dict(zip(_keys(top, "agents"), top.nodes("agents"), strict=True))
    entry = agents.get(agent)
    if not isinstance(entry, Entries):
        top.find("missing-field", f"agents.{agent}", "is missing", "put your entry back: an object with your status")
        return None, findings
    word = top.inner(entry, f"agents.{agent}").word("status", tuple(Status))
    return (Status(word), []) if word else (None, findings)


def _keys(top: JsonFields, name: str) -> tuple[str, ...]:
    value = top.values.get(name)
    return tuple(value) if isinstance(value, dict) else ()


def _named(top: JsonFields, name: str) -> list[tuple[str, JsonFields]]:
    """The objects of a field, each under an agent's name."""
    expected = "an object with an entry for each agent"
    if top.missing(name, expected):
        return []
    given = top.values[name]
    if not isinstance(given, Mapping):
        top.wrong(name, expected)
        return []
    found = []
    for key, node in zip(given, top.nodes(name), strict=True):
        at = f"{name}.{key}" if is_name(key) else f"{name}.{shown(key)}"
        if not is_name(key):
            top.find("wrong-name", at, "can't be an agent's name", f"write {NAME_FORM}", node)
        elif not isinstance(node, Entries):
            top.find("wrong-value", at, f"is {shown(plain(node))}", "it must be an object")
        else:
            found.append((key, top.inner(node, at, key)))
    return found


def _read_entry(fields: JsonFields) -> AgentEntry:
    fields.only(_AGENT_FIELDS)
    status = fields.word("status", tuple(Status))
    fields.missing("completion_drive_notes_count", "a whole number, 0 for none")
    fields.missing("last_update", _MOMENT)
    return AgentEntry(
        status=Status(status or Status.PENDING),
        notes=_count(fields, "completion_drive_notes_count"),
        unresolved=_count(fields, "unresolved_notes"),
        version=_count(fields, "output_version"),
        pending=_count(fields, "pending_notes"),
        last_update=_moment(fields, "last_update"),
        dependencies=_names(fields, "dependencies"),
    )


def _read_check(fields: JsonFields) -> VerifierCheck:
    fields.only(_CHECK_FIELDS)
    status = fields.word("status", tuple(Status))
    fields.missing("assigned_agents", "a list of agents' names")
    return VerifierCheck(
        status=Status(status or Status.PENDING),
        notes=_count(fields, "completion_drive_notes_count"),
        unresolved=_count(fields, "unresolved_notes"),
        pending=_count(fields, "pending_notes"),
        agents=_names(fields, "assigned_agents"),
    )


def _count(fields: JsonFields, name: str) -> int:
    value = fields.values.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        fields.wrong(name, f"a whole number from 0 to {_MOST}")
        return 0
    return value


def _names(fields: JsonFields, name: str) -> tuple[str, ...]:
    value = fields.values.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) and is_name(each) for each in value):
        fields.wrong(name, "a list of agents' names")
        return ()
    if len(set(value)) < len(value):
        fields.find("duplicate-item", name, "names an agent twice", "name each once")
    return tuple(dict.fromkeys(value))


def _moment(fields: JsonFields, name: str) -> int | None:
    value = fields.values.get(name)
    if name == "session_start" and fields.missing(name, _MOMENT):
        return None
    try:
        return None if value is None else time_of(value)
    except (ValueError, TypeError, OverflowError):
        fields.wrong(name, _MOMENT)
        return None


def _agree(top: JsonFields, shared: SharedStatus) -> None:
    """What one field says has to fit what the others do."""
    for name, entry in shared.agents.items():
        at = f"agents.{name}"
        if entry.unresolved > entry.notes:
            text = f"is {entry.unresolved}, but the number of notes is {entry.notes}"
            top.find("disagrees", f"{at}.unresolved_notes", text, "count again")
        for number, what in ((entry.unresolved, "unresolved"), (entry.pending, "pending")):
            if number and entry.status in SETTLED:
                text = f"is {entry.status} with {count(number, 'note')} {what}"
                top.find("unsettled", f"{at}.status", text, "settle the notes first")
        for other in entry.dependencies:
            if other == name or other not in shared.agents:
                text = f"names {other}, which is {'itself' if other == name else 'no agent here'}"
                top.find("unknown-agent", f"{at}.dependencies", text, "name agents of this file")
    for name, check in shared.verification.items():
        if check.unresolved > check.notes:
            text = f"is {check.unresolved}, but the number of notes is {check.notes}"
            top.find("disagrees", f"verification.{name}.unresolved_notes", text, "count again")
        if check.status in DONE and (left := check.unresolved + check.pending):
            text = f"is {check.status} with {count(left, 'note')} not settled"
            top.find("unsettled", f"verification.{name}.status", text, "settle the notes first")
        for other in check.agents:
            if other not in shared.agents:
                text = f"names {other}, which is no agent here"
                top.find("unknown-agent", f"verification.{name}.assigned_agents", text, "name agents of this file")
    ended = (Status.VERIFIED, Status.COMPLETE, Status.FAILED)
    undone = [name for name, entry in shared.agents.items() if entry.status not in ended]
    if shared.status == COMPLETE and undone:
        text = f"is complete, but {undone[0]} is {shared.agents[undone[0]].status}"
        top.find("disagrees", "status", text, "it must be in_progress until every agent has come to its end")
    open_notes = sum(entry.unresolved + entry.pending for entry in shared.agents.values())
    open_notes += sum(check.unresolved + check.pending for check in shared.verification.values())
    if shared.gate == CLEAR and open_notes:
        text = f"is {CLEAR}, but {count(open_notes, 'note')} unresolved"
        top.find("disagrees", "overall_completion_drive_gate", text, f"it must be {BLOCKED} until all are resolved")
