"""What an owner that died has left, and how the next one finds it again."""

from __future__ import annotations

import json
from typing import Any

from parley.core.states import Record
from parley.core.terms import Run, Surface, Tombstone, thread_kind
from parley.engine import records
from parley.engine.endings import outcome_file
from parley.engine.live import LiveJob
from parley.engine.names import tree_slot
from parley.engine.world import World

ANCHOR_EVERY = 256  # transactions; besides every transition, and whenever there is nothing else to do


def orphans(live: LiveJob) -> list[Run]:
    """The turns whose process died with the last owner, found along the Parent edges from the root."""
    found: list[Run] = []
    waiting = [live.thread]
    while waiting:
        here = waiting.pop()
        found.extend(live.soup.all(Run, here))
        waiting.extend(live.soup.children(here))
    return found


def restore(live: LiveJob, world: World) -> None:
    """Put every workspace back to what the bus names; those that nobody works in are taken away again."""
    inhabited = {live.thread, *(surface.workspace for surface in live.soup.of(Surface))}
    for workspace in sorted(inhabited):
        if thread_kind(workspace) == "escalation":
            continue  # a clone is never written to, and made again when its proxy has a turn
        tree = live.kept.get(tree_slot(workspace), "")  # none: it goes back to how it began
        world.workspace.restore(live.job, workspace, tree, f"epoch-{live.epoch}")
    for grave in live.soup.of(Tombstone):
        if thread_kind(grave.thread) == "dispatch" and grave.thread not in inhabited:
            world.workspace.retire(live.job, grave.thread)


def keep_outcomes(live: LiveJob, world: World) -> None:
    """Write again the outcome files that the last commits may not have got to."""
    for row in world.store.messages(live.job, max(0, live.message_count - ANCHOR_EVERY)):
        report: dict[str, Any] = (json.loads(row.meta).get("report") if row.meta else None) or {}
        record = live.soup.get(Record, report.get("record", ""))
        if record is not None:
            live.outcomes.append(outcome_file(record, report))


def logged_calls(live: LiveJob, world: World, run: Run) -> list[str]:
    """What a lost turn had called, as its stream has it."""
    stream = records.stream_of(live.record, run.thread)
    found = []
    for text in world.files.tail(live.job, stream):
        logged = records.read_line(text)
        if logged.get("turn") == run.turn and logged.get("event") == "call":
            found.append(str(logged.get("call")))
    return found
