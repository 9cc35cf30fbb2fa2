"""Parts the commits of a group so that each table of a part can be written by one statement."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Protocol, TypeVar


class OfJob(Protocol):
    """A commit whose job's serial is known."""

    @property
    def serial(self) -> int:
        """The job's number on this bus."""


Placed = TypeVar("Placed", bound=OfJob)


def waves(placed: Sequence[Placed]) -> Iterator[Sequence[Placed]]:
    """Part commits so that no job is twice in one part: the commits of one job are written in their order."""
    if len({each.serial for each in placed}) == len(placed):
        yield placed
        return
    parts: list[list[Placed]] = []
    seen: dict[int, int] = {}
    for each in placed:
        place = seen[each.serial] = seen.get(each.serial, -1) + 1
        if place == len(parts):
            parts.append([])
        parts[place].append(each)
    yield from parts


def some(names: Iterable[str]) -> str:
    """The first few of many, for an error's one line."""
    return ", ".join(islice(names, 3))
