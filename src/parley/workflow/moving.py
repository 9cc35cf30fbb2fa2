"""How a doer moves: it starts, goes on, is blocked, is sent back, is verified, is given up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256

from parley.text import cut
from parley.wording import count
from parley.workflow import reviewing, words
from parley.workflow.conduct import Conduct, Enrol, Report, Restore
from parley.workflow.ending import resting
from parley.workflow.flow import MET, Asked, Member
from parley.workflow.notes import BY_USER, SELF, of_status, unsettled
from parley.workflow.plain import plain
from parley.workflow.terms import ARCHITECT, Note, NoteStatus, PlanChange, Status, Worker

PLAN_ABOUT = "plan"  # what the architect was told last: its plan has gaps, or was not approved
MOST_REASON = 4000  # characters of a reason that is kept with a change of the plan


def enrol(act: Conduct, workers: Sequence[Worker]) -> None:
    """Those who are new may be dispatched from now on."""
    if workers:
        act.do(Enrol(tuple(workers)))


def start(act: Conduct, agent: str) -> None:
    """A doer begins."""
    worker = act.worker(agent)
    act.move(agent, Status.WORKING)
    act.happen("progress", agent=agent, time=act.now)
    act.happen("session", agent=agent, task_id=worker.task_id, time=act.now)
    _read(act, agent)
    goal = act.flow.plan.goal if act.flow.plan else ""
    act.open("doer", agent, agent, words.task(worker, goal, act.checkpoints(agent)), act.tree)


def _read(act: Conduct, agent: str) -> None:
    """From now on it has the newest of what it depends on before it."""
    above = [(name, act.member(name).standing.version) for name in act.worker(agent).depends_on]
    act.happen("read", agent=agent, read=[list(pair) for pair in above])


def go_on(act: Conduct, agent: str, body: str) -> None:
    """A doer that waited goes on: in its conversation, or in a new one where that had to end."""
    standing, worker = act.member(agent).standing, act.worker(agent)
    body = f"{body}{words.pending(agent, standing.session)}"
    _read(act, agent)
    if standing.thread in act.flow.talks:
        act.tell(standing.thread, body)
        return
    if not act.make_room():
        act.happen("wait", agent=agent, body=body)  # until somebody else's conversation has ended
        return
    goal = act.flow.plan.goal if act.flow.plan else ""
    base = act.member(agent).workspace or act.tree
    act.open(
        "doer", agent, agent, f"{body}\n\nYour task, again:\n{words.task(worker, goal, act.checkpoints(agent))}", base
    )


def go_on_next(act: Conduct) -> None:
    """Who waits for room goes on, in the order in which it came to wait."""
    for agent, body in list(act.flow.waiting.items()):
        if not act.make_room():
            return
        act.happen("wait", agent=agent, body="")
        if agent:
            go_on(act, agent, body)
        else:
            pass_on(act, body)


def pass_on(act: Conduct, body: str) -> None:
    """Words of the human's reach the architect: only the architecture group changes what is planned."""
    flow = act.flow
    talk = flow.talks.get(flow.architect)
    if talk is not None:
        act.tell(talk.thread, body)
    elif flow.phase != "running":
        act.do(Report(f"[WORKFLOW] {words.PHASES[flow.phase]}\n{table(act)}\n\nThe human says: {body}"))
    elif act.make_room():
        act.open("architect", "", ARCHITECT, body, act.tree)
    else:  # until somebody's conversation has ended; nobody in the plan has no name
        before = flow.waiting.get("")
        act.happen("wait", agent="", body=f"{before}\n\n{body}" if before else body)


def block(act: Conduct, agent: str, reason: str) -> None:
    """A doer can't go on by itself."""
    act.move(agent, Status.BLOCKED, reason)
    hand_up(act, agent)


def hand_up(act: Conduct, agent: str) -> None:
    """What a doer asks of others is kept with its task, so that going in circles is noticed."""
    task, session = act.worker(agent).task_id, act.session(agent)
    history = act.flow.history.get(task, ())
    known = {asked.key for asked in history}
    asking = max((asked.asking for asked in history), default=0) + 1  # what goes up together is asked once
    for note in of_status(session, NoteStatus.ESCALATED):
        asked = Asked(note.note_id, note.description, act.now, asking, agent, session.session_start)
        if asked.key not in known:
            act.happen("hand up", task=task, asked=plain(asked))


def sent_back(act: Conduct, agent: str) -> None:
    """What a doer has read is not the newest any more."""
    stale = act.member(agent).stale
    if act.flow.status(agent) is not Status.WORKING:
        act.move(agent, Status.WORKING, f"there is a newer output of {', '.join(stale)}")
    go_on(act, agent, words.newer(agent, stale))


def verified(act: Conduct, agent: str) -> None:
    """A doer's output is merged and stands: who read an older one is told."""
    act.move(agent, Status.VERIFIED)
    act.close(act.member(agent).standing.thread)
    version = act.member(agent).standing.version
    for below in act.flow.dependents.get(agent, ()):
        standing = act.member(below).standing
        if dict(standing.read).get(agent, version) >= version or standing.status in (Status.PENDING, Status.FAILED):
            continue
        act.happen("stale", agent=below, of=agent)
        talk = act.flow.talks.get(standing.thread)
        waits = standing.status in (Status.WORKING, Status.REVIEW) and talk is not None and not talk.busy
        if waits or standing.status in MET:  # what was verified was verified with the older one
            sent_back(act, below)


# ---- a change of the plan ------------------------------------------------------------------------


def digest_of(plan: str) -> str:
    """What a plan is known by."""
    return sha256(plan.encode("utf-8", "replace")).hexdigest()[:16]


def decide_change(act: Conduct, decision: str, by: str, reason: str, plan: str, judged: str) -> None:
    """A changed plan is decided about."""
    known = digest_of(plan) if plan else ""
    change = PlanChange(
        act.now, known, decision, by, cut(reason, MOST_REASON), cut(judged, MOST_REASON), resting(act.flow)
    )
    act.happen("changed", change=plain(change))


def refuse_change(act: Conduct, by: str, reason: str, plan: str = "", judged: str = "") -> None:
    """A changed plan does not come into force: the notes that were answered with it are open again."""
    for talk in list(act.flow.talks.values()):
        if talk.kind == "design":
            act.close(talk.thread)
    decide_change(act, "refused", by, reason, plan, judged)


def undo_merge(act: Conduct, why: str) -> None:
    """The merge that goes on is not taken, for no fault of its doer's: it is made again when its turn comes."""
    merging = act.flow.merging
    if merging is None:
        return
    for talk in list(act.flow.talks.values()):
        if talk.kind == "integrator" or (talk.kind == "prover" and talk.about == "merge"):
            act.close(talk.thread)
    act.happen("merge ends", merged=plain(replace(merging.merged, taken=False, reason=why, time=act.now)))
    act.do(Restore(merging.before, f"merge-{merging.merged.number}"))


def call_off(act: Conduct, agent: str) -> None:
    """Nobody goes on checking a doer's output: what is said of it now must not be taken for what it will be."""
    for talk in list(act.flow.talks.values()):
        if talk.agent == agent and talk.kind in ("prover", "verifier"):
            act.close(talk.thread)


def take_back(act: Conduct, agent: str, why: str) -> None:
    """A doer's output is neither checked nor merged any more."""
    call_off(act, agent)
    if act.flow.merging is not None and act.flow.merging.agent == agent:
        undo_merge(act, why)


def fail(act: Conduct, agent: str, why: str) -> None:
    """A doer can't be brought to its end; the human is asked when those beside it have ended their turns."""
    take_back(act, agent, f"{agent} has failed")
    act.close(act.member(agent).standing.thread)
    if act.flow.status(agent) is not Status.FAILED:
        act.move(agent, Status.FAILED, why)


def abandon(act: Conduct, agent: str, why: str, by: str = BY_USER) -> None:
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
    reviewing.give_up(act, agent, f"the task was abandoned: {why}", by)
    act.happen("given up", agent=agent, time=act.now, reason=f"{before}; {why}" if before else why)
    for below in list(act.flow.dependents.get(agent, ())):
        abandon(act, below, f"it depends on {agent}, which was abandoned", by)


def again(act: Conduct, agent: str, said: str) -> None:
    """A doer is tried once more, with what was said."""
    act.happen("count", agent=agent, rejections=0)
    if act.flow.status(agent) is not Status.WORKING:
        act.move(agent, Status.WORKING, "it is tried again")
    if act.member(agent).standing.session is None:
        act.happen("session", agent=agent, task_id=act.worker(agent).task_id, time=act.now)
    go_on(act, agent, f"[AGAIN] {agent}: {said or 'try again'}")


def stop(act: Conduct, why: str) -> None:
    """The workflow does not go on; what it has is kept."""
    if act.flow.draft or act.flow.resting:
        refuse_change(act, "the protocol", f"the workflow was stopped: {why}", act.flow.draft)
    for thread in list(act.flow.talks):
        act.close(thread)
    act.happen("phase", phase="stopped", time=act.now, reason=cut(why, MOST_REASON))
    act.do(Report(f"[WORKFLOW stopped] {why}\n\n{table(act)}"))


def table(act: Conduct) -> str:
    """Where everybody stands."""
    lines = []
    for name, member in act.flow.members.items():
        one = member.standing
        notes = len(one.session.notes) if one.session else 0
        reason = f" ({one.reason})" if one.reason else ""
        done = f"{count(notes, 'note')}, {count(len(one.rounds), 'round')}"
        lines.append(f"- {name}: {one.status}{reason}, version {one.version}, {done}")
    return "\n".join(lines)


def answers(act: Conduct, agent: str) -> list[Note]:
    """The notes of a blocked doer that others have answered since."""
    since = act.member(agent).standing.last_update or 0
    told = [note for note in act.session(agent).notes if (note.resolution_timestamp or 0) >= since]
    return [note for note in told if note.resolved_by != SELF]


def waiting(member: Member) -> list[Note]:
    """The notes that somebody above has to answer now."""
    routed = {note for note, _ in member.routed}
    return [n for n in of_status(member.standing.session, NoteStatus.ESCALATED) if n.note_id not in routed]
