"""Signs of life, for people: when each instance at work was last heard of, as its stream and the bus tell."""

from __future__ import annotations

from dataclasses import dataclass

from parley.engine.files.streams import heard, stream_of
from parley.engine.values.hold_causes import stall_of
from parley.ports.machine import Files
from parley.protocol.molecules import Run
from parley.views.job_view import Present


@dataclass(frozen=True, slots=True)
class Vital:
    """How an instance at work was last heard of. `last` is when, `said` what; `stalled` is what the bus says."""

    thread: str
    last: float
    silent_seconds: float
    in_tool: str
    stalled: bool
    said: str = ""


def vitals(present: Present, files: Files, now: float) -> dict[str, Vital]:
    """The instances that are at work, by their threads. After its owner's death a job has none."""
    found: dict[str, Vital] = {}
    if present.record is None or not present.owned:
        return found
    for run in present.soup.of(Run):
        if run.agent in present.code:
            continue
        stall = stall_of(present.soup, run.thread)
        stalled = stall is not None and stall.turn == run.turn
        told = heard(files.tail(present.job, stream_of(present.record, run.thread)), run.turn)
        last = told.last or present.started(run.turn)
        found[run.thread] = Vital(
            thread=run.thread,
            last=last,
            silent_seconds=max(0.0, now - last),
            in_tool=told.tool,
            stalled=stalled,
            said=told.said,
        )
    return found
