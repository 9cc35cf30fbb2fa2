"""What jobs have changed, file by file: read once for all who look at it, since of many files that takes seconds."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from parley.ports.workspaces import Change
from parley.views.job_diffs import DiffOf
from parley.views.repository_context import RepositoryContext

MOST = 16  # lists: one of 20,000 files takes some 5 MB
OLDEST_SECONDS = 20.0  # the user's git settings say what is obeyed, too, and no change tells of them


@dataclass(slots=True)
class _List:
    lock: threading.Lock = field(default_factory=threading.Lock)
    version: tuple[int, int] | None = None
    read: float = 0.0
    changes: Sequence[Change] = ()


class ChangeLists:
    """The lists that were read lately. Pages run in several threads at once; each list is read by one of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lists: OrderedDict[tuple[str, DiffOf], _List] = OrderedDict()

    def get(self, context: RepositoryContext, of: DiffOf, version: tuple[int, int]) -> Sequence[Change]:
        """What was changed, as it is in a version of the job. WorkspaceError if it can't be read."""
        with self._lock:
            found = self._lists.setdefault((context.home, of), _List())
            self._lists.move_to_end((context.home, of))
            while len(self._lists) > MOST:
                self._lists.popitem(last=False)
        with found.lock:
            if found.version != version or time.monotonic() - found.read > OLDEST_SECONDS:
                found.changes = context.diffs.changes(of)
                found.version, found.read = version, time.monotonic()
            return found.changes
