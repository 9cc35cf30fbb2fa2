"""The executor's decisions: it starts what the plan says when its time has come, and hears what came of it.

It never decides a sequence. What is to be checked, merged or helped is the business of `checking` and `helping`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from parley.text import cut
from parley.wording import count, joined
from parley.workflow import changing, checking, deciding, helping, moving, words
from parley.workflow.conduct import Conduct, Report
from parley.workflow.flow import AT_WORK, Draft, Talk
from parley.workflow.notes import MOST_TEXT, handed_up, of_status, unsettled
from parley.workflow.plain import read
from parley.workflow.terms import TASK_ORCHESTRATION, Note, NoteStatus, Status, Unfit


@dataclass(frozen=True, slots=True)
class Left:
    """What a worker's turn left, as its message tells."""

    text: str = ""
    notes: tuple[Note, ...] = ()  # made or changed
    pending: tuple[Unfit, ...] = ()  # refused for their form
    outside: Mapping[str, Any] = field(default_factory=dict)  # what it wrote outside its paths: paths, owners, ref
    mended: tuple[tuple[str, str], ...] = ()  # pending notes that were mended or withdrawn, and how
    claim: str = ""  # the status that it claims
    verdict: str = ""
    findings: tuple[str, ...] = ()
    criteria: tuple[Mapping[str, Any], ...] = ()  # of checkpoints, as a verifier judged them
    resolves: tuple[Mapping[str, Any], ...] = ()
    problems: tuple[str, ...] = ()  # what of its files was not taken
    plan: str = ""  # a plan that it has changed
    instructions: tuple[tuple[str, str], ...] = ()  # those that it has changed with the plan
    diff: str = ""  # of these
    gaps: tuple[str, ...] = ()  # what the design check says of that

    @classmethod
    def of(cls, text: str, meta: Mapping[str, Any]) -> Left:
        """What the message says, and what the protocol knows about it."""
        worker = meta.get("worker") or {}
        said = worker.get("verdict") or {}
        return cls(
            text,
            tuple(read(Note, note) for note in worker.get("notes", ())),
            tuple(read(Unfit, one) for one in worker.get("pending", ())),
            worker.get("outside") or {},
            tuple((str(name), str(how)) for name, how in worker.get("mended", ())),
            worker.get("claim", ""),
            said.get("verdict", ""),
            tuple(said.get("findings", ())),
            tuple(said.get("criteria", ())),
            tuple(worker.get("resolves", ())),
            tuple(worker.get("problems", ())),
            worker.get("plan", ""),
            tuple((str(path), str(text)) for path, text in worker.get("instructions", ())),
            worker.get("diff", ""),
            tuple(worker.get("gaps", ())),
        )


# ---- the plan ------------------------------------------------------------------------------------


def begin(act: Conduct, plan: str, instructions: Iterable[tuple[str, str]] = (), run: int = 1) -> None:
    """The workflow begins; `instructions` are those of the plan's agents as they were approved, by path.

    `run`: which of the job's workflows it is.
    """
    act.happen("plan", text=plan, time=act.now, instructions=[list(each) for each in instructions], run=run)
    moving.enrol(act, tuple(act.flow.workers.values()))


# ---- what is to be done next ---------------------------------------------------------------------


def advance(act: Conduct) -> None:
    """Do all that can be done now: what is nearly finished goes before what has not begun.

    Where something is to be done in the trees, that comes first: call it again afterwards.
    """
    flow = act.flow
    if flow.phase != "running" or flow.plan is None:
        return
    checking.merge_next(act)
    if act.works:
        return
    _check(act)
    moving.go_on_next(act)
    changing.judge_next(act)
    helping.resume(act)
    _check(act)  # those whose verifier has its answers
    helping.help_next(act)
    if not flow.draft:  # a plan that waits for the human may say otherwise
        _start(act)
    _hold_back(act)
    deciding.ask_next(act)
    if not flow.undone and flow.merging is None and flow.judging is None and not flow.questions:
        _finish(act)


def _check(act: Conduct) -> None:
    for agent in list(act.flow.unchecked):
        if not act.make_room():
            break
        checking.check(act, agent)


def _start(act: Conduct) -> None:
    flow = act.flow
    for agent in list(flow.startable):
        if not act.make_room():
            break
        moving.start(act, agent)


def _hold_back(act: Conduct) -> None:
    """Say who waits for a free slot; who has not begun while a changed plan is decided about waits for that plan."""
    flow = act.flow
    held = [*(() if flow.draft else flow.startable), *(agent for agent in flow.waiting if agent)]
    if held != flow.held:
        at_work = list(dict.fromkeys(talk.name for talk in flow.talks.values()))
        act.happen("held back", agents=held, at_work=at_work, fan_out=act.limits.fan_out)


# ---- what a worker's turn left -------------------------------------------------------------------


def hear(act: Conduct, thread: str, left: Left) -> None:
    """A conversation has answered."""
    talk = act.flow.talks.get(thread)
    if talk is None:
        return  # it was ended meanwhile
    act.hear(thread)
    match talk.kind:
        case "doer":
            _heard_doer(act, talk, left)
        case "prover":
            checking.proved(act, talk, left.text)
        case "verifier":
            _take_notes(act, talk.agent, left, of_verifier=True)
            checking.judged(act, talk, left.verdict, left.findings, left.problems, left.criteria)
        case "integrator":
            checking.integrated(act, talk)
        case "design":
            changing.judged(act, talk, left.verdict, left.findings)
        case _:
            helping.advised(act, talk, left.resolves, Draft(left.plan, left.instructions), left.gaps, left.diff)


def _heard_doer(act: Conduct, talk: Talk, left: Left) -> None:
    agent = talk.agent
    status = act.flow.status(agent)
    act.happen("progress", agent=agent, time=act.now)
    if left.outside:
        act.happen("stray", stray={"time": act.now, "agent": agent, **left.outside})
    if status is Status.STALLED:  # it lives after all
        act.move(agent, Status.WORKING, "it shows life again")
        status = Status.WORKING
    if status is Status.READY:  # the human has put it to work: what is being checked is not what there is now
        moving.take_back(act, agent, f"{agent} has gone on working")
        act.move(agent, Status.WORKING, "it has gone on working")
        status = Status.WORKING
    if status is Status.BLOCKED:
        _take_notes(act, agent, left)
        moving.hand_up(act, agent)
    if status not in AT_WORK:
        return
    _take_notes(act, agent, left)
    session = act.session(agent)
    if of_status(session, NoteStatus.ESCALATED) and left.claim != Status.REVIEW:
        moving.block(act, agent, "a note is escalated")
    elif act.member(agent).stale:
        moving.sent_back(act, agent)
    elif status is Status.WORKING:
        act.move(agent, Status.REVIEW)
        act.tell(talk.thread, words.review(agent, act.session(agent), left.problems))
    else:
        _reviewed(act, talk, left)


def _take_notes(act: Conduct, agent: str, left: Left, *, of_verifier: bool = False) -> None:
    """What a doer or its verifier has noted; what was refused of it is kept too, until it is mended or withdrawn."""
    for note in left.notes:
        act.put_note(agent, note, of_verifier=of_verifier)
    for name, how in left.mended:
        act.drop_pending(agent, name, how, of_verifier=of_verifier)
    for unfit in left.pending:
        act.pend(agent, unfit, of_verifier=of_verifier)


def _reviewed(act: Conduct, talk: Talk, left: Left) -> None:
    agent = talk.agent
    session, nudges = act.session(agent), act.member(agent).nudges
    if of_status(session, NoteStatus.ESCALATED):
        moving.block(act, agent, "a note is escalated")
    elif nudges < act.limits.rounds and (unsettled(session) or session.pending or left.problems):
        act.happen("count", agent=agent, nudges=nudges + 1)
        act.tell(talk.thread, words.unsettled(agent, session, left.problems))
    elif left_open := of_status(session, NoteStatus.OPEN):
        for note in left_open:
            act.put_note(agent, handed_up(note, "its maker was asked to settle it and left it open"))
        moving.block(act, agent, "it left notes open")
    elif left.problems or session.pending:  # what it wanted to say there is not settled
        wrong = [*left.problems, *(f"{one.pending_id}: {'; '.join(one.problems)}" for one in session.pending)]
        told = f"what it wrote was not taken: {'; '.join(wrong)}"
        act.escalate(agent, cut(told, MOST_TEXT), "it was told so and left it as it is")
        moving.block(act, agent, "what it wrote in its files could not be taken")
    else:
        act.move(agent, Status.READY)


# ---- the end -------------------------------------------------------------------------------------


def _finish(act: Conduct) -> None:
    flow = act.flow
    for agent, member in flow.members.items():
        if member.standing.status is Status.VERIFIED:
            act.move(agent, Status.COMPLETE)
    for thread in list(flow.talks):
        act.close(thread)
    act.happen("phase", phase="complete", time=act.now)
    act.do(Report(_summary(act)))


def _summary(act: Conduct) -> str:
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
        f"{gone} The result is in this conversation's tree; close it to take it over.\n\n{moving.table(act)}"
    )
