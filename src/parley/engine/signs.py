"""Signs of life as they are kept: what a turn's stream tells, and the stalls that the bus holds.

A stall is a Hold of the instance's thread. It holds nothing up, for the instance is at work; it says so to whoever
reads the bus, and ends with the next sign of life or with the turn.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from parley.core.soup import Soup
from parley.core.terms import Hold, thread_kind
from parley.engine.holds import STALL, kind_of, rest_of
from parley.engine.records import read_line


def cause_of(turn: str, last: float) -> str:
    """The cause of a stall."""
    return f"{STALL} {turn} {last!r}"


def is_stall(hold: Hold) -> bool:
    """Whether a hold says that an instance is stalled."""
    return kind_of(hold) == STALL


def stalls(soup: Soup) -> list[Hold]:
    """The stalls that are there now."""
    return [hold for hold in soup.of(Hold) if is_stall(hold)]


def stall_of(soup: Soup, thread: str) -> Hold | None:
    """The stall of the instance on a thread, if it is stalled."""
    return next((hold for hold in soup.all(Hold, thread) if is_stall(hold)), None)


def turn_of(hold: Hold) -> str:
    """The turn that is stalled."""
    return rest_of(hold).partition(" ")[0]


def since(hold: Hold) -> float:
    """When a stalled instance was last heard of."""
    return float(rest_of(hold).partition(" ")[2])


def is_alarm(hold: Hold) -> bool:
    """Whether a hold is for the human to act on: a stall of one that no agent has dispatched."""
    return is_stall(hold) and thread_kind(hold.thread) != "dispatch"


def alarms(soup: Soup) -> int:
    """How many such holds there are."""
    return sum(is_alarm(hold) for hold in soup.of(Hold))


# ---- streams -------------------------------------------------------------------------------------

_IDLE = ("sleep ", "exit 0", "begins")  # says less than what was done before it


class Heard(NamedTuple):
    """What a turn's stream tells: when it was last heard of, the tool that it is in, and the last thing it did."""

    last: float = 0.0
    tool: str = ""
    said: str = ""


def heard(lines: Iterable[str], turn: str) -> Heard:
    """Read the end of a stream."""
    last, said, uses = 0.0, "", dict[str, str]()
    for text in lines:
        line = read_line(text)
        if line.get("turn") != turn:
            continue
        last = max(last, float(line.get("time") or 0.0))
        event, use = line.get("event"), str(line.get("use"))
        if event == "progress" and line.get("tool"):
            if line.get("over"):
                uses.pop(use, None)
            else:
                uses[use] = str(line["tool"])
        told = line.get("text") if event == "progress" else line.get("call") if event == "call" else None
        if told and not str(told).startswith(_IDLE):
            said = str(told)
    return Heard(last, next(iter(uses.values()), ""), said)
