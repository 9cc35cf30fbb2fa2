"""One thread that writes for many conversations, each a task of its own: what waits goes into one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

from bench.peers.harness import Run, converse


class Asked(NamedTuple):
    """A rule that waits for the writer, whom it is about, and who waits for it."""

    rule: str  # send, wake
    agent: int
    message: int
    done: asyncio.Future[None]


Write = Callable[[Sequence[Asked]], None]
"""Writes rules of different conversations as one transaction."""


class Writer(Thread):
    """Takes all rules that wait, writes them, and lets their tasks go on."""

    def __init__(self, write: Write, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._write = write
        self._loop = loop
        self._waiting: SimpleQueue[Asked | None] = SimpleQueue()
        self._ids = count(1)

    async def round_trip(self, conversation: int) -> None:
        """Make a round trip, each of its four rules on the disk before the next is handed over."""
        for sender in (2 * conversation, 2 * conversation + 1):
            message = next(self._ids)
            await self._written("send", sender, message)
            await self._written("wake", sender ^ 1, message)

    def _written(self, rule: str, agent: int, message: int) -> asyncio.Future[None]:
        done = self._loop.create_future()
        self._waiting.put(Asked(rule, agent, message, done))
        return done

    def run(self) -> None:
        """Write until there is no more."""
        while (first := self._waiting.get()) is not None:
            more = (self._waiting.get() for _ in range(self._waiting.qsize()))
            together = [first, *(asked for asked in more if asked is not None)]
            self._write(together)
            self._loop.call_soon_threadsafe(_go_on, together)

    def stop(self) -> None:
        """Nothing comes after this."""
        self._waiting.put(None)
        self.join()


def drive_by_writer(run: Run, write: Write) -> None:
    """Make round trips of all conversations at once, with one writer."""

    async def drive() -> None:
        writer = Writer(write, asyncio.get_running_loop())
        writer.start()
        await converse(run, writer.round_trip)
        writer.stop()

    asyncio.run(drive())


def _go_on(written: Sequence[Asked]) -> None:
    for asked in written:
        asked.done.set_result(None)
