"""Workflows as a job's owner has them: made from what is kept on the bus, changed by an executor's steps."""

from __future__ import annotations

from collections.abc import Collection

from parley.core.states import Record
from parley.core.terms import Surface
from parley.engine.live import LiveJob
from parley.workflow import ending
from parley.workflow.events import apply
from parley.workflow.flow import Flow, Talk
from parley.workflow.slots import CURRENT, SLOT, entities, load, slot, text
from parley.workflow.terms import EXECUTOR


def flow_of(live: LiveJob, thread: str) -> Flow | None:
    """The workflow of an executor's thread, if it has begun."""
    if thread not in live.flows:
        found = load(thread, live.kept)
        if found is None:
            return None
        live.flows[thread] = found
    return live.flows[thread]


def current_flow(live: LiveJob) -> Flow | None:
    """The job's newest workflow."""
    thread = current_thread(live)
    return flow_of(live, thread) if thread else None


def current_thread(live: LiveJob) -> str:
    """The executor's thread of the job's newest workflow."""
    return live.kept.get(CURRENT, "")


def flows_of_visit(live: LiveJob, record: Record) -> list[Flow]:
    """The workflows of a state's visit, oldest first: a lead may have had more than one carried out."""
    entered = int(record.history[-1].timestamp) if record.history else 0
    return [flow for flow in all_flows(live) if flow.started >= entered]


def threads(live: LiveJob) -> list[str]:
    """The executors' threads of all workflows that the job ever had."""
    ended = " flow"
    return [where[len(SLOT) : -len(ended)] for where in live.kept if where.startswith(SLOT) and where.endswith(ended)]


def all_flows(live: LiveJob) -> list[Flow]:
    """All workflows that the job ever had, oldest first."""
    found = [flow for thread in threads(live) if (flow := flow_of(live, thread)) is not None]
    return sorted(found, key=lambda flow: flow.run)


def over(live: LiveJob, thread: str, time: float, origin: str) -> None:
    """An executor's thread has ended: a workflow that had not come to its end is stopped with it."""
    flow = flow_of(live, thread)
    if flow is None:
        return
    changed: set[str] = set()
    for event in ending.over(flow, int(time), origin):
        changed |= apply(flow, event)
    if changed:
        _store(live, flow, changed)
        live.unwritten.setdefault(thread, set()).update(entities(flow))


def void(live: LiveJob) -> None:
    """The plan of the newest workflow is void: what it did is no way through the next one's gate, and is put away."""
    flow = current_flow(live)
    live.drop(CURRENT)
    if flow is not None:
        live.unwritten.setdefault(flow.thread, set()).update(entities(flow))


def is_past(live: LiveJob, thread: str) -> bool:
    """Whether a workflow is over for good: its plan is void, or another one has followed."""
    return current_thread(live) != thread


def keep(live: LiveJob, flow: Flow, changed: Collection[str]) -> None:
    """Keep what has changed of a workflow, in the transaction of the step that says so."""
    live.flows[flow.thread] = flow
    live.keep(CURRENT, flow.thread)
    _store(live, flow, changed)
    live.unwritten.setdefault(flow.thread, set()).update(changed)


def _store(live: LiveJob, flow: Flow, changed: Collection[str]) -> None:
    for entity in sorted(changed):
        body = text(flow, entity)
        if body is None:
            live.drop(slot(flow, entity))
        else:
            live.keep(slot(flow, entity), body)


def at_work(live: LiveJob, thread: str) -> tuple[Flow, Talk] | None:
    """The workflow that whoever works on a thread is part of, and what it is there for."""
    if CURRENT not in live.kept:
        return None  # no workflow has begun in this job
    parent = live.soup.parent(thread)
    above = live.soup.get(Surface, parent) if parent else None
    flow = flow_of(live, above.thread) if above is not None and above.agent == EXECUTOR else None
    talk = flow.talks.get(thread) if flow is not None else None
    return (flow, talk) if flow is not None and talk is not None else None
