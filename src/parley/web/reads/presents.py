"""Jobs as they are now, read once for all parts of all pages that show the same moment."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from parley.views.job_view import Present
from parley.views.repository_context import RepositoryContext

MOST = 32  # jobs
OLDEST_SECONDS = 1.0  # a change may be on the bus a moment before it is told


@dataclass(slots=True)
class _Read:
    lock: threading.Lock = field(default_factory=threading.Lock)
    version: int = -1
    at: float = 0.0
    present: Present | None = None


class Presents:
    """The jobs that were read a moment ago. Nothing that is shown changes them, so that threads share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: OrderedDict[tuple[str, str], _Read] = OrderedDict()

    def get(self, context: RepositoryContext, job: str, version: int) -> Present:
        """A job as it is, at least as new as a version. BusError if there is none."""
        with self._lock:
            found = self._read.setdefault((context.home, job), _Read())
            self._read.move_to_end((context.home, job))
            while len(self._read) > MOST:
                self._read.popitem(last=False)
        with found.lock:
            if found.present is None or found.version < version or time.monotonic() - found.at > OLDEST_SECONDS:
                found.present = Present(context.store, job)
                found.version, found.at = version, time.monotonic()
            return found.present
