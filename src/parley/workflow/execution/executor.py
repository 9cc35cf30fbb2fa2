"""The executor's main loop: starts agents when the plan says so, and takes their results.

It never decides an order: the plan does. `verification` checks and merges, `assist` helps blocked agents.
"""

from __future__ import annotations

from collections.abc import Iterable

from parley.base.text import cut
from parley.base.wording import count, joined
from parley.workflow.execution import assist, doer_moves, escalate, executor_messages, plan_change, verification
from parley.workflow.execution.executor_turn import ExecutorTurn, ReportToDispatcher
from parley.workflow.model.events import HeldBack, PhaseChanged, PlanInForce, ProgressSeen, StrayFound, TriesCounted
from parley.workflow.model.flow import AT_WORK, OpenConversation
from parley.workflow.model.notes import MOST_TEXT, handed_up, of_status, unsettled
from parley.workflow.model.terms import TASK_ORCHESTRATION, NoteStatus, Status, StrayWrite
from parley.workflow.model.worker_result import WorkerResult

# ---- the plan ------------------------------------------------------------------------------------


def begin(act: ExecutorTurn, plan: str, instructions: Iterable[tuple[str, str]] = (), run: int = 1) -> None:
    """The workflow begins; `instructions` are those of the plan's agents as they were approved, by path.

    `run`: which of the job's workflows it is.
    """
    act.happen(PlanInForce(plan, act.now, tuple(instructions), run))
    doer_moves.enrol(act, tuple(act.flow.workers.values()))


# ---- what is to be done next ---------------------------------------------------------------------


def advance(act: ExecutorTurn) -> None:
    """Do all that can be done now; what is nearly finished goes before what has not begun.

    If it requests work in the trees, the caller does that first and then calls it again.
    """
    flow = act.flow
    if flow.phase != "running" or flow.plan is None:
        return
    verification.merge_next(act)
    if act.works:
        return
    _check(act)
    doer_moves.go_on_next(act)
    plan_change.judge_next(act)
    assist.resume(act)
    _check(act)  # doers whose verifier has its answers
    assist.help_next(act)
    if not flow.draft:  # a plan that waits for the human may say otherwise
        _start(act)
    _hold_back(act)
    escalate.ask_next(act)
    if not flow.undone and flow.merging is None and flow.judging is None and not flow.questions:
        _finish(act)


def _check(act: ExecutorTurn) -> None:
    for agent in list(act.flow.unchecked):
        if not act.make_room():
            break
        verification.check(act, agent)


def _start(act: ExecutorTurn) -> None:
    flow = act.flow
    for agent in list(flow.startable):
        if not act.make_room():
            break
        doer_moves.start(act, agent)


def _hold_back(act: ExecutorTurn) -> None:
    """Record who waits for a free slot; agents that have not begun wait while a changed plan is decided."""
    flow = act.flow
    held = [*(() if flow.draft else flow.startable), *(agent for agent in flow.waiting if agent)]
    if held != flow.held:
        at_work = tuple(dict.fromkeys(talk.name for talk in flow.talks.values()))
        act.happen(HeldBack(tuple(held), at_work, act.limits.fan_out))


# ---- what a worker's turn left -------------------------------------------------------------------


def hear(act: ExecutorTurn, thread: str, said: str, left: WorkerResult) -> None:
    """A conversation has answered: what it said, and what its turn left."""
    talk = act.flow.talks.get(thread)
    if talk is None:
        return  # it was ended meanwhile
    act.hear(thread)
    match talk.kind:
        case "doer":
            _heard_doer(act, talk, left)
        case "prover":
            verification.proved(act, talk, said)
        case "verifier":
            _take_notes(act, talk.agent, left, of_verifier=True)
            verification.judged(act, talk, left.judgement, left.problems)
        case "integrator":
            verification.integrated(act, talk)
        case "design":
            plan_change.judged(act, talk, left.judgement)
        case _:
            assist.advised(act, talk, left)


def _heard_doer(act: ExecutorTurn, talk: OpenConversation, left: WorkerResult) -> None:
    agent = talk.agent
    status = act.flow.status(agent)
    act.happen(ProgressSeen(agent, act.now))
    if left.outside is not None:
        there = left.outside
        act.happen(
            StrayFound(StrayWrite(time=act.now, agent=agent, paths=there.paths, owners=there.owners, ref=there.ref))
        )
    if status is Status.STALLED:  # it lives after all
        act.move(agent, Status.WORKING, "it shows life again")
        status = Status.WORKING
    if status is Status.READY:  # the human has put it to work: what is being checked is not what there is now
        doer_moves.take_back(act, agent, f"{agent} has gone on working")
        act.move(agent, Status.WORKING, "it has gone on working")
        status = Status.WORKING
    if status is Status.BLOCKED:
        _take_notes(act, agent, left)
        doer_moves.hand_up(act, agent)
    if status not in AT_WORK:
        return
    _take_notes(act, agent, left)
    session = act.session(agent)
    if of_status(session, NoteStatus.ESCALATED) and left.claim != Status.REVIEW:
        doer_moves.block(act, agent, "a note is escalated")
    elif act.member(agent).stale:
        doer_moves.sent_back(act, agent)
    elif status is Status.WORKING:
        act.move(agent, Status.REVIEW)
        act.tell(talk.thread, executor_messages.review(agent, act.session(agent), left.problems))
    else:
        _reviewed(act, talk, left)


def _take_notes(act: ExecutorTurn, agent: str, left: WorkerResult, *, of_verifier: bool = False) -> None:
    """Take the notes of a doer or its verifier; refused ones are kept until they are mended or withdrawn."""
    for note in left.notes:
        act.put_note(agent, note, of_verifier=of_verifier)
    for one in left.mended:
        act.drop_pending(agent, one.pending_id, one.how, of_verifier=of_verifier)
    for unfit in left.pending:
        act.pend(agent, unfit, of_verifier=of_verifier)


def _reviewed(act: ExecutorTurn, talk: OpenConversation, left: WorkerResult) -> None:
    agent = talk.agent
    session, nudges = act.session(agent), act.member(agent).nudges
    if of_status(session, NoteStatus.ESCALATED):
        doer_moves.block(act, agent, "a note is escalated")
    elif nudges < act.limits.rounds and (unsettled(session) or session.pending or left.problems):
        act.happen(TriesCounted(agent, nudges=nudges + 1))
        act.tell(talk.thread, executor_messages.unsettled(agent, session, left.problems))
    elif left_open := of_status(session, NoteStatus.OPEN):
        for note in left_open:
            act.put_note(agent, handed_up(note, "its maker was asked to settle it and left it open"))
        doer_moves.block(act, agent, "it left notes open")
    elif left.problems or session.pending:  # what it wanted to say there is not settled
        wrong = [*left.problems, *(f"{one.pending_id}: {'; '.join(one.problems)}" for one in session.pending)]
        told = f"what it wrote was not taken: {'; '.join(wrong)}"
        act.escalate(agent, cut(told, MOST_TEXT), "it was told so and left it as it is")
        doer_moves.block(act, agent, "what it wrote in its files could not be taken")
    else:
        act.move(agent, Status.READY)


# ---- the end -------------------------------------------------------------------------------------


def _finish(act: ExecutorTurn) -> None:
    flow = act.flow
    for agent, member in flow.members.items():
        if member.standing.status is Status.VERIFIED:
            act.move(agent, Status.COMPLETE)
    for thread in list(flow.talks):
        act.close(thread)
    act.happen(PhaseChanged("complete", act.now))
    act.do(ReportToDispatcher(_summary(act)))


def _summary(act: ExecutorTurn) -> str:
    flow = act.flow
    without = [name for name, member in flow.members.items() if member.given_up]
    gone = f" Abandoned: {', '.join(without)}." if without else ""
    if flow.ever_held:
        slot = f"a free slot (fan_out {act.limits.fan_out})"
        gone += f" For some time {joined(flow.ever_held)} had to wait for {slot}."
    if flow.strays:
        who = joined(list(dict.fromkeys(one.agent for one in flow.strays)))
        gone += f" {who} wrote outside the owned paths; that was put back: see {TASK_ORCHESTRATION}."
    goal, verified = flow.plan.goal if flow.plan else "", len(flow.members) - len(without)
    return (
        f"[WORKFLOW complete] {goal}\n{count(verified, 'agent')} verified, {count(len(flow.merges), 'merge')}."
        f"{gone} The result is in this conversation's tree; close it to take it over.\n\n{doer_moves.table(act)}"
    )
