"""A doer's moves: it starts, goes on, is blocked, is sent back, is verified, or is given up."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from msgspec.structs import replace

from parley.base.text import cut
from parley.base.wording import count
from parley.workflow.execution import executor_messages, verifier_notes
from parley.workflow.execution.executor_turn import EnrolWorkers, ExecutorTurn, ReportToDispatcher, RestoreTree
from parley.workflow.model.ending import resting
from parley.workflow.model.events import (
    GivenUp,
    MergeEnded,
    MessageWaits,
    OutputsRead,
    OutputStale,
    PhaseChanged,
    PlanDecided,
    ProgressSeen,
    QuestionHandedUp,
    SessionBegun,
    TriesCounted,
)
from parley.workflow.model.flow import MET, AskedQuestion, Member
from parley.workflow.model.notes import BY_USER, SELF, of_status, unsettled
from parley.workflow.model.terms import ARCHITECT, Note, NoteStatus, PlanChange, Status, Worker

PLAN_ABOUT = "the plan"  # what the architect was told last: its plan has gaps, or was not approved. No agent's name
MOST_REASON = 4000  # characters of a reason that is kept with a change of the plan


def enrol(act: ExecutorTurn, workers: Sequence[Worker]) -> None:
    """Let new workers be dispatched from now on."""
    if workers:
        act.do(EnrolWorkers(tuple(workers)))


def start(act: ExecutorTurn, agent: str) -> None:
    """A doer begins."""
    worker = act.worker(agent)
    act.move(agent, Status.WORKING)
    act.happen(ProgressSeen(agent, act.now))
    act.happen(SessionBegun(agent, worker.task_id, act.now))
    _read(act, agent)
    goal = act.flow.plan.goal if act.flow.plan else ""
    act.open("doer", agent, agent, executor_messages.task(worker, goal, act.checkpoints(agent)), act.tree)


def _read(act: ExecutorTurn, agent: str) -> None:
    """From now on it has the newest of what it depends on before it."""
    above = [(name, act.member(name).standing.version) for name in act.worker(agent).depends_on]
    act.happen(OutputsRead(agent, tuple(above)))


def go_on(act: ExecutorTurn, agent: str, body: str) -> None:
    """A doer that waited goes on: in its conversation, or in a new one where that had to end."""
    standing, worker = act.member(agent).standing, act.worker(agent)
    body = f"{body}{executor_messages.pending(agent, standing.session)}"
    _read(act, agent)
    if standing.thread in act.flow.talks:
        act.tell(standing.thread, body)
        return
    if not act.make_room():
        act.happen(MessageWaits(agent, body))  # until another conversation has ended
        return
    goal = act.flow.plan.goal if act.flow.plan else ""
    base = act.member(agent).workspace or act.tree
    act.open(
        "doer",
        agent,
        agent,
        f"{body}\n\nYour task, again:\n{executor_messages.task(worker, goal, act.checkpoints(agent))}",
        base,
    )


def go_on_next(act: ExecutorTurn) -> None:
    """Doers that wait for a conversation go on, in order."""
    for agent, body in list(act.flow.waiting.items()):
        if not act.make_room():
            return
        act.happen(MessageWaits(agent, ""))
        if agent:
            go_on(act, agent, body)
        else:
            pass_on(act, body)


def pass_on(act: ExecutorTurn, body: str) -> None:
    """Words of the human's reach the architect: only the architecture group changes what is planned."""
    flow = act.flow
    talk = flow.talks.get(flow.architect)
    if talk is not None:
        act.tell(talk.thread, body)
    elif flow.phase != "running":
        act.do(
            ReportToDispatcher(
                f"[WORKFLOW] {executor_messages.PHASES[flow.phase]}\n{table(act)}\n\nThe human says: {body}"
            )
        )
    elif act.make_room():
        act.open("architect", "", ARCHITECT, body, act.tree)
    else:  # until a conversation has ended; the empty name stands for the architect
        before = flow.waiting.get("")
        act.happen(MessageWaits("", f"{before}\n\n{body}" if before else body))


def block(act: ExecutorTurn, agent: str, reason: str, *, stalled: bool = False) -> None:
    """A doer can't go on by itself."""
    act.move(agent, Status.BLOCKED, reason, stalled=stalled)
    hand_up(act, agent)


def hand_up(act: ExecutorTurn, agent: str) -> None:
    """What a doer asks of others is kept with its task, so that going in circles is noticed."""
    task, session = act.worker(agent).task_id, act.session(agent)
    history = act.flow.history.get(task, ())
    known = {asked.key for asked in history}
    asking = max((asked.asking for asked in history), default=0) + 1  # what goes up together is asked once
    for note in of_status(session, NoteStatus.ESCALATED):
        asked = AskedQuestion(
            note_id=note.note_id,
            text=note.description,
            time=act.now,
            asking=asking,
            by=agent,
            session=session.session_start,
        )
        if asked.key not in known:
            act.happen(QuestionHandedUp(task, asked))


def sent_back(act: ExecutorTurn, agent: str) -> None:
    """What a doer has read is not the newest any more."""
    stale = act.member(agent).stale
    if act.flow.status(agent) is not Status.WORKING:
        act.move(agent, Status.WORKING, f"there is a newer output of {', '.join(stale)}")
    go_on(act, agent, executor_messages.newer(agent, stale))


def verified(act: ExecutorTurn, agent: str) -> None:
    """A doer's output is merged and stands: who read an older one is told."""
    act.move(agent, Status.VERIFIED)
    act.close(act.member(agent).standing.thread)
    version = act.member(agent).standing.version
    for below in act.flow.dependents.get(agent, ()):
        standing = act.member(below).standing
        if dict(standing.read).get(agent, version) >= version or standing.status in (Status.PENDING, Status.FAILED):
            continue
        act.happen(OutputStale(below, agent))
        talk = act.flow.talks.get(standing.thread)
        waits = standing.status in (Status.WORKING, Status.REVIEW) and talk is not None and not talk.busy
        if waits or standing.status in MET:  # what was verified was verified with the older one
            sent_back(act, below)


# ---- a change of the plan ------------------------------------------------------------------------


def digest_of(plan: str) -> str:
    """What a plan is known by."""
    return sha256(plan.encode("utf-8", "replace")).hexdigest()[:16]


def decide_change(
    act: ExecutorTurn, decision: str, by: str, reason: str = "", plan: str = "", judged: str = "", author: str = ""
) -> None:
    """A changed plan is decided about; `author`: the human or the proxy, where one of them did."""
    known = digest_of(plan) if plan else ""
    change = PlanChange(
        time=act.now,
        plan=known,
        decision=decision,
        by=by,
        reason=cut(reason, MOST_REASON),
        judged=cut(judged, MOST_REASON),
        author=author,
        answers=resting(act.flow),
    )
    act.happen(PlanDecided(change))


def refuse_change(act: ExecutorTurn, by: str, reason: str, plan: str = "", judged: str = "", author: str = "") -> None:
    """A changed plan does not come into force: the notes that were answered with it are open again."""
    for talk in list(act.flow.talks.values()):
        if talk.kind == "design":
            act.close(talk.thread)
    decide_change(act, "refused", by, reason, plan=plan, judged=judged, author=author)


def undo_merge(act: ExecutorTurn, why: str) -> None:
    """Drop the running merge, for no fault of its doer: it is repeated later."""
    merging = act.flow.merging
    if merging is None:
        return
    for talk in list(act.flow.talks.values()):
        if talk.kind == "integrator" or (talk.kind == "prover" and talk.about == "merge"):
            act.close(talk.thread)
    act.happen(MergeEnded(replace(merging.merged, taken=False, reason=why, time=act.now)))
    act.do(RestoreTree(merging.before, f"merge-{merging.merged.number}"))


def call_off(act: ExecutorTurn, agent: str) -> None:
    """Stop the checks of a doer's output: their verdicts would be about an outdated one."""
    for talk in list(act.flow.talks.values()):
        if talk.agent == agent and talk.kind in ("prover", "verifier"):
            act.close(talk.thread)


def take_back(act: ExecutorTurn, agent: str, why: str) -> None:
    """A doer's output is neither checked nor merged any more."""
    call_off(act, agent)
    if act.flow.merging is not None and act.flow.merging.agent == agent:
        undo_merge(act, why)


def fail(act: ExecutorTurn, agent: str, why: str) -> None:
    """A doer can't be brought to its end; the human is asked when those beside it have ended their turns."""
    take_back(act, agent, f"{agent} has failed")
    act.close(act.member(agent).standing.thread)
    if act.flow.status(agent) is not Status.FAILED:
        act.move(agent, Status.FAILED, why)


def abandon(act: ExecutorTurn, agent: str, why: str, by: str = BY_USER) -> None:
    """The workflow goes on without a doer, and without all that can't be done without it."""
    if act.flow.status(agent) in MET or act.member(agent).given_up:
        return
    before = act.member(agent).standing.reason if act.flow.status(agent) is Status.FAILED else ""
    fail(act, agent, why)
    for note in unsettled(act.member(agent).standing.session):
        act.settle(agent, note, f"the task was abandoned: {why}", by)
    session = act.member(agent).standing.session
    for one in session.pending if session else ():
        act.drop_pending(agent, one.pending_id, f"withdrawn: the task was abandoned: {why}")
    verifier_notes.give_up(act, agent, f"the task was abandoned: {why}", by)
    act.happen(GivenUp(agent, act.now, f"{before}; {why}" if before else why))
    for below in list(act.flow.dependents.get(agent, ())):
        abandon(act, below, f"it depends on {agent}, which was abandoned", by)


def again(act: ExecutorTurn, agent: str, said: str) -> None:
    """A doer is tried once more, with what was said."""
    act.happen(TriesCounted(agent, rejections=0))
    if act.flow.status(agent) is not Status.WORKING:
        act.move(agent, Status.WORKING, "it is tried again")
    if act.member(agent).standing.session is None:
        act.happen(SessionBegun(agent, act.worker(agent).task_id, act.now))
    go_on(act, agent, f"[AGAIN] {agent}: {said or 'try again'}")


def stop(act: ExecutorTurn, why: str) -> None:
    """The workflow does not go on; what it has is kept."""
    if act.flow.draft or act.flow.resting:
        refuse_change(act, "the protocol", f"the workflow was stopped: {why}", act.flow.draft)
    for thread in list(act.flow.talks):
        act.close(thread)
    act.happen(PhaseChanged("stopped", act.now, cut(why, MOST_REASON)))
    act.do(ReportToDispatcher(f"[WORKFLOW stopped] {why}\n\n{table(act)}"))


def table(act: ExecutorTurn) -> str:
    """The table of all agents' statuses."""
    lines = []
    for name, member in act.flow.members.items():
        one = member.standing
        notes = len(one.session.notes) if one.session else 0
        reason = f" ({one.reason})" if one.reason else ""
        done = f"{count(notes, 'note')}, {count(len(one.rounds), 'round')}"
        lines.append(f"- {name}: {one.status}{reason}, version {one.version}, {done}")
    return "\n".join(lines)


def answers(act: ExecutorTurn, agent: str) -> list[Note]:
    """The notes of a blocked doer that others have answered since."""
    since = act.member(agent).standing.last_update or 0
    told = [note for note in act.session(agent).notes if (note.resolution_timestamp or 0) >= since]
    return [note for note in told if note.resolved_by != SELF]


def waiting(member: Member) -> list[Note]:
    """The notes that wait for an answer from above."""
    routed = {one.note_id for one in member.routed}
    return [n for n in of_status(member.standing.session, NoteStatus.ESCALATED) if n.note_id not in routed]
