"""What one plain Send turn touches: the modules of ours whose code runs for it.

The engine, the protocol and the SQLite bus are the real ones. Agents and workspaces do nothing, as in the bench, and
the clock stands still, so that nothing runs because time has passed.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from bench.conversations import Talk, settings, start
from parley.ports.turns import Called, Ended, Order, TurnEvent
from parley.settings.schema import Settings
from simulator.world import SimClock
from tools.map.modules import PACKAGE, SOURCE

MOST_MODULES = 15
"""How many may run from a turn's end to the next turn's start; tests/docs holds the turn to it. It only gets lower."""

TEAM = {"intent-lead": ["a"], "project-lead": [], "a": ["b"], "b": []}
WARM_UP = 50  # turns: files are open, and what is made once is made
WATCHED = 5  # turns of the sender


class SendTurn(NamedTuple):
    """The modules, by name, each in the first group that it belongs to."""

    end: list[str]  # from the end of the turn to the next turn's start, the commit included
    call: list[str]  # while the agent calls Send, and not at the end
    budget: list[str]  # only where the job has a budget, as every job has by default


class Watched(Talk):
    """One conversation, an event at a time: what runs is noted from each event of the sender to the next one."""

    def __init__(self) -> None:
        super().__init__(1)
        self.turns_seen = 0
        self.in_call: set[str] = set()
        self.at_end: set[str] = set()
        self._noted = self.in_call
        self._senders: set[str] = set()

    def submit(self, order: Order) -> None:
        """The next turn: what came before it is noted."""
        sys.setprofile(None)
        if order.agent == "a":
            self._senders.add(order.turn)
        super().submit(order)

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """The next event alone."""
        sys.setprofile(None)
        happened, self._events = self._events[:1], self._events[1:]
        for event in happened if self.turns > WARM_UP else ():
            if event.turn in self._senders and isinstance(event, Called | Ended):
                self.turns_seen += isinstance(event, Ended)
                self._noted = self.in_call if isinstance(event, Called) else self.at_end
                sys.setprofile(self._look)
        return happened

    def _look(self, frame: FrameType, event: str, argument: object) -> None:
        """A function is called. A constructor that a library has made is in no file of ours."""
        if event == "call" and frame.f_code.co_filename.startswith(f"{SOURCE / PACKAGE}{os.sep}"):
            self._noted.add(frame.f_globals["__name__"])


def _watch(snapshot: Mapping[str, Any]) -> Watched:
    """A conversation of a job with these settings, watched for some turns."""
    talk = Watched()
    with tempfile.TemporaryDirectory(prefix="parley-map-") as place:
        engine, live = start(Path(place), talk, dict(snapshot), clock=SimClock())
        while talk.turns_seen <= WATCHED:
            engine.crank(0.0)
        sys.setprofile(None)
        engine.release(live.id)
        engine.world.store.close()
    return talk


def touched() -> SendTurn:
    """The modules of a turn: in a job without a budget, and what a budget adds."""
    snapshot = settings(TEAM, 1)
    free = _watch(snapshot)
    limited = _watch({**snapshot, "budget": {"job": Settings().budget.of_job(costs=False), "day": {}}})
    return SendTurn(
        end=sorted(free.at_end),
        call=sorted(free.in_call - free.at_end),
        budget=sorted((limited.at_end | limited.in_call) - (free.at_end | free.in_call)),
    )
