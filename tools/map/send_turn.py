"""What one plain Send turn touches: the modules of ours whose code runs from its end to the next turn's start.

The engine, the protocol and the SQLite bus are the real ones. Agents and workspaces do nothing, as in the bench, and
the clock stands still, so that nothing runs because time has passed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import FrameType

from bench.conversations import Talk, settings, start
from parley.ports.turns import Ended, Order, TurnEvent
from simulator.world import SimClock
from tools.map.modules import PACKAGE, SOURCE

MOST_MODULES = 15
"""How many they may be; tests/docs holds the turn to it. It only ever gets lower."""

TEAM = {"intent-lead": ["a"], "project-lead": [], "a": ["b"], "b": []}
WARM_UP = 50  # turns: files are open, and what is made once is made
WATCHED = 5  # turns of the sender


class Watched(Talk):
    """One conversation, an event at a time. After the end of a turn that has sent, what runs is noted."""

    def __init__(self) -> None:
        super().__init__(1)
        self.seen: list[set[str]] = []
        self._senders: set[str] = set()

    def submit(self, order: Order) -> None:
        """The next turn: what came before it is noted."""
        sys.setprofile(None)
        if order.agent == "a":
            self._senders.add(order.turn)
        super().submit(order)

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """The next event alone."""
        happened, self._events = self._events[:1], self._events[1:]
        if self.turns > WARM_UP and any(isinstance(one, Ended) and one.turn in self._senders for one in happened):
            self.seen.append(set())
            sys.setprofile(self._look)
        return happened

    def _look(self, frame: FrameType, event: str, argument: object) -> None:
        """A function is called. A constructor that a library has made is in no file of ours."""
        if event == "call" and frame.f_code.co_filename.startswith(f"{SOURCE / PACKAGE}{os.sep}"):
            self.seen[-1].add(frame.f_globals["__name__"])


def touched() -> list[str]:
    """The modules, by name."""
    talk = Watched()
    with tempfile.TemporaryDirectory(prefix="parley-map-") as place:
        engine, live = start(Path(place), talk, settings(TEAM, 1), clock=SimClock())
        while len(talk.seen) <= WATCHED:
            engine.crank(0.0)
        engine.release(live.id)
        engine.world.store.close()
    return sorted(set[str]().union(*talk.seen[:WATCHED]))
