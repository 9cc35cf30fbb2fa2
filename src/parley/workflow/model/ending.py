"""The end of a workflow and of its agents' sessions, and what is kept of a run that another one follows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from parley.workflow.model.events import Event, PhaseChanged, PlanDecided
from parley.workflow.model.flow import Flow, Member
from parley.workflow.model.terms import FOLDER, PlanChange, RestingAnswer, Session, Status

RUNS = f"{FOLDER}/runs"
WHY = {
    "close": "its lead closed the conversation before the workflow's end",
    "phase": "its state was left before the workflow's end",
    "backtrack": "its state was left backward",
    "withdrawal": "it was withdrawn",
    "end": "the job has ended",
}


def run_folder(number: int) -> str:
    """The folder for the files of a run, once another one follows."""
    return f"{RUNS}/run_{number}"


def resting(flow: Flow) -> tuple[RestingAnswer, ...]:
    """The answers that came with a changed plan that is not in force yet."""
    found = []
    for name in flow.resting:
        member = flow.members.get(name.agent)
        session = member.standing.session if member is not None else None
        note = next((one for one in session.notes if one.note_id == name.note_id), None) if session else None
        if session is not None and note is not None and note.resolution is not None:
            found.append(
                RestingAnswer(
                    agent=name.agent,
                    note_id=name.note_id,
                    session=session.session_start,
                    answer=note.resolution,
                    by=note.resolved_by or "",
                )
            )
    return tuple(found)


def over(flow: Flow, time: int, origin: str) -> list[Event]:
    """The events that end a workflow whose executor ended before it.

    They happen with the step that ends the executor's thread, without a turn of the executor.
    """
    if flow.phase != "running":
        return []
    why = WHY.get(origin, origin)
    events: list[Event] = []
    if flow.draft or flow.resting:
        change = PlanChange(
            time=time,
            plan="",
            decision="refused",
            by="the protocol",
            reason=f"the workflow was stopped: {why}",
            judged="",
            answers=resting(flow),
        )
        events.append(PlanDecided(change))
    return [*events, PhaseChanged("stopped", time, why)]


# ---- sessions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EndedSession:
    """A session that is over: its agent, when and how it ended."""

    agent: str
    session: Session
    time: int
    status: str  # session_complete, abandoned, failed or stopped
    reason: str = ""


def is_over(flow: Flow, member: Member) -> bool:
    """Whether a doer's session is over: then it is archived, and is not its current one any more."""
    return member.given_up or flow.phase != "running" or member.standing.status is Status.COMPLETE


def ended(flow: Flow) -> Iterator[EndedSession]:
    """Every session that is over, in the order of their ends; an agent's earlier ones first."""
    given_up = sorted((m for m in flow.members.values() if m.given_up), key=lambda member: member.left)
    others = [member for member in flow.members.values() if not member.given_up]
    for member in (*given_up, *(others if flow.phase != "running" else ())):
        standing = member.standing
        time = member.gone if member.given_up else flow.ended
        for session in member.past:
            yield EndedSession(
                agent=standing.name,
                session=session,
                time=time,
                status=str(Status.COMPLETE),
                reason="another task followed",
            )
        if standing.session is not None:
            status, reason = _how(flow, member)
            yield EndedSession(agent=standing.name, session=standing.session, time=time, status=status, reason=reason)
    if flow.phase != "running":  # a verifier may have more doers, so its sessions end with the workflow
        complete = flow.phase == "complete"
        for verifier, session in flow.reviews():
            yield EndedSession(
                agent=verifier,
                session=session,
                time=flow.ended,
                status=str(Status.COMPLETE) if complete else "stopped",
                reason="" if complete else flow.why,
            )


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
