"""When a worker asks Temporal for turns: while a slot is free, and so that two turns seldom come for the same slot.

A host has several task queues, which share its slots, and a poll of a queue lasts until a turn comes. So each queue may
be polled for every free slot. A turn that comes for a slot which another has taken is sent away, and offered anew.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from temporalio.worker import (
    CustomSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
)

from parley.hosts.turn_host import TurnHost

ROOM_SECONDS = 0.05  # between two looks for a free slot
FIRST_SECONDS = 0.2  # that the host's own queue is polled before the others are
HELD_SECONDS = 1.0  # that a turn which prefers this host waits here for a slot


class _Poll(NamedTuple):
    """A poll that no turn has come of."""

    queue: str
    since: float


class FreeSlots(CustomSlotSupplier):
    """The free slots of a host; `own`: the queue of turns that prefer it, which is polled first."""

    def __init__(self, host: TurnHost, own: str) -> None:
        self._host, self._own = host, own
        self._lock = threading.Lock()
        self._polls: dict[SlotPermit, _Poll] = {}
        self._held = 0

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """Wait until a queue may be polled."""
        while (permit := self.try_reserve_slot(ctx)) is None:  # noqa: ASYNC110 - other threads free slots
            await asyncio.sleep(ROOM_SECONDS)
        return permit

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """Whether a queue may be polled now."""
        permit, poll = SlotPermit(), _Poll(ctx.task_queue, time.monotonic())
        with self._lock:
            if self._host.room <= self._held + sum(self._counts(one, poll) for one in self._polls.values()):
                return None
            self._polls[permit] = poll
        return permit

    def _counts(self, one: _Poll, new: _Poll) -> bool:
        """Whether a poll that goes on is for a slot that a new one is not for."""
        return one.queue == new.queue or (one.queue == self._own and new.since - one.since < FIRST_SECONDS)

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """A turn has come: from here on the host counts it."""
        self._end(ctx.permit)

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """A turn is over, or none has come."""
        self._end(ctx.permit)

    def _end(self, permit: SlotPermit) -> None:
        with self._lock:
            self._polls.pop(permit, None)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep the next slot that is free for a turn that waits here."""
        with self._lock:
            self._held += 1
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1
