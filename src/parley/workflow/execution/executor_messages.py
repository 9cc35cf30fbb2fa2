"""The texts of the executor's messages. Each begins with its mark."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from parley.base.quoting import below
from parley.base.text import fit, last_of
from parley.base.wording import joined
from parley.workflow.model.flow import AskedQuestion
from parley.workflow.model.remedies import MEANS
from parley.workflow.model.terms import (
    ARCHITECT,
    PLAN,
    Checkpoint,
    Merged,
    Note,
    NoteStatus,
    PlanChange,
    Proof,
    RestingAnswer,
    Round,
    Session,
    StrayWrite,
    Worker,
    instructions_of,
    output_of,
    round_of,
    session_of,
    task_base_of,
)
from parley.workflow.model.times import moment

PHASES = {
    "running": "It goes on by itself:",
    "complete": "It is through, and takes no more work: close its conversation. It left:",
    "stopped": "It was stopped, and does not go on: close it, then send to a new one, or go back. It left:",
}
CHANGED = 8000  # characters of a changed plan that its verifier is sent; all of it lies in its tree
SHOWN = 1500  # characters of a command's output


def handed(point: Checkpoint) -> str:
    """A checkpoint in one line: the recipient, the criteria, and the remedy."""
    says = f"{point.on_failure}: " if point.on_failure.strip() and point.on_failure.strip() != point.remedy else ""
    return f"- to {point.taker}: {point.criteria} (if it fails, {says}{point.remedy}: {MEANS[point.remedy]})"


def task(worker: Worker, goal: str, points: Sequence[Checkpoint] = ()) -> str:
    """What a doer begins with."""
    lines = [
        f"[TASK] {worker.name}: {worker.objective}",
        "",
        f"The workflow's goal: {goal}",
        f"Task id: {worker.task_id}",
        f"Your contract is in {task_base_of(worker.name)}, your instructions in {instructions_of(worker.name)}.",
        f"Boundaries: {worker.boundaries}" if worker.boundaries else "",
        f"Deliverable: {worker.deliverable}" if worker.deliverable else "",
        f"You own: {', '.join(worker.owns) or 'nothing beside your own folder'}",
        f"Not yours: {', '.join(worker.forbids)}" if worker.forbids else "",
        f"Read: {', '.join(worker.inputs)}" if worker.inputs else "",
        f"Make: {', '.join(worker.outputs)}"
        if worker.outputs
        else f"Leave what others read in {output_of(worker.name)}/",
        f"Accepted when: {worker.acceptance.text}" if worker.acceptance.text else "",
        *(f"  $ {command}" for command in worker.acceptance.commands),
        *(["Handed over when your verifier finds each of these met:", *map(handed, points)] if points else []),
        "",
        "What you assume or are unsure of becomes a note (tool Note). You can't ask: escalate a note instead.",
        "End your turn when you believe that the task is complete, or when you can't go on.",
    ]
    return "\n".join(each for number, each in enumerate(lines) if each or number in (1, len(lines) - 3))


def notes_of(session: Session | None, *statuses: NoteStatus) -> str:
    """A session's notes, a line each."""
    lines = [line(note) for note in session.notes if not statuses or note.status in statuses] if session else []
    return "\n".join(lines) or "(none)"


def line(note: Note) -> str:
    """A note in one line."""
    said = f" → {note.resolution} ({note.resolved_by})" if note.resolution else ""
    why = f"; why: {note.escalation_reason}" if note.escalation_reason else ""
    kind = f", {note.category}" if note.category else ""
    return f"- {note.note_id} [{note.status}{kind}] {note.description} (while: {note.context}){why}{said}"


def review(agent: str, session: Session | None, problems: Sequence[str]) -> str:
    """A doer believes that it is done."""
    return (
        f"[REVIEW] {agent}: look at what you made and at every note before it goes to your verifier. Resolve what you "
        f"may, escalate the rest; all of them are in {session_of(agent)}.\n{notes_of(session)}"
        f"{pending(agent, session)}{told(problems)}"
    )


def unsettled(agent: str, session: Session | None, problems: Sequence[str]) -> str:
    """A doer's review left something open."""
    is_open = session is not None and any(note.status is NoteStatus.OPEN for note in session.notes)
    what = "these notes are still open; resolve or escalate each:" if is_open else "you are not ready yet."
    listed = f"\n{notes_of(session, NoteStatus.OPEN)}" if is_open else ""
    return f"[REVIEW] {agent}: {what}{listed}{pending(agent, session)}{told(problems)}"


def pending(agent: str, session: Session | None) -> str:
    """The notes that were refused, with what is wrong with each and how it is mended."""
    if session is None or not session.pending:
        return ""
    lines = [
        f"- {one.pending_id}, written as {_beginning(one.written)}: {'; '.join(one.problems)}"
        for one in session.pending
    ]
    return (
        "\n\nThese notes of yours were refused, and stay pending until you mend or withdraw each; nothing of yours is "
        "verified before that. Mend: Note with its note_id (pending_…) and all fields anew, or a note with "
        f'"mends": "pending_…" in {session_of(agent)}. Withdraw: Note with its note_id, status withdrawn and the '
        "reason as resolution.\n" + "\n".join(lines)
    )


def _beginning(text: str) -> str:
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def told(problems: Sequence[str]) -> str:
    """What of a worker's files was not taken."""
    if not problems:
        return ""
    return "\n\nNot taken, nothing was changed by it:\n" + "\n".join(f"- {problem}" for problem in problems)


_JUDGE = (
    "Look at the output and at how every note was settled. Then call Verdict: verified, rejected (with findings "
    "that can be acted on) or blocked (it has to be decided above you).{} Or write the same as JSON to "
)
_EACH = (
    " Judge each checkpoint: criteria: [{to, met: true or false, evidence}, …]; without that your verdict is for "
    "all of them, and `verified` needs all."
)


def verify(
    worker: Worker,
    session: Session | None,
    proofs: Iterable[Proof],
    rounds: Sequence[Round],
    strays: Sequence[StrayWrite] = (),
    points: Sequence[Checkpoint] = (),
    noted: str = "",
) -> str:
    """What a verifier is given; `noted` tells of its own notes."""
    earlier = [f"Round {one.number}: {one.verdict}\n" + "\n".join(f"- {f}" for f in one.findings) for one in rounds]
    parts = [
        f"[VERIFY] {worker.name}, round {len(rounds) + 1}. Your tree is as it left it; nothing you change is kept.",
        f"Your own instructions are in {instructions_of(worker.verifier)}.",
        f"Its contract is in {task_base_of(worker.name)}, its instructions in {instructions_of(worker.name)}.",
        f"Objective: {worker.objective}",
        *([f"Boundaries: {worker.boundaries}"] if worker.boundaries else []),
        f"Deliverable: {worker.deliverable}",
        *([f"It reads: {', '.join(worker.inputs)}"] if worker.inputs else []),
        f"Outputs: {', '.join(worker.outputs) or output_of(worker.name)}",
        f"Accepted when: {worker.acceptance.text}",
        *(["Checkpoints, each of which you judge:\n" + "\n".join(map(handed, points))] if points else []),
        f"The acceptance commands, run in a tree of their own:\n{shown(proofs)}",
        f"Its notes ({session_of(worker.name)}):\n{notes_of(session)}",
        *([f"It wrote outside its paths, and that was put back:\n{outside(strays)}"] if strays else []),
        *(["What was found before:", *earlier] if earlier else []),
        f"{_JUDGE.format(_EACH if points else '')}{round_of(worker.name, len(rounds) + 1)}.",
    ]
    return below("\n\n".join(parts)) + (f"\n\n{noted}" if noted else "")


def own_notes(verifier: str, session: Session) -> str:
    """What a verifier is told of its own notes: how they are made, and what there are."""
    told = (
        f"What you assume or are unsure of becomes a note of your own (tool Note, or {session_of(verifier)}). You "
        "can't ask: escalate a note instead. `verified` counts when each of yours is resolved."
    )
    if session.notes:
        told += f" Yours so far:\n{notes_of(session)}"
    return below(told + pending(verifier, session))


def answers_to(verifier: str, answered: Sequence[Note]) -> str:
    """The answers that a verifier judges with; empty: there are none."""
    lines = "\n".join(map(line, answered))
    return f"[ANSWERS] {verifier}: judge with these, and give your verdict anew.\n{lines}" if answered else ""


def framed(body: str, answers: str) -> str:
    """A message of the executor's, in which only its own lines begin like a mark: its first, and that of answers."""
    return f"{below(body)}\n\n{below(answers)}" if answers else below(body)


def unsettled_verifier(verifier: str, agent: str, session: Session, problems: Sequence[str]) -> str:
    """A verifier approves while a note of its own is not settled."""
    return below(
        f"[VERIFY] {agent}: your verdict does not count yet, because notes of your own are not settled. Resolve or "
        f"escalate each, then call Verdict again:\n{notes_of(session, NoteStatus.OPEN)}{pending(verifier, session)}"
        f"{told(problems)}"
    )


def outside(strays: Sequence[StrayWrite]) -> str:
    """What was written outside the owned paths, a line for each turn."""
    lines = []
    for one in strays:
        listed = (f"{path} (of {owner})" if owner else path for path, owner in zip(one.paths, one.owners, strict=True))
        lines.append(f"- {moment(one.time)}: {', '.join(listed)}; kept under {one.ref}")
    return "\n".join(lines)


def ending(proof: Proof) -> str:
    """How a command ended."""
    return proof.fault or f"ended with {proof.code}"


def failing(proof: Proof) -> str:
    """A finding: an acceptance command that does not hold."""
    return f"`{proof.command}` fails: {ending(proof)}"


def shown(proofs: Iterable[Proof]) -> str:
    """What commands did."""
    parts = []
    for proof in proofs:
        end = ending(proof)
        said = proof.output.strip()
        output = f"\n{last_of(said, SHOWN)}" if said else ""
        parts.append(f"$ {proof.command}\n({end}){output}")
    return "\n".join(parts) or "(there are none)"


def commands(listed: Sequence[str], seconds: float, about: str) -> str:
    """What the prover is given."""
    return json.dumps({"commands": list(listed), "seconds": seconds or 600.0, "for": about}, ensure_ascii=False)


def rejected(agent: str, found: Round, points: Sequence[Checkpoint] = ()) -> str:
    """A rejected round."""
    failed = [
        f"- the checkpoint to {one.to} failed: {one.criteria}{f' ({one.evidence})' if one.evidence else ''};"
        f" on_failure: {point.on_failure}"
        for point, one in zip(points, found.criteria, strict=False)
        if one.met is False
    ]
    return (
        f"[REJECTED] {agent}, round {found.number} by {found.verifier}. Mend this, then end your turn:\n"
        + "\n".join((*(f"- {finding}" for finding in found.findings or ("no finding was given",)), *failed))
        + f"\n\nThe acceptance commands:\n{shown(found.proofs)}"
    )


def answers(agent: str, notes: Sequence[Note], words: str = "") -> str:
    """All answers at once."""
    return (
        f"[ANSWERS] {agent}: go on with these.\n"
        + "\n".join(line(note) for note in notes)
        + (f"\n\n{words}" if words else "")
    )


def refused_before(refusals: Sequence[tuple[PlanChange, RestingAnswer]]) -> str:
    """Answers that were refused with a change of the plan, with the reason, for the doer that goes on."""
    lines = [
        f"- {one.note_id}: `{one.answer}` does not hold. It came with a change of the plan, which {change.by} refused: "
        f"{change.reason or 'no reason was given'}"
        for change, one in refusals
    ]
    return "\n".join(["Refused before:", *lines]) if lines else ""


def verify_change(difference: str) -> str:
    """What the design verifier is given when the plan was changed in mid-work."""
    return below(
        f"[VERIFY] The architecture group has changed {PLAN} while the workflow is carried out. Read it as it is in "
        "your tree, with every agent_instructions.md below orchestration/agents/, against INTENT.md and PLAN.md. The "
        "design check by code found no gap: look for what code can't see. Nothing that you write here is kept; end "
        "with Verdict: verified, or rejected with each gap as a finding.\n\n"
        f"All that it changes:\n\n{fit(difference, CHANGED)}"
    )


def not_merged(agent: str, merged: Merged) -> str:
    """A merge was not taken."""
    return (
        f"[MERGE failed] {agent}: what you made was approved, and could not be brought together with the rest: "
        f"{merged.reason}. Your tree has what is merged by now; mend it there, then end your turn.\n\n"
        f"{shown(merged.proofs)}"
    )


def newer(agent: str, of: Sequence[str]) -> str:
    """What a doer reads has changed: an output, or its own contract."""
    contract = f" Your contract is another now: see {task_base_of(agent)}." if ARCHITECT in of else ""
    said = (
        f"[VERSION] {agent}: there is a newer output of {', '.join(of)}. It is in your tree; read it again and go on."
    )
    return f"{said}{contract}"


def integrate(agent: str, conflicts: Sequence[str], sides: Sequence[Worker]) -> str:
    """What an integrator is given."""
    intents = []
    for side in sides:
        intents += [f"- {side.name}: {side.objective}", *(f"  $ {command}" for command in side.acceptance.commands)]
    return (
        f"[INTEGRATE] bringing {agent} together with what is merged left conflicts in: {', '.join(conflicts)}. "
        "Settle them in your tree so that the intent of every side survives. What can't be marked in a file lies "
        "beside it as .theirs, a note of a deletion as .theirs-deleted: move it over the file, or delete it. The "
        "commands of all sides are run on the result:\n" + "\n".join(intents)
    )


def held_back(agents: Sequence[str], at_work: Sequence[str], fan_out: int) -> str:
    """Who waits for a free slot, and who has the slots."""
    busy = f"{joined(at_work)} {'are' if len(at_work) > 1 else 'is'} at work; " if at_work else ""
    return f"{busy}{joined(agents)} {'wait' if len(agents) > 1 else 'waits'} for a free slot (fan_out {fan_out})"


def escalation(why: str, notes: Sequence[Note]) -> str:
    """What the architect is given: all that a doer waits for, at once."""
    return f"{why}. It waits for these answers:\n" + "\n".join(line(note) for note in notes) + _RESOLVE


_RESOLVE = (
    "\n\nAnswer each with Resolve {agent, note_id, answer, source}: requirements come from the user (AskQuestion "
    "first); technology, architecture and security from the user or the solution architect (Resolve {agent, note_id, "
    "route: solution_architect, task}); all else may also be planning. See that no answer is in the way of another "
    "agent's task; what changes the plan, change in the plan's file. Where a note asks in other words what was "
    "answered before, say so: Resolve {agent, note_id, same_as: the earlier note}, with or without an answer."
)


def asked(one: AskedQuestion) -> str:
    """A question of a task's history, with its answer."""
    same = f" (the same as {', '.join(one.same_notes)})" if one.same_as else ""
    return f"- {one.note_id} at {moment(one.time)}: {one.text}{same} → {one.answer or '(not answered yet)'}"


def circles(asked: str, table: str) -> str:
    """A task asks in a loop: its whole history, and the statuses of the others."""
    return (
        "\n\nThe task goes round in circles: it has asked the same before, and was answered. Nothing goes on until the "
        "user has decided. "
        f"All that it ever asked:\n{asked}\n\nWhere the others stand:\n{table}"
    )
