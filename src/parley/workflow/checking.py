"""How a doer's output is checked and taken: its commands are run, a verifier judges, then it is merged and proved."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from parley.quoting import below
from parley.text import cut, last_of
from parley.wording import count
from parley.workflow import at_checkpoint, moving, reviewing, words
from parley.workflow.conduct import Conduct, Merge, Restore
from parley.workflow.flow import Merging, Talk
from parley.workflow.plain import plain
from parley.workflow.remedies import OnFailure, gravest
from parley.workflow.terms import INTEGRATOR, PROVER, Judged, Merged, Proof, Round, Status

MOST_PROOFS = 200
MOST_OUTPUT = 4000  # characters of a command's output that are kept


# ---- verification --------------------------------------------------------------------------------


def check(act: Conduct, agent: str) -> None:
    """A doer is ready: run its commands in a tree of their own, then let its verifier judge."""
    worker, workspace = act.worker(agent), act.member(agent).workspace
    act.happen("check", agent=agent, step="proving", tree=act.kept(workspace))
    if worker.acceptance.commands:
        about = f"{agent}, round {len(act.member(agent).standing.rounds) + 1}"
        body = words.commands(worker.acceptance.commands, worker.time_limit_seconds, about)
        act.open("prover", agent, PROVER, body, workspace, "check")
    else:
        _judge(act, agent, ())


def _judge(act: Conduct, agent: str, proofs: Sequence[Proof]) -> None:
    worker, member = act.worker(agent), act.member(agent)
    act.happen("check", agent=agent, step="judging", proofs=[plain(proof) for proof in proofs])
    strays = [one for one in act.flow.strays if one.agent == agent]
    points = act.checkpoints(agent)
    noted = words.own_notes(worker.verifier, reviewing.session_of_review(act, agent), reviewing.answered(act, agent))
    body = words.verify(worker, member.standing.session, proofs, member.standing.rounds, strays, points, noted)
    act.open("verifier", agent, worker.verifier, body, member.workspace)


def proved(act: Conduct, talk: Talk, text: str) -> None:
    """The prover tells what the commands did."""
    act.close(talk.thread)
    if talk.about == "merge":
        _merge_proved(act, read_proofs(text, _commands(act, act.flow.merging)))
    elif act.flow.status(talk.agent) is Status.READY:
        proofs = read_proofs(text, act.worker(talk.agent).acceptance.commands)
        if failing := [words.failing(proof) for proof in proofs if not proof.holds]:
            unjudged = [Judged(point.taker, point.criteria) for point in act.checkpoints(talk.agent)]
            _concluded(act, talk.agent, PROVER, "rejected", failing, proofs, unjudged)
        else:
            _judge(act, talk.agent, proofs)


def read_proofs(text: str, commands: Sequence[str]) -> tuple[Proof, ...]:
    """What the prover's words say of each command; a command that they say nothing of did not hold."""
    try:
        listed = json.loads(text)["proofs"]
        found = {str(one["command"]): one for one in listed[:MOST_PROOFS]}
    except (ValueError, TypeError, KeyError, RecursionError):
        found = {}
    return tuple(_proof(command, found.get(command)) for command in dict.fromkeys(commands))


def _proof(command: str, said: Any) -> Proof:
    if not isinstance(said, dict) or type(said.get("code")) is not int:
        return Proof(command, -1, "", fault="it was not run")
    seconds: Any = said.get("seconds")
    return Proof(
        command,
        said["code"],
        last_of(str(said.get("output", "")), MOST_OUTPUT),
        round(float(seconds), 3) if type(seconds) in (int, float) else 0.0,
        cut(str(said.get("fault", "")), 500),
    )


def judged(
    act: Conduct,
    talk: Talk,
    verdict: str,
    findings: Sequence[str],
    problems: Sequence[str] = (),
    criteria: Sequence[Mapping[str, Any]] = (),
) -> None:
    """A verifier has looked."""
    agent = talk.agent
    member = act.member(agent)
    if member.checking != "judging":
        act.close(talk.thread)
        return
    waits = reviewing.waits(act, talk, verdict, findings, problems)
    if waits is not None:
        if waits:
            act.close(talk.thread)
            moving.block(act, agent, waits)
        return
    if not verdict:
        _no_verdict(act, talk, problems)
        return
    act.close(talk.thread)
    said = {str(one["to"]): one for one in criteria}
    for_all = {"verified": True, "rejected": False}.get(verdict)  # where each was not judged, the verdict is for all
    held = tuple(
        Judged(point.taker, point.criteria, bool(one["met"]), str(one.get("evidence", "")))
        if (one := said.get(point.taker))
        else Judged(point.taker, point.criteria, for_all)
        for point in act.checkpoints(agent)
    )
    _concluded(act, agent, talk.name, verdict, findings, member.proofs, held)


def _concluded(
    act: Conduct,
    agent: str,
    by: str,
    verdict: str,
    findings: Sequence[str],
    proofs: Sequence[Proof],
    criteria: Sequence[Judged],
) -> None:
    """A round has ended: with its verifier's verdict, or with a command that fails before the verifier looks."""
    number = len(act.member(agent).standing.rounds) + 1
    points = act.checkpoints(agent)
    failing = [point for point, one in zip(points, criteria, strict=True) if one.met is False]
    action = gravest(point.remedy for point in failing).value if failing and verdict == "rejected" else ""
    found = Round(number, by, verdict, tuple(findings), tuple(proofs), act.now, tuple(criteria), action)
    act.happen("round", agent=agent, round=plain(found))
    if verdict == "verified":
        act.happen("check", agent=agent, step="merging")
        merge_next(act)
    elif verdict == "blocked":
        reason = "; ".join(findings) or "its verifier says so"
        act.escalate(agent, f"{by} blocks it: {reason}", "a verifier asks for a decision")
        moving.block(act, agent, f"blocked by {by}")
    elif action in ("", OnFailure.REWORK):
        failed(act, agent, words.rejected(agent, found, points), f"rejected by {by}: {'; '.join(findings)}")
    else:
        at_checkpoint.remedy(act, agent, found, failing)


def _no_verdict(act: Conduct, talk: Talk, problems: Sequence[str]) -> None:
    nudges = act.member(talk.agent).nudges
    if nudges < act.limits.rounds:
        act.happen("count", agent=talk.agent, nudges=nudges + 1)
        body = below(f"[VERIFY] {talk.agent}: your turn ended without a verdict. Call Verdict.{words.told(problems)}")
        act.tell(talk.thread, body)
    else:
        judged(act, talk, "blocked", (f"{talk.name} ended {count(nudges + 1, 'turn')} without a verdict",))


def failed(act: Conduct, agent: str, body: str, why: str) -> None:
    """A round or a merge did not end well: back to work, and after so many times up."""
    rejections = act.member(agent).rejections + 1
    act.happen("count", agent=agent, rejections=rejections)
    if rejections >= act.limits.rounds:
        said = f"{count(rejections, 'round')} did not end well; the last: {why}"
        act.escalate(agent, said, "it would go round in circles")
        moving.block(act, agent, said)
    else:
        act.move(agent, Status.WORKING, why)
        moving.go_on(act, agent, body)


# ---- merging -------------------------------------------------------------------------------------


def merge_next(act: Conduct) -> None:
    """Merges are serial: the next one begins when none goes on. Who has not read the newest goes back first.

    So does what was changed since it was looked at: nothing is merged that its verifier has not seen.
    """
    flow = act.flow
    for agent in [name for name in flow.mergeable if act.kept(act.member(name).workspace) != act.member(name).tree]:
        act.happen("check", agent=agent, step="")
    for agent in [name for name in flow.mergeable if act.member(name).stale]:
        moving.sent_back(act, agent)
    agent = next((name for name in flow.mergeable if not act.engaged(act.member(name).workspace)), "")
    if flow.merging is None and agent and act.make_room():
        merged = Merged(len(flow.merges) + 1, agent, act.now, taken=False)
        act.happen("merge begins", merging=plain(Merging(agent, "", merged, (agent,))))
        act.do(Merge(agent, act.member(agent).workspace))


def brought(act: Conduct, before: str, merged: Merged) -> None:
    """A doer's tree was brought into the executor's: what came of it so far."""
    agent = merged.agent
    sides = (agent, *(side for side in _others(act, merged.conflicts) if side != agent))
    merging = Merging(agent, before, merged, sides)
    act.happen("merge begins", merging=plain(merging))
    if merged.conflicts:
        if act.make_room():
            body = words.integrate(agent, merged.conflicts, [act.worker(side) for side in sides])
            act.open("integrator", agent, INTEGRATOR, body, act.tree)
        else:
            _refuse(act, "there was no room for whoever settles its conflicts")
    else:
        _prove(act)


def _others(act: Conduct, paths: Sequence[str]) -> list[str]:
    """Who last brought the paths that are in conflict."""
    found = []
    for path in paths:
        found += [one.agent for one in reversed(act.flow.merges) if one.taken and path in one.paths][:1]
    return list(dict.fromkeys(found))


def _commands(act: Conduct, merging: Merging | None) -> list[str]:
    sides = merging.sides if merging else ()
    return [command for side in sides for command in act.worker(side).acceptance.commands]


def _prove(act: Conduct) -> None:
    merging = act.flow.merging
    commands = _commands(act, merging)
    if merging is None:
        return
    if not commands:
        _merge_proved(act, ())
    elif act.make_room():
        seconds = max(act.worker(side).time_limit_seconds for side in merging.sides)
        about = f"{merging.agent}, merge {merging.merged.number}"
        act.open("prover", merging.agent, PROVER, words.commands(commands, seconds, about), act.tree, "merge")
    else:
        _refuse(act, "there was no room for whoever proves it")


def integrated(act: Conduct, talk: Talk) -> None:
    """The integrator has settled what was in conflict, or says so: its tree is brought in, and proved."""
    act.do(Merge(INTEGRATOR, talk.thread))


def settled(act: Conduct, talk: Talk, paths: Sequence[str], still: Sequence[str]) -> None:
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
    act.happen("merge begins", merging=plain(replace(merging, merged=merged)))
    _prove(act)


def _merge_proved(act: Conduct, proofs: Sequence[Proof]) -> None:
    merging = act.flow.merging
    if merging is None:
        return
    merged = replace(merging.merged, proofs=tuple(proofs))
    act.happen("merge begins", merging=plain(replace(merging, merged=merged)))
    failing = [proof.command for proof in proofs if not proof.holds]
    if failing:
        _refuse(act, f"on the result this fails: {', '.join(failing)}")
        return
    if act.engaged(act.member(merging.agent).workspace):
        moving.undo_merge(act, f"{merging.agent} is at work again")  # what it was told may change what it made
        return
    act.happen("merge ends", merged=plain(replace(merged, taken=True, time=act.now)))
    moving.verified(act, merging.agent)
    merge_next(act)


def _refuse(act: Conduct, why: str) -> None:
    """The merge is not taken: the tree goes back to what it was, and the doer to work."""
    merging = act.flow.merging
    if merging is None:
        return
    merged = replace(merging.merged, taken=False, reason=why, time=act.now)
    act.happen("merge ends", merged=plain(merged))
    act.do(Restore(merging.before, f"merge-{merged.number}"))
    failed(act, merging.agent, words.not_merged(merging.agent, merged), f"its merge was not taken: {why}")
    merge_next(act)


def lost(act: Conduct, talk: Talk, fault: str) -> None:
    """Whoever checks or integrates could not go on: the doer's output is not judged, and somebody has to look."""
    act.close(talk.thread)
    merging = act.flow.merging
    if merging is not None and merging.agent == talk.agent and (talk.kind == "integrator" or talk.about == "merge"):
        _refuse(act, f"{talk.name} could not go on: {fault}")
    elif act.flow.status(talk.agent) is Status.READY:
        act.escalate(talk.agent, f"{talk.name} could not check it: {fault}", "nobody could check it")
        moving.block(act, talk.agent, f"{talk.name} could not go on")
