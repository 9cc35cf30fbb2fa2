"""How a workflow and the sessions of its agents end, and what is kept of a run that another one follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from parley.workflow.flow import Event, Flow, Member
from parley.workflow.plain import plain
from parley.workflow.terms import FOLDER, PlanChange, Resting, Session, Status

RUNS = f"{FOLDER}/runs"
WHY = {
    "close": "its lead closed the conversation before the workflow's end",
    "phase": "its state was left before the workflow's end",
    "backtrack": "its state was left backward",
    "withdrawal": "it was withdrawn",
    "end": "the job has ended",
}


def run_folder(number: int) -> str:
    """Where what a run left is kept, once another one follows."""
    return f"{RUNS}/run_{number}"


def resting(flow: Flow) -> tuple[Resting, ...]:
    """The answers that came with a plan that is not in force yet."""
    found = []
    for agent, name in flow.resting:
        member = flow.members.get(agent)
        session = member.standing.session if member is not None else None
        note = next((one for one in session.notes if one.note_id == name), None) if session else None
        if session is not None and note is not None and note.resolution is not None:
            found.append(Resting(agent, name, session.session_start, note.resolution, note.resolved_by or ""))
    return tuple(found)


def over(flow: Flow, time: int, origin: str) -> list[Event]:
    """What happens to a workflow whose executor is gone before it came to its end.

    It does so by itself with the step that ends the executor's thread: no turn of the executor says it.
    """
    if flow.phase != "running":
        return []
    why = WHY.get(origin, origin)
    events: list[Event] = []
    if flow.draft or flow.resting:
        change = PlanChange(time, "", "refused", "the protocol", f"the workflow was stopped: {why}", "", resting(flow))
        events.append({"event": "changed", "change": plain(change)})
    return [*events, {"event": "phase", "phase": "stopped", "time": time, "reason": why}]


# ---- sessions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ended:
    """A session that is over: whose, when, and how it ended."""

    agent: str
    session: Session
    time: int
    status: str  # session_complete, abandoned, failed or stopped
    reason: str = ""


def is_over(flow: Flow, member: Member) -> bool:
    """Whether a doer's session is over: it is to be archived, and is nobody's current one any more."""
    return member.given_up or flow.phase != "running" or member.standing.status is Status.COMPLETE


def ended(flow: Flow) -> Iterator[Ended]:
    """Every session that is over, in the order in which they ended; an agent's earlier ones before its last."""
    given_up = sorted((m for m in flow.members.values() if m.given_up), key=lambda member: member.left)
    others = [member for member in flow.members.values() if not member.given_up]
    for member in (*given_up, *(others if flow.phase != "running" else ())):
        standing = member.standing
        time = member.gone if member.given_up else flow.ended
        for session in member.past:
            yield Ended(standing.name, session, time, str(Status.COMPLETE), "another task followed")
        if standing.session is not None:
            status, reason = _how(flow, member)
            yield Ended(standing.name, standing.session, time, status, reason)
    if flow.phase != "running":  # a verifier may have more doers, so its sessions are over with the workflow
        how = (str(Status.COMPLETE), "") if flow.phase == "complete" else ("stopped", flow.why)
        for verifier, session in flow.reviews():
            yield Ended(verifier, session, flow.ended, *how)


def _how(flow: Flow, member: Member) -> tuple[str, str]:
    standing = member.standing
    if standing.status is Status.COMPLETE:
        return str(Status.COMPLETE), ""
    if member.given_up:
        return "abandoned", standing.reason
    if standing.status is Status.FAILED:
        return "failed", standing.reason
    was = f"it was {standing.status}{f' ({standing.reason})' if standing.reason else ''}"
    return "stopped", f"{was}; {flow.why}" if flow.why else was
