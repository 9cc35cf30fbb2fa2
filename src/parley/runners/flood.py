"""Rate limits on the events of a turn: lines a second, bytes and calls in all.

However much an agent prints, the engine's queue, the stream's file and the views get no more than this. One line says
that lines were left out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from msgspec.structs import replace

from parley.base.text import cut
from parley.ports.turns import Called, Order, Progress, Runner, TurnEvent

LINE = 2000  # characters
BURST, A_SECOND = 1000, 20  # lines that may come at once, and lines a second after that
TURN_BYTES = 8 << 20  # characters of all lines of a turn
CALLS = 1000  # of one turn
USES = 256  # tool uses at once whose end is always passed on
SIGN_SECONDS = 5.0
MORE = "… (too much output: lines are left out)"
TOO_MANY = f"a turn has {CALLS} calls at most"


class FloodGuard:
    """Passes the events of one turn from the runner's threads to the engine."""

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
        """The event to pass on; None where it is dropped."""
        now = time.monotonic()
        self._room = min(float(BURST), self._room + A_SECOND * (now - self._filled))
        self._filled = now
        event = replace(
            event,
            text=cut(event.text, LINE),
            tool=cut(event.tool, LINE),
            use=cut(event.use, LINE),
            result=cut(event.result, LINE),
        )
        size = len(event.text) + len(event.tool) + len(event.use) + len(event.result)
        if self._room >= 1 and self._bytes >= size:
            self._room -= 1
            self._bytes -= size
            self._cut = self._cut and self._room < BURST / 2
            self._note_use(event)
            return event
        if event.over and event.use in self._uses:  # or the tool would seem to run for ever
            self._uses.discard(event.use)
            return replace(event, text="", result="")
        if not self._cut:
            self._cut = True
            return Progress(event.job, event.turn, MORE)
        if now - self._signed < SIGN_SECONDS:
            return None
        self._signed = now
        return Progress(event.job, event.turn, "")  # an empty line is still a sign of life

    def _note_use(self, event: Progress) -> None:
        if event.over:
            self._uses.discard(event.use)
        elif event.tool and len(self._uses) < USES:
            self._uses.add(event.use)
