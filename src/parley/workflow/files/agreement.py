"""Checks that a workflow's files agree: statuses, dependencies, verifiers, gate, plan and rounds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from parley.base.wording import joined
from parley.workflow.files.archive import INDEX, agent_of, is_archive, read_index
from parley.workflow.files.plan import read_plan
from parley.workflow.files.rounds import read_round
from parley.workflow.files.status_file import CLEAR, COMPLETE, AgentEntry, SharedStatus, read_status
from parley.workflow.files.task_record import read_record
from parley.workflow.model.flow import MET
from parley.workflow.model.terms import (
    PLAN,
    SHARED_STATUS,
    TASK_ORCHESTRATION,
    Finding,
    Plan,
    Round,
    Status,
    Worker,
    agent_at,
    round_of,
)

_ROUND = re.compile(r"round_([1-9][0-9]{0,5})\.json")
_NOT_BEGUN = frozenset({Status.PENDING, Status.FAILED})


@dataclass(frozen=True, slots=True)
class _Files:
    """What the files say, as far as each can be read by itself."""

    files: Mapping[str, str]
    plan: Plan
    shared: SharedStatus
    joined: frozenset[str]  # agents that joined later, by the record

    def find(self, agent: str, keys: tuple[str, ...], text: str, remedy: str) -> Finding:
        """A finding about a field of shared_status.json."""
        return Finding(
            file=SHARED_STATUS,
            line=_line(self.files[SHARED_STATUS], keys),
            agent=agent,
            rule="disagrees",
            text=text,
            remedy=remedy,
        )


def contradictions(files: Mapping[str, str]) -> Iterator[Finding]:
    """Everything in the files that contradicts the plan, or another of them."""
    yield from _unindexed(files)
    plan = read_plan(files[PLAN])[0] if PLAN in files else None
    shared = read_status(files[SHARED_STATUS])[0] if SHARED_STATUS in files else None
    if plan is None or shared is None:
        return
    record = read_record(files[TASK_ORCHESTRATION])[0] if TASK_ORCHESTRATION in files else None
    came = frozenset(one.agent for one in record.assigned) - plan.workers.keys() if record else frozenset[str]()
    known = _Files(files, plan, shared, came)
    if shared.task_id != plan.task:
        text = f"task_id is {shared.task_id}, but the plan's task is {plan.task}"
        yield known.find("", ("task_id",), text, "make them the same")
    yield from _who(known)
    for name, entry in shared.agents.items():
        worker = plan.workers.get(name)
        if worker is not None:
            yield from _agent(known, worker, entry)
    yield from _verifiers(known)
    yield from _gate(known)


def _who(known: _Files) -> Iterator[Finding]:
    """The agents of the file are those of the plan."""
    doers = [worker.name for worker in known.plan.doers]
    for name in known.shared.agents:
        if name not in doers and name not in known.joined:
            text = f"agents.{name} is no doer of the plan"
            yield known.find(name, ("agents", name), text, f"remove it, or add {name} to {PLAN}")
    for name in doers:
        if name not in known.shared.agents:
            text = f"agents.{name} is missing, but the plan has this doer"
            yield known.find(name, ("agents",), text, "add its entry, with status pending if it has not begun")


def _agent(known: _Files, worker: Worker, entry: AgentEntry) -> Iterator[Finding]:
    name, at = worker.name, ("agents", worker.name)
    if set(entry.dependencies) != set(worker.depends_on):
        said, due = (_listed(names) for names in (entry.dependencies, worker.depends_on))
        text = f"agents.{name}.dependencies are {said}, but the plan says {due}"
        yield known.find(name, (*at, "dependencies"), text, "make them those of the plan")
    for other in worker.depends_on:
        above = known.shared.agents.get(other)
        if above is None or above.status in MET:
            continue
        early = entry.status not in _NOT_BEGUN and not above.version  # one that was verified once may be sent back
        if early or entry.status in MET:
            text = f"agents.{name}.status is {entry.status}, but {other}, on which it depends, is {above.status}"
            yield known.find(name, (*at, "status"), text, f"it stays pending until {other} is verified")
    yield from _rounds(known, worker, entry)


def _rounds(known: _Files, worker: Worker, entry: AgentEntry) -> Iterator[Finding]:
    """An agent counts as verified only by the last of its rounds."""
    name = worker.name
    found: dict[int, Round] = {}
    for path, text in known.files.items():
        named = _ROUND.fullmatch(path.rpartition("/")[2]) if agent_at(path) == name else None
        if named is None or path != round_of(name, int(named[1])):
            continue
        one = read_round(text, name, int(named[1]))[0]
        if one is not None:
            found[one.number] = one
            said = re.search(r'"task_id": "([^"]*)"', text)
            if said and worker.task_id and said[1] != worker.task_id:
                told = f"task_id is {said[1]}, but the plan says {worker.task_id}"
                line = _line(text, ("task_id",))
                yield Finding(
                    file=path, line=line, agent=name, rule="disagrees", text=told, remedy="make them the same"
                )
    for number in range(1, max(found, default=0)):
        if number not in found and round_of(name, number) not in known.files:
            told = f"round {number} is missing, but there is a round {max(found)}"
            yield Finding(
                file=round_of(name, number), line=0, agent=name, rule="disagrees", text=told, remedy="bring it back"
            )
    if entry.status not in MET:
        return
    last = found.get(max(found, default=0))
    if last is None or last.verdict != "verified":
        said_last = f"its last round says {last.verdict}" if last else "no round of verification says so"
        text = f"agents.{name}.status is {entry.status}, but {said_last}"
        yield known.find(name, ("agents", name, "status"), text, "it is verified by a round with this verdict")
    elif worker.verifier and last.verifier != worker.verifier:
        text = f"round {last.number} was given by {last.verifier}, but the plan's verifier is {worker.verifier}"
        path = round_of(name, last.number)
        line = _line(known.files[path], ("verifier",))
        yield Finding(
            file=path, line=line, agent=name, rule="disagrees", text=text, remedy="let the plan's verifier look at it"
        )


def _verifiers(known: _Files) -> Iterator[Finding]:
    """The verifiers of the file, and their agents, are those of the plan."""
    due: dict[str, list[str]] = {}
    for worker in known.plan.doers:
        due.setdefault(worker.verifier, []).append(worker.name)
    for name, check in known.shared.verification.items():
        at = ("verification", name)
        if name not in known.plan.workers and name not in due and name not in known.joined:
            text = f"verification.{name} is no verifier of the plan"
            yield known.find(name, at, text, f"remove it, or add {name} to {PLAN}")
            continue
        given = [agent for agent in check.agents if agent not in known.joined]
        if set(given) != set(due.get(name, ())):
            said, wanted = (_listed(names) for names in (given, due.get(name, ())))
            text = f"verification.{name}.assigned_agents are {said}, but the plan says {wanted}"
            yield known.find(name, (*at, "assigned_agents"), text, "make them those of the plan")
        undone = [agent for agent in check.agents if known.shared.agents[agent].status not in MET]
        if check.status in MET and undone:
            text = f"verification.{name}.status is {check.status}, but {joined(undone)} is not verified"
            yield known.find(name, (*at, "status"), text, "it is pending until all that it was given are verified")
    for name in due:
        if name and name not in known.shared.verification:
            text = f"verification.{name} is missing, but the plan has this verifier"
            yield known.find(name, ("verification",), text, "add its entry, with the agents that it verifies")


def _gate(known: _Files) -> Iterator[Finding]:
    """The gate is clear only when the workflow is complete and every agent has come to its end."""
    shared, at = known.shared, ("overall_completion_drive_gate",)
    if shared.gate != CLEAR:
        return
    undone = [name for name, entry in shared.agents.items() if entry.status not in (*MET, Status.FAILED)]
    if undone:
        text = f"overall_completion_drive_gate is {CLEAR}, but {joined(undone)} {'is' if len(undone) == 1 else 'are'}"
        yield known.find("", at, f"{text} not verified", "it must be blocked until every agent is verified")
    elif shared.status != COMPLETE:
        text = f"overall_completion_drive_gate is {CLEAR}, but the workflow's status is {shared.status}"
        yield known.find("", at, text, "it must be blocked until the workflow is complete")


def _unindexed(files: Mapping[str, str]) -> Iterator[Finding]:
    """Every archive is in the index."""
    entries = read_index(files[INDEX])[0] if INDEX in files else ()
    if entries is None:
        return
    known = {entry.file for entry in entries}
    for path in sorted(files):
        if is_archive(path) and path not in known:
            remedy = f"enter it in {INDEX}, or remove it"
            yield Finding(
                file=path,
                line=0,
                agent=agent_of(path),
                rule="missing-entry",
                text="it is an archive that no index names",
                remedy=remedy,
            )


def _listed(names: Collection[str]) -> str:
    return joined(sorted(names)) if names else "none"


def _line(text: str, keys: tuple[str, ...]) -> int:
    """The line of a field: of the last of these keys, each searched for after the one before."""
    at = 0
    for key in keys:
        found = text.find(f'"{key}"', at)
        if found < 0:
            break
        at = found
    return text.count("\n", 0, at) + 1
