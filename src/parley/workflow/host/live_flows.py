"""Workflows as a job's owner has them: made from what is kept on the bus, changed by an executor's steps."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from parley.engine.hooks import Guest
from parley.engine.outbox import Effect
from parley.engine.owned_job import OwnedJob
from parley.protocol.molecules import Record
from parley.workflow.model import ending
from parley.workflow.model.events import apply
from parley.workflow.model.flow import Entity, Flow, OpenConversation
from parley.workflow.model.flow_slots import CURRENT, SLOT, entities, load, slot, text
from parley.workflow.model.terms import EXECUTOR


class WriteFlow(Effect, frozen=True):
    """Write the files that tell of these entities of a workflow."""

    thread: str  # the executor's
    changed: frozenset[Entity]


class Flows(Guest):
    """The workflows of one job, by their executors' threads, as far as they were looked at."""

    def __init__(self) -> None:
        self.known: dict[str, Flow] = {}


def flow_of(job: OwnedJob, thread: str) -> Flow | None:
    """The workflow of an executor's thread, if it has begun."""
    flows = job.guests.find(Flows)
    if flows is None:
        return None  # no workflow has begun in this job
    if thread not in flows.known:
        found = load(thread, job.kept)
        if found is None:
            return None
        flows.known[thread] = found
    return flows.known[thread]


def current_flow(job: OwnedJob) -> Flow | None:
    """The job's newest workflow."""
    thread = current_thread(job)
    return flow_of(job, thread) if thread else None


def current_thread(job: OwnedJob) -> str:
    """The executor's thread of the job's newest workflow."""
    return job.kept.get(CURRENT, "")


def flows_of_visit(job: OwnedJob, record: Record) -> list[Flow]:
    """The workflows of a state's visit, oldest first: a lead may have had more than one carried out."""
    entered = int(record.history[-1].timestamp) if record.history else 0
    return [flow for flow in all_flows(job) if flow.started >= entered]


def threads(job: OwnedJob) -> list[str]:
    """The executors' threads of all workflows that the job ever had."""
    ended = " flow"
    return [where[len(SLOT) : -len(ended)] for where in job.kept if where.startswith(SLOT) and where.endswith(ended)]


def all_flows(job: OwnedJob) -> list[Flow]:
    """All workflows that the job ever had, oldest first."""
    found = [flow for thread in threads(job) if (flow := flow_of(job, thread)) is not None]
    return sorted(found, key=lambda flow: flow.run)


def over(job: OwnedJob, thread: str, time: float, origin: str) -> None:
    """An executor's thread has ended: a workflow that had not come to its end is stopped with it."""
    flow = flow_of(job, thread)
    if flow is None:
        return
    changed: set[Entity] = set()
    for event in ending.over(flow, int(time), origin):
        changed |= apply(flow, event)
    if changed:
        _store(job, flow, changed)
        job.ask(WriteFlow(thread, frozenset(entities(flow))))


def void(job: OwnedJob) -> None:
    """The plan of the newest workflow is void: what it did is no way through the next one's gate, and is put away."""
    flow = current_flow(job)
    job.drop(CURRENT)
    if flow is not None:
        job.ask(WriteFlow(flow.thread, frozenset(entities(flow))))


def is_past(job: OwnedJob, thread: str) -> bool:
    """Whether a workflow is over for good: its plan is void, or another one has followed."""
    return current_thread(job) != thread


def keep(job: OwnedJob, flow: Flow, changed: Collection[Entity]) -> None:
    """Keep what has changed of a workflow, in the transaction of the step that says so."""
    flows = job.guests.find(Flows)
    if flows is not None:
        flows.known[flow.thread] = flow
    job.keep(CURRENT, flow.thread)
    _store(job, flow, changed)
    job.ask(WriteFlow(flow.thread, frozenset(changed)))


def _store(job: OwnedJob, flow: Flow, changed: Collection[Entity]) -> None:
    for entity in sorted(changed):
        body = text(flow, entity)
        if body is None:
            job.drop(slot(flow, entity))
        else:
            job.keep(slot(flow, entity), body)


class WorkPlace(NamedTuple):
    """The workflow that an instance is part of, and the conversation in which it works there."""

    flow: Flow
    talk: OpenConversation


def at_work(job: OwnedJob, thread: str) -> WorkPlace | None:
    """The workflow that the instance on a thread is part of, and what it is there for."""
    if CURRENT not in job.kept:
        return None  # no workflow has begun in this job
    above = job.above(thread)
    flow = flow_of(job, above.thread) if above is not None and above.agent == EXECUTOR else None
    talk = flow.talks.get(thread) if flow is not None else None
    return WorkPlace(flow, talk) if flow is not None and talk is not None else None
