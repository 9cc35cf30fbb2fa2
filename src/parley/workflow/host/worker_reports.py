"""What a worker's turn left, for the executor of its workflow: its calls, and the files that it may change.

It becomes the meta of the worker's message, so that the executor decides from the bus alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import replace as replace_in

from parley.base.json_codec import decode
from parley.engine import protocol_messages
from parley.engine.owned_job import OwnedJob
from parley.engine.reduction import message
from parley.engine.turn.running_turn import Turn
from parley.engine.values import message_meta
from parley.engine.values.message_meta import Answered, LeftForCode, Meta
from parley.engine.world import World
from parley.ports.turns import Site
from parley.ports.workspaces import Kept, Scope
from parley.protocol.errors import Refused
from parley.protocol.molecules import HUMAN, PROXY, Surface
from parley.settings.schema import WorkflowSettings
from parley.workflow.execution.assist import refuse_resolve, said_in_refusal
from parley.workflow.execution.checkpoints import read_criteria, refuse_criteria
from parley.workflow.execution.executor_turn import ExecutorTurn, WorkflowLimits
from parley.workflow.execution.plan_change import difference
from parley.workflow.files.joined import without_joined
from parley.workflow.files.plan import read_plan
from parley.workflow.files.reading.strict_json import read_json
from parley.workflow.files.session import TakenSession, take_back
from parley.workflow.files.status_file import read_own_status, render_status, shared_of
from parley.workflow.host import design_messages
from parley.workflow.host.design_gates import design_in, drafts_beyond, findings
from parley.workflow.host.live_flows import WorkPlace, at_work
from parley.workflow.host.worker_turn import WorkerTurn
from parley.workflow.model import notes, pending_notes
from parley.workflow.model.flow import EDGES, Flow, OpenConversation
from parley.workflow.model.grammar import VERDICTS
from parley.workflow.model.notes import note_id, put
from parley.workflow.model.terms import (
    EXECUTOR,
    GROUP,
    PLAN,
    SHARED_STATUS,
    Plan,
    Session,
    Status,
    instructions_of,
    round_of,
    session_of,
)
from parley.workflow.model.worker_result import NO_RESULT, Judgement, Mended, Outside, Resolve, WorkerResult
from parley.workflow.paths import claims
from parley.workflow.paths.ownership import owner_of, reserved

CLAIMS = (Status.REVIEW, Status.READY, Status.BLOCKED)
MOST_FINDINGS = 50
FINDING_LIMIT = 2000  # characters
STRAYS = 50  # paths that are told one by one
PROBLEMS = 20  # that are told at once
LATE_ROLE = "no role is drafted while the workflow runs; use one that there is, or have the lead go back to PLAN"


def limits_of(job: OwnedJob) -> WorkflowLimits:
    """What the job's snapshot says of workflows."""
    said = job.settings_of(WorkflowPart).workflow
    return WorkflowLimits(job.soup.charter.fan_out, said.rounds, int(said.similar))


class WorkflowPart(Struct, frozen=True):
    """What a job's settings say of workflows."""

    workflow: WorkflowSettings = WorkflowSettings()


def scope_of(job: OwnedJob, thread: str) -> Scope | None:
    """What the worker on a thread may change of its tree; None: all of it."""
    found = at_work(job, thread)
    return claims.scope_of(whole_plan(found.flow), found.talk.agent) if found and found.talk.kind == "doer" else None


def owned(job: OwnedJob, thread: str, site: Site) -> Site:
    """A site with whose its paths are, for the tools of a doer."""
    found = at_work(job, thread)
    if found is None or found.talk.kind != "doer":
        return site
    return replace(site, worker=found.talk.agent, claims=claims.claims_of(whole_plan(found.flow)))


def whole_plan(flow: Flow) -> Plan:
    """The plan, with those who joined since."""
    before = flow.plan or Plan("", "", {}, ())
    return Plan(
        task=before.task,
        goal=before.goal,
        workers=flow.workers,
        stages=before.stages,
        checkpoints=before.checkpoints,
        escalation=before.escalation,
    )


# ---- calls in mid-turn ---------------------------------------------------------------------------


def keeps_notes(job: OwnedJob, turn: Turn) -> bool:
    """Whether the turn is of a doer of a workflow or of its verifier, whose notes have rules."""
    found = at_work(job, turn.thread)
    return found is not None and found.talk.kind in ("doer", "verifier")


def note(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> str:
    """The Note of a doer or a verifier; the note's name. Raises Refused."""
    flow, talk = _place(job, turn)
    part = turn.part(WorkerTurn)
    session = part.session or _session(flow, talk)
    now = int(world.clock.now())
    name = arguments.get("note_id")
    if pending_notes.number_of(name):
        return _mend(turn, session, str(name), arguments, now)
    call = notes.read_call(arguments)
    made, problem = notes.called(session, call, now)
    if made is None and call.note_id is None:
        part.session = kept_session = pending_notes.refused(
            session, _next(flow, talk, session), json.dumps(dict(arguments)), [problem], now
        )
        kept = kept_session.pending[-1].pending_id
        raise Refused(f"{problem}; until you mend it, it is pending as {kept} (Note with note_id {kept}, and it anew)")
    if made is None:
        raise Refused(problem)
    noted = put(session, made)
    for one in pending_notes.mended_by(session, made) if call.note_id is None else ():
        noted = pending_notes.without(noted, one)
        part.mended[one] = made.note_id
    part.session = noted
    return f"{made.note_id} is {made.status}"


def _mend(turn: Turn, session: Session, name: str, arguments: Mapping[str, Any], now: int) -> str:
    """A pending note is written anew, or withdrawn. Raises Refused."""
    part = turn.part(WorkerTurn)
    if name not in (one.pending_id for one in session.pending):
        there = ", ".join(one.pending_id for one in session.pending) or "none"
        raise Refused(f"there is no note {name} pending; pending are: {there}")
    rest = {key: value for key, value in arguments.items() if key != "note_id"}
    if rest.get("status") == pending_notes.WITHDRAWN:
        why = rest.get("resolution")
        if not isinstance(why, str) or not why.strip():
            raise Refused("resolution is missing; say why you withdraw the note")
        part.session = pending_notes.without(session, name)
        part.mended[name] = f"{pending_notes.WITHDRAWN}: {protocol_messages.fit(why)[: notes.MOST_TEXT]}"
        return f"{name} is withdrawn"
    made, problem = notes.called(session, notes.read_call(rest), now)
    if made is None:
        raise Refused(problem)
    part.session = pending_notes.without(put(session, made), name)
    part.mended[name] = made.note_id
    return f"{made.note_id} is {made.status}; {name} is mended"


def _next(flow: Flow, talk: OpenConversation, session: Session) -> int:
    """The number of the next note that is refused."""
    member = flow.members.get(talk.agent)
    before = 0 if member is None else member.review.refused if talk.kind == "verifier" else member.refused
    used = [pending_notes.number_of(one.pending_id) for one in session.pending]
    return max((before, *used)) + 1


def status(job: OwnedJob, turn: Turn, arguments: Mapping[str, Any]) -> str:
    """A doer's claim for the end of its turn. Raises Refused."""
    flow, talk = _place(job, turn)
    claim = arguments.get("status")
    if claim not in CLAIMS:
        raise Refused(f"status is one of: {', '.join(CLAIMS)}")
    problem = _refuse_claim(
        flow.status(talk.agent), Status(claim), turn.part(WorkerTurn).session or _session(flow, talk)
    )
    if problem:
        raise Refused(problem)
    turn.part(WorkerTurn).claim = str(claim)
    return f"you will be {claim} when your turn ends"


def _refuse_claim(now: Status, claim: Status, session: Session) -> str:
    if now is Status.STALLED:
        now = Status.WORKING
    if claim is not now and claim not in EDGES[now]:
        return f"you are {now}, and can't become {claim}; from there it goes to: {', '.join(sorted(EDGES[now]))}"
    if claim is Status.READY:
        return notes.refuse_ready(session)
    return notes.refuse_blocked(session) if claim is Status.BLOCKED else ""


def verdict(job: OwnedJob, turn: Turn, arguments: Mapping[str, Any]) -> str:
    """A verifier's word on what it has looked at, and on each of its checkpoints. Raises Refused."""
    said, found = arguments.get("verdict"), arguments.get("findings", [])
    if said not in VERDICTS:
        raise Refused(f"verdict is one of: {', '.join(VERDICTS)}")
    if not isinstance(found, list) or not all(isinstance(one, str) and one.strip() for one in found):
        raise Refused("findings is a list of texts, none of them empty")
    if len(found) > MOST_FINDINGS or any(
        len(one) > FINDING_LIMIT or protocol_messages.fit(one) != one for one in found
    ):
        raise Refused(f"give {MOST_FINDINGS} findings at most, each of {FINDING_LIMIT} characters that are some")
    if said != "verified" and not found:
        raise Refused("say what you found: the agent that made it has to act on that")
    place = at_work(job, turn.thread)
    points = place.flow.plan.checkpoints_of(place.talk.agent) if place and place.flow.plan else ()
    judged, problem = read_criteria(arguments.get("criteria", []), points)
    if problem := problem or refuse_criteria(points, str(said), judged):
        raise Refused(problem)
    if any(protocol_messages.fit(one.evidence) != one.evidence for one in judged):
        raise Refused("evidence contains what is no character")
    turn.part(WorkerTurn).judgement = Judgement(str(said), tuple(found), judged)
    return f"your verdict is {said}"


def resolve(job: OwnedJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> str:
    """An answer of the architect's to a note. Raises Refused."""
    flow, _ = _place(job, turn)
    for name, value in arguments.items():
        if not isinstance(value, str) or len(value) > notes.MOST_TEXT or protocol_messages.fit(value) != value:
            raise Refused(f"{name} is a text of {notes.MOST_TEXT} characters at most")
    given = convert(dict(arguments), Resolve)
    if any((one.agent, one.note_id) == (given.agent, given.note_id) for one in turn.part(WorkerTurn).resolves):
        raise Refused(f"{given.note_id} of {given.agent} is answered already in this turn")
    act = ExecutorTurn(flow, limits_of(job), int(world.clock.now()), str)
    author, said = _consulted(job, world, turn)
    if not author:
        author, said = said_in_refusal(act, given.agent, given.note_id)
    if problem := refuse_resolve(act, given, consulted=bool(author)):
        raise Refused(problem)
    turn.part(WorkerTurn).resolves.append(replace_in(given, author=author, said=said))
    return f"{given.note_id} of {given.agent} will be answered when your turn ends"


def _consulted(job: OwnedJob, world: World, turn: Turn) -> tuple[str, str]:
    """Who has answered the question that the turn works on, the human or the proxy, and how; empty: neither."""
    answer = message_meta.read(message(job, world, turn.message))
    if not isinstance(answer, Answered):
        return "", ""
    return HUMAN if answer.heard else PROXY, answer.text


def _place(job: OwnedJob, turn: Turn) -> WorkPlace:
    found = at_work(job, turn.thread)
    if found is None:
        raise Refused("you are not part of a workflow")
    return found


def _session(flow: Flow, talk: OpenConversation) -> Session:
    member = flow.members.get(talk.agent)
    if member is None:
        return Session("", 0)
    session = member.review.session if talk.kind == "verifier" else member.standing.session
    return session or Session("", 0)


# ---- what a message tells of it ------------------------------------------------------------------


def read(meta: Meta | None) -> WorkerResult:
    """What a worker's turn left, as its message tells; nothing where the message is another one's."""
    return decode(bytes(meta.left).decode(), WorkerResult) if isinstance(meta, LeftForCode) else NO_RESULT


# ---- the end of a turn ---------------------------------------------------------------------------


def report(job: OwnedJob, world: World, turn: Turn) -> WorkerResult | None:
    """What the turn left for the code that dispatched it; None where no code did."""
    above = job.above(turn.thread)
    if above is None or above.agent not in (EXECUTOR, GROUP):
        return None
    found = at_work(job, turn.thread)
    if found is not None:
        flow, talk = found
        workspace = job.soup.need(Surface, turn.thread, turn.agent).workspace
        if talk.kind == "doer":
            return _doer(job, world, turn, flow, talk, workspace)
        if talk.kind == "verifier":
            return _verifier(job, world, turn, flow, talk, workspace)
        if talk.kind == "architect":
            return _architect(job, world, turn, flow, workspace)
    return WorkerResult(judgement=turn.part(WorkerTurn).judgement)


def outside(job: OwnedJob, turn: Turn, kept: Kept) -> Outside | None:
    """What the turn wrote outside its paths: whose it is, and where what was there is kept."""
    found = at_work(job, turn.thread)
    if not kept.outside or found is None:
        return None
    plan = whole_plan(found.flow)
    paths, more = [protocol_messages.fit(path) for path in kept.outside[:STRAYS]], len(kept.outside) - STRAYS
    owners = [owner_of(plan, path) or ("the protocol" if reserved(path) else "no agent") for path in paths]
    if more > 0:
        paths, owners = [*paths, f"and {more} more"], [*owners, ""]
    return Outside(tuple(paths), tuple(owners), kept.ref)


def _doer(job: OwnedJob, world: World, turn: Turn, flow: Flow, talk: OpenConversation, workspace: str) -> WorkerResult:
    """Its notes and its claim, by its calls and by its files; what of these can't be taken is told to it."""
    noted = _noted(job, world, turn, flow, talk, workspace)
    claim, more = _claimed(job, world, turn, flow.status(talk.agent), noted.session, workspace, talk.agent)
    return replace_in(noted.left, claim=claim, problems=_told([*noted.problems, *more]))


def _told(problems: Sequence[str]) -> tuple[str, ...]:
    return tuple(protocol_messages.fit(problem) for problem in problems[:PROBLEMS])


@dataclass(frozen=True, slots=True)
class _Noted:
    """The notes that a turn leaves: all of them, what is new of them, and what can't be taken."""

    session: Session
    left: WorkerResult
    problems: list[str]


def _noted(job: OwnedJob, world: World, turn: Turn, flow: Flow, talk: OpenConversation, workspace: str) -> _Noted:
    """What a turn leaves of notes, by its calls and by its file."""
    given = _session(flow, talk)
    session, now = turn.part(WorkerTurn).session or given, int(world.clock.now())
    problems: list[str] = []
    written = world.workspace.read(job.id, workspace, session_of(talk.name))
    if written is not None:
        taken = take_back(given, written, now, talk.name)
        problems += [str(finding) for finding in taken.findings]
        session = _with(taken, given, session, turn.part(WorkerTurn).mended)
        for text, wrong in taken.unfit:
            session = pending_notes.refused(session, _next(flow, talk, session), text, wrong, now)
    known = {one.note_id: one for one in given.notes}
    before = {one.pending_id for one in given.pending}
    mended = turn.part(WorkerTurn).mended
    left = WorkerResult(
        notes=tuple(one for one in session.notes if known.get(one.note_id) != one),
        pending=tuple(one for one in session.pending if one not in given.pending),
        mended=tuple(Mended(name, how) for name, how in mended.items() if name in before),
    )
    return _Noted(session, left, problems)


def _with(taken: TakenSession, given: Session, session: Session, mended: dict[str, str]) -> Session:
    """The session with what its maker changed in its file; what it has called for in the same turn goes before."""
    before = {one.note_id: one for one in given.notes}
    for change in taken.changes:
        name = change.note.note_id
        if change.made:
            note = replace_in(change.note, note_id=note_id(len(session.notes) + 1))
            found = pending_notes.mended_by(session, note, change.mends)
            session = put(session, note)
            for one in found:
                session = pending_notes.without(session, one)
                mended[one] = note.note_id
        elif next(one for one in session.notes if one.note_id == name) == before[name]:
            session = put(session, change.note)
    for name, why in taken.withdrawn:
        if name in (one.pending_id for one in session.pending):
            session = pending_notes.without(session, name)
            mended[name] = f"{pending_notes.WITHDRAWN}: {why}"
    return session


def _verifier(
    job: OwnedJob, world: World, turn: Turn, flow: Flow, talk: OpenConversation, workspace: str
) -> WorkerResult:
    """Its notes, and its verdict by the file of its round, where it has not called for one."""
    noted, problems = _noted(job, world, turn, flow, talk, workspace), list[str]()
    if not turn.part(WorkerTurn).judgement.verdict:
        problems = _verdict_by_file(job, world, turn, flow, talk, workspace)
    judgement = turn.part(WorkerTurn).judgement
    return replace_in(noted.left, judgement=judgement, problems=_told([*noted.problems, *problems]))


def _verdict_by_file(
    job: OwnedJob, world: World, turn: Turn, flow: Flow, talk: OpenConversation, workspace: str
) -> list[str]:
    """Take the verdict that a verifier wrote into the file of its round; why it can't be taken."""
    path = round_of(talk.agent, len(flow.members[talk.agent].standing.rounds) + 1)
    text = world.workspace.read(job.id, workspace, path)
    if text is None:
        return []
    value, problems = read_json(text, path, talk.name)
    if problems:
        return [str(problem) for problem in problems]
    try:
        verdict(job, turn, value if isinstance(value, dict) else {})
    except Refused as refused:
        return [f"{path}: {refused}"]
    return []


def _claimed(
    job: OwnedJob, world: World, turn: Turn, now: Status, session: Session, workspace: str, agent: str
) -> tuple[str, list[str]]:
    """The status that a doer claims: by its call, else by its own entry in the shared file."""
    if turn.part(WorkerTurn).claim:
        return turn.part(WorkerTurn).claim, []
    text = world.workspace.read(job.id, workspace, SHARED_STATUS)
    if text is None:
        return "", []
    said, findings = read_own_status(text, agent)
    if findings:
        return "", [str(finding) for finding in findings]
    if said is None or said is now or (said is Status.WORKING and now is Status.STALLED):
        return "", []
    field = f"{SHARED_STATUS}: agents.{agent}.status"
    if said not in CLAIMS:
        return "", [f"{field} is {said}; a doer may claim: {', '.join(CLAIMS)}"]
    problem = _refuse_claim(now, said, session)
    return ("", [f"{field}: {problem}"]) if problem else (str(said), [])


def _architect(job: OwnedJob, world: World, turn: Turn, flow: Flow, workspace: str) -> WorkerResult:
    part = turn.part(WorkerTurn)
    left = WorkerResult(judgement=part.judgement, resolves=tuple(part.resolves))
    there = world.workspace.read(job.id, workspace, PLAN)
    text = without_joined(there) if there is not None else None
    if text is None or flow.plan is None or text == flow.plan.text:
        return left
    own = job.soup.need(Surface, flow.thread, EXECUTOR).workspace
    told = _instructions(job, world, text, workspace, own)
    diff = "\n".join(difference(one.was, one.now, one.path, one.path) for one in told)
    late = (f"{path}: {LATE_ROLE}" for path in drafts_beyond(world, job.id, workspace, own))
    return replace_in(
        left,
        plan=text,
        instructions=tuple((one.path, one.now) for one in told),
        diff=protocol_messages.fit(diff),
        gaps=(*design_gaps(job, world, workspace), *late),
    )


@dataclass(frozen=True, slots=True)
class _Changed:
    """What an agent is told, before a change and after it."""

    path: str
    was: str
    now: str


def _instructions(job: OwnedJob, world: World, plan: str, theirs: str, own: str) -> list[_Changed]:
    """What the agents of a changed plan are told otherwise."""
    found, _ = read_plan(plan)
    told = []
    for path in map(instructions_of, found.workers if found else ()):
        now, was = (world.workspace.read(job.id, where, path) for where in (theirs, own))
        if now is not None and now != was:
            told.append(_Changed(path, was or "", now))
    return told


def design_gaps(job: OwnedJob, world: World, workspace: str) -> list[str]:
    """What the design check says of the plan and its files in a workspace."""
    design = design_in(world, job.id, workspace)
    if design is None:
        return []
    plan, _ = read_plan(design.files[PLAN])
    if plan is not None:  # the file there tells of the plan in force
        design = replace(design, files={**design.files, SHARED_STATUS: render_status(shared_of(plan))})
    return [protocol_messages.fit(str(finding)) for finding in findings(job, design)[: design_messages.FINDINGS]]
