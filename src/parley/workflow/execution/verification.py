"""Verifies and merges a doer's output: its commands are run, its verifier judges, then it is merged and proved."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from parley.base.json_codec import Unreadable, decode
from parley.base.quoting import below
from parley.base.text import cut, last_of
from parley.base.wording import count
from parley.workflow.execution import checkpoints, doer_moves, executor_messages, verifier_notes
from parley.workflow.execution.executor_turn import ExecutorTurn, MergeWorkspace, RestoreTree
from parley.workflow.model.events import CheckMoved, MergeBegun, MergeEnded, RoundEnded, TriesCounted
from parley.workflow.model.flow import Merging, OpenConversation
from parley.workflow.model.remedies import OnFailure, gravest
from parley.workflow.model.terms import INTEGRATOR, PROVER, JudgedCheckpoint, Merged, Proof, Round, Status
from parley.workflow.model.worker_result import Judgement

MOST_PROOFS = 200
MOST_OUTPUT = 4000  # characters of a command's output that are kept


class _TriedCommand(Struct, frozen=True):
    """What a command did, in the prover's words."""

    command: str
    code: int
    output: str = ""
    seconds: float = 0.0
    fault: str = ""


class _ProverReport(Struct, frozen=True):
    """The text of a prover's turn."""

    proofs: list[_TriedCommand]


# ---- verification --------------------------------------------------------------------------------


def check(act: ExecutorTurn, agent: str) -> None:
    """A doer is ready: run its commands in a tree of their own, then let its verifier judge."""
    worker, workspace = act.worker(agent), act.member(agent).workspace
    act.happen(CheckMoved(agent, "proving", tree=act.kept(workspace)))
    if worker.acceptance.commands:
        about = f"{agent}, round {len(act.member(agent).standing.rounds) + 1}"
        body = executor_messages.commands(worker.acceptance.commands, worker.time_limit_seconds, about)
        act.open("prover", agent, PROVER, body, workspace, "check")
    else:
        _judge(act, agent, ())


def _judge(act: ExecutorTurn, agent: str, proofs: Sequence[Proof]) -> None:
    worker, member = act.worker(agent), act.member(agent)
    act.happen(CheckMoved(agent, "judging", tuple(proofs)))
    strays = [one for one in act.flow.strays if one.agent == agent]
    points = act.checkpoints(agent)
    noted = executor_messages.own_notes(worker.verifier, verifier_notes.session_of_review(act, agent))
    answers = executor_messages.answers_to(worker.verifier, verifier_notes.answered(act, agent))
    body = executor_messages.verify(
        worker, member.standing.session, proofs, member.standing.rounds, strays, points, noted
    )
    act.open("verifier", agent, worker.verifier, body, member.workspace, answers=answers)


def proved(act: ExecutorTurn, talk: OpenConversation, text: str) -> None:
    """The prover tells what the commands did."""
    act.close(talk.thread)
    if talk.about == "merge":
        _merge_proved(act, read_proofs(text, _commands(act, act.flow.merging)))
    elif act.flow.status(talk.agent) is Status.READY:
        proofs = read_proofs(text, act.worker(talk.agent).acceptance.commands)
        if failing := [executor_messages.failing(proof) for proof in proofs if not proof.holds]:
            unjudged = [JudgedCheckpoint(point.taker, point.criteria) for point in act.checkpoints(talk.agent)]
            _concluded(
                act, talk.agent, by=PROVER, verdict="rejected", findings=failing, proofs=proofs, criteria=unjudged
            )
        else:
            _judge(act, talk.agent, proofs)


def read_proofs(text: str, commands: Sequence[str]) -> tuple[Proof, ...]:
    """What the prover's words say of each command; a command that they say nothing of did not hold."""
    try:
        listed = decode(text, _ProverReport).proofs
        found = {one.command: one for one in listed[:MOST_PROOFS]}
    except Unreadable:
        found = {}
    return tuple(_proof(command, found.get(command)) for command in dict.fromkeys(commands))


def _proof(command: str, tried: _TriedCommand | None) -> Proof:
    if tried is None:
        return Proof(command, -1, "", fault="it was not run")
    return Proof(
        command=command,
        code=tried.code,
        output=last_of(tried.output, MOST_OUTPUT),
        seconds=round(tried.seconds, 3),
        fault=cut(tried.fault, 500),
    )


def judged(
    act: ExecutorTurn,
    talk: OpenConversation,
    judgement: Judgement,
    problems: Sequence[str] = (),
) -> None:
    """A verifier has looked."""
    agent, verdict, findings = talk.agent, judgement.verdict, judgement.findings
    member = act.member(agent)
    if member.checking != "judging":
        act.close(talk.thread)
        return
    waits = verifier_notes.waits(act, talk, verdict, findings, problems)
    if waits is not None:
        if waits:
            act.close(talk.thread)
            doer_moves.block(act, agent, waits)
        return
    if not verdict:
        _no_verdict(act, talk, problems)
        return
    act.close(talk.thread)
    said = {one.to: one for one in judgement.criteria}
    for_all = {"verified": True, "rejected": False}.get(verdict)  # where each was not judged, the verdict is for all
    held = tuple(
        JudgedCheckpoint(point.taker, point.criteria, one.met, one.evidence)
        if (one := said.get(point.taker))
        else JudgedCheckpoint(point.taker, point.criteria, for_all)
        for point in act.checkpoints(agent)
    )
    _concluded(act, agent, by=talk.name, verdict=verdict, findings=findings, proofs=member.proofs, criteria=held)


def _concluded(
    act: ExecutorTurn,
    agent: str,
    *,
    by: str,
    verdict: str,
    findings: Sequence[str],
    proofs: Sequence[Proof],
    criteria: Sequence[JudgedCheckpoint],
) -> None:
    """A round has ended: with its verifier's verdict, or with a command that fails before the verifier looks."""
    number = len(act.member(agent).standing.rounds) + 1
    points = act.checkpoints(agent)
    failing = [point for point, one in zip(points, criteria, strict=True) if one.met is False]
    action = gravest(point.remedy for point in failing).value if failing and verdict == "rejected" else ""
    found = Round(
        number=number,
        verifier=by,
        verdict=verdict,
        findings=tuple(findings),
        proofs=tuple(proofs),
        time=act.now,
        criteria=tuple(criteria),
        action=action,
    )
    act.happen(RoundEnded(agent, found))
    if verdict == "verified":
        act.happen(CheckMoved(agent, "merging"))
        merge_next(act)
    elif verdict == "blocked":
        reason = "; ".join(findings) or "its verifier says so"
        act.escalate(agent, f"{by} blocks it: {reason}", "a verifier asks for a decision")
        doer_moves.block(act, agent, f"blocked by {by}")
    elif action in ("", OnFailure.REWORK):
        failed(act, agent, executor_messages.rejected(agent, found, points), f"rejected by {by}: {'; '.join(findings)}")
    else:
        checkpoints.remedy(act, agent, found, failing)


def _no_verdict(act: ExecutorTurn, talk: OpenConversation, problems: Sequence[str]) -> None:
    nudges = act.member(talk.agent).nudges
    if nudges < act.limits.rounds:
        act.happen(TriesCounted(talk.agent, nudges=nudges + 1))
        body = below(
            f"[VERIFY] {talk.agent}: your turn ended without a verdict. Call Verdict.{executor_messages.told(problems)}"
        )
        act.tell(talk.thread, body)
    else:
        found = (f"{talk.name} ended {count(nudges + 1, 'turn')} without a verdict",)
        judged(act, talk, Judgement("blocked", found))


def failed(act: ExecutorTurn, agent: str, body: str, why: str) -> None:
    """A round or a merge failed: back to work, or, after `rounds` failures, escalate."""
    rejections = act.member(agent).rejections + 1
    act.happen(TriesCounted(agent, rejections=rejections))
    if rejections >= act.limits.rounds:
        said = f"{count(rejections, 'round')} did not end well; the last: {why}"
        act.escalate(agent, said, "it would go round in circles")
        doer_moves.block(act, agent, said)
    else:
        act.move(agent, Status.WORKING, why)
        doer_moves.go_on(act, agent, body)


# ---- merging -------------------------------------------------------------------------------------


def merge_next(act: ExecutorTurn) -> None:
    """Merges are serial: the next one begins when none goes on. Who has not read the newest goes back first.

    So does what was changed since it was looked at: nothing is merged that its verifier has not seen.
    """
    flow = act.flow
    for agent in [name for name in flow.mergeable if act.kept(act.member(name).workspace) != act.member(name).tree]:
        act.happen(CheckMoved(agent, ""))
    for agent in [name for name in flow.mergeable if act.member(name).stale]:
        doer_moves.sent_back(act, agent)
    agent = next((name for name in flow.mergeable if not act.engaged(act.member(name).workspace)), "")
    if flow.merging is None and agent and act.make_room():
        merged = Merged(len(flow.merges) + 1, agent, act.now, taken=False)
        act.happen(MergeBegun(Merging(agent, "", merged, (agent,))))
        act.do(MergeWorkspace(agent, act.member(agent).workspace))


def brought(act: ExecutorTurn, before: str, merged: Merged) -> None:
    """A doer's tree was brought into the executor's: what came of it so far."""
    agent = merged.agent
    sides = (agent, *(side for side in _others(act, merged.conflicts) if side != agent))
    merging = Merging(agent, before, merged, sides)
    act.happen(MergeBegun(merging))
    if merged.conflicts:
        if act.make_room():
            body = executor_messages.integrate(agent, merged.conflicts, [act.worker(side) for side in sides])
            act.open("integrator", agent, INTEGRATOR, body, act.tree)
        else:
            _refuse(act, "there was no free conversation for its integrator")
    else:
        _prove(act)


def _others(act: ExecutorTurn, paths: Sequence[str]) -> list[str]:
    """Who last brought the paths that are in conflict."""
    found = []
    for path in paths:
        found += [one.agent for one in reversed(act.flow.merges) if one.taken and path in one.paths][:1]
    return list(dict.fromkeys(found))


def _commands(act: ExecutorTurn, merging: Merging | None) -> list[str]:
    sides = merging.sides if merging else ()
    return [command for side in sides for command in act.worker(side).acceptance.commands]


def _prove(act: ExecutorTurn) -> None:
    merging = act.flow.merging
    commands = _commands(act, merging)
    if merging is None:
        return
    if not commands:
        _merge_proved(act, ())
    elif act.make_room():
        seconds = max(act.worker(side).time_limit_seconds for side in merging.sides)
        about = f"{merging.agent}, merge {merging.merged.number}"
        act.open(
            "prover", merging.agent, PROVER, executor_messages.commands(commands, seconds, about), act.tree, "merge"
        )
    else:
        _refuse(act, "there was no free conversation for its prover")


def integrated(act: ExecutorTurn, talk: OpenConversation) -> None:
    """The integrator has settled what was in conflict, or says so: its tree is brought in, and proved."""
    act.do(MergeWorkspace(INTEGRATOR, talk.thread))


def settled(act: ExecutorTurn, talk: OpenConversation, paths: Sequence[str], still: Sequence[str]) -> None:
    """The integrator's tree was brought in."""
    merging = act.flow.merging
    act.close(talk.thread)
    if merging is None:
        return
    if still:
        _refuse(act, f"conflicts are left in {', '.join(still)}")
        return
    merged = replace(
        merging.merged,
        resolved_by=talk.name,
        trivial=False,
        paths=tuple(dict.fromkeys((*merging.merged.paths, *paths))),
    )
    act.happen(MergeBegun(replace(merging, merged=merged)))
    _prove(act)


def _merge_proved(act: ExecutorTurn, proofs: Sequence[Proof]) -> None:
    merging = act.flow.merging
    if merging is None:
        return
    merged = replace(merging.merged, proofs=tuple(proofs))
    act.happen(MergeBegun(replace(merging, merged=merged)))
    failing = [proof.command for proof in proofs if not proof.holds]
    if failing:
        _refuse(act, f"on the result this fails: {', '.join(failing)}")
        return
    if act.engaged(act.member(merging.agent).workspace):
        doer_moves.undo_merge(act, f"{merging.agent} is at work again")  # what it was told may change what it made
        return
    act.happen(MergeEnded(replace(merged, taken=True, time=act.now)))
    doer_moves.verified(act, merging.agent)
    merge_next(act)


def _refuse(act: ExecutorTurn, why: str) -> None:
    """The merge is not taken: the tree goes back to what it was, and the doer to work."""
    merging = act.flow.merging
    if merging is None:
        return
    merged = replace(merging.merged, taken=False, reason=why, time=act.now)
    act.happen(MergeEnded(merged))
    act.do(RestoreTree(merging.before, f"merge-{merged.number}"))
    failed(act, merging.agent, executor_messages.not_merged(merging.agent, merged), f"its merge was not taken: {why}")
    merge_next(act)


def lost(act: ExecutorTurn, talk: OpenConversation, fault: str) -> None:
    """The verifier, prover or integrator could not go on: the doer's output is not judged, so escalate it."""
    act.close(talk.thread)
    merging = act.flow.merging
    if merging is not None and merging.agent == talk.agent and (talk.kind == "integrator" or talk.about == "merge"):
        _refuse(act, f"{talk.name} could not go on: {fault}")
    elif act.flow.status(talk.agent) is Status.READY:
        act.escalate(talk.agent, f"{talk.name} could not check it: {fault}", "it could not be checked")
        doer_moves.block(act, talk.agent, f"{talk.name} could not go on")
