"""Answers that many open pages ask for at the same moment: each is made once, in a thread, and the others wait for it.

Who waits holds no thread. Otherwise the pages that wait for one part would take all threads, and hold up every other
page of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, NamedTuple

from starlette.responses import Response

from parley.web.reads.part_cache import PartCache


class _Making(NamedTuple):
    """An answer that a thread makes now, and the version of the jobs that it has seen at least."""

    version: int
    answer: asyncio.Future[Response]


class SharedAnswers:
    """Answers from a cache, or from the thread that makes them for it. Used by one event loop."""

    def __init__(self, cache: PartCache) -> None:
        self._cache = cache
        self._making: dict[Hashable, _Making] = {}

    async def get(
        self,
        visitor: str,
        key: Hashable,
        version: int,
        make: Callable[[], Coroutine[Any, Any, Response]],
        *,
        compressed: bool,
    ) -> Response:
        """The answer of a key, at least as new as a version; `make` leaves it in the cache.

        A visitor's pages wait for one another, and never for another visitor's turn.
        """
        kept = self._cache.ready(key, version, compressed=compressed)
        if kept is not None:
            return kept
        place = (visitor, key, compressed)
        making = self._making.get(place)
        if making is None or making.version < version:
            answer = asyncio.ensure_future(make())
            making = self._making[place] = _Making(version, answer)
            answer.add_done_callback(lambda done: self._over(place, done))
        return await asyncio.shield(making.answer)  # one page that goes away takes it from no other

    def _over(self, place: Hashable, done: asyncio.Future[Response]) -> None:
        if not done.cancelled():
            done.exception()  # those who wait get it; where all have gone, asyncio would complain that none did
        making = self._making.get(place)
        if making is not None and making.answer is done:
            del self._making[place]
