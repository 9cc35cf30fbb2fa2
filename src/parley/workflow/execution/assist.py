"""Helps blocked doers: the architecture group answers their notes, or the solution architect decides.

Blocked doers are helped in the order in which they were blocked, each with all of its notes at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from parley.base.text import cut
from parley.protocol.molecules import PROXY
from parley.workflow.execution import doer_moves, escalate, executor_messages, plan_change, verifier_notes
from parley.workflow.execution.doer_moves import digest_of
from parley.workflow.execution.executor_turn import ExecutorTurn
from parley.workflow.model.events import (
    AgentJoined,
    AnswersRest,
    SameQuestion,
    SessionBegun,
    SolverCommissioned,
    TriesCounted,
)
from parley.workflow.model.flow import MET, AskedQuestion, NoteName, OpenConversation, PendingQuestion, RoutedNote
from parley.workflow.model.loops import loop
from parley.workflow.model.notes import BY_EXECUTOR, MOST_TEXT, by_whom, of_status
from parley.workflow.model.terms import (
    ARCHITECT,
    DESIGN_VERIFIER,
    SOLUTION,
    Acceptance,
    Category,
    Note,
    NoteStatus,
    PlanChange,
    RestingAnswer,
    Status,
    Task,
    Worker,
    output_of,
)
from parley.workflow.model.worker_result import Resolve, WorkerResult

SOLVER = "solution_architect"  # its name, unless the plan has an agent of that name
SAID = 500  # characters of a human's words that stand beside an answer
SOLVER_CHECK = "design_verifier"
TECHNICAL = (Category.TECHNOLOGY, Category.ARCHITECTURE, Category.SECURITY)
SOURCES = ("user", "solution_architect", "planning")


# ---- the architect -------------------------------------------------------------------------------


def help_next(act: ExecutorTurn) -> None:
    """Give the architect the first blocked doer that waits for no other agent."""
    _commission(act)
    flow = act.flow
    talk = flow.talks.get(flow.architect)
    if flow.draft or (talk is not None and talk.busy):
        return
    asked = {pending.agent for pending in flow.questions.values()}
    for agent in flow.blocked:
        member = flow.members[agent]
        notes = doer_moves.waiting(member)
        if not notes or agent in asked:
            continue
        if member.nudges >= act.limits.rounds:
            act.ask(PendingQuestion("unresolved", agent), escalate.hopeless(act, agent, notes))
            continue
        if talk is None and not act.make_room():
            return
        act.happen(TriesCounted(agent, nudges=member.nudges + 1))
        body = _escalation(act, agent, notes)
        if talk is None:
            act.open("architect", agent, ARCHITECT, body, act.tree, agent)
        else:
            act.tell(talk.thread, body, agent)
        return


def _escalation(act: ExecutorTurn, agent: str, notes: Sequence[Note]) -> str:
    circles = any(circling(act, agent, note) for note in notes)
    standing, task = act.member(agent).standing, act.worker(agent).task_id
    mark = "[LOOP]" if circles else "[STALLED]" if standing.stalled else "[ESCALATION]"
    body = executor_messages.escalation(f"{mark} {agent} (task {task}) is blocked: {standing.reason}", notes)
    if before := executor_messages.refused_before(_refusals(act, agent, notes)):
        body += f"\n\n{before}"
    if circles:
        body += executor_messages.circles(
            "\n".join(map(executor_messages.asked, _history(act, agent))), doer_moves.table(act)
        )
    solver = act.flow.members.get(_solver(act))
    version = solver.standing.version if solver else 0
    where = f"The solution architect's answers are in {output_of(_solver(act))}/ (version {version})."
    return f"{body}\n\n{where}" if version else body


def circling(act: ExecutorTurn, agent: str, note: Note, same_as: str = "") -> bool:
    """Whether a task has asked this, or much the same, three times, and was answered in between.

    `same_as`: an earlier note that asks the same, as the architect says now.
    """
    asked = _handed_up(act, agent, note.note_id)
    before = _handed_up(act, agent, same_as) if same_as else None
    if asked is not None and before is not None:
        asked = replace(asked, same_as=(*asked.same_as, before.key))
    return asked is not None and bool(loop(_history(act, agent), asked, act.limits.similar))


def _history(act: ExecutorTurn, agent: str) -> tuple[AskedQuestion, ...]:
    return act.flow.history.get(act.worker(agent).task_id, ())


def _handed_up(act: ExecutorTurn, agent: str, note: str) -> AskedQuestion | None:
    """A note of a task, as it went up; the newest of that name."""
    return next((asked for asked in reversed(_history(act, agent)) if asked.note_id == note), None)


def _refuse_same(act: ExecutorTurn, agent: str, note: str, earlier: str) -> str:
    """Why a note can't be said to ask what an earlier one did; empty: it can."""
    asked, before = _handed_up(act, agent, note), _handed_up(act, agent, earlier)
    known = [one.note_id for one in _history(act, agent) if one.answer]
    if asked is None or before is None or not before.answer or before.asking >= asked.asking:
        return f"same_as names a note that {agent} asked before and that was answered: {', '.join(known) or 'none is'}"
    return ""


def _refusals(act: ExecutorTurn, agent: str, notes: Sequence[Note]) -> list[tuple[PlanChange, RestingAnswer]]:
    """The answers to these notes that were refused with a change of the plan, oldest first."""
    session, names = act.session(agent).session_start, {note.note_id for note in notes}
    return [
        (change, one)
        for change in act.flow.changes
        for one in change.answers
        if change.decision == "refused" and (one.agent, one.session) == (agent, session) and one.note_id in names
    ]


def said_in_refusal(act: ExecutorTurn, agent: str, note: str) -> tuple[str, str]:
    """Who refused the plan change that had answered a note, the human or the proxy, and in which words.

    They have spoken about that very answer: what they said may be the next one, and need not be asked for again.
    """
    member = act.flow.members.get(agent)
    waiting = [one for one in doer_moves.waiting(member) if one.note_id == note] if member is not None else []
    for change, _ in reversed(_refusals(act, agent, waiting)):
        return (change.author, change.reason) if change.author and change.reason.strip() else ("", "")
    return "", ""


def refuse_resolve(act: ExecutorTurn, call: Resolve, *, consulted: bool) -> str:
    """Why an answer of the architect's does not count; empty: it does."""
    member = act.flow.members.get(call.agent)
    if member is None:
        return f"there is no agent {call.agent!r:.60}; its agents: {', '.join(act.flow.members)}"
    open_notes = {note.note_id: note for note in doer_moves.waiting(member)}
    note = open_notes.get(call.note_id)
    if note is None:
        return f"{member.standing.name} has no such escalated note; it waits for: {', '.join(open_notes) or 'nothing'}"
    if call.same_as is not None:
        if problem := _refuse_same(act, member.standing.name, note.note_id, call.same_as):
            return problem
        if call.answer is None and call.route is None and call.source is None:
            return ""
    if call.route is not None:
        if call.route != "solution_architect" or not (call.task or "").strip():
            return "a route is `solution_architect`, with a `task` that says what is to be decided"
        return "" if member.standing.name != _solver(act) else "the solution architect can't be given its own question"
    source = call.source
    if source not in SOURCES:
        return f"source is one of: {', '.join(SOURCES)}"
    if not (call.answer or "").strip():
        return "answer is missing; say what holds"
    if source == "user" and not consulted:
        return "the user has not answered you since; AskQuestion first, then Resolve with what was said"
    if source == "solution_architect" and not _solved(act):
        return "the solution architect has delivered nothing that is verified; route the note to it first"
    must = _must_come_from(act, member.standing.name, note, call.same_as or "")
    return "" if source in must else f"{note.note_id} must be answered by: {', '.join(must)}"


def _must_come_from(act: ExecutorTurn, agent: str, note: Note, same_as: str) -> tuple[str, ...]:
    if circling(act, agent, note, same_as) or note.category is Category.REQUIREMENTS:
        return ("user",)
    return ("user", "solution_architect") if note.category in TECHNICAL else SOURCES


def _solved(act: ExecutorTurn) -> bool:
    solver = act.flow.members.get(_solver(act))
    return solver is not None and solver.standing.version > 0


def _solver(act: ExecutorTurn) -> str:
    return _joined(act, SOLVER, SOLUTION)


def _joined(act: ExecutorTurn, name: str, role: str) -> str:
    """The name of an agent that is not in the plan: its own, unless the plan has given that to another."""
    known = [worker.name for worker in act.flow.added.values() if worker.role == role]
    names = (name, *(f"{name}_{number}" for number in range(2, len(act.flow.workers) + 3)))
    return next(iter(known), "") or next(free for free in names if free not in act.flow.workers)


def advised(act: ExecutorTurn, talk: OpenConversation, left: WorkerResult) -> None:
    """The architect has answered."""
    answered = [which for call in left.resolves if (which := _resolve(act, call))]
    flow, draft = act.flow, left.draft
    if draft.plan and digest_of(draft.plan) != flow.refused:
        if answered:  # they hold when the change does
            act.happen(AnswersRest(tuple(answered)))
        plan_change.weigh(act, talk, draft, left.gaps, left.diff)
    elif flow.resting and not flow.draft:
        doer_moves.refuse_change(act, "the architecture group", "it took the change back")


def _resolve(act: ExecutorTurn, call: Resolve) -> NoteName | None:
    """Take an answer of the architect's; the note that is resolved by it, if one is."""
    agent = call.agent
    member = act.flow.members.get(agent)
    note = next((n for n in doer_moves.waiting(member) if n.note_id == call.note_id), None) if member else None
    if member is None or note is None:
        return None  # it was settled, or given up, meanwhile
    if call.same_as is not None:
        same, before = _handed_up(act, agent, call.note_id), _handed_up(act, agent, call.same_as)
        if same is not None and before is not None:
            act.happen(SameQuestion(act.worker(agent).task_id, same.key, before.key))
        if call.answer is None and call.route is None:
            return None  # it goes up again, and as a loop, if it is one
    if call.route is not None:
        act.happen(TriesCounted(agent, routed=(*member.routed, RoutedNote(note.note_id, call.task or ""))))
        return None
    by = by_whom(call.author) if call.source == "user" else BY_EXECUTOR
    act.settle(agent, note, _answer(act, call), by)
    return NoteName(agent, note.note_id)


def _answer(act: ExecutorTurn, call: Resolve) -> str:
    """The note's resolution, with its author where `resolved_by` does not tell."""
    answer, by = call.answer or "", ""
    if call.source == "user":
        said = cut(call.said.strip(), SAID)
        who = "the proxy, for the user," if call.author == PROXY else "the user"
        if said != answer.strip():  # the architect's words are not the human's
            by = f" ({who} said: {said or 'nothing more'})"
    elif call.source == "solution_architect":
        solver = _solver(act)
        version = act.member(solver).standing.version
        by = f" (decided by the solution architect: {output_of(solver)}/, version {version})"
    return f"{cut(answer, MOST_TEXT - len(by))}{by}"


def resume(act: ExecutorTurn) -> None:
    """Doers whose notes are all answered go on."""
    flow = act.flow
    talk = flow.talks.get(flow.architect)
    if flow.draft or (talk is not None and talk.busy and talk.about == doer_moves.PLAN_ABOUT):
        return  # the answers may be in a plan that is not in force yet
    for agent in list(flow.blocked):
        standing = act.member(agent).standing
        if of_status(standing.session, NoteStatus.ESCALATED) or agent in (one.agent for one in flow.resting):
            continue
        fresh = doer_moves.answers(act, agent)
        for_verifier = verifier_notes.is_for_verifier(act, agent, fresh)
        if not for_verifier and standing.thread not in flow.talks and not act.make_room():
            return
        if standing.stalled:
            said = "; ".join(note.resolution or "" for note in fresh)
            escalate.came_of_it(act, agent, f"it goes on: {said}")
        if for_verifier:
            verifier_notes.look_again(act, agent)
            continue
        act.happen(TriesCounted(agent, rejections=0))
        act.move(agent, Status.WORKING, "its notes are answered")
        doer_moves.go_on(
            act,
            agent,
            executor_messages.answers(agent, fresh, executor_messages.refused_before(_refusals(act, agent, fresh))),
        )


# ---- the solution architect ----------------------------------------------------------------------


def _commission(act: ExecutorTurn) -> None:
    """Give the solution architect what was routed to it; take notes back to the architect when it is verified."""
    flow = act.flow
    solver = flow.members.get(_solver(act))
    if flow.commissioned and solver is not None and (solver.standing.status in MET or solver.given_up):
        for name in flow.commissioned:
            left = tuple(one for one in flow.members[name.agent].routed if one.note_id != name.note_id)
            act.happen(TriesCounted(name.agent, routed=left, nudges=0))
        act.happen(SolverCommissioned(()))
    if flow.commissioned:
        return
    routed = {agent: flow.members[agent].routed for agent in flow.blocked if flow.members[agent].routed}
    if routed and act.make_room():
        _start_solver(act, routed)


def _start_solver(act: ExecutorTurn, routed: Mapping[str, Sequence[RoutedNote]]) -> None:
    flow = act.flow
    asked = [(agent, one) for agent, notes in routed.items() for one in notes]
    objective = "\n".join(f"For {agent} ({one.note_id}): {one.task}" for agent, one in asked)
    name, output = _solver(act), f"{output_of(_solver(act))}/decisions.md"
    planned = flow.workers.get(SOLVER_CHECK)
    verifies = planned is not None and planned.task is Task.VERIFIER
    checker = SOLVER_CHECK if verifies else _joined(act, SOLVER_CHECK, DESIGN_VERIFIER)
    worker = Worker(
        name, Task.DOER, SOLUTION, f"solution_{flow.count}_{act.now}", verifier=checker, outputs=(output,),
        objective=objective, boundaries="Decide and say why; build nothing.", deliverable=f"the decisions, in {output}",
        acceptance=Acceptance("every question has one decision, with its reason and what it rules out"),
    )  # fmt: skip
    check = Worker(checker, Task.VERIFIER, DESIGN_VERIFIER)
    new = [one for one in (worker, check) if one.name not in flow.workers]
    if checker not in flow.workers:
        act.happen(AgentJoined(check, act.now, f"to verify {name}"))
    why = ", ".join(f"{agent} asked in {one.note_id}" for agent, one in asked)
    act.happen(AgentJoined(worker, act.now, f"to decide what {why}"))
    doer_moves.enrol(act, new)
    act.happen(SolverCommissioned(tuple(NoteName(agent, one.note_id) for agent, one in asked)))
    if flow.status(name) is Status.PENDING:
        doer_moves.start(act, name)
    else:
        act.move(name, Status.WORKING, "there are more questions")
        act.happen(SessionBegun(name, worker.task_id, act.now))
        doer_moves.go_on(act, name, f"[TASK] {objective}")
