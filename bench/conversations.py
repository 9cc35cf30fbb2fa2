"""Parley's own round trips: the whole engine on the SQLite bus, with agents whose turns take no time.

A sends 1 KiB to B, B wakes, runs a no-op and replies 1 KiB, A wakes: two turns and two deliveries, each
durable before the next begins. Every rule fires, every step and message is recorded and chained, as in a job.

With `--form shared` two processes share one bus, as two sessions of `parley run` do: each owns a job with half of the
conversations, and both write to one file.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from bench.machine import home, sync_ms
from parley.assembly import make_engine
from parley.bus import key_files
from parley.bus.rows import JobRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.bus.store import Store
from parley.engine.files.streams import LINES_A_STREAM
from parley.engine.loop import Engine, collect_seldom
from parley.engine.owned_job import OwnedJob
from parley.engine.values.job_roles import charter_of
from parley.engine.world import World
from parley.machine.clock import RandomIds, SystemClock
from parley.machine.job_files import JobFiles
from parley.ports.machine import Clock
from parley.ports.turns import Called, Ended, Order, Site, TurnEvent
from parley.ports.workspaces import Change, Kept, Merge, Outcome, Scope, SentFile

TEXT = "x" * 1024
Act = Callable[[Any, Order], None]  # a method of whoever says what each agent does
SHARERS = 2  # processes of the shared form


class Inline:
    """Turns that are over as soon as they are submitted. `acts` says what each agent does in one."""

    def __init__(self, acts: Mapping[str, Act]) -> None:
        self.acts = acts
        self.threads: dict[str, str] = {}  # whom an instance talks to, by its own thread
        self.turns = 0
        self._events: list[TurnEvent] = []

    def hosts(self) -> tuple[str, ...]:
        """Here."""
        return ("local",)

    def submit(self, order: Order) -> None:
        """Play the turn."""
        self.turns += 1
        self.acts[order.agent](self, order)

    def send(self, order: Order, number: int = 1, **arguments: Any) -> None:
        """A Send in mid-turn."""
        self._events.append(
            Called(job=order.job, turn=order.turn, token=order.token, number=number, tool="Send", arguments=arguments)
        )
        self._asker = order.thread

    def end(self, order: Order, text: str = "") -> None:
        """The turn's end."""
        self._events.append(Ended(order.job, order.turn, order.epoch, text))

    def reply(self, job: str, turn: str, number: int, ok: bool, text: str, data: Mapping[str, Any]) -> None:
        """What a call was told."""
        if not ok:
            raise RuntimeError(text)
        self.told(turn, number, data)

    def told(self, turn: str, number: int, data: Mapping[str, Any]) -> None:
        """For whoever needs the answer."""

    def events(self, timeout_seconds: float) -> list[TurnEvent]:
        """All that has happened."""
        events, self._events = self._events, []
        return events

    def cancel(self, job: str, turn: str) -> None:
        """Nothing is ever under way."""

    def reclaim(self, job: str) -> None:
        """Nothing is ever left."""

    def rest(self, job: str) -> None:
        """Nothing is kept ready."""

    def close(self) -> None:
        """Nothing to close."""


class NoWorkspace:
    """The no-op writes no files, so that none are looked for."""

    def reclaim(self, job: str) -> None:
        """Nothing is ever locked."""

    def prepare(
        self,
        job: str,
        name: str,
        parent: str,
        sealed: Iterable[str] = (),
        *,
        children: Iterable[str] | None = None,
        sent: Sequence[SentFile] = (),
    ) -> Site:
        """Nowhere."""
        return Site("/")

    def pick(self, job: str, name: str, to: str, paths: Sequence[str], most: int) -> tuple[SentFile, ...]:
        """Nothing is sent."""
        return ()

    def clone(self, job: str, name: str, of: str, tree: str, children: Mapping[str, str]) -> Site:
        """Nowhere."""
        return Site("/", writable=False)

    def draft(self, job: str, name: str, files: Mapping[str, str]) -> str:
        """No tree is kept."""
        return ""

    def committed(self, job: str, name: str) -> str:
        """Nothing was."""
        return ""

    def read_committed(self, job: str, tree: str, path: str, most: int = 1_000_000) -> str | None:
        """Nothing to read."""
        return None

    def list_committed(self, job: str, tree: str, folder: str) -> tuple[str, ...]:
        """No files."""
        return ()

    def clear_outcome(self, job: str, name: str) -> None:
        """None is there."""

    def read_outcome(self, job: str, name: str) -> Outcome | None:
        """None is there."""
        return None

    def snapshot(self, job: str, name: str, text: str, scope: Scope | None = None) -> Kept:
        """Nothing to keep."""
        return Kept("")

    def contents(self, job: str, tree: str, artifacts: Iterable[str]) -> dict[str, str]:
        """No artifacts."""
        return {}

    def restore(self, job: str, name: str, tree: str, lost: str) -> None:
        """Nothing to put back."""

    def abandon(self, job: str, name: str, lost: str) -> None:
        """Nothing to keep."""

    def read(self, job: str, name: str, path: str, most: int = 1_000_000) -> str | None:
        """Nothing to read."""
        return None

    def write(self, job: str, name: str, files: Mapping[str, str | None]) -> None:
        """Nothing is written."""

    def listing(self, job: str, name: str, folder: str) -> tuple[str, ...]:
        """No files."""
        return ()

    def merge(self, job: str, name: str, parent: str, scope: Scope | None = None) -> Merge:
        """Nothing to merge."""
        return Merge()

    def refresh(self, job: str, name: str, parent: str, *, clean: bool = False) -> Merge:
        """Nothing to bring."""
        return Merge()

    def beginning(self, job: str, tree: str, artifact: str, length: int) -> str:
        """No artifacts."""
        return ""

    def changed(self, job: str, name: str) -> tuple[str, ...]:
        """No files."""
        return ()

    def unresolved(self, job: str, name: str) -> list[str]:
        """No conflicts."""
        return []

    def retire(self, job: str, name: str) -> None:
        """Nothing to keep."""

    def changes(self, job: str, tree: str = "") -> list[Change]:
        """None."""
        return []


class Talk(Inline):
    """N conversations between an `a` and a `b` each, which go on for ever."""

    def __init__(self, conversations: int) -> None:
        super().__init__({"intent-lead": Talk.lead, "a": Talk.a, "b": Talk.b})
        self.conversations = conversations
        self.round_trips = 0
        self.partner: dict[str, str] = {}
        self._asking: dict[str, str] = {}

    def lead(self, order: Order) -> None:
        """Open the conversations, once."""
        if not self.partner and order.message.startswith("[INTENT]"):
            for number in range(self.conversations):
                self.send(order, number + 1, to="a", text="go")
        self.end(order)

    def a(self, order: Order) -> None:
        """Send, to a new partner or to the one it has."""
        partner = self.partner.get(order.thread)
        if partner is None:
            self._asking[order.turn] = order.thread
            self.send(order, to="b", text=TEXT)
        else:
            self.round_trips += 1
            self.send(order, thread=partner, text=TEXT)
        self.end(order)

    def b(self, order: Order) -> None:
        """Reply, by its final text."""
        self.end(order, TEXT)

    def told(self, turn: str, number: int, data: Mapping[str, Any]) -> None:
        """Remember the thread that was opened."""
        asker = self._asking.pop(turn, None)
        if asker is not None:
            self.partner[asker] = data["thread"]


def settings(roles: Mapping[str, list[str]], fan_out: int) -> dict[str, Any]:
    """A job's snapshot."""
    return {
        "roles": [{"name": name, "team": team} for name, team in roles.items()],
        "policies": ["always"] * 3,
        "fan_out": fan_out,
        "crash_budget": 3,
        "retry_budget": 3,
        "exchanges": 10**9,  # the conversations go on for ever, and no file is ever changed
    }


def on_server(place: Path) -> Store:
    """A new bus on the PostgreSQL server that `PARLEY_BUS_URL` names; psycopg is imported where it is measured only."""
    addresses = import_module("parley.bus.postgres.server_address")
    copies, stores = (import_module(f"parley.bus.postgres.postgres_{name}") for name in ("copy", "store"))
    os.environ[key_files.VARIABLE] = str(place / "state")
    address = addresses.address_of("bench", {}, os.environ)
    key = key_files.like(key_files.make(str(place), 0), server="bench")
    copies.make_bus(address, key)
    store: Store = stores.PostgresStore(place, key, address)
    return store


def start(
    place: Path,
    turns: Inline,
    given: dict[str, Any],
    durability: str = "full",
    clock: Clock | None = None,
    *,
    store: Store | None = None,
) -> tuple[Engine, OwnedJob]:
    """An engine with a new job."""
    world = World(
        store=store or SqliteStore(place, durability=durability),
        turns=turns,
        workspace=NoWorkspace(),
        files=JobFiles(place),
        clock=clock or SystemClock(),
        ids=RandomIds(),
    )
    collect_seldom()  # as every session that runs jobs does
    engine = make_engine(world)
    now = time.time()
    job = world.ids.new()
    row = JobRow(
        job=job, request="talk", decider="bench", created=now, updated=now, agent="inline", settings=json.dumps(given)
    )
    return engine, engine.start(row, charter_of(row))


def converse(
    place: Path, conversations: int, seconds: float, ready: Callable[[], None], store: Store | None = None
) -> tuple[int, float]:
    """The round trips of one process and the time they took.

    A warm-up goes before, in which every conversation has begun and every instance has the file of its stream.
    """
    talk = Talk(conversations)
    given = settings({"intent-lead": ["a"], "project-lead": [], "a": ["b"], "b": []}, max(1, conversations))
    engine, job = start(place, talk, given, store=store)
    warm = time.perf_counter() + 1.0
    while time.perf_counter() < warm or talk.turns < 2 * conversations * LINES_A_STREAM:
        engine.crank(0.0)
    ready()
    begun, first = time.perf_counter(), talk.round_trips
    while time.perf_counter() - begun < seconds:
        engine.crank(0.0)
    taken, made = time.perf_counter() - begun, talk.round_trips - first
    engine.release(job.id)
    return made, taken


def share(end: Connection, place: Path, conversations: int, seconds: float) -> None:
    """One process of those that share a bus: it begins when it is told, and says what it made."""

    def ready() -> None:
        end.send(None)
        end.recv()

    end.send(converse(place, conversations, seconds, ready))


def converse_together(place: Path, conversations: int, seconds: float) -> tuple[int, float]:
    """The same work in several processes at once."""
    SqliteStore(place).close()  # whoever comes first makes the bus, and that is no part of it
    spawn = multiprocessing.get_context("spawn")
    pipes = [spawn.Pipe() for _ in range(SHARERS)]
    parts = [conversations // SHARERS + (number < conversations % SHARERS) for number in range(SHARERS)]
    sharers = [
        spawn.Process(target=share, args=(theirs, place, part, seconds))
        for (_, theirs), part in zip(pipes, parts, strict=True)
    ]
    for process in sharers:
        process.start()
    ends = [own for own, _ in pipes]
    for end in ends:
        end.recv()
    for end in ends:
        end.send(None)
    found: list[tuple[int, float]] = [end.recv() for end in ends]
    for process in sharers:
        process.join()
    return sum(made for made, _ in found), max(taken for _, taken in found)


def measure(conversations: int, seconds: float, where: Path, form: str = "alone") -> dict[str, Any]:
    """Round trips a second."""
    place = home(where)
    before = sync_ms(place)
    if form == "shared":
        made, taken = converse_together(place, conversations, seconds)
    elif form == "postgres":
        store = on_server(place)
        made, taken = converse(place, conversations, seconds, lambda: None, store)
        store.close()
    else:
        made, taken = converse(place, conversations, seconds, lambda: None)
    return {
        "peer": "parley",
        "conversations": conversations,
        "round_trips": made,
        "seconds": taken,
        "per_second": made / taken,
        "durable": True,
        "sync_ms": [before, sync_ms(place)],
        "notes": "the whole engine, every rule recorded and chained",
    }


def main() -> None:
    """Print one measurement as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--dir", type=Path, default=Path(".bench"), help="where the databases are made, and stay")
    parser.add_argument(
        "--form", choices=("alone", "shared", "postgres"), default="alone", help="in one process, or in two"
    )
    options = parser.parse_args()
    print(json.dumps(measure(options.conversations, options.seconds, options.dir, options.form)))


if __name__ == "__main__":
    main()
