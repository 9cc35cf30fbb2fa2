"""What turns on simulated hosts really did, written down where it happens: no part of the layer has a say in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from parley.bus.store import Store
from parley.hosts.board import TurnKey
from parley.hosts.placed_turns import LostTurn
from parley.ports.turns import Ended, Order
from simulator.fibers import Process

BLAMED = 60.0  # seconds before a turn counts as lost, in which its host has to have been in trouble
HEARD_SECONDS = 8.0  # within which a host that reaches the board has ended what is not its turn any more
GAVE_BACK, ENDED_IT = "gave the turn back", "ended it"


@dataclass
class Deed:
    """A turn on a host."""

    host: str
    process: Process
    thread: str
    sent: list[str] = field(default_factory=list)  # texts whose Send was taken
    end: str | None = None  # its final text, once it has ended by itself
    files: dict[str, str] = field(default_factory=dict)  # at its end
    over: bool = False


@dataclass
class Trouble:
    """A time in which a host can't show itself, or ends."""

    since: float
    until: float
    drains: bool = False  # it gives its turns back, and loses none


class Deeds:
    """The books of a run. `may_run`: whether an order may run on a host."""

    def __init__(self, may_run: Callable[[Order, str], bool]) -> None:
        self._may_run = may_run
        self.turns: dict[TurnKey, Deed] = {}
        self.troubles: dict[str, list[Trouble]] = {}
        self.broken: list[str] = []
        self.taken: dict[TurnKey, Deed] = {}  # turns whose ends the engine was told, as good ones
        self.settled: set[TurnKey] = set()  # turns that a coordinator has ended, and waited for that
        self.given_up: dict[TurnKey, float] = {}  # when nothing waited for a turn any more
        self._lost: set[tuple[str, str, float]] = set()
        self._marks = 0

    def mark(self) -> str:
        """A text of its own for each deed."""
        self._marks += 1
        return f"#{self._marks}."

    def began(self, order: Order, host: str, process: Process, now: float) -> Deed:
        """An agent is started."""
        key = TurnKey(order.job, order.turn, order.epoch)
        former = any(one.job == key.job and one.epoch > key.epoch for one in self.settled)
        if (key in self.settled or former) and not self._blamed(host, now):
            self.broken.append(f"turn {key.turn} was begun on {host} after it had been ended")
        if key in self.turns:
            self.broken.append(f"turn {key.turn} was begun twice: on {self.turns[key].host} and on {host}")
        if not self._may_run(order, host):
            self.broken.append(f"turn {key.turn} of {order.agent} was begun on {host}, which lacks its label")
        deed = self.turns[key] = Deed(host, process, order.thread)
        return deed

    def trouble(self, host: str, since: float, until: float, *, drains: bool = False) -> None:
        """A host can't show itself for a while, or ends."""
        self.troubles.setdefault(host, []).append(Trouble(since, until, drains))

    def runs(self, key: TurnKey, hears: float, now: float) -> None:
        """An agent runs now, on a host that has reached the board since `hears`."""
        if now - max(self.given_up.get(key, now), hears) > HEARD_SECONDS:
            self.broken.append(f"turn {key.turn} runs on {self.turns[key].host}, and nothing waits for it any more")

    def lost(self, turn: LostTurn, now: float) -> None:
        """A turn was to be ended, and its host is said to be lost."""
        if not self._lost_by(turn.host, now):
            self.broken.append(f"turn {turn.key.turn} was ended as lost although {turn.host} lives: {turn.why}")

    def ended(self, key: TurnKey, now: float) -> None:
        """A coordinator says that no process of a turn is left, but where its host is lost."""
        self.settled.add(key)
        self.given_up.setdefault(key, now)
        deed = self.turns.get(key)
        if deed is not None and not deed.over and not deed.process.dead and not self._blamed(deed.host, now):
            self.broken.append(f"turn {key.turn} runs on {deed.host} after it was ended")

    def reclaimed(self, job: str, epoch: int, now: float) -> None:
        """An owner says that no turn of those before it is left."""
        for key in [key for key in self.turns if key.job == job and key.epoch < epoch]:
            self.ended(key, now)
        self.settled.add(TurnKey(job, "", epoch))

    def told(self, order: Order, event: Ended, files: dict[str, str], now: float) -> None:
        """The engine is told of a turn's end; `files` are those of its workspace then."""
        key = TurnKey(event.job, event.turn, event.epoch)
        deed = self.turns.get(key)
        self.given_up.setdefault(key, now)
        if event.fault:
            if "was lost" in event.fault:
                self._judge_lost(order, event, now)
            elif GAVE_BACK in event.fault:
                self._judge_given_back(event, now)
            elif ENDED_IT in event.fault:
                self.broken.append(f"turn {key.turn} was ended by {event.host}, and no coordinator asked for that")
            return
        if deed is None or deed.end is None:
            self.broken.append(f"turn {key.turn} ended well, and no host has ended it")
        elif deed.host != event.host:
            self.broken.append(f"turn {key.turn} ran on {deed.host}, and its end was taken from {event.host}")
        elif deed.end != event.text:
            self.broken.append(f"turn {key.turn} ended with {deed.end!r}, and {event.text!r} was taken")
        elif order.site.writable and deed.files != files:
            self.broken.append(f"turn {key.turn} left {deed.files}, and {files} was taken")
        else:
            self.taken[key] = deed

    def _judge_lost(self, order: Order, event: Ended, now: float) -> None:
        """A turn is lost only where its host was in trouble, and one of an agent's for each trouble."""
        blamed = self._lost_by(event.host, now)
        if not blamed:
            self.broken.append(f"turn {event.turn} was lost although {event.host} lives and is reached")
            return
        due = (order.thread, event.host, blamed[-1].since)
        if due in self._lost and len(blamed) < 2:
            self.broken.append(f"{order.agent} lost two turns to one trouble of {event.host}")
        self._lost.add(due)

    def _judge_given_back(self, event: Ended, now: float) -> None:
        """A turn is handed back only by a host that ends, or that can't be reached."""
        if not event.given_back:
            self.broken.append(f"turn {event.turn} was given back, and counts against its agent")
        if not self._blamed(event.host, now):
            self.broken.append(f"turn {event.turn} was given back although {event.host} goes on")

    def _lost_by(self, host: str, now: float) -> list[Trouble]:
        """Those by which a host may lose its turns."""
        return [one for one in self._blamed(host, now) if not one.drains]

    def _blamed(self, host: str, now: float) -> list[Trouble]:
        """The troubles that a host has, or has had a moment ago."""
        known = self.troubles.get(host, [])
        return [one for one in known if one.since <= now and one.until >= now - BLAMED]

    def judge(self, store: Store, job: str) -> str:
        """How what the bus has differs from what was done; empty if it does not."""
        if self.broken:
            return self.broken[0]
        bodies: dict[str, list[str]] = {}  # by the thread that sent them
        for message in store.messages(job):
            bodies.setdefault(message.sender_thread, []).append(message.body)
        statuses = {TurnKey(job, row.turn, row.epoch): row.status for row in store.turns(job)}
        for key, deed in self.turns.items():
            counts = {text: sum(text in body for body in bodies.get(deed.thread, ())) for text in deed.sent}
            counted = key in self.taken and statuses.get(key) == "ended"
            wrong = [text for text, count in counts.items() if count != counted]
            if wrong:
                what = "is of a turn that counts" if counted else "is of a turn that was lost"
                return f"{wrong[0]!r} of turn {key.turn} was sent {counts[wrong[0]]} times: it {what}"
        unfounded = [key for key, status in statuses.items() if status == "ended" and key not in self.taken]
        return f"turn {unfounded[0].turn} ended on the bus and nowhere else" if unfounded else ""
