"""Simulated places: the git remote, and what carries workspaces to hosts and back over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from parley.hosts.mirror.mirror_errors import MirrorError, PlaceRefused, PushLost, RemoteTrouble
from parley.hosts.mirror.place_mirror import Shipped
from parley.ports.turns import Order
from simulator.disk import SimDisk, digest
from simulator.fibers import Fibers, Process

REMOTE = "remote"
LONGEST = 0.6  # seconds that files travel, at most
PATIENCE = 5.0  # for a remote that is down

R = TypeVar("R")


@dataclass(frozen=True)
class Place:
    """What lies under one ref."""

    commit: str
    files: dict[str, str]


class SimRemote:
    """The git remote: each ref is created once."""

    def __init__(self, fibers: Fibers) -> None:
        self.fibers = fibers
        self.refs: dict[str, Place] = {}
        self.down = False
        self.races: list[Callable[[], None]] = []  # pushes that other hands are about to come before: who is told of it

    def reaches(self, process: Process) -> bool:
        """Whether a process and the remote reach each other."""
        return not self.down and REMOTE not in process.cut

    def push(self, ref: str, files: dict[str, str]) -> Place | None:
        """Create a ref. The same again is the same; None: another push of it came first."""
        if self.races and "/back/" in ref and ref not in self.refs:
            self.races.pop()()
            self.refs[ref] = Place("another", {"whose": "another's"})
        place = self.refs.setdefault(ref, Place(digest(files), dict(files)))
        return place if place.commit == digest(files) else None

    def ask(self, process: Process, what: str, act: Callable[[], R], stop: Callable[[], bool] = lambda: False) -> R:
        """Have the remote do something, as git does: once, and whether or not the answer gets through."""
        fibers = self.fibers
        fibers.act(what)
        answers: list[R] = []

        def arrive() -> None:
            if self.reaches(process):
                found = act()
                after(
                    fibers.rng.random() * LONGEST / 2, lambda: answers.extend([found] if self.reaches(process) else [])
                )

        after = fibers.schedule.after
        after(fibers.rng.random() * LONGEST / 2, arrive)
        fibers.wait(lambda: bool(answers) or stop(), PATIENCE)
        if not answers:
            raise RemoteTrouble("the git remote does not answer")
        return answers[0]


class SimMirror:
    """What PlaceMirror is, on one machine."""

    def __init__(
        self, remote: SimRemote, process: Process, disk: SimDisk, laid_out: Callable[[Order], None] = lambda order: None
    ) -> None:
        self.home = Path("/nowhere")
        self._remote, self._process, self._disk, self._laid_out = remote, process, disk, laid_out

    # ---- the coordinator ---------------------------------------------------------------------------

    def send(self, order: Order, stop: Callable[[], bool] = lambda: False) -> Shipped:
        """Push what a turn begins with."""
        files = dict(self._disk.work.get(_workspace(order), {}))
        ref = f"{_turn(order)}/sent/{digest(files)}"
        self._push(ref, files, stop)
        return Shipped(digest(files), ref)

    def take_back(self, order: Order, shipped: Shipped, stop: Callable[[], bool] = lambda: False) -> None:
        """Fetch what a turn left, and put it into the coordinator's own folders."""
        files = self._fetch(order, shipped, "back", stop)
        if order.site.writable:
            self._disk.work[_workspace(order)] = dict(files)

    def drop(self, orders: Sequence[Order], stop: Callable[[], bool] = lambda: False) -> None:
        """Delete the refs of turns that are over."""
        over = tuple(f"{_turn(order)}/" for order in orders)

        def act() -> None:
            for ref in [ref for ref in self._remote.refs if ref.startswith(over)]:
                del self._remote.refs[ref]

        self._remote.ask(self._process, "drop", act)

    # ---- the host ----------------------------------------------------------------------------------

    def lay_out(self, order: Order, shipped: Shipped, stop: Callable[[], bool] = lambda: False) -> Order:
        """Fetch what a turn begins with."""
        files = self._fetch(order, shipped, "sent", stop)
        self._on_disk()
        self._laid_out(order)
        self._disk.work[_workspace(order)] = dict(files)
        return order

    def give_back(
        self, order: Order, laid: Order, attempt: int = 1, stop: Callable[[], bool] = lambda: False
    ) -> Shipped:
        """Push what a turn left."""
        self._on_disk()
        files = dict(self._disk.work.get(_workspace(laid), {}))
        ref = f"{_turn(order)}/back/{attempt}"
        self._push(ref, files, stop)
        return Shipped(digest(files), ref)

    def forget(self, job: str) -> None:
        """A job is over."""

    def _push(self, ref: str, files: dict[str, str], stop: Callable[[], bool]) -> None:
        if self._remote.ask(self._process, "push", lambda: self._remote.push(ref, files), stop) is None:
            raise PushLost(f"another push of {ref} came first")

    def _fetch(self, order: Order, shipped: Shipped, kind: str, stop: Callable[[], bool]) -> dict[str, str]:
        if not shipped.ref.startswith(f"{_turn(order)}/{kind}/"):
            raise PlaceRefused(f"{shipped.ref} is no ref of turn {order.turn}")
        place = self._remote.ask(self._process, "fetch", lambda: self._remote.refs.get(shipped.ref), stop)
        if place is None:
            raise MirrorError(f"{shipped.ref} is not there")
        if place.commit != shipped.commit:
            raise PlaceRefused(f"{shipped.ref} is not what was announced")
        return place.files

    def _on_disk(self) -> None:
        if self._process.full:
            raise MirrorError("the disk is full")


def _workspace(order: Order) -> tuple[str, str]:
    job, _, name = order.site.workspace.partition("|")
    return job, name


def _turn(order: Order) -> str:
    return f"{order.job}/{order.turn}/{order.epoch}"
