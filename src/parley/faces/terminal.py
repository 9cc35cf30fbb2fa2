"""The live view: the phase, who does what, the last messages, and what needs the human, who answers right here.

It never blocks: each `show` takes what was typed, reads what was committed, and draws.
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
import termios
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from parley.core.states import LIVE, State
from parley.engine.projections import Asked, Follower, Present, Thread, concerns, headline, tree, with_progress
from parley.engine.session import Closed, give_answer, leave
from parley.faces.keys import Keys
from parley.ports import Files, Store

DRAW_SECONDS = 0.25
MESSAGES = 200
PANEL_LINES = 7
READ_LIMIT = 64 * 1024
MARKS = {"running": ("*", "bold green"), "asking": ("?", "bold yellow"), "waiting": (".", ""), "idle": (".", "dim")}


class TerminalView:
    """A whole screen for one job."""

    def __init__(self, store: Store, files: Files, job: str, by: str, places: Callable[[Asked], Path]) -> None:
        self._store = store
        self._files = files
        self._job = job
        self._by = by
        self._places = places
        self._follower = Follower(store, job)
        self._lines: deque[Text] = deque(maxlen=MESSAGES)
        self._present = Present(store, job)
        self._questions: list[Asked] = []
        self._chosen = 0
        self._prompt: _Prompt | None = None
        self._said = ""
        self._reading = False
        self._offset = 0
        self._drawn = 0.0
        self._fresh = True
        self._console = Console(highlight=False)
        self._live = Live(console=self._console, screen=True, auto_refresh=False, transient=True)
        self._keys = Keys(sys.stdin.fileno())

    def __enter__(self) -> Self:
        self._keys.__enter__()
        try:
            self._live.__enter__()
        except BaseException:
            self._keys.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._live.__exit__(kind, error, trace)
        finally:
            self._keys.__exit__(kind, error, trace)
