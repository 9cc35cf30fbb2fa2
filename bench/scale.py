"""What must not grow: the cost of a turn late in a conversation, of a spark in a big tree, of coming back."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.conversations import TEXT, Inline, NoWorkspace, Talk, settings, start
from bench.machine import home
from parley.assembly import make_engine
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.engine.loop import Engine
from parley.engine.owned_job import OwnedJob
from parley.engine.world import World
from parley.machine.clock import RandomIds, SystemClock
from parley.machine.job_files import JobFiles
from parley.ports.turns import Order
from parley.protocol.molecules import Surface

WINDOW = 300  # round trips, or sparks, that one figure is the mean of


def cost(what: str, at: tuple[int, int], seconds: tuple[float, float]) -> dict[str, Any]:
    """One thing's cost at two sizes."""
    return {"what": what, "at": list(at), "ms": [s * 1e3 for s in seconds], "ratio": seconds[1] / seconds[0]}


def late_turns(where: Path, early: int = 100, late: int = 10_000) -> dict[str, Any]:
    """CPU time of a turn around the 100th and around the 10,000th of one conversation."""
    talk = Talk(1)
    engine, job = start(home(where), talk, settings({"intent-lead": ["a"], "project-lead": [], "a": ["b"], "b": []}, 1))

    def window(begin: int) -> float:
        while talk.turns < begin:
            engine.crank(0.0)
        first, cpu = talk.turns, time.process_time()
        while talk.turns < first + 2 * WINDOW:
            engine.crank(0.0)
        return (time.process_time() - cpu) / (talk.turns - first)

    early_cost, late_cost = window(early), window(late)
    engine.release(job.id)
    return cost("a turn", (early, late), (early_cost, late_cost))


class Growth(Inline):
    """One instance that sparks another in every turn; each of those replies at once and stays open."""

    def __init__(self) -> None:
        super().__init__({"intent-lead": Growth.lead, "a": Growth.a, "b": Growth.b})
        self.opened = 0
        self.partners: list[str] = []

    def lead(self, order: Order) -> None:
        """Begin."""
        if order.message.startswith("[INTENT]"):
            self.send(order, to="a", text="go")
        self.end(order)

    def a(self, order: Order) -> None:
        """Open one more, or write to all that it was told to."""
        if self.partners:
            for number, thread in enumerate(self.partners):
                self.send(order, number + 1, thread=thread, text=TEXT)
        else:
            self.opened += 1
            self.send(order, to="b", text=TEXT)
        self.end(order)

    def b(self, order: Order) -> None:
        """Reply."""
        self.end(order, "here")

    def told(self, turn: str, number: int, data: Mapping[str, Any]) -> None:
        """Nobody is written to twice."""


def rss_kib() -> int:
    """The memory that this process has now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() // 1024


def sparks(where: Path, few: int = 100, many: int = 10_000, messages: int = 100_000) -> list[dict[str, Any]]:
    """CPU time of a spark with few and with many instances open; memory for each; coming back to all."""
    place = home(where)
    growth = Growth()
    given = settings({"intent-lead": ["a"], "project-lead": [], "a": ["b"], "b": []}, many * 2)
    engine, job = start(place, growth, given)

    def window(begin: int) -> float:
        while growth.opened < begin:
            engine.crank(0.0)
        first, cpu = growth.opened, time.process_time()
        while growth.opened < first + WINDOW:
            engine.crank(0.0)
        return (time.process_time() - cpu) / (growth.opened - first)

    few_cost = window(few)
    gc.collect()
    before, opened = rss_kib(), growth.opened
    many_cost = window(many)
    gc.collect()
    memory = (rss_kib() - before) / (growth.opened - opened)
    fill(engine, job, growth, messages)
    engine.release(job.id)
    engine.world.store.close()
    return [
        cost("a new conversation", (few, many), (few_cost, many_cost)),
        {"what": "memory for an idle instance", "kib": memory},
        recovery(place, job.id, growth.opened),
    ]


def fill(engine: Engine, job: OwnedJob, growth: Growth, want: int) -> None:
    """Bring the bus to its number of messages: the first instance writes to a hundred that it opened."""
    growth.partners = [surface.thread for surface in job.soup.of(Surface) if surface.agent == "b"][:100]
    while job.counters.message < want:
        engine.crank(0.0)


def recovery(place: Path, job: str, instances: int) -> dict[str, Any]:
    """A new process takes the job: from opening the bus to ready."""
    begun = time.perf_counter()
    world = World(
        store=SqliteStore(place),
        turns=Growth(),
        workspace=NoWorkspace(),
        files=JobFiles(place),
        clock=SystemClock(),
        ids=RandomIds(),
    )
    engine = make_engine(world)
    live = engine.adopt(job)
    taken = time.perf_counter() - begun
    engine.release(job)
    world.store.close()
    return {"what": "recovery", "instances": instances, "messages": live.counters.message, "seconds": taken}
