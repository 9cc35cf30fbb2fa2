"""How much of the server one visitor has at once, so that none holds up the others.

Pages are made by a few threads, and connections are counted. A visitor whose requests are slow (large diffs, exports,
forms that come in byte by byte) waits for their own requests to end, and for those of no one else.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class TooMany(Exception):
    """A visitor has as much as there is for one: the text says of what."""


class FairShare:
    """So many requests of each visitor at once; more of the same visitor's wait their turn. Used by one event loop."""

    def __init__(self, most: int, waiting: int) -> None:
        self._most, self._waiting = most, waiting
        self._turns: dict[str, tuple[asyncio.Semaphore, int]] = {}  # by visitor, with how many hold it or wait

    @property
    def visitors(self) -> int:
        """How many visitors have a request under way."""
        return len(self._turns)

    @asynccontextmanager
    async def turn(self, visitor: str) -> AsyncIterator[None]:
        """Wait until the visitor has room for one more. TooMany if as many wait as there is room for."""
        turns, users = self._turns.get(visitor, (asyncio.Semaphore(self._most), 0))
        if users >= self._most + self._waiting:
            raise TooMany("too many requests of yours are under way; try again in a moment")
        self._turns[visitor] = (turns, users + 1)
        try:
            async with turns:
                yield
        finally:
            _, users = self._turns.pop(visitor)
            if users > 1:
                self._turns[visitor] = (turns, users - 1)


class OpenCount:
    """So many of a thing that each visitor has open; one more is refused, since none of them has to end soon."""

    def __init__(self, most: int, words: str) -> None:
        self._most, self._words = most, words
        self._open = Counter[str]()

    @contextmanager
    def one_more(self, visitor: str) -> Iterator[None]:
        """Count one while it is open. TooMany if there are so many already."""
        self.check(visitor)
        self._open[visitor] += 1
        try:
            yield
        finally:
            self._open[visitor] -= 1
            if not self._open[visitor]:
                del self._open[visitor]

    def check(self, visitor: str) -> None:
        """TooMany if the visitor may open no other."""
        if self._open[visitor] >= self._most:
            raise TooMany(f"{self._most} {self._words}")
