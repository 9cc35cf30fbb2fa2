"""What a turn tells, as the engine may use it: whichever runner passes it on, its texts are checked and bounded here.

An agent says what it likes. Nothing of that may stop the engine, or a commit, which is for all jobs at once: a mark
stands for what is no character, what is too long is cut, and what is no amount is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from parley.engine.texts import TEXT_LIMIT
from parley.ports import Called, Ended, Progress, TurnEvent, Waiting
from parley.text import check_value, fit, mended

NAME_LIMIT = 200  # characters of a tool's or a model's name, or of what a use is known by
FAULT_LIMIT = 8000  # characters of a fault, or of one refusal
USAGES = 64  # kinds of usage in one turn
REFUSALS = 100  # of one turn
DEEPEST_ARGUMENT = 16  # levels of a call's arguments
ARGUMENT_LIMIT = 16 * TEXT_LIMIT  # characters of one text; each tool has its own limit, and says what to do instead
ARGUMENT_VALUES = 20_000  # of one call, keys included


def heard(event: TurnEvent) -> TurnEvent:
    """An event with nothing in it that the bus, the streams or the terminal can't take. A call's arguments stay."""
    if isinstance(event, Called):
        return replace(event, token=_text(event.token, NAME_LIMIT), tool=_text(event.tool, NAME_LIMIT))
    if isinstance(event, Progress):
        tool, use = _text(event.tool, NAME_LIMIT), _text(event.use, NAME_LIMIT)
        return replace(event, text=_text(event.text, TEXT_LIMIT), tool=tool, use=use)
    if isinstance(event, Waiting):
        return replace(event, reason=_text(event.reason, FAULT_LIMIT), until=_amount(event.until))
    return _ended(event)


def arguments_of(event: Called) -> Mapping[str, Any]:
    """What a tool is called with; BadText where that is more than a call may hold."""
    check_value(event.arguments, ARGUMENT_LIMIT, deepest=DEEPEST_ARGUMENT, values=ARGUMENT_VALUES)
    return event.arguments


def _ended(event: Ended) -> Ended:
    return replace(
        event,
        text=_text(event.text, TEXT_LIMIT),
        handle=_handle(event.handle),
        remembered=_handle(event.remembered),
        usage=_usage(event.usage),
        fault=_text(event.fault, FAULT_LIMIT),
        refusals=_some(event.refusals),
        parked_seconds=_amount(event.parked_seconds),
        model=_text(event.model, NAME_LIMIT),
    )


def _text(text: object, most: int) -> str:
    """A text in its bounds. A runner passes on what a program has said, and that may be no text at all."""
    return fit(text, most) if isinstance(text, str) else ""


def _handle(handle: object) -> str:
    """What an instance remembers; it goes on without where that is too much."""
    return mended(handle) if isinstance(handle, str) and len(handle) <= TEXT_LIMIT else ""


def _usage(usage: Mapping[str, float]) -> dict[str, float]:
    amounts = {_text(name, NAME_LIMIT): value for name, value in usage.items() if not isinstance(value, bool)}
    return {name: value for name, value in list(amounts.items())[:USAGES] if _amount(value) == value}


def _amount(value: object) -> float:
    """A number as it is; what is none, or no finite one, is nothing."""
    if not isinstance(value, int | float):
        return 0.0
    try:
        return value if math.isfinite(value) and value >= 0 else 0.0
    except OverflowError:  # an integer beyond all floats
        return 0.0


def _some(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(_text(text, FAULT_LIMIT) for text, _ in zip(texts, range(REFUSALS), strict=False))
