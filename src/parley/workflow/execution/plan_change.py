"""Changes of the plan during the work: checked by code, reviewed by the design verifier, decided by the human.

Answers that come with a change depend on it. If the change is refused, so are they: their notes are open again, and
both the architect and the doer are told why.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import unified_diff

from msgspec.structs import replace

from parley.base.text import fit
from parley.protocol.molecules import HUMAN
from parley.workflow.execution import doer_moves, executor_messages
from parley.workflow.execution.doer_moves import PLAN_ABOUT, digest_of
from parley.workflow.execution.executor_turn import AdoptPlan, ExecutorTurn
from parley.workflow.model.ending import resting
from parley.workflow.model.events import (
    CheckMoved,
    DraftWaits,
    HumanAnswered,
    OutputStale,
    PlanInForce,
    PlanSentBack,
    PlanUnderReview,
    Rescoped,
)
from parley.workflow.model.flow import AT_WORK, IllegalEvent, OpenConversation, PendingQuestion, PlanDraft, PlanReview
from parley.workflow.model.terms import ARCHITECT, DESIGN_VERIFIER, Plan, Status, Worker
from parley.workflow.model.worker_result import Judgement
from parley.workflow.paths.disjointness import rescopes

CHECK, VERIFIER = "the design check", "the design verifier"
APPROVED = "a design verifier has approved this very change"
MOST_DIFF = 60_000  # characters that the human is shown
REMINDERS = 2  # of a design verifier that gives no verdict


# ---- before the human sees it --------------------------------------------------------------------


def weigh(act: ExecutorTurn, talk: OpenConversation, draft: PlanDraft, gaps: Sequence[str], more: str = "") -> None:
    """The architect has changed the plan: with gaps it goes back; without, the design verifier looks at it next.

    `more` is what has changed beside the plan. The newest change alone counts.
    """
    found = [*gaps] or [why for why in (act.assertable(draft),) if why]
    if found:
        _send_back(act, draft, found, CHECK, talk.thread)
        return
    flow = act.flow
    waiting = {question: pending.draft for question, pending in flow.questions.items() if pending.about == "plan"}
    if draft in waiting.values() or (flow.judging is not None and flow.judging.draft == draft):
        return
    for question in waiting:
        act.happen(HumanAnswered(question))
    _close_verifier(act)
    act.happen(DraftWaits(draft.plan))
    act.happen(PlanUnderReview(PlanReview(draft.plan, draft.instructions, more, talk.thread)))


def judge_next(act: ExecutorTurn) -> None:
    """A changed plan goes to the design verifier as soon as there is room, in a tree like the architect's."""
    judging = act.flow.judging
    if judging is None or any(talk.kind == "design" for talk in act.flow.talks.values()) or not act.make_room():
        return
    body = executor_messages.verify_change(_difference(act, judging.draft, judging.more))
    act.open("design", "", DESIGN_VERIFIER, body, judging.workspace)


def judged(act: ExecutorTurn, talk: OpenConversation, said: Judgement) -> None:
    """The design verifier has looked at a changed plan, or has said nothing that counts."""
    judging, verdict = act.flow.judging, said.verdict
    if judging is None:
        act.close(talk.thread)
    elif not verdict and judging.reminders < REMINDERS:
        act.happen(PlanUnderReview(replace(judging, reminders=judging.reminders + 1)))
        act.tell(
            talk.thread, "[VERDICT] You gave none. Call Verdict with verified, or with rejected and your findings."
        )
    else:
        act.close(talk.thread)
        if verdict == "verified":
            propose(act, judging, APPROVED)
        elif verdict:
            _send_back(act, judging.draft, said.findings, VERIFIER, judging.workspace)
        else:
            propose(
                act, judging, f"a design verifier was asked {REMINDERS + 1} times and gave no verdict on the change"
            )


def lost(act: ExecutorTurn, talk: OpenConversation, fault: str) -> None:
    """The design verifier could not go on: the human is told, and decides without it."""
    act.close(talk.thread)
    if act.flow.judging is not None:
        propose(act, act.flow.judging, f"a design verifier was asked and could not look at the change: {fault}")


def _close_verifier(act: ExecutorTurn) -> None:
    for talk in list(act.flow.talks.values()):
        if talk.kind == "design":
            act.close(talk.thread)


def _send_back(act: ExecutorTurn, draft: PlanDraft, gaps: Sequence[str], by: str, workspace: str) -> None:
    """A changed plan has gaps: back to the architect, so many times; then the plan in force stays."""
    tries, found = act.flow.gaps + 1, [*gaps] or ["no finding was given"]
    last, ends = tries >= act.limits.rounds, ""
    if _another_waits(act, draft):  # an earlier one is still to be decided about, and is not touched
        act.happen(PlanSentBack(0 if last else tries, digest_of(draft.plan) if last else ""))
    elif last:
        doer_moves.refuse_change(act, by, "; ".join(found), draft.plan, f"{by} found gaps in it {tries} times")
        ends = f"\n\nThe plan in force stays. Leave this one, or change it.{_open_again(act)}"
    else:
        act.happen(PlanUnderReview(None))
        act.happen(DraftWaits(""))
        act.happen(PlanSentBack(tries, ""))
    listed = "\n".join(f"- {gap}" for gap in found)
    whose = "the plan as you changed it can't be run" if by == CHECK else f"{by} rejects the plan as you changed it"
    _to_architect(act, f"[DESIGN gaps] {whose}; mend it, or put it back:\n{listed}{ends}", workspace)


def _another_waits(act: ExecutorTurn, draft: PlanDraft) -> bool:
    """Whether another change than this one is before the human or the design verifier."""
    waiting = [pending.draft for pending in act.flow.questions.values() if pending.about == "plan"]
    waiting += [act.flow.judging.draft] if act.flow.judging is not None else []
    return any(other != draft for other in waiting)


def _to_architect(act: ExecutorTurn, body: str, workspace: str = "") -> None:
    """Tell the architect; where its conversation had to end, a new one goes on in the same tree."""
    talk = act.flow.talks.get(act.flow.architect)
    if talk is not None:
        act.tell(talk.thread, body, PLAN_ABOUT)
    elif act.make_room():
        act.open("architect", "", ARCHITECT, body, workspace or act.tree, PLAN_ABOUT)
    else:
        doer_moves.pass_on(act, body)


# ---- the human -----------------------------------------------------------------------------------


def propose(act: ExecutorTurn, judging: PlanReview, seen: str) -> None:
    """A plan without gaps waits for the human, who is told what the design verifier made of it."""
    draft = judging.draft
    if why := act.assertable(draft):
        _send_back(act, draft, [why], CHECK, judging.workspace)
        return
    whole = _difference(act, draft, judging.more)
    act.happen(PlanUnderReview(None))
    body = (
        f"The architecture group has changed the workflow's plan. The design check finds no gap in it; {seen}. Approve "
        "it, or say what to revise. It holds when you have approved it, and is then the plan that the work is held "
        f"against.{_meanwhile(act)}{_resting(act)}"
    )
    pending = PendingQuestion(about="plan", agent="", text=draft.plan, instructions=draft.instructions, judged=seen)
    act.ask(pending, body, f"All that it changes:\n\n{fit(whole, MOST_DIFF)}")


def _meanwhile(act: ExecutorTurn) -> str:
    """Who is at work while the human decides. A plan leaves nothing of it out; it goes on by the plan in force."""
    busy = sorted(talk.agent for talk in act.flow.talks.values() if talk.kind == "doer" and talk.busy)
    if not busy:
        return ""
    who = f"At work meanwhile, by the plan in force: {', '.join(busy)}."
    return f"\n\n{who} An agent whose contract the change makes another hears of it when its turn ends."


def _resting(act: ExecutorTurn) -> str:
    """Which answers the human approves with the change, or refuses with it."""
    lines = [f"- {one.agent} {one.note_id}: {one.answer}" for one in resting(act.flow)]
    if not lines:
        return ""
    return "\n\nThese answers came with the change. If you refuse it, their notes are open again:\n" + "\n".join(lines)


def _difference(act: ExecutorTurn, draft: PlanDraft, more: str) -> str:
    before = act.flow.plan.text if act.flow.plan else ""
    return f"{difference(before, draft.plan, 'the plan in force', 'the plan as changed')}\n{more}".rstrip()


def difference(before: str, after: str, was: str, now: str) -> str:
    """What has changed in a text, line by line."""
    return "\n".join(unified_diff(before.splitlines(), after.splitlines(), was, now, lineterm=""))


def refused(act: ExecutorTurn, pending: PendingQuestion, author: str, reason: str) -> None:
    """The change is not approved: its answers go with it, and the architect hears the reason."""
    doer_moves.refuse_change(
        act, f"the {author}", reason, plan=pending.draft.plan, judged=pending.judged, author=author
    )
    words_said = reason or "no reason was given"
    told = f"[ANSWER revise] (from the {author}) the changed plan was not approved: {words_said}"
    _to_architect(act, f"{told}\n\nThe plan in force stays.{_open_again(act)}")


def _open_again(act: ExecutorTurn) -> str:
    """What the architect has to answer anew, now that its change does not hold."""
    change = act.flow.changes[-1]
    if not change.answers:
        return ""
    lines = [f"- {one.agent} {one.note_id}, which you answered: {one.answer}" for one in change.answers]
    by_human = " Where the human's reason is the answer, its source is user." if change.author == HUMAN else ""
    return (
        " The answers that came with the change do not hold. These notes are open again; answer each anew with "
        f"Resolve.{by_human}\n" + "\n".join(lines)
    )


def adopt(act: ExecutorTurn, pending: PendingQuestion, author: str) -> None:
    """The change is approved: it comes into force, and all that follows from it happens."""
    flow, draft = act.flow, pending.draft
    before, bars, asked = dict(flow.workers), _bars(flow.plan), _asked(act)
    try:
        act.happen(PlanInForce(draft.plan, act.now, draft.instructions))
    except IllegalEvent as problem:
        doer_moves.refuse_change(act, "the protocol", str(problem), draft.plan, pending.judged)
        _to_architect(act, f"[DESIGN gaps] the plan can't come into force: {problem}{_open_again(act)}")
        return
    by = f"the {author}"
    doer_moves.decide_change(act, "approved", by, plan=draft.plan, judged=pending.judged, author=author)
    doer_moves.undo_merge(act, "the plan was changed meanwhile")  # it would put the tree back to the plan before
    act.do(AdoptPlan(draft))
    doer_moves.enrol(act, [worker for name, worker in flow.workers.items() if before.get(name) != worker])
    for change in rescopes(before, flow.workers, ARCHITECT, f"{asked}; approved by {by}", act.now):
        act.happen(Rescoped(change))
    for name, worker in flow.workers.items():
        was, were, are = before.get(name), bars.get(name, {}), _bars(flow.plan).get(name, {})
        if was is None or name not in flow.members:
            continue
        if not _other_task(was, worker) and all(are.get(taker, bar) == bar for taker, bar in were.items()):
            if are != were and flow.status(name) is Status.READY:  # it is judged by every checkpoint that holds now
                doer_moves.call_off(act, name)
                act.happen(CheckMoved(name, ""))
            continue
        if flow.status(name) in AT_WORK:  # it goes on with what it has, and hears of it when its turn ends
            act.happen(OutputStale(name, ARCHITECT))
        elif flow.status(name) in (Status.VERIFIED, Status.READY):
            doer_moves.call_off(act, name)
            act.move(name, Status.WORKING, "its contract was changed")
            doer_moves.go_on(act, name, f"[PLAN changed] {name}: your contract is another now.")


def _asked(act: ExecutorTurn) -> str:
    """On whose word the architect has changed the plan: the notes that it has answered, or was given."""
    flow = act.flow
    notes = {agent: doer_moves.answers(act, agent) for agent in flow.blocked}
    talk = flow.talks.get(flow.architect)
    if not any(notes.values()) and talk is not None and talk.about in flow.blocked:
        notes = {talk.about: doer_moves.waiting(act.member(talk.about))}
    told = [f"{agent} asked by {', '.join(n.note_id for n in listed)}" for agent, listed in notes.items() if listed]
    return "; ".join(told) or "the architect changed the plan"


def _bars(plan: Plan | None) -> dict[str, dict[str, str]]:
    """By which criteria each agent's output is handed to whom."""
    found: dict[str, dict[str, str]] = {}
    for point in plan.checkpoints if plan else ():
        found.setdefault(point.giver, {})[point.taker] = point.criteria
    return found


def _other_task(was: Worker, now: Worker) -> bool:
    """Whether what was made under one contract may not do under the other."""
    names = ("objective", "deliverable", "acceptance", "outputs", "inputs")
    return any(getattr(was, name) != getattr(now, name) for name in names)
