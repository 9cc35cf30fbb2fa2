"""Holds back what a turn tells too much of: so many lines a second, so many bytes and calls in all.

Whatever an agent prints, the engine's queue, the stream's file and the views get no more than this of it. What is left
out is told by one line.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from parley.ports import Called, Order, Progress, Runner, TurnEvent
from parley.text import cut

LINE = 2000  # characters
BURST, A_SECOND = 1000, 20  # lines that may come at once, and for long
TURN_BYTES = 8 << 20  # characters of all lines of a turn
CALLS = 1000  # of one turn
USES = 256  # of tools at once whose end is told, whatever else is held back
SIGN_SECONDS = 5.0
MORE = "… (it says more than is kept: lines are left out)"
TOO_MANY = f"a turn has {CALLS} calls at most"


class Flood:
    """What a runner tells of one turn, on its way to the engine. It is told from the runner's threads."""

    def __init__(self, order: Order, runner: Runner, put: Callable[[TurnEvent], None]) -> None:
        self._order, self._runner, self._put = order, runner, put
        self._lock = threading.Lock()
        self._room, self._filled = float(BURST), time.monotonic()
        self._bytes = TURN_BYTES
        self._calls = 0
        self._signed = 0.0
        self._cut = False
        self._uses: set[str] = set()

    def tell(self, event: TurnEvent) -> None:
        """Pass an event on, or hold it back."""
        if isinstance(event, Called):
            with self._lock:
                self._calls += 1
                taken = self._calls <= CALLS
            if not taken:
                self._runner.reply(event.job, event.turn, event.number, False, TOO_MANY, {})
                return
        if isinstance(event, Progress):
            with self._lock:
                kept = self._progress(event)
            if kept is None:
                return
            event = kept
        self._put(event)

    def _progress(self, event: Progress) -> Progress | None:
        """The event as it is told; None where it is not."""
        now = time.monotonic()
        self._room = min(float(BURST), self._room + A_SECOND * (now - self._filled))
        self._filled = now
        event = replace(event, text=cut(event.text, LINE), tool=cut(event.tool, LINE), use=cut(event.use, LINE))
        size = len(event.text) + len(event.tool) + len(event.use)
        if self._room >= 1 and self._bytes >= size:
            self._room -= 1
            self._bytes -= size
            self._cut = self._cut and self._room < BURST / 2
            self._note_use(event)
            return event
        if event.over and event.use in self._uses:  # or it would seem to go on for ever
            self._uses.discard(event.use)
            return replace(event, text="")
        if not self._cut:
            self._cut = True
            return Progress(event.job, event.turn, MORE)
        if now - self._signed < SIGN_SECONDS:
            return None
        self._signed = now
        return Progress(event.job, event.turn, "")  # that it says something is a sign of life

    def _note_use(self, event: Progress) -> None:
        if event.over:
            self._uses.discard(event.use)
        elif event.tool and len(self._uses) < USES:
            self._uses.add(event.use)
