"""What the peers share: arguments, a folder, the clock, and the line of JSON.

A peer is one or more `Form`s of the same work: agent A sends `PAYLOAD` to B, B wakes, does nothing, and
replies with `PAYLOAD`. A form only has to make round trips and say when each is done; how long to go on,
what counts and how it is printed is decided here, once, so that all are measured alike.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from bench.machine import home, sync_ms

PAYLOAD = "x" * 1024
"""A message: 1 KiB."""

Trip = Callable[[int], object]
"""Makes the next round trip of the conversation of the given number."""

AsyncTrip = Callable[[int], Awaitable[object]]
"""The same, for a peer that lives in an event loop."""

_WARMING_TRIPS = 250
"""How many round trips another conversation makes before one is timed: enough to grow a log to its size."""

_WARMUP_MOST = 60.0
"""Seconds after which a warm-up ends in any case, unless more were asked for."""

_LATE_TRIPS = 20
"""How many round trips around a milestone are timed: enough for a median that one slow sync cannot move."""


class Meter:
    """Counts round trips inside a window of time.

    The window opens at a round trip's end, once the warm-up is over, and closes at another's. Measured from
    one end to another, a rate holds for slow peers and for peers that finish a thousand at once. The warm-up
    takes its seconds and as many round trips as there are conversations, because where all of them begin
    together the first ones wait for each other; but it never takes longer than `_WARMUP_MOST`.
    """

    def __init__(self, conversations: int, warmup: float, seconds: float, limit: int) -> None:
        self._due = conversations
        self._warmup = warmup
        self._seconds = seconds
        self._limit = limit
        self._lock = threading.Lock()
        self._first: float | None = None
        self._opened: float | None = None
        self._last = 0.0
        self.round_trips = 0
        self.going = True

    @property
    def elapsed(self) -> float:
        """The time from the window's opening to the last round trip counted."""
        return 0.0 if self._opened is None else self._last - self._opened

    @property
    def per_second(self) -> float:
        """The rate inside the window."""
        return self.round_trips / self.elapsed if self.elapsed else 0.0

    def mark(self, count: int = 1) -> None:
        """Note that `count` round trips have just ended."""
        now = time.perf_counter()
        with self._lock:
            if not self.going:
                return
            if self._first is None:
                self._first = now
            if self._opened is None:
                self._due -= count
                least = self._warmup if self._due <= 0 else max(self._warmup, _WARMUP_MOST)
                if now - self._first >= least:
                    self._opened = self._last = now
                return
            self.round_trips += count
            self._last = now
            self.going = now - self._opened < self._seconds and self.round_trips < self._limit


@dataclass(frozen=True)
class Run:
    """One measurement: how many conversations, where their database goes, and who counts."""

    conversations: int
    where: Path
    meter: Meter


@dataclass(frozen=True)
class Form:
    """One way a peer does the round trip.

    `drive` makes round trips until the meter has had enough. `late`, where there is one, opens two
    conversations, 0 and 1, that keep their history, and gives what makes their next round trip of two turns.
    """

    peer: str
    durable: bool
    notes: str
    drive: Callable[[Run], None]
    late: Callable[[Path], AbstractContextManager[Trip]] | None = None
    at: tuple[int, int] = (100, 1000)


def take_turns(run: Run, trip: Trip) -> None:
    """Make one round trip of each conversation after the other, for a peer that works in one thread."""
    for conversation in cycle(range(run.conversations)):
        trip(conversation)
        run.meter.mark()
        if not run.meter.going:
            return


async def converse(run: Run, trip: AsyncTrip) -> None:
    """Keep every conversation in flight at once, for a peer that works in an event loop."""

    async def keep_on(conversation: int) -> None:
        while run.meter.going:
            await trip(conversation)
            run.meter.mark()

    await asyncio.gather(*map(keep_on, range(run.conversations)))


def main(version: str, forms: Sequence[Form]) -> None:
    """Measure the form that the command line names, and print the one line.

    With the result goes what a sync of the disk took just before and just after: on a disk that others use
    too, two results can be compared only where these agree.
    """
    options = _options([form.peer for form in forms])
    form = next(form for form in forms if form.peer == options.form)
    where = home(options.dir)
    before = sync_ms(where)
    if options.late:
        result = _late(form, where)
    else:
        meter = Meter(options.conversations, options.warmup, options.seconds, options.limit)
        form.drive(Run(options.conversations, where, meter))
        result = {
            "conversations": options.conversations,
            "round_trips": meter.round_trips,
            "seconds": round(meter.elapsed, 3),
            "per_second": round(meter.per_second, 1),
            "durable": form.durable,
            "notes": form.notes,
        }
    result["sync_ms"] = [before, sync_ms(where)]
    print(json.dumps({"peer": form.peer, "version": version} | result), flush=True)


def _late(form: Form, where: Path) -> dict[str, object]:
    """Time a turn early and late in one conversation."""
    if form.late is None:
        raise SystemExit(f"{form.peer} keeps no history that could grow")
    times: list[float] = []
    with form.late(where) as trip:
        for _ in range(_WARMING_TRIPS):
            trip(0)
        while len(times) < form.at[1] // 2 + _LATE_TRIPS // 2:
            start = time.perf_counter()
            trip(1)
            times.append(time.perf_counter() - start)
    early, late = (_turn_ms(times, milestone) for milestone in form.at)
    return {"early_ms": early, "late_ms": late, "at": list(form.at), "notes": form.notes}


def _turn_ms(times: Sequence[float], turn: int) -> float:
    """The median cost of a turn around the given one: a round trip is two turns."""
    middle = turn // 2
    around = times[middle - _LATE_TRIPS // 2 : middle + _LATE_TRIPS // 2]
    return round(statistics.median(around) / 2 * 1000, 3)


def _options(forms: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure round trips between two agents on a peer.")
    parser.add_argument("--form", choices=forms, default=forms[0], help="which form of the peer")
    parser.add_argument("--conversations", type=int, default=1, help="conversations in flight at once")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long to measure")
    parser.add_argument("--warmup", type=float, default=1.0, help="seconds left out at the start")
    parser.add_argument("--limit", type=int, default=1_000_000, help="round trips at most")
    parser.add_argument("--dir", type=Path, default=Path(".bench"), help="where databases are made, and stay")
    parser.add_argument("--late", action="store_true", help="a turn's cost early and late instead")
    return parser.parse_args()
