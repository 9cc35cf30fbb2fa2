"""A job as a listing shows it, whichever store keeps it. It imports little, so that a listing starts fast."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Glimpse(NamedTuple):
    """A job as a listing shows it. A tuple, since Structs take longer to import than all that is done here."""

    job: str
    request: str
    updated: float
    state: str
    backtracks: int
    waiting: int  # questions that wait for the human, without those whose answers are on the bus
    held: int
    stalled: int = 0  # instances that show no sign of life, as long as the job has an owner
    alarms: int = 0  # those of them that count among what waits for the human
    waits: tuple[str, ...] = ()  # why instances wait for their provider: the causes of those holds
    decider: str = ""  # who started it
    created: float = 0.0


class Held(NamedTuple):
    """What the holds of a job say."""

    stalled: int
    alarms: int
    waits: tuple[str, ...]


def glimpse_of(row: Mapping[str, Any], answered: int) -> Glimpse:
    """A job's columns as a listing shows them; `answered`: how many answers wait for its owner."""
    seen = held(row["holds"] or "")
    return Glimpse(
        job=row["job"],
        request=row["request"],
        updated=row["updated"],
        state=row["state"],
        backtracks=row["backtracks"],
        waiting=row["needs_human"] - answered,
        held=row["held"],
        stalled=seen.stalled,
        alarms=seen.alarms,
        waits=seen.waits,
        decider=row["decider"],
        created=row["created"],
    )


def held(slots: str) -> Held:
    """Read the slots of a job's holds, a line each. That of an instance's hold names its thread, then its cause."""
    found = [slot.split(" ", 2) for slot in slots.split("\n")]
    causes = [(thread, cause) for _, thread, cause in (place for place in found if len(place) == 3)]  # noqa: PLR2004 - as above
    stalled = [thread for thread, cause in causes if _is("stall", cause)]
    alarms = sum(not thread.startswith("dispatch:") for thread in stalled)
    return Held(len(stalled), alarms, tuple(cause for _, cause in causes if _is("wait", cause)))


def _is(kind: str, cause: str) -> bool:
    """Whether a hold's cause is of a kind. The engine's own reader takes too long to import."""
    return cause.startswith(f'["{kind}",')
