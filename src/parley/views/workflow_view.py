"""Where a workflow stands: one document for the commands, and all of it as values for a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from parley.views.dependency_layers import LayeredGraph, layered
from parley.workflow.files.status_file import PHASES, SharedStatus, shared_of
from parley.workflow.model.flow import MET, Flow, Member
from parley.workflow.model.flow_slots import CURRENT, current
from parley.workflow.model.notes import unsettled
from parley.workflow.model.terms import Merged, Note, Plan, Round, Session, Task, Worker, WorkerStanding
from parley.workflow.model.times import moment

Redact = Callable[[str], str]


def flow_of(slots: Mapping[str, str]) -> Flow | None:
    """The workflow that a job's slots keep; None: it has none."""
    return current(slots) if CURRENT in slots else None


# ---- the document of the commands ------------------------------------------------------------------


def flow_document(flow: Flow, heard: Mapping[str, int], redact: Redact) -> dict[str, Any]:
    """A workflow as the bus has it. `heard`: when each running thread last reported, by its stream."""
    plan = _plan(flow)
    standings = {standing.name: standing for standing in flow.standings()}
    sessions = {name: [standing.session] for name, standing in standings.items() if standing.session is not None}
    for verifier, session in flow.reviews():
        sessions.setdefault(verifier, []).append(session)
    verifiers = {name: worker.verifier for name, worker in flow.workers.items()}
    document = status_document(_shared(flow, plan), verifiers, sessions, redact)
    for agent in document["agents"]:
        standing = standings.get(agent["name"]) or WorkerStanding(agent["name"])
        last = max(standing.last_progress or 0, heard.get(standing.thread, 0))
        agent.update(_more(replace(standing, last_progress=last or None), redact))
        agent["held_back"] = agent["name"] in flow.held
    return document


def _plan(flow: Flow) -> Plan:
    return flow.plan or Plan("", "", {}, ())


def _shared(flow: Flow, plan: Plan) -> SharedStatus:
    return shared_of(
        plan,
        flow.standings(),
        started=flow.started,
        status=PHASES[flow.phase],
        gate=flow.gate,
        more=flow.added.values(),
        reviews=flow.reviews(),
    )


def _more(standing: WorkerStanding, redact: Redact) -> dict[str, Any]:
    """What only the bus knows of an agent."""
    return {
        "rounds": [{"number": one.number, "verifier": one.verifier, "verdict": one.verdict} for one in standing.rounds],
        "read": [{"agent": agent, "version": version} for agent, version in standing.read],
        "last_progress": None if standing.last_progress is None else moment(standing.last_progress),
        "crashes": standing.crashes,
        "reason": redact(standing.reason),
    }


def status_document(
    shared: SharedStatus, verifiers: Mapping[str, str], sessions: Mapping[str, list[Session]], redact: Redact
) -> dict[str, Any]:
    """The statuses of a workflow, with the notes that are not settled."""
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


def _not_settled(session: Session, redact: Redact) -> list[dict[str, str]]:
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


# ---- values for a page -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowNote:
    """A note of an agent's."""

    agent: str
    note_id: str
    status: str  # open, escalated, resolved; pending: it was refused for its form
    category: str
    description: str
    context: str = ""
    resolution: str = ""
    resolved_by: str = ""
    escalation_reason: str = ""
    time: int = 0

    @property
    def settled(self) -> bool:
        """Whether it keeps nothing closed."""
        return self.status == "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRound:
    """One round of verification."""

    number: int
    verifier: str
    verdict: str
    time: int
    findings: tuple[str, ...] = ()
    proofs: tuple[str, ...] = ()  # each command, with how it ended
    criteria: tuple[str, ...] = ()  # each checkpoint's, with its result
    action: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowAgent:
    """One doer of a workflow."""

    name: str
    role: str
    status: str
    thread: str  # its conversation: the open one, else the last
    workspace: str
    objective: str
    verifier: str
    depends_on: tuple[str, ...]
    waits_for: tuple[str, ...]  # of these, the ones that are not verified
    owns: tuple[str, ...]
    forbids: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    commands: tuple[str, ...]  # that have to hold
    version: int
    read: tuple[tuple[str, int], ...]  # whose output it started from, and which version
    read_by: tuple[tuple[str, int], ...]  # who has started from its own, and which version
    stale: tuple[str, ...]  # whose newer output it has not read yet
    rounds: tuple[WorkflowRound, ...]
    notes: tuple[WorkflowNote, ...]
    last_update: int | None
    last_progress: int | None
    crashes: int
    reason: str
    checking: str
    given_up: bool
    held_back: bool  # it waits for a free slot of the fan-out
    added: bool  # it is not in the plan: it joined later
    sessions: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowVerifier:
    """One verifier of a workflow."""

    name: str
    status: str
    agents: tuple[str, ...]
    notes: tuple[WorkflowNote, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowCheckpoint:
    """A hand-over that the plan wants to be verified."""

    giver: str
    taker: str
    by: str
    criteria: str
    on_failure: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowMerge:
    """One merge of the workflow's log."""

    number: int
    agent: str
    time: int
    taken: bool
    paths: tuple[str, ...]
    conflicts: tuple[str, ...]
    commits: tuple[str, ...]
    resolved_by: str
    kept_out: tuple[str, ...]
    proofs: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowPage:
    """A whole workflow."""

    task: str
    goal: str
    status: str
    gate: str
    started: int
    ended: int
    why: str  # it was stopped
    run: int
    plan: str  # the plan's file
    agents: tuple[WorkflowAgent, ...]
    verifiers: tuple[WorkflowVerifier, ...]
    checkpoints: tuple[WorkflowCheckpoint, ...]
    merges: tuple[WorkflowMerge, ...]
    stages: tuple[tuple[str, ...], ...]
    graph: LayeredGraph


def workflow_page(
    slots: Mapping[str, str], redact: Redact, heard: Mapping[str, int] | None = None
) -> WorkflowPage | None:
    """All of a job's workflow, from its slots; None: it has none. `heard` as in `flow_document`."""
    flow = flow_of(slots)
    return page_of_flow(flow, redact, heard or {}) if flow is not None else None


def page_of_flow(flow: Flow, redact: Redact, heard: Mapping[str, int]) -> WorkflowPage:
    """All of a workflow."""
    plan = _plan(flow)
    shared = _shared(flow, plan)
    readers = _readers(flow)
    reviews = flow.reviews()
    doers = [worker for worker in flow.workers.values() if worker.task is Task.DOER]
    return WorkflowPage(
        task=plan.task,
        goal=redact(plan.goal),
        status=shared.status,
        gate=shared.gate,
        started=flow.started,
        ended=flow.ended,
        why=redact(flow.why),
        run=flow.run,
        plan=redact(plan.text),
        agents=tuple(_agent(flow, worker, readers.get(worker.name, ()), redact, heard) for worker in doers),
        verifiers=tuple(
            WorkflowVerifier(
                name=name,
                status=str(check.status),
                agents=check.agents,
                notes=tuple(_notes(name, [session for by, session in reviews if by == name], redact)),
            )
            for name, check in shared.verification.items()
        ),
        checkpoints=tuple(
            WorkflowCheckpoint(
                giver=one.giver,
                taker=one.taker,
                by=one.by,
                criteria=redact(one.criteria),
                on_failure=redact(one.on_failure),
            )
            for one in plan.checkpoints
        ),
        merges=tuple(_merge(one, redact) for one in flow.merges),
        stages=plan.stages,
        graph=layered(
            {worker.name: worker.depends_on for worker in doers},
            {name: str(member.standing.status) for name, member in flow.members.items()},
        ),
    )


def _readers(flow: Flow) -> dict[str, tuple[tuple[str, int], ...]]:
    """Who has started from whose output, and from which version."""
    found: dict[str, list[tuple[str, int]]] = {}
    for name, member in flow.members.items():
        for giver, version in member.standing.read:
            found.setdefault(giver, []).append((name, version))
    return {name: tuple(listed) for name, listed in found.items()}


def _agent(
    flow: Flow, worker: Worker, read_by: tuple[tuple[str, int], ...], redact: Redact, heard: Mapping[str, int]
) -> WorkflowAgent:
    member = flow.members.get(worker.name) or Member(standing=WorkerStanding(worker.name))
    standing = member.standing
    sessions = [session for session in (*member.past, standing.session) if session is not None]
    return WorkflowAgent(
        name=worker.name,
        role=worker.role,
        status=str(standing.status),
        thread=standing.thread or member.workspace,
        workspace=member.workspace,
        objective=redact(worker.objective),
        verifier=worker.verifier,
        depends_on=worker.depends_on,
        waits_for=tuple(name for name in worker.depends_on if not _is_met(flow, name)),
        owns=worker.owns,
        forbids=worker.forbids,
        inputs=worker.inputs,
        outputs=worker.outputs,
        commands=tuple(redact(command) for command in worker.acceptance.commands),
        version=standing.version,
        read=standing.read,
        read_by=read_by,
        stale=member.stale,
        rounds=tuple(_round(one, redact) for one in standing.rounds),
        notes=tuple(_notes(worker.name, sessions, redact)),
        last_update=standing.last_update,
        last_progress=max(standing.last_progress or 0, heard.get(standing.thread, 0)) or None,
        crashes=standing.crashes,
        reason=redact(standing.reason),
        checking=member.checking,
        given_up=member.given_up,
        held_back=worker.name in flow.held,
        added=worker.name in flow.added,
        sessions=len(sessions),
    )


def _is_met(flow: Flow, name: str) -> bool:
    return name in flow.members and flow.members[name].standing.status in MET


def _round(one: Round, redact: Redact) -> WorkflowRound:
    return WorkflowRound(
        number=one.number,
        verifier=one.verifier,
        verdict=one.verdict,
        time=one.time,
        findings=tuple(redact(text) for text in one.findings),
        proofs=_proofs(one, redact),
        criteria=tuple(redact(f"{check.criteria}: {check.result}") for check in one.criteria),
        action=redact(one.action),
    )


def _merge(one: Merged, redact: Redact) -> WorkflowMerge:
    return WorkflowMerge(
        number=one.number,
        agent=one.agent,
        time=one.time,
        taken=one.taken,
        paths=tuple(redact(path) for path in one.paths),
        conflicts=tuple(redact(path) for path in one.conflicts),
        commits=one.commits,
        resolved_by=one.resolved_by,
        kept_out=tuple(redact(line) for line in one.kept_out),
        proofs=_proofs(one, redact),
        reason=redact(one.reason),
    )


def _proofs(one: Round | Merged, redact: Redact) -> tuple[str, ...]:
    """The commands that were run, each with how it ended."""
    return tuple(
        redact(f"{proof.command}: {proof.fault or ('holds' if proof.holds else f'ended with {proof.code}')}")
        for proof in one.proofs
    )


def _notes(agent: str, sessions: Iterable[Session], redact: Redact) -> list[WorkflowNote]:
    found: list[WorkflowNote] = []
    for session in sessions:
        found += [_note(agent, note, redact) for note in session.notes]
        found += [
            WorkflowNote(
                agent=agent,
                note_id=one.pending_id,
                status="pending",
                category="",
                description=redact("; ".join(one.problems)),
                context=redact(one.written),
                time=one.timestamp,
            )
            for one in session.pending
        ]
    return found


def _note(agent: str, note: Note, redact: Redact) -> WorkflowNote:
    return WorkflowNote(
        agent=agent,
        note_id=note.note_id,
        status=str(note.status),
        category=str(note.category),
        description=redact(note.description),
        context=redact(note.context),
        resolution=redact(note.resolution or ""),
        resolved_by=note.resolved_by or "",
        escalation_reason=redact(note.escalation_reason or ""),
        time=note.timestamp,
    )
