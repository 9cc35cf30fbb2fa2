"""What a turn tells while it runs: signs of life, and that it waits for its provider. Its texts are bounded here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parley.engine.files.streams import Line, deed, tells_of_work
from parley.engine.owned_job import OwnedJob
from parley.engine.protocol_messages import TEXT_LIMIT
from parley.engine.turn.finish import FAULT_LIMIT, NAME_LIMIT, amount, text_in
from parley.engine.turn.lost import reason_of
from parley.engine.turn.running_turn import ToolUse, Turn
from parley.engine.world import World
from parley.ports.turns import RESULT_LIMIT, Called, Progress, Sign, Waiting

MAX_USES = 1000  # tools that are remembered as under way in one turn


def hear(job: OwnedJob, world: World, turn: Turn, event: Progress | Waiting) -> Line:
    """Take a sign of life; the line that its stream gets."""
    now = world.clock.now()
    turn.heard, turn.pulse = now, world.pulse.time
    if isinstance(event, Progress):
        said = _progress(turn, event, now)
        show_life(job, turn, event)
        return Line(now, turn.turn, "progress", said)
    until = amount(event.until)
    reason = reason_of(world, text_in(event.reason, FAULT_LIMIT))
    turn.waiting = bool(reason)
    show_life(job, turn, Waiting(event.job, event.turn, reason, until))
    if reason:
        return Line(now, turn.turn, "waits", {"reason": reason, "until": until})
    return Line(now, turn.turn, "goes on", {"text": ""})


def show_life(job: OwnedJob, turn: Turn, event: Called | Progress | Waiting) -> None:
    """Tell the guests that a turn shows life."""
    for hook in job.guests.turn_heard:
        hook(job, turn, event)


def _progress(turn: Turn, event: Progress, now: float) -> Mapping[str, Any]:
    text, tool, use = text_in(event.text, TEXT_LIMIT), text_in(event.tool, NAME_LIMIT), text_in(event.use, NAME_LIMIT)
    if event.sign is Sign.QUEUE:
        turn.queued = not event.over
    if tells_of_work(event.sign, text):
        turn.last = deed(tool, text)
    said: dict[str, Any] = {"text": text, **({"sign": event.sign} if event.sign else {})}
    if event.host:
        said["host"] = text_in(event.host, NAME_LIMIT)
    if not tool:
        return said
    said |= {"tool": tool, "use": use}
    if event.over:
        begun = turn.uses.pop(use, None)
        return {**said, "over": True, **_result(event, now - begun.since if begun is not None else None)}
    if len(turn.uses) < MAX_USES:
        turn.uses[use] = ToolUse(tool, now)
    return said


def _result(event: Progress, seconds: float | None) -> Mapping[str, Any]:
    """What came of a tool's use; what is not known is left out."""
    found: dict[str, Any] = {}
    if seconds is not None:
        found["seconds"] = round(max(0.0, seconds), 3)
    if event.failed:
        found["failed"] = True
    if result := text_in(event.result, RESULT_LIMIT):
        found["result"] = result
    return found
