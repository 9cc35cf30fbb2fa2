"""Workflows as a job's owner has them: made from what is kept on the bus, changed by an executor's steps."""

from __future__ import annotations

from collections.abc import Collection

from parley.core.states import Record
from parley.core.terms import Surface
from parley.engine.live import LiveJob
from parley.workflow.flow import Flow, Talk
from parley.workflow.slots import CURRENT, SLOT, load, slot, text
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
    ended = " flow"
    threads = [
        where[len(SLOT) : -len(ended)] for where in live.kept if where.startswith(SLOT) and where.endswith(ended)
    ]
    found = [flow for thread in threads if (flow := flow_of(live, thread)) is not None]
    entered = int(record.history[-1].timestamp) if record.history else 0
    return sorted((flow for flow in found if flow.started >= entered), key=lambda flow: flow.started)


def keep(live: LiveJob, flow: Flow, changed: Collection[str]) -> None:
    """Keep what has changed of a workflow, in the transaction of the step that says so."""
    live.flows[flow.thread] = flow
    live.keep(CURRENT, flow.thread)
    for entity in sorted(changed):
        body = text(flow, entity)
        if body is None:
            live.drop(slot(flow, entity))
        else:
            live.keep(slot(flow, entity), body)
    live.unwritten.setdefault(flow.thread, set()).update(changed)


def at_work(live: LiveJob, thread: str) -> tuple[Flow, Talk] | None:
    """The workflow that whoever works on a thread is part of, and what it is there for."""
    if CURRENT not in live.kept:
        return None  # no workflow has begun in this job
    parent = live.soup.parent(thread)
    above = live.soup.get(Surface, parent) if parent else None
    flow = flow_of(live, above.thread) if above is not None and above.agent == EXECUTOR else None
    talk = flow.talks.get(thread) if flow is not None else None
    return (flow, talk) if flow is not None and talk is not None else None
