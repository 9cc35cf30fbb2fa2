"""`shared_status.json`: where every agent of a workflow stands, for agents and people to read.

It is written from what the bus knows. Of what a worker writes into it only its own status is ever taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parley.wording import count
from parley.workflow.grammar import LONGEST_SLUG, NAME_FORM, SLUG_FORM, is_name, is_slug, is_task_id
from parley.workflow.notes import MOST_TEXT, unsettled
from parley.workflow.strictly import Fields, read_json, shown, write_json
from parley.workflow.terms import SHARED_STATUS, Finding, Plan, Session, Standing, Status, Task, Worker
from parley.workflow.times import moment, time_of

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
class Entry:
    """One agent, as the file has it."""

    status: Status
    notes: int = 0
    unresolved: int = 0
    dependencies: tuple[str, ...] = ()
    version: int = 0
    last_update: int | None = None
    pending: int = 0  # notes that were refused for their form


@dataclass(frozen=True, slots=True)
class Check:
    """One verifier, as the file has it."""

    status: Status
    agents: tuple[str, ...] = ()
    notes: int = 0  # its own, while it verified
    unresolved: int = 0
    pending: int = 0


@dataclass(frozen=True, slots=True)
class Shared:
    """The file."""

    task_id: str
    status: str
    session_start: int | None
    agents: dict[str, Entry] = field(default_factory=dict)
    verification: dict[str, Check] = field(default_factory=dict)
    gate: str = BLOCKED


# ---- writing -------------------------------------------------------------------------------------


def shared_of(
    plan: Plan,
    standings: Iterable[Standing] = (),
    *,
    started: int | None = None,
    status: str = NOT_BEGUN,
    gate: str = BLOCKED,
    more: Iterable[Worker] = (),
    reviews: Iterable[tuple[str, Session]] = (),
) -> Shared:
    """What the file says of a workflow. `more` are workers that are not in the plan. As it is, it has not begun.

    `reviews` has what each verifier noted about each of its doers.
    """
    known = {standing.name: standing for standing in standings}
    workers = {**plan.workers, **{worker.name: worker for worker in more}}
    doers = [worker for worker in workers.values() if worker.task is Task.DOER]
    agents = {worker.name: _entry(worker, known.get(worker.name) or Standing(worker.name)) for worker in doers}
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
    return Shared(plan.task, status, started, agents, verification, gate)


def render_status(shared: Shared) -> str:
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


def _entry(worker: Worker, standing: Standing) -> Entry:
    notes = standing.session.notes if standing.session else ()
    left = unsettled(standing.session)
    pending = len(standing.session.pending) if standing.session else 0
    return Entry(
        standing.status, len(notes), len(left), worker.depends_on, standing.version, standing.last_update, pending
    )


def _checking(entries: list[Entry]) -> Status:
    """A verifier waits, works on what is ready, or has approved all that it was given."""
    if any(entry.status is Status.READY for entry in entries):
        return Status.WORKING
    return Status.VERIFIED if entries and all(entry.status in DONE for entry in entries) else Status.PENDING


def _check(entries: list[Entry], of: Iterable[str], noted: Iterable[Session]) -> Check:
    sessions = list(noted)
    return Check(
        _checking(entries),
        tuple(of),
        sum(len(session.notes) for session in sessions),
        sum(len(unsettled(session)) for session in sessions),
        sum(len(session.pending) for session in sessions),
    )


def _plain_check(check: Check) -> dict[str, Any]:
    plain: dict[str, Any] = {"status": check.status, "assigned_agents": list(check.agents)}
    if check.notes:
        plain |= {"completion_drive_notes_count": check.notes, "unresolved_notes": check.unresolved}
    return {**plain, "pending_notes": check.pending} if check.pending else plain


def _plain(entry: Entry) -> dict[str, Any]:
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


def read_status(text: str) -> tuple[Shared | None, list[Finding]]:
    """The file, or all that is wrong with it."""
    top, findings = _document(text, "")
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
    shared = Shared(task, status, start, agents, checks, gate or BLOCKED)
    if not findings:
        _agree(top, shared)
    return (None, findings) if findings else (shared, [])


def read_own_status(text: str, agent: str) -> tuple[Status | None, list[Finding]]:
    """The status that a worker wrote for itself. The rest of the file is not its to write, and is not looked at."""
    top, findings = _document(text, agent)
    if top is None:
        return None, findings
    entries = top.values.get("agents")
    if not isinstance(entries, dict) or not isinstance(entries.get(agent), dict):
        top.find("missing-field", f"agents.{agent}", "is missing", "put your entry back: an object with your status")
        return None, findings
    own = Fields(SHARED_STATUS, agent, f"agents.{agent}", entries[agent], findings)
    word = own.word("status", tuple(Status))
    return (Status(word), []) if word else (None, findings)


def _document(text: str, agent: str) -> tuple[Fields | None, list[Finding]]:
    value, findings = read_json(text, SHARED_STATUS, agent)
    if findings:
        return None, findings
    if not isinstance(value, dict):
        told = Finding(
            SHARED_STATUS, 0, agent, "wrong-value", f"the file is {shown(value)}", "it must be an object with agents"
        )
        return None, [told]
    return Fields(SHARED_STATUS, agent, "", value, findings), findings


def _named(top: Fields, name: str) -> list[tuple[str, Fields]]:
    """The objects of a field, each under an agent's name."""
    expected = "an object with an entry for each agent"
    if top.missing(name, expected):
        return []
    given = top.values[name]
    if not isinstance(given, Mapping):
        top.wrong(name, expected)
        return []
    found = []
    for key, value in given.items():
        at = f"{name}.{key}" if is_name(key) else f"{name}.{shown(key)}"
        if not is_name(key):
            top.find("wrong-name", at, "can't be an agent's name", f"write {NAME_FORM}")
        elif not isinstance(value, dict):
            top.find("wrong-value", at, f"is {shown(value)}", "it must be an object")
        else:
            found.append((key, Fields(SHARED_STATUS, key, at, value, top.findings)))
    return found


def _read_entry(fields: Fields) -> Entry:
    fields.only(_AGENT_FIELDS)
    status = fields.word("status", tuple(Status))
    fields.missing("completion_drive_notes_count", "a whole number, 0 for none")
    counts = [_count(fields, name) for name in ("completion_drive_notes_count", "unresolved_notes", "output_version")]
    pending = _count(fields, "pending_notes")
    fields.missing("last_update", _MOMENT)
    updated = _moment(fields, "last_update")
    return Entry(
        Status(status or Status.PENDING),
        counts[0],
        counts[1],
        _names(fields, "dependencies"),
        counts[2],
        updated,
        pending,
    )


def _read_check(fields: Fields) -> Check:
    fields.only(_CHECK_FIELDS)
    status = fields.word("status", tuple(Status))
    fields.missing("assigned_agents", "a list of agents' names")
    counts = [_count(fields, name) for name in _CHECK_FIELDS[2:]]
    return Check(Status(status or Status.PENDING), _names(fields, "assigned_agents"), *counts)


def _count(fields: Fields, name: str) -> int:
    value = fields.values.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        fields.wrong(name, f"a whole number from 0 to {_MOST}")
        return 0
    return value


def _names(fields: Fields, name: str) -> tuple[str, ...]:
    value = fields.values.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, str) and is_name(each) for each in value):
        fields.wrong(name, "a list of agents' names")
        return ()
    if len(set(value)) < len(value):
        fields.find("duplicate-item", name, "names an agent twice", "name each once")
    return tuple(dict.fromkeys(value))


def _moment(fields: Fields, name: str) -> int | None:
    value = fields.values.get(name)
    if name == "session_start" and fields.missing(name, _MOMENT):
        return None
    try:
        return None if value is None else time_of(value)
    except (ValueError, TypeError, OverflowError):
        fields.wrong(name, _MOMENT)
        return None


def _agree(top: Fields, shared: Shared) -> None:
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
