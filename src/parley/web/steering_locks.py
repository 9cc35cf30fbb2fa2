"""One person at a time for what can be done once in a job: to withdraw it, to raise its budget, to merge it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

ALONE_SECONDS = 30.0  # that a person waits for what another one does in the same job


class SteeringLocks:
    """Lets one person at a time do in a job what can be done once: the next one sees what became of it first."""

    def __init__(self) -> None:
        self._locks: dict[tuple[str, str], threading.Lock] = {}

    @contextmanager
    def alone(self, job: tuple[str, str]) -> Iterator[None]:
        """Wait until no other person does such a thing in the job, for a while: what takes longer guards itself."""
        lock = self._locks.setdefault(job, threading.Lock())
        held = lock.acquire(timeout=ALONE_SECONDS)
        try:
            yield
        finally:
            if held:
                lock.release()
