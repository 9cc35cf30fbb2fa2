"""Escalations to the human: doers that fail or stall, changed plans, and the human's answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parley.base.options import ABANDON, STOP
from parley.base.text import cut
from parley.protocol.molecules import HUMAN
from parley.workflow.execution import doer_moves, executor_messages, plan_change, verification
from parley.workflow.execution.executor_turn import ExecutorTurn
from parley.workflow.model.events import HumanAnswered, ProgressSeen, StallEnded, StallHandled
from parley.workflow.model.flow import PendingQuestion
from parley.workflow.model.menus import menu_for
from parley.workflow.model.notes import BY_EXECUTOR, by_whom
from parley.workflow.model.terms import Category, LivenessAction, Note, Remedy, Status

MOST_OUTCOME = 500  # characters of an answer that the record repeats


# ---- the human -----------------------------------------------------------------------------------


def ask_next(act: ExecutorTurn) -> None:
    """Ask the human about failed doers, once the others have ended their turns."""
    flow = act.flow
    if not flow.failed or any(talk.busy and talk.kind == "doer" for talk in flow.talks.values()):
        return
    asked = {pending.agent for pending in flow.questions.values()}
    for agent in list(flow.failed):
        if agent not in asked:
            reason = act.member(agent).standing.reason
            act.ask(PendingQuestion("failed", agent), f"{agent} has failed: {reason}.", doer_moves.table(act))


def hopeless(act: ExecutorTurn, agent: str, notes: Sequence[Note]) -> str:
    """What the human is told about notes that the architecture group has not answered."""
    listed = "\n".join(executor_messages.line(note) for note in notes)
    return f"{agent} is blocked, and the architecture group has not answered:\n{listed}"


@dataclass(frozen=True, slots=True)
class HumanAnswer:
    """An answer to a question of the executor: the choice, the verdict, the words, and the author."""

    choice: str = ""
    ruling: str = ""
    text: str = ""
    author: str = HUMAN


def answered(act: ExecutorTurn, question: str, said: HumanAnswer) -> None:
    """The human, or the proxy for them, has answered. The choice is carried out; words choose nothing."""
    pending = act.flow.questions.get(question)
    if pending is None:
        return
    choice, agent, by = menu_for(pending).meant(said.choice, said.ruling), pending.agent, said.author
    act.happen(HumanAnswered(question, choice))
    if choice == STOP or said.ruling in ("withdraw", "backtrack plan", "backtrack intent"):
        doer_moves.undo_merge(act, "the workflow was stopped")  # nothing that is not proved is left behind
        words = f": {said.text}" if said.text else ""
        doer_moves.stop(act, f"the {by} says {choice or said.ruling}{words}")
    elif pending.about == "plan":
        if said.ruling == "approve":
            plan_change.adopt(act, pending, by)
        else:
            plan_change.refused(act, pending, by, said.text)
    elif choice == ABANDON:
        words = f": {said.text}" if said.text else ""
        doer_moves.abandon(act, agent, f"the {by} says so{words}", by_whom(by))
        if pending.about == "stalled":
            came_of_it(act, agent, "it is abandoned, as was answered")
    elif act.flow.status(agent) is Status.BLOCKED:
        for note in doer_moves.waiting(act.member(agent)):
            act.settle(agent, note, said.text or "go on as you think best", by_whom(by))
    elif act.flow.status(agent) in (Status.FAILED, Status.STALLED):
        doer_moves.again(act, agent, said.text)
        if pending.about == "stalled":
            words = f", with the answer: {said.text}" if said.text else ""
            came_of_it(act, agent, f"it is tried again{words}")


# ---- those who are lost --------------------------------------------------------------------------


def lost(act: ExecutorTurn, thread: str, fault: str) -> None:
    """A conversation could not go on: its agent crashed too often, or was withdrawn."""
    talk = act.flow.talks.get(thread)
    if talk is None:
        return
    if talk.kind == "doer":
        tries = act.member(talk.agent).standing.crashes
        act.happen(ProgressSeen(talk.agent, act.now, tries + 1))
        doer_moves.fail(act, talk.agent, fault)
    elif talk.kind == "architect":
        act.close(talk.thread)
        if act.flow.resting and not act.flow.draft:
            doer_moves.refuse_change(act, "the protocol", f"the architect could not go on: {fault}")
        if talk.agent in act.flow.blocked:
            notes = doer_moves.waiting(act.member(talk.agent))
            act.ask(PendingQuestion("unresolved", talk.agent), hopeless(act, talk.agent, notes))
    elif talk.kind == "design":
        plan_change.lost(act, talk, fault)
    else:
        verification.lost(act, talk, fault)


def came_of_it(act: ExecutorTurn, agent: str, outcome: str) -> None:
    """Record the outcome of what was done about a stalled doer."""
    if any(one.agent == agent for one in act.flow.actions):
        act.happen(StallEnded(agent, cut(outcome, MOST_OUTCOME)))


def stalled(act: ExecutorTurn, thread: str, since: float = 0.0) -> None:
    """A conversation shows no sign of life: carry out what its contract says, and record it."""
    talk = act.flow.talks.get(thread)
    if talk is None:
        return
    if talk.kind != "doer":
        lost(act, thread, "it shows no sign of life")
        return
    agent = talk.agent
    if act.flow.status(agent) not in (Status.WORKING, Status.REVIEW):
        return
    remedy = act.worker(agent).on_stall
    if since:
        crashes = act.member(agent).standing.crashes
        act.happen(ProgressSeen(agent, int(since), crashes))
    act.move(agent, Status.STALLED, "it shows no sign of life")
    act.close(thread)
    outcome = {
        Remedy.REPLAN: "the architect is asked to change the plan",
        Remedy.RESCOPE: "the architect is asked to change what it owns",
        Remedy.ESCALATE: "the human is asked",
        Remedy.ABANDON: "the workflow goes on without it",
    }[remedy]
    act.happen(
        StallHandled(LivenessAction(time=act.now, agent=agent, action=remedy, by="workflow-executor", outcome=outcome))
    )
    if remedy is Remedy.ABANDON:
        doer_moves.abandon(act, agent, "it stalled, and its contract says abandon", BY_EXECUTOR)
    elif remedy is Remedy.ESCALATE:
        act.ask(PendingQuestion("stalled", agent), f"{agent} shows no sign of life, and was stopped.")
    else:
        wanted = "its task is to be planned anew" if remedy is Remedy.REPLAN else "what it owns is to be changed"
        category = Category.CONFLICT if remedy is Remedy.REPLAN else Category.SCOPE
        act.escalate(agent, f"{agent} has stalled: {wanted}", f"its contract says {remedy}", category)
        doer_moves.block(act, agent, f"stalled: {remedy}", stalled=True)
