"""What is decided above: about a doer that fails or stalls, and what the human says of that and of a changed plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from parley.core.terms import HUMAN
from parley.options import ABANDON, STOP
from parley.text import cut
from parley.workflow import changing, checking, moving, words
from parley.workflow.conduct import Conduct
from parley.workflow.flow import Pending
from parley.workflow.menus import menu_for
from parley.workflow.notes import BY_EXECUTOR, by_whom
from parley.workflow.plain import plain
from parley.workflow.terms import Category, LivenessAction, Note, Remedy, Status

STALLED = "stalled: "  # how the reason of a block begins that came of a stall
MOST_OUTCOME = 500  # characters of an answer that the record repeats


# ---- the human -----------------------------------------------------------------------------------


def ask_next(act: Conduct) -> None:
    """Who has failed is asked about when those beside it have ended their turns."""
    flow = act.flow
    if not flow.failed or any(talk.busy and talk.kind == "doer" for talk in flow.talks.values()):
        return
    asked = {pending.agent for pending in flow.questions.values()}
    for agent in list(flow.failed):
        if agent not in asked:
            reason = act.member(agent).standing.reason
            act.ask(Pending("failed", agent), f"{agent} has failed: {reason}.", moving.table(act))


def hopeless(act: Conduct, agent: str, notes: Sequence[Note]) -> str:
    """What the human is told of notes that nobody below has answered."""
    listed = "\n".join(words.line(note) for note in notes)
    return f"{agent} is blocked, and the architecture group has not answered:\n{listed}"


@dataclass(frozen=True, slots=True)
class Said:
    """An answer to a question of the executor's: what was chosen, the verdict, the words, and whose they are."""

    choice: str = ""
    ruling: str = ""
    text: str = ""
    author: str = HUMAN


def answered(act: Conduct, question: str, said: Said) -> None:
    """The human has spoken, or the proxy in its place. What was chosen is done; words choose nothing."""
    pending = act.flow.questions.get(question)
    if pending is None:
        return
    choice, agent, by = menu_for(pending).meant(said.choice, said.ruling), pending.agent, said.author
    act.happen("answer", question=question, choice=choice)
    if choice == STOP or said.ruling in ("withdraw", "backtrack plan", "backtrack intent"):
        moving.undo_merge(act, "the workflow was stopped")  # nothing that is not proved is left behind
        words = f": {said.text}" if said.text else ""
        moving.stop(act, f"the {by} says {choice or said.ruling}{words}")
    elif pending.about == "plan":
        if said.ruling == "approve":
            changing.adopt(act, pending, f"the {by}")
        else:
            changing.refused(act, pending, f"the {by}", said.text)
    elif choice == ABANDON:
        words = f": {said.text}" if said.text else ""
        moving.abandon(act, agent, f"the {by} says so{words}", by_whom(by))
        if pending.about == "stalled":
            came_of_it(act, agent, "it is abandoned, as was answered")
    elif act.flow.status(agent) is Status.BLOCKED:
        for note in moving.waiting(act.member(agent)):
            act.settle(agent, note, said.text or "go on as you think best", by_whom(by))
    elif act.flow.status(agent) in (Status.FAILED, Status.STALLED):
        moving.again(act, agent, said.text)
        if pending.about == "stalled":
            words = f", with the answer: {said.text}" if said.text else ""
            came_of_it(act, agent, f"it is tried again{words}")


# ---- those who are lost --------------------------------------------------------------------------


def lost(act: Conduct, thread: str, fault: str) -> None:
    """A conversation could not go on: its agent crashed too often, or was withdrawn."""
    talk = act.flow.talks.get(thread)
    if talk is None:
        return
    if talk.kind == "doer":
        tries = act.member(talk.agent).standing.crashes
        act.happen("progress", agent=talk.agent, time=act.now, crashes=tries + 1)
        moving.fail(act, talk.agent, fault)
    elif talk.kind == "architect":
        act.close(talk.thread)
        if act.flow.resting and not act.flow.draft:
            moving.refuse_change(act, "the protocol", f"the architect could not go on: {fault}")
        if talk.agent in act.flow.blocked:
            notes = moving.waiting(act.member(talk.agent))
            act.ask(Pending("unresolved", talk.agent), hopeless(act, talk.agent, notes))
    elif talk.kind == "design":
        changing.lost(act, talk, fault)
    else:
        checking.lost(act, talk, fault)


def came_of_it(act: Conduct, agent: str, outcome: str) -> None:
    """What was done about a doer that had stalled has come to its end."""
    if any(one.agent == agent for one in act.flow.actions):
        act.happen("came of it", agent=agent, outcome=cut(outcome, MOST_OUTCOME))


def stalled(act: Conduct, thread: str, since: float = 0.0) -> None:
    """A conversation shows no sign of life: what its contract says is done, and recorded."""
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
        act.happen("progress", agent=agent, time=int(since), crashes=crashes)
    act.move(agent, Status.STALLED, "it shows no sign of life")
    act.close(thread)
    outcome = {
        Remedy.REPLAN: "the architect is asked to change the plan",
        Remedy.RESCOPE: "the architect is asked to change what it owns",
        Remedy.ESCALATE: "the human is asked",
        Remedy.ABANDON: "the workflow goes on without it",
    }[remedy]
    act.happen("action", action=plain(LivenessAction(act.now, agent, remedy, "workflow-executor", outcome)))
    if remedy is Remedy.ABANDON:
        moving.abandon(act, agent, "it stalled, and its contract says abandon", BY_EXECUTOR)
    elif remedy is Remedy.ESCALATE:
        act.ask(Pending("stalled", agent), f"{agent} shows no sign of life, and was stopped.")
    else:
        wanted = "its task is to be planned anew" if remedy is Remedy.REPLAN else "what it owns is to be changed"
        category = Category.CONFLICT if remedy is Remedy.REPLAN else Category.SCOPE
        act.escalate(agent, f"{agent} has stalled: {wanted}", f"its contract says {remedy}", category)
        moving.block(act, agent, f"{STALLED}{remedy}")
