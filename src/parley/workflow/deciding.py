"""What is decided above: a plan that changes, a doer that fails or stalls, and what the human says of these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from hashlib import sha256

from parley.core.terms import HUMAN
from parley.options import ABANDON, STOP
from parley.workflow import checking, moving, words
from parley.workflow.conduct import Adopt, Conduct
from parley.workflow.disjointness import rescopes
from parley.workflow.flow import AT_WORK, Draft, Illegal, Pending, Talk
from parley.workflow.menus import menu_for
from parley.workflow.notes import BY_EXECUTOR, by_whom
from parley.workflow.plain import plain
from parley.workflow.terms import ARCHITECT, Category, LivenessAction, Note, Remedy, Status, Worker

PLAN_ABOUT = "plan"  # what the architect was told last: its plan has gaps, or was not approved
STALLED = "stalled: "  # how the reason of a block begins that came of a stall
MOST_OUTCOME = 500  # characters of an answer that the record repeats
MOST_DIFF = 60_000  # characters that the human is shown


# ---- the plan changes ----------------------------------------------------------------------------


def digest_of(plan: str) -> str:
    """What a plan is known by."""
    return sha256(plan.encode("utf-8", "replace")).hexdigest()[:16]


def weigh(act: Conduct, talk: Talk, draft: Draft, gaps: Sequence[str], more: str = "") -> None:
    """The architect has changed the plan: with gaps it goes back, so many times; without, it waits for the human."""
    if not gaps:
        propose(act, draft, more)
        return
    tries = act.flow.gaps + 1
    last = tries >= act.limits.rounds
    act.happen("refuse", gaps=0 if last else tries, refused=digest_of(draft.plan) if last else "")
    ends = "\n\nThe plan in force stays. Leave this one, or change it." if last else ""
    listed = "\n".join(f"- {gap}" for gap in gaps)
    body = f"[DESIGN gaps] the plan as you changed it can't be run; mend it, or put it back:\n{listed}{ends}"
    act.tell(talk.thread, body, PLAN_ABOUT)


def propose(act: Conduct, draft: Draft, more: str = "") -> None:
    """A plan without gaps waits for the human; `more` is what has changed beside it. The newest one alone counts."""
    waiting = {question: pending.draft for question, pending in act.flow.questions.items() if pending.about == "plan"}
    if draft in waiting.values():
        return
    for question in waiting:
        act.happen("answer", question=question)
    before = act.flow.plan.text if act.flow.plan else ""
    act.happen("draft", text=draft.plan)
    diff = difference(before, draft.plan, "the plan in force", "the plan as changed")
    whole = f"{diff}\n{more}".rstrip()
    cut = f"\n… ({len(whole)} characters in all)" if len(whole) > MOST_DIFF else ""
    body = (
        "The architecture group has changed the workflow's plan, and the design check finds no gap in it; no design "
        "verifier has seen the change. Approve it, or say what to revise. It holds when you have approved it, and is "
        "then the plan that the work is held against."
    )
    pending = Pending("plan", "", draft.plan, draft.instructions)
    act.ask(pending, body, f"All that it changes:\n\n{whole[:MOST_DIFF]}{cut}")


def difference(before: str, after: str, was: str, now: str) -> str:
    """What has changed in a text, line by line."""
    return "\n".join(unified_diff(before.splitlines(), after.splitlines(), was, now, lineterm=""))


def _adopt(act: Conduct, draft: Draft, by: str) -> None:
    flow = act.flow
    before, asked = dict(flow.workers), _asked(act)
    architect = flow.talks.get(flow.architect)
    try:
        told = [list(each) for each in draft.instructions]
        act.happen("plan", text=draft.plan, time=act.now, instructions=told)
    except Illegal as problem:
        act.happen("draft", text="")
        act.happen("refuse", gaps=0, refused=digest_of(draft.plan))
        if architect is not None:
            act.tell(architect.thread, f"[DESIGN gaps] the plan can't come into force: {problem}", PLAN_ABOUT)
        return
    moving.undo_merge(act, "the plan was changed meanwhile")  # it would put the tree back to the plan before
    act.do(Adopt(draft))
    moving.enrol(act, [worker for name, worker in flow.workers.items() if before.get(name) != worker])
    for change in rescopes(before, flow.workers, ARCHITECT, f"{asked}; approved by {by}", act.now):
        act.happen("rescope", rescope=plain(change))
    for name, worker in flow.workers.items():
        was = before.get(name)
        if was is None or name not in flow.members or not _other_task(was, worker):
            continue
        if flow.status(name) in AT_WORK:  # it goes on with what it has, and hears of it when its turn ends
            act.happen("stale", agent=name, of=ARCHITECT)
        elif flow.status(name) in (Status.VERIFIED, Status.READY):
            moving.call_off(act, name)
            act.move(name, Status.WORKING, "its contract was changed")
            moving.go_on(act, name, f"[PLAN changed] {name}: your contract is another now.")


def _asked(act: Conduct) -> str:
    """On whose word the architect has changed the plan: the notes that it has answered, or was given."""
    flow = act.flow
    notes = {agent: moving.answers(act, agent) for agent in flow.blocked}
    talk = flow.talks.get(flow.architect)
    if not any(notes.values()) and talk is not None and talk.about in flow.blocked:
        notes = {talk.about: moving.waiting(act.member(talk.about))}
    told = [f"{agent} asked by {', '.join(n.note_id for n in listed)}" for agent, listed in notes.items() if listed]
    return "; ".join(told) or "the architect changed the plan"


def _other_task(was: Worker, now: Worker) -> bool:
    """Whether what was made under one contract may not do under the other."""
    names = ("objective", "deliverable", "acceptance", "outputs", "inputs")
    return any(getattr(was, name) != getattr(now, name) for name in names)


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
        _plan_answered(act, pending, said)
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


def _plan_answered(act: Conduct, pending: Pending, said: Said) -> None:
    if said.ruling == "approve":
        _adopt(act, pending.draft, f"the {said.author}")
        return
    act.happen("draft", text="")
    act.happen("refuse", gaps=0, refused=digest_of(pending.draft.plan))
    architect = act.flow.talks.get(act.flow.architect)
    if architect is not None:
        told = f"[ANSWER revise] (from the {said.author}) the changed plan was not approved: {said.text}"
        act.tell(architect.thread, told, PLAN_ABOUT)


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
        if talk.agent in act.flow.blocked:
            notes = moving.waiting(act.member(talk.agent))
            act.ask(Pending("unresolved", talk.agent), hopeless(act, talk.agent, notes))
    else:
        checking.lost(act, talk, fault)


def came_of_it(act: Conduct, agent: str, outcome: str) -> None:
    """What was done about a doer that had stalled has come to its end."""
    if any(one.agent == agent for one in act.flow.actions):
        act.happen("came of it", agent=agent, outcome=outcome[:MOST_OUTCOME])


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
