"""How those are helped who can't go on: the architecture group answers, the solution architect works it out.

Blocked doers are served in the order in which it happened, each with all of its notes at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from parley.core.terms import HUMAN, PROXY
from parley.text import cut
from parley.workflow import changing, deciding, moving, reviewing, words
from parley.workflow.conduct import Conduct
from parley.workflow.flow import MET, Asked, Draft, Pending, Talk
from parley.workflow.loops import loop
from parley.workflow.moving import digest_of
from parley.workflow.notes import BY_EXECUTOR, MOST_TEXT, by_whom, of_status
from parley.workflow.plain import plain
from parley.workflow.terms import (
    ARCHITECT,
    DESIGN_VERIFIER,
    SOLUTION,
    Acceptance,
    Category,
    Note,
    NoteStatus,
    PlanChange,
    Resting,
    Status,
    Task,
    Worker,
    output_of,
)

SOLVER = "solution_architect"  # what it is called, and its verifier, where the plan has nobody of that name
SAID = 500  # characters of a human's words that stand beside an answer
SOLVER_CHECK = "design_verifier"
TECHNICAL = (Category.TECHNOLOGY, Category.ARCHITECTURE, Category.SECURITY)
SOURCES = ("user", "solution_architect", "planning")


# ---- the architect -------------------------------------------------------------------------------


def help_next(act: Conduct) -> None:
    """The first that is blocked, and waits for nobody else, is put before the architect."""
    _commission(act)
    flow = act.flow
    talk = flow.talks.get(flow.architect)
    if flow.draft or (talk is not None and talk.busy):
        return
    asked = {pending.agent for pending in flow.questions.values()}
    for agent in flow.blocked:
        member = flow.members[agent]
        notes = moving.waiting(member)
        if not notes or agent in asked:
            continue
        if member.nudges >= act.limits.rounds:
            act.ask(Pending("unresolved", agent), deciding.hopeless(act, agent, notes))
            continue
        if talk is None and not act.make_room():
            return
        act.happen("count", agent=agent, nudges=member.nudges + 1)
        body = _escalation(act, agent, notes)
        if talk is None:
            act.open("architect", agent, ARCHITECT, body, act.tree, agent)
        else:
            act.tell(talk.thread, body, agent)
        return


def _escalation(act: Conduct, agent: str, notes: Sequence[Note]) -> str:
    circles = any(circling(act, agent, note) for note in notes)
    standing, task = act.member(agent).standing, act.worker(agent).task_id
    mark = "[LOOP]" if circles else "[STALLED]" if standing.reason.startswith(deciding.STALLED) else "[ESCALATION]"
    body = words.escalation(f"{mark} {agent} (task {task}) is blocked: {standing.reason}", notes)
    if before := words.refused_before(_refusals(act, agent, notes)):
        body += f"\n\n{before}"
    if circles:
        body += words.circles("\n".join(map(words.asked, _history(act, agent))), moving.table(act))
    solver = act.flow.members.get(_solver(act))
    version = solver.standing.version if solver else 0
    where = f"The solution architect's answers are in {output_of(_solver(act))}/ (version {version})."
    return f"{body}\n\n{where}" if version else body


def circling(act: Conduct, agent: str, note: Note, same_as: str = "") -> bool:
    """Whether a task has asked this, or much the same, three times, and was answered in between.

    `same_as`: an earlier note that asks the same, as the architect says now.
    """
    asked = _handed_up(act, agent, note.note_id)
    before = _handed_up(act, agent, same_as) if same_as else None
    if asked is not None and before is not None:
        asked = replace(asked, same_as=(*asked.same_as, before.key))
    return asked is not None and bool(loop(_history(act, agent), asked, act.limits.similar))


def _history(act: Conduct, agent: str) -> tuple[Asked, ...]:
    return act.flow.history.get(act.worker(agent).task_id, ())


def _handed_up(act: Conduct, agent: str, note: str) -> Asked | None:
    """A note of a task, as it went up; the newest of that name."""
    return next((asked for asked in reversed(_history(act, agent)) if asked.note_id == note), None)


def _refuse_same(act: Conduct, agent: str, note: str, earlier: str) -> str:
    """Why a note can't be said to ask what an earlier one did; empty: it can."""
    asked, before = _handed_up(act, agent, note), _handed_up(act, agent, earlier)
    known = [one.note_id for one in _history(act, agent) if one.answer]
    if asked is None or before is None or not before.answer or before.asking >= asked.asking:
        return f"same_as names a note that {agent} asked before and that was answered: {', '.join(known) or 'none is'}"
    return ""


def _refusals(act: Conduct, agent: str, notes: Sequence[Note]) -> list[tuple[PlanChange, Resting]]:
    """The answers to these notes that were refused with a change of the plan, oldest first."""
    session, names = act.session(agent).session_start, {note.note_id for note in notes}
    return [
        (change, one)
        for change in act.flow.changes
        for one in change.answers
        if change.decision == "refused" and (one.agent, one.session) == (agent, session) and one.note_id in names
    ]


def said_in_refusal(act: Conduct, agent: str, note: str) -> tuple[str, str]:
    """Who refused the plan change that had answered a note, the human or the proxy, and in which words.

    They have spoken about that very answer: what they said may be the next one, and need not be asked for again.
    """
    member = act.flow.members.get(agent)
    waiting = [one for one in moving.waiting(member) if one.note_id == note] if member is not None else []
    for change, _ in reversed(_refusals(act, agent, waiting)):
        author = change.by.removeprefix("the ")
        return (author, change.reason) if author in (HUMAN, PROXY) and change.reason.strip() else ("", "")
    return "", ""


def refuse_resolve(act: Conduct, call: Mapping[str, Any], *, consulted: bool) -> str:
    """Why an answer of the architect's does not count; empty: it does."""
    member = act.flow.members.get(str(call.get("agent")))
    if member is None:
        return f"there is no agent {str(call.get('agent'))!r:.60}; its agents: {', '.join(act.flow.members)}"
    open_notes = {note.note_id: note for note in moving.waiting(member)}
    note = open_notes.get(str(call.get("note_id")))
    if note is None:
        return f"{member.standing.name} has no such escalated note; it waits for: {', '.join(open_notes) or 'nothing'}"
    if "same_as" in call:
        if problem := _refuse_same(act, member.standing.name, note.note_id, str(call["same_as"])):
            return problem
        if not {"answer", "route", "source"} & call.keys():
            return ""
    if "route" in call:
        if call["route"] != "solution_architect" or not str(call.get("task") or "").strip():
            return "a route is `solution_architect`, with a `task` that says what is to be decided"
        return "" if member.standing.name != _solver(act) else "the solution architect can't be given its own question"
    source = call.get("source")
    if source not in SOURCES:
        return f"source is one of: {', '.join(SOURCES)}"
    if not str(call.get("answer") or "").strip():
        return "answer is missing; say what holds"
    if source == "user" and not consulted:
        return "the user has not answered you since; AskQuestion first, then Resolve with what was said"
    if source == "solution_architect" and not _solved(act):
        return "the solution architect has delivered nothing that is verified; route the note to it first"
    must = _must_come_from(act, member.standing.name, note, str(call.get("same_as", "")))
    return "" if source in must else f"{note.note_id} must be answered by: {', '.join(must)}"


def _must_come_from(act: Conduct, agent: str, note: Note, same_as: str) -> tuple[str, ...]:
    if circling(act, agent, note, same_as) or note.category is Category.REQUIREMENTS:
        return ("user",)
    return ("user", "solution_architect") if note.category in TECHNICAL else SOURCES


def _solved(act: Conduct) -> bool:
    solver = act.flow.members.get(_solver(act))
    return solver is not None and solver.standing.version > 0


def _solver(act: Conduct) -> str:
    return _joined(act, SOLVER, SOLUTION)


def _joined(act: Conduct, name: str, role: str) -> str:
    """What somebody is called who is not in the plan: its own name, unless the plan has given that to another."""
    known = [worker.name for worker in act.flow.added.values() if worker.role == role]
    names = (name, *(f"{name}_{number}" for number in range(2, len(act.flow.workers) + 3)))
    return next(iter(known), "") or next(free for free in names if free not in act.flow.workers)


def advised(
    act: Conduct, talk: Talk, resolves: Sequence[Mapping[str, Any]], draft: Draft, gaps: Sequence[str], more: str
) -> None:
    """The architect has answered."""
    answered = [which for call in resolves if (which := _resolve(act, call))]
    flow = act.flow
    if draft.plan and digest_of(draft.plan) != flow.refused:
        if answered:  # they hold when the change does
            act.happen("rest", notes=answered)
        changing.weigh(act, talk, draft, gaps, more)
    elif flow.resting and not flow.draft:
        moving.refuse_change(act, "the architecture group", "it took the change back")


def _resolve(act: Conduct, call: Mapping[str, Any]) -> list[str]:
    """Take an answer of the architect's; the note that is resolved by it, if one is."""
    agent = str(call["agent"])
    member = act.flow.members.get(agent)
    note = next((n for n in moving.waiting(member) if n.note_id == call["note_id"]), None) if member else None
    if member is None or note is None:
        return []  # it was settled, or given up, meanwhile
    if "same_as" in call:
        same, before = (_handed_up(act, agent, str(call[name])) for name in ("note_id", "same_as"))
        if same is not None and before is not None:
            act.happen("same", task=act.worker(agent).task_id, key=same.key, same_as=before.key)
        if not {"answer", "route"} & call.keys():
            return []  # it goes up again, and as a loop, if it is one
    if "route" in call:
        routed = (*member.routed, (note.note_id, str(call["task"])))
        act.happen("count", agent=agent, routed=[list(pair) for pair in routed])
        return []
    by = by_whom(str(call.get("author"))) if call["source"] == "user" else BY_EXECUTOR
    act.settle(agent, note, _answer(act, call), by)
    return [agent, note.note_id]


def _answer(act: Conduct, call: Mapping[str, Any]) -> str:
    """What the note says from now on, and by whose word where `resolved_by` does not tell."""
    answer, by = str(call["answer"]), ""
    if call["source"] == "user":
        said = cut(str(call.get("said", "")).strip(), SAID)
        who = "the proxy, for the user," if call.get("author") == PROXY else "the user"
        if said != answer.strip():  # the architect's words are not the human's
            by = f" ({who} said: {said or 'nothing more'})"
    elif call["source"] == "solution_architect":
        solver = _solver(act)
        version = act.member(solver).standing.version
        by = f" (decided by the solution architect: {output_of(solver)}/, version {version})"
    return f"{cut(answer, MOST_TEXT - len(by))}{by}"


def resume(act: Conduct) -> None:
    """Who has all of its answers goes on with them, all at once."""
    flow = act.flow
    talk = flow.talks.get(flow.architect)
    if flow.draft or (talk is not None and talk.busy and talk.about.startswith(moving.PLAN_ABOUT)):
        return  # the answers may be in a plan that is not in force yet
    for agent in list(flow.blocked):
        standing = act.member(agent).standing
        if of_status(standing.session, NoteStatus.ESCALATED) or agent in (name for name, _ in flow.resting):
            continue
        fresh = moving.answers(act, agent)
        for_verifier = reviewing.is_for_verifier(act, agent, fresh)
        if not for_verifier and standing.thread not in flow.talks and not act.make_room():
            return
        if standing.reason.startswith(deciding.STALLED):
            said = "; ".join(note.resolution or "" for note in fresh)
            deciding.came_of_it(act, agent, f"it goes on: {said}")
        if for_verifier:
            reviewing.look_again(act, agent)
            continue
        act.happen("count", agent=agent, rejections=0)
        act.move(agent, Status.WORKING, "its notes are answered")
        moving.go_on(act, agent, words.answers(agent, fresh, words.refused_before(_refusals(act, agent, fresh))))


# ---- the solution architect ----------------------------------------------------------------------


def _commission(act: Conduct) -> None:
    """Give the solution architect what was routed to it; take notes back to the architect when it is verified."""
    flow = act.flow
    solver = flow.members.get(_solver(act))
    if flow.commissioned and solver is not None and (solver.standing.status in MET or solver.given_up):
        for agent, note in flow.commissioned:
            left = [list(pair) for pair in flow.members[agent].routed if pair[0] != note]
            act.happen("count", agent=agent, routed=left, nudges=0)
        act.happen("commission", notes=[])
    if flow.commissioned:
        return
    routed = [(agent, note, task) for agent in flow.blocked for note, task in flow.members[agent].routed]
    if routed and act.make_room():
        _start_solver(act, routed)


def _start_solver(act: Conduct, routed: Sequence[tuple[str, str, str]]) -> None:
    flow = act.flow
    objective = "\n".join(f"For {agent} ({note}): {task}" for agent, note, task in routed)
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
        act.happen("join", worker=plain(check), time=act.now, why=f"to verify {name}")
    why = ", ".join(f"{agent} asked in {note}" for agent, note, _ in routed)
    act.happen("join", worker=plain(worker), time=act.now, why=f"to decide what {why}")
    moving.enrol(act, new)
    act.happen("commission", notes=[[agent, note] for agent, note, _ in routed])
    if flow.status(name) is Status.PENDING:
        moving.start(act, name)
    else:
        act.move(name, Status.WORKING, "there are more questions")
        act.happen("session", agent=name, task_id=worker.task_id, time=act.now)
        moving.go_on(act, name, f"[TASK] {objective}")
