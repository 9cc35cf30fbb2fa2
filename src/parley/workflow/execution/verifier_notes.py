"""A verifier's own notes: its doer is not verified before each of them is settled.

A note that it escalates goes up as a note of the doer's, so that there is one way to be answered, and the answer stands
in both. Then the verifier looks again: what it said before it knew the answer is no verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from parley.base.text import cut
from parley.workflow.execution import executor_messages
from parley.workflow.execution.executor_turn import ExecutorTurn
from parley.workflow.model.events import ReviewBegun, TriesCounted, VerifierNoteWentUp
from parley.workflow.model.flow import OpenConversation
from parley.workflow.model.notes import MOST_TEXT, SELF, handed_up, note_id, of_status, refuse_ready, unsettled
from parley.workflow.model.terms import Category, Note, NoteStatus, Session, Status


def session_of_review(act: ExecutorTurn, agent: str) -> Session:
    """The notes of a doer's verifier; its first look begins them."""
    worker = act.worker(agent)
    if worker.verifier not in act.member(agent).review.by[-1:]:
        verifier = act.flow.workers.get(worker.verifier)
        task = (verifier.task_id if verifier is not None else "") or worker.task_id
        act.happen(ReviewBegun(agent, worker.verifier, task, act.now))
    return act.member(agent).review.session or Session(worker.task_id, act.now)


def waits(
    act: ExecutorTurn, talk: OpenConversation, verdict: str, findings: Sequence[str], problems: Sequence[str]
) -> str | None:
    """Why a doer is blocked for its verifier's notes; empty: the verifier was told to settle them; None: no note waits.

    What it escalated goes up, whatever its verdict. What it left open holds up `verified` alone: a rejected doer
    comes back to it anyway. It is told as often as a doer is; then what is open or pending goes up as well.
    """
    agent, session = talk.agent, session_of_review(act, talk.agent)
    if of_status(session, NoteStatus.ESCALATED):
        return _ask(act, talk, verdict, findings)
    if verdict not in ("verified", "") or not (refuse_ready(session) or problems):
        return None
    nudges = act.member(agent).nudges
    if nudges < act.limits.rounds:
        if not verdict:
            return None  # it is told that it gave none
        act.happen(TriesCounted(agent, nudges=nudges + 1))
        act.tell(talk.thread, executor_messages.unsettled_verifier(talk.name, agent, session, problems))
        return ""
    for note in of_status(session, NoteStatus.OPEN):
        left = handed_up(note, "its maker was asked to settle it and left it open")
        act.put_note(agent, left, of_verifier=True)
    wrong = [*(f"{'; '.join(one.problems)}, written as {one.written}" for one in session.pending), *problems]
    if wrong:
        name = note_id(len(session.notes) + 1)
        told = cut(f"what it wrote was not taken: {'; '.join(wrong)}", MOST_TEXT)
        why, where = "it was told so and left it as it is", f"made by the executor while {talk.name} verified {agent}"
        unfit = Note(
            note_id=name,
            timestamp=act.now,
            description=told,
            context=where,
            status=NoteStatus.ESCALATED,
            category=Category.CONFLICT,
            escalation_reason=why,
        )
        act.put_note(agent, unfit, of_verifier=True)
        for one in session.pending:
            act.drop_pending(agent, one.pending_id, name, of_verifier=True)
    return _ask(act, talk, verdict, findings)


def _ask(act: ExecutorTurn, talk: OpenConversation, verdict: str, findings: Sequence[str]) -> str:
    """Let what a verifier escalated go up; why its doer is blocked."""
    agent, review = talk.agent, act.member(talk.agent).review
    asked = {one.note_id for one in review.asked}
    said = f"; its verdict waits: {'; '.join((verdict, *findings))}" if verdict else ""
    for note in of_status(review.session, NoteStatus.ESCALATED):
        if note.note_id in asked:
            continue
        context = cut(f"{talk.name}, its verifier, asks in its {note.note_id}: {note.context}{said}", MOST_TEXT)
        # the question is the verifier's to the letter: by its words it is known when it comes again
        name = act.escalate(agent, note.description, note.escalation_reason or "", note.category, context)
        act.happen(VerifierNoteWentUp(agent, note.note_id, name))
    return f"{talk.name}, its verifier, waits for answers"


def is_for_verifier(act: ExecutorTurn, agent: str, fresh: Sequence[Note]) -> bool:
    """Whether the answers that a blocked doer has now are its verifier's alone, so that it has nothing to do itself."""
    member = act.member(agent)
    asked = {one.asked_as for one in member.review.asked}
    since = member.standing.last_update or 0
    changed = any(one.decision == "approved" and one.time >= since for one in act.flow.changes)
    left = refuse_ready(member.standing.session) or member.stale or changed
    return bool(fresh) and all(note.note_id in asked for note in fresh) and not left


def look_again(act: ExecutorTurn, agent: str) -> None:
    """A doer whose verifier has its answers is ready as it was: the verifier is told them, and judges."""
    for status in (Status.WORKING, Status.REVIEW, Status.READY):
        act.move(agent, status, "" if status is Status.READY else "its verifier has its answers")


def answered(act: ExecutorTurn, agent: str) -> list[Note]:
    """What others have answered a verifier since its last verdict."""
    member = act.member(agent)
    since = max((one.time for one in member.standing.rounds), default=0)
    notes = member.review.session.notes if member.review.session else ()
    told = [note for note in notes if note.resolution and note.resolved_by != SELF]
    return [note for note in told if (note.resolution_timestamp or 0) >= since]


def give_up(act: ExecutorTurn, agent: str, why: str, by: str) -> None:
    """A doer is given up: nothing that its verifier noted is waited for."""
    for note in unsettled(act.member(agent).review.session):
        act.settle(agent, note, why, by, of_verifier=True)
    session = act.member(agent).review.session
    for one in session.pending if session else ():
        act.drop_pending(agent, one.pending_id, f"withdrawn: {why}", of_verifier=True)
