"""What a worker's turn left, for whoever runs its workflow: its calls, and the files that it may change.

It becomes the meta of the worker's message, so that the executor decides from the bus alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from parley.core.errors import Refused
from parley.core.terms import HUMAN, PROXY, Surface
from parley.engine import texts
from parley.engine.designs import design_in, drafts_beyond, findings
from parley.engine.flows import at_work
from parley.engine.live import LiveJob
from parley.engine.reduce import message
from parley.engine.turn import Turn
from parley.engine.world import World
from parley.ports import Kept, Scope, Site
from parley.workflow import claims, notes, pending
from parley.workflow.at_checkpoint import refuse_criteria
from parley.workflow.changing import difference
from parley.workflow.conduct import Conduct, Limits
from parley.workflow.flow import EDGES, Flow, Talk
from parley.workflow.grammar import VERDICTS
from parley.workflow.helping import refuse_resolve, said_in_refusal
from parley.workflow.joined import without_joined
from parley.workflow.notes import note_id, put
from parley.workflow.ownership import owner_of, reserved
from parley.workflow.plain import plain
from parley.workflow.plan import read_plan
from parley.workflow.session import Taken, take_back
from parley.workflow.status_file import read_own_status, render_status, shared_of
from parley.workflow.strictly import read_json
from parley.workflow.terms import (
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

CLAIMS = (Status.REVIEW, Status.READY, Status.BLOCKED)
MOST_FINDINGS = 50
FINDING_LIMIT = 2000  # characters
STRAYS = 50  # paths that are told one by one
PROBLEMS = 20  # that are told at once
LATE_ROLE = "no role is drafted while the workflow runs; use one that there is, or have the lead go back to PLAN"


def limits_of(live: LiveJob) -> Limits:
    """What the job's snapshot says of workflows."""
    said = live.settings.get("workflow", {})
    return Limits(live.soup.charter.fan_out, int(said.get("rounds", 3)), int(said.get("similar", 85)))


def scope_of(live: LiveJob, thread: str) -> Scope | None:
    """What whoever works on a thread may change of its tree; None: all of it."""
    found = at_work(live, thread)
    return claims.scope_of(whole_plan(found[0]), found[1].agent) if found and found[1].kind == "doer" else None


def owned(live: LiveJob, thread: str, site: Site) -> Site:
    """A site with whose its paths are, for the tools of a doer."""
    found = at_work(live, thread)
    if found is None or found[1].kind != "doer":
        return site
    return replace(site, worker=found[1].agent, claims=claims.claims_of(whole_plan(found[0])))


def whole_plan(flow: Flow) -> Plan:
    """The plan, with those who joined since."""
    before = flow.plan or Plan("", "", {}, ())
    return Plan(before.task, before.goal, flow.workers, before.stages, before.checkpoints, before.escalation)


# ---- calls in mid-turn ---------------------------------------------------------------------------


def keeps_notes(live: LiveJob, turn: Turn) -> bool:
    """Whether the turn is of a doer of a workflow or of its verifier, whose notes have rules."""
    found = at_work(live, turn.thread)
    return found is not None and found[1].kind in ("doer", "verifier")


def note(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> str:
    """The Note of a doer or a verifier; the note's name. Raises Refused."""
    flow, talk = _place(live, turn)
    session = turn.session or _session(flow, talk)
    now = int(world.clock.now())
    name = arguments.get("note_id")
    if pending.number_of(name):
        return _mend(turn, session, str(name), arguments, now)
    made, problem = notes.called(session, arguments, now)
    if made is None and "note_id" not in arguments:
        turn.session = pending.refused(session, _next(flow, talk, session), json.dumps(dict(arguments)), [problem], now)
        kept = turn.session.pending[-1].pending_id
        raise Refused(f"{problem}; until you mend it, it is pending as {kept} (Note with note_id {kept}, and it anew)")
    if made is None:
        raise Refused(problem)
    is_new = "note_id" not in arguments
    turn.session = put(session, made)
    for one in pending.mended_by(session, made) if is_new else ():
        turn.session = pending.without(turn.session, one)
        turn.mended[one] = made.note_id
    return f"{made.note_id} is {made.status}"


def _mend(turn: Turn, session: Session, name: str, arguments: Mapping[str, Any], now: int) -> str:
    """A pending note is written anew, or withdrawn. Raises Refused."""
    if name not in (one.pending_id for one in session.pending):
        there = ", ".join(one.pending_id for one in session.pending) or "none"
        raise Refused(f"there is no note {name} pending; pending are: {there}")
    rest = {key: value for key, value in arguments.items() if key != "note_id"}
    if rest.get("status") == pending.WITHDRAWN:
        why = rest.get("resolution")
        if not isinstance(why, str) or not why.strip():
            raise Refused("resolution is missing; say why you withdraw the note")
        turn.session = pending.without(session, name)
        turn.mended[name] = f"{pending.WITHDRAWN}: {texts.fit(why)[: notes.MOST_TEXT]}"
        return f"{name} is withdrawn"
    made, problem = notes.called(session, rest, now)
    if made is None:
        raise Refused(problem)
    turn.session = pending.without(put(session, made), name)
    turn.mended[name] = made.note_id
    return f"{made.note_id} is {made.status}; {name} is mended"


def _next(flow: Flow, talk: Talk, session: Session) -> int:
    """The number of the next note that is refused."""
    member = flow.members.get(talk.agent)
    before = 0 if member is None else member.review.refused if talk.kind == "verifier" else member.refused
    used = [pending.number_of(one.pending_id) for one in session.pending]
    return max((before, *used)) + 1


def status(live: LiveJob, turn: Turn, arguments: Mapping[str, Any]) -> str:
    """A doer's claim for the end of its turn. Raises Refused."""
    flow, talk = _place(live, turn)
    claim = arguments.get("status")
    if claim not in CLAIMS:
        raise Refused(f"status is one of: {', '.join(CLAIMS)}")
    problem = _refuse_claim(flow.status(talk.agent), Status(claim), turn.session or _session(flow, talk))
    if problem:
        raise Refused(problem)
    turn.claim = str(claim)
    return f"you will be {claim} when your turn ends"


def _refuse_claim(now: Status, claim: Status, session: Session) -> str:
    if now is Status.STALLED:
        now = Status.WORKING
    if claim is not now and claim not in EDGES[now]:
        return f"you are {now}, and can't become {claim}; from there it goes to: {', '.join(sorted(EDGES[now]))}"
    if claim is Status.READY:
        return notes.refuse_ready(session)
    return notes.refuse_blocked(session) if claim is Status.BLOCKED else ""


def verdict(live: LiveJob, turn: Turn, arguments: Mapping[str, Any]) -> str:
    """A verifier's word on what it has looked at, and on each of its checkpoints. Raises Refused."""
    said, found = arguments.get("verdict"), arguments.get("findings", [])
    if said not in VERDICTS:
        raise Refused(f"verdict is one of: {', '.join(VERDICTS)}")
    if not isinstance(found, list) or not all(isinstance(one, str) and one.strip() for one in found):
        raise Refused("findings is a list of texts, none of them empty")
    if len(found) > MOST_FINDINGS or any(len(one) > FINDING_LIMIT or texts.fit(one) != one for one in found):
        raise Refused(f"give {MOST_FINDINGS} findings at most, each of {FINDING_LIMIT} characters that are some")
    if said != "verified" and not found:
        raise Refused("say what you found: whoever made it has to act on that")
    place, judged = at_work(live, turn.thread), arguments.get("criteria", [])
    points = place[0].plan.checkpoints_of(place[1].agent) if place and place[0].plan else ()
    if problem := refuse_criteria(points, str(said), judged):
        raise Refused(problem)
    if any(texts.fit(one.get("evidence", "")) != one.get("evidence", "") for one in judged):
        raise Refused("evidence contains what is no character")
    turn.verdict = {"verdict": said, "findings": list(found), **({"criteria": list(judged)} if judged else {})}
    return f"your verdict is {said}"


def resolve(live: LiveJob, world: World, turn: Turn, arguments: Mapping[str, Any]) -> str:
    """An answer of the architect's to a note. Raises Refused."""
    flow, _ = _place(live, turn)
    for name, value in arguments.items():
        if not isinstance(value, str) or len(value) > notes.MOST_TEXT or texts.fit(value) != value:
            raise Refused(f"{name} is a text of {notes.MOST_TEXT} characters at most")
    which = (arguments.get("agent"), arguments.get("note_id"))
    if any((one["agent"], one["note_id"]) == which for one in turn.resolves):
        raise Refused(f"{which[1]} of {which[0]} is answered already in this turn")
    act = Conduct(flow, limits_of(live), int(world.clock.now()), str)
    author, said = _consulted(live, world, turn)
    if not author:
        author, said = said_in_refusal(act, *map(str, which))
    if problem := refuse_resolve(act, arguments, consulted=bool(author)):
        raise Refused(problem)
    turn.resolves.append({**arguments, **({"author": author, "said": said} if author else {})})
    return f"{which[1]} of {which[0]} will be answered when your turn ends"


def _consulted(live: LiveJob, world: World, turn: Turn) -> tuple[str, str]:
    """Who has answered the question that the turn works on, the human or the proxy, and how; empty: nobody."""
    row = message(live, world, turn.message)
    about: dict[str, Any] = json.loads(row.meta) if row.meta else {}
    if not row.sender_thread.startswith("escalation:") or "answer" not in about:
        return "", ""
    return HUMAN if about.get("heard") else PROXY, str(about.get("text", ""))


def _place(live: LiveJob, turn: Turn) -> tuple[Flow, Talk]:
    found = at_work(live, turn.thread)
    if found is None:
        raise Refused("you are not part of a workflow")
    return found


def _session(flow: Flow, talk: Talk) -> Session:
    member = flow.members.get(talk.agent)
    if member is None:
        return Session("", 0)
    session = member.review.session if talk.kind == "verifier" else member.standing.session
    return session or Session("", 0)


# ---- the end of a turn ---------------------------------------------------------------------------


def report(live: LiveJob, world: World, turn: Turn) -> dict[str, Any] | None:
    """What the turn left for the code that dispatched it; None where no code did."""
    parent = live.soup.parent(turn.thread)
    above = live.soup.get(Surface, parent) if parent else None
    if above is None or above.agent not in (EXECUTOR, GROUP):
        return None
    left: dict[str, Any] = {"verdict": turn.verdict} if turn.verdict else {}
    found = at_work(live, turn.thread)
    if found is not None:
        flow, talk = found
        workspace = live.soup.need(Surface, turn.thread, turn.agent).workspace
        if talk.kind == "doer":
            left |= _doer(live, world, turn, flow, talk, workspace)
        elif talk.kind == "verifier":
            left |= _verifier(live, world, turn, flow, talk, workspace)
        elif talk.kind == "architect":
            left |= _architect(live, world, turn, flow, workspace)
    return {"worker": left}


def strayed(live: LiveJob, turn: Turn, kept: Kept, left: dict[str, Any] | None) -> None:
    """Add what the turn wrote outside its paths to what it left: whose it is, and where what was there is kept."""
    found = at_work(live, turn.thread)
    if not kept.outside or left is None or found is None:
        return
    plan = whole_plan(found[0])
    paths, more = [texts.fit(path) for path in kept.outside[:STRAYS]], len(kept.outside) - STRAYS
    owners = [owner_of(plan, path) or ("the protocol" if reserved(path) else "no agent") for path in paths]
    if more > 0:
        paths, owners = [*paths, f"and {more} more"], [*owners, ""]
    left["worker"]["outside"] = {"paths": paths, "owners": owners, "ref": kept.ref}


def _doer(live: LiveJob, world: World, turn: Turn, flow: Flow, talk: Talk, workspace: str) -> dict[str, Any]:
    """Its notes and its claim, by its calls and by its files; what of these can't be taken is told to it."""
    session, left, problems = _noted(live, world, turn, flow, talk, workspace)
    claim, more = _claimed(live, world, turn, flow.status(talk.agent), session, workspace, talk.agent)
    return _left(left | {"claim": claim}, [*problems, *more])


def _left(left: dict[str, Any], problems: Sequence[str]) -> dict[str, Any]:
    told = [texts.fit(problem) for problem in problems[:PROBLEMS]]
    return {name: value for name, value in (left | {"problems": told}).items() if value}


def _noted(
    live: LiveJob, world: World, turn: Turn, flow: Flow, talk: Talk, workspace: str
) -> tuple[Session, dict[str, Any], list[str]]:
    """The notes that a turn leaves, by its calls and by its file: all, what is new of them, and what can't be taken."""
    given = _session(flow, talk)
    session, now = turn.session or given, int(world.clock.now())
    problems: list[str] = []
    written = world.workspace.read(live.job, workspace, session_of(talk.name))
    if written is not None:
        taken = take_back(given, written, now, talk.name)
        problems += [str(finding) for finding in taken.findings]
        session = _with(taken, given, session, turn.mended)
        for text, wrong in taken.unfit:
            session = pending.refused(session, _next(flow, talk, session), text, wrong, now)
    known = {one.note_id: one for one in given.notes}
    made = [plain(one) for one in session.notes if known.get(one.note_id) != one]
    waiting = [plain(one) for one in session.pending if one not in given.pending]
    before = {one.pending_id for one in given.pending}
    mended = [[name, how] for name, how in turn.mended.items() if name in before]
    return session, {"notes": made, "pending": waiting, "mended": mended}, problems


def _with(taken: Taken, given: Session, session: Session, mended: dict[str, str]) -> Session:
    """The session with what its maker changed in its file; what it has called for in the same turn goes before."""
    before = {one.note_id: one for one in given.notes}
    for change in taken.changes:
        name = change.note.note_id
        if change.made:
            note = replace(change.note, note_id=note_id(len(session.notes) + 1))
            found = pending.mended_by(session, note, change.mends)
            session = put(session, note)
            for one in found:
                session = pending.without(session, one)
                mended[one] = note.note_id
        elif next(one for one in session.notes if one.note_id == name) == before[name]:
            session = put(session, change.note)
    for name, why in taken.withdrawn:
        if name in (one.pending_id for one in session.pending):
            session = pending.without(session, name)
            mended[name] = f"{pending.WITHDRAWN}: {why}"
    return session


def _verifier(live: LiveJob, world: World, turn: Turn, flow: Flow, talk: Talk, workspace: str) -> dict[str, Any]:
    """Its notes, and its verdict by the file of its round, where it has not called for one."""
    _, left, problems = _noted(live, world, turn, flow, talk, workspace)
    if not turn.verdict:
        problems += _verdict_by_file(live, world, turn, flow, talk, workspace)
    return _left(left | {"verdict": turn.verdict}, problems)


def _verdict_by_file(live: LiveJob, world: World, turn: Turn, flow: Flow, talk: Talk, workspace: str) -> list[str]:
    """Take the verdict that a verifier wrote into the file of its round; why it can't be taken."""
    path = round_of(talk.agent, len(flow.members[talk.agent].standing.rounds) + 1)
    text = world.workspace.read(live.job, workspace, path)
    if text is None:
        return []
    value, problems = read_json(text, path, talk.name)
    if problems:
        return [str(problem) for problem in problems]
    try:
        verdict(live, turn, value if isinstance(value, dict) else {})
    except Refused as refused:
        return [f"{path}: {refused}"]
    return []


def _claimed(
    live: LiveJob, world: World, turn: Turn, now: Status, session: Session, workspace: str, agent: str
) -> tuple[str, list[str]]:
    """The status that a doer claims: by its call, else by its own entry in the shared file."""
    if turn.claim:
        return turn.claim, []
    text = world.workspace.read(live.job, workspace, SHARED_STATUS)
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


def _architect(live: LiveJob, world: World, turn: Turn, flow: Flow, workspace: str) -> dict[str, Any]:
    left: dict[str, Any] = {"resolves": turn.resolves} if turn.resolves else {}
    there = world.workspace.read(live.job, workspace, PLAN)
    text = without_joined(there) if there is not None else None
    if text is not None and flow.plan is not None and text != flow.plan.text:
        own = live.soup.need(Surface, flow.thread, EXECUTOR).workspace
        told = _instructions(live, world, text, workspace, own)
        left["plan"] = text
        if told:
            left["instructions"] = [[path, now] for path, _, now in told]
            left["diff"] = texts.fit("\n".join(difference(was, now, path, path) for path, was, now in told))
        gaps = design_gaps(live, world, workspace)
        gaps += [f"{path}: {LATE_ROLE}" for path in drafts_beyond(world, live.job, workspace, own)]
        if gaps:
            left["gaps"] = gaps
    return left


def _instructions(live: LiveJob, world: World, plan: str, theirs: str, own: str) -> list[tuple[str, str, str]]:
    """What the agents of a changed plan are told otherwise: path, text before and text now."""
    found, _ = read_plan(plan)
    told = []
    for path in map(instructions_of, found.workers if found else ()):
        now, was = (world.workspace.read(live.job, where, path) for where in (theirs, own))
        if now is not None and now != was:
            told.append((path, was or "", now))
    return told


def design_gaps(live: LiveJob, world: World, workspace: str) -> list[str]:
    """What the design check says of the plan and its files in a workspace."""
    design = design_in(world, live.job, workspace)
    if design is None:
        return []
    plan, _ = read_plan(design.files[PLAN])
    if plan is not None:  # the file there tells of the plan in force
        design = replace(design, files={**design.files, SHARED_STATUS: render_status(shared_of(plan))})
    return [texts.fit(str(finding)) for finding in findings(live, design)[: texts.FINDINGS]]
