"""The action when a checkpoint fails: the text of `on_failure`, read as one of a few actions."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from types import MappingProxyType


class OnFailure(StrEnum):
    """What a failed checkpoint leads to; the gravest last. `re-plan` to `abandon` are those of `on_stall`."""

    REWORK = "rework"
    REPLAN = "re-plan"
    RESCOPE = "re-scope"
    ESCALATE = "escalate"
    ABANDON = "abandon"
    STOP = "stop"


MEANS = MappingProxyType(
    {
        OnFailure.REWORK: "it goes back to work with the findings",
        OnFailure.REPLAN: "the architect is asked to change the plan",
        OnFailure.RESCOPE: "the architect is asked to change what it owns",
        OnFailure.ESCALATE: "the human is asked",
        OnFailure.ABANDON: "the workflow goes on without it and all that depends on it",
        OnFailure.STOP: "the workflow stops",
    }
)
# Other words with which an on_failure may begin.
_ALSO = MappingProxyType(
    {
        "replan": OnFailure.REPLAN,
        "rescope": OnFailure.RESCOPE,
        "ask": OnFailure.ESCALATE,
        "drop": OnFailure.ABANDON,
        "skip": OnFailure.ABANDON,
        "halt": OnFailure.STOP,
    }
)
_GRAVITY = {action: number for number, action in enumerate(OnFailure)}


def meant(on_failure: str) -> OnFailure:
    """The action that a text begins with; any other text tells the doer what to correct: rework."""
    first = next(iter(on_failure.split()), "").strip(".,;:!`'\"").casefold()
    return OnFailure(first) if first in tuple(OnFailure) else _ALSO.get(first, OnFailure.REWORK)


def gravest(actions: Iterable[OnFailure]) -> OnFailure:
    """The gravest of several actions."""
    return max(actions, key=_GRAVITY.__getitem__, default=OnFailure.REWORK)
