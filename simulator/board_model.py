"""The board in memory: what the functions and statements of board.sql and board.py do, row by row.

`tests/hosts/test_board_model.py` compares it with the real one, call by call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from parley import __version__
from parley.hosts.board import COORDINATORS, HOSTS, PROTOCOL, BoardEvent, HostRow, TurnKey, TurnStanding
from parley.hosts.board_link import BoardRefuses

LONGEST_BODY, HEAVIEST = 8_388_608, 100_663_296  # bytes of an event, and of all events of a turn
MOST_ATTEMPTS, MOST_HOSTS = 20, 1000
OLD_SECONDS = 30 * 86_400.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_FUNCTION = re.compile(r"board_(\w+)\(")

Rows = list[tuple[Any, ...]]


@dataclass(slots=True)
class Host:
    """A row of board_hosts."""

    worker: str
    role: str
    slots: int
    labels: tuple[str, ...]
    version: str
    boundary: str
    seen: float
    used: int = 0
    draining: bool = False
    gone: bool = False


@dataclass(slots=True)
class Put:
    """A row of board_orders, with what hangs on it."""

    agent: str
    thread: str
    document: str
    shipped: str
    label: str = ""
    state: str = "open"
    how: str = ""
    host: str = ""
    worker: str = ""
    attempt: int = 0
    cancelled: bool = False
    told: int = 0
    weight: int = 0
    events: dict[int, str] = field(default_factory=dict)
    ends: int = 0  # the number of the event that came along with its end
    replies: dict[int, str] = field(default_factory=dict)


class BoardModel:
    """All tables. `now` is the server's clock, `owns` whether an epoch is that of a job's owner."""

    def __init__(
        self,
        now: Callable[[], float],
        owns: Callable[[str, int], bool] = lambda job, epoch: True,
    ) -> None:
        self.now, self.owns = now, owns
        self._tell: Callable[[str, str], None] = lambda whom, text: None
        self.lost_seconds = 10.0
        self.hosts: dict[str, Host] = {}
        self.orders: dict[TurnKey, Put] = {}
        self.rests: dict[str, int] = {}

    def ring_by(self, tell: Callable[[str, str], None]) -> None:
        """How notifications go out: on which channel, and about what."""
        self._tell = tell

    # ---- what both sides use ---------------------------------------------------------------------------

    def lives(self, host: str, worker: str) -> bool:
        """Whether the process that has claimed a turn is alive."""
        found = self.hosts.get(host)
        return (
            found is not None
            and found.worker == worker
            and not found.gone
            and found.seen > self.now() - self.lost_seconds
        )

    def ring(self, whom: str, key: TurnKey) -> None:
        """Tell the coordinators, or the hosts."""
        self._tell(whom, f"{key.job}/{key.turn}")

    def let_go(self, key: TurnKey) -> None:
        """Give up the claim of a process that is lost."""
        put = self.orders.get(key)
        if put is None or put.state not in ("claimed", "begun") or self.lives(put.host, put.worker):
            return
        if put.state == "begun" or put.cancelled:
            put.state, put.how = "over", "lost"
        else:
            put.state, put.host, put.worker = "open", "", ""
        self.ring(COORDINATORS, key)

    # ---- what a host may call --------------------------------------------------------------------------

    def call(self, statement: str, given: Sequence[Any], role: str) -> Rows:
        """A call of a host's, as its statement says it."""
        found = _FUNCTION.search(statement)
        name = found.group(1) if found is not None else ""
        if name in ("hello", "alive"):
            return [getattr(self, name)(role, *given)]
        if name in ("bye", "mine", "rested"):
            self.caller(role, *given[:2])
            return list(getattr(self, name)(*given))
        if name == "claim":
            self.caller(role, *given[3:5])
            return [self.claim(TurnKey._make(given[:3]), *given[3:])]
        self.caller(role, *given[4:6])
        made = getattr(self, name)(TurnKey._make(given[:3]), *given[3:])
        return list(made) if name == "heard" else [(made,)]

    def caller(self, role: str, name: str, worker: str) -> None:
        """Refuse a caller that is not the process which it says it is."""
        found = self.hosts.get(name)
        if found is None or (found.worker, found.role) != (worker, role):
            raise BoardRefuses("the board's database refuses: no such worker")

    def hello(
        self,
        role: str,
        name: str,
        worker: str,
        slots: int,
        labels: Sequence[str],
        version: str,
        protocol: int,
        boundary: str,
    ) -> tuple[str, float]:
        """A worker starts."""
        if (version, protocol) != (__version__, PROTOCOL):
            return f"version {__version__} {PROTOCOL}", self.lost_seconds
        odd = not 1 <= len(worker) <= 64 or not 1 <= slots <= 1000 or len(boundary) > 300 or len(labels) > 32
        if odd or not all(_NAME.fullmatch(each) for each in (name, *labels)):
            return "odd", self.lost_seconds
        new = Host(
            worker=worker,
            role=role,
            slots=slots,
            labels=tuple(labels),
            version=version,
            boundary=boundary,
            seen=self.now(),
        )
        if name not in self.hosts:
            self._forget_old(role)
            if sum(one.role == role for one in self.hosts.values()) >= MOST_HOSTS:
                return "many", self.lost_seconds
        found = self.hosts.setdefault(name, new)
        if found.role != role:
            return "role", self.lost_seconds
        if found.worker != worker:
            if self.lives(name, found.worker):
                return "lives", self.lost_seconds
            self.hosts[name] = new
        for key, put in list(self.orders.items()):
            if put.host == name and put.worker != worker:
                self.let_go(key)
        return "", self.lost_seconds

    def _forget_old(self, role: str) -> None:
        busy = {put.host for put in self.orders.values() if put.state in ("claimed", "begun")}
        for name, one in list(self.hosts.items()):
            if one.role == role and one.seen < self.now() - OLD_SECONDS and name not in busy:
                del self.hosts[name]

    def alive(self, role: str, name: str, worker: str, used: int, draining: bool) -> tuple[bool]:
        """A worker lives."""
        found = self.hosts.get(name)
        if found is None or (found.worker, found.role, found.version) != (worker, role, __version__):
            return (False,)
        found.seen, found.used, found.draining = self.now(), min(max(used, 0), found.slots), draining
        return (True,)

    def bye(self, name: str, worker: str) -> Rows:
        """A worker ends."""
        self.hosts[name].gone, self.hosts[name].used = True, 0
        for key, put in list(self.orders.items()):
            if (put.host, put.worker) == (name, worker):
                self.let_go(key)
        return [("",)]

    def claim(self, key: TurnKey, name: str, worker: str) -> tuple[str, int | None, str | None, str | None]:
        """Claim a turn."""
        put = self.orders.get(key)
        if put is not None and put.state == "claimed" and (put.host, put.worker) != (name, worker):
            self.let_go(key)
        if put is None or (put.state == "over" and put.how != "lost"):
            return "over", None, None, None
        if put.state == "over":
            return "lost", None, None, None
        if put.state == "open":
            if self._is_busy(put, name, worker):
                return "busy", None, None, None
            put.state, put.host, put.worker, put.attempt = "claimed", name, worker, put.attempt + 1
        elif put.state != "claimed" or (put.host, put.worker) != (name, worker):
            return "held", None, None, None
        return "yours", put.attempt, put.document, put.shipped

    def _is_busy(self, put: Put, name: str, worker: str) -> bool:
        host = self.hosts[name]
        has = [one for one in self.orders.values() if (one.host, one.worker) == (name, worker)]
        return bool(put.label and put.label not in host.labels) or host.slots <= sum(
            one.state in ("claimed", "begun") for one in has
        )

    def own(self, key: TurnKey, attempt: int, name: str, worker: str) -> Put | None:
        """The turn of a caller that still has it."""
        put = self.orders.get(key)
        return put if put is not None and (put.attempt, put.host, put.worker) == (attempt, name, worker) else None

    def begin(self, key: TurnKey, attempt: int, name: str, worker: str) -> bool:
        """The agent is about to be started."""
        put = self.own(key, attempt, name, worker)
        if put is None or put.cancelled or put.state not in ("claimed", "begun"):
            return False
        put.state = "begun"
        self.ring(COORDINATORS, key)
        return True

    def tell(self, key: TurnKey, attempt: int, name: str, worker: str, first: int, bodies: Sequence[str]) -> bool:
        """Add events."""
        put = self.own(key, attempt, name, worker)
        if put is None or put.state != "begun" or put.cancelled:
            return False
        if first + len(bodies) - 1 > put.told:
            self.take(put, first, bodies, is_end=False)
            self.ring(COORDINATORS, key)
        return True

    @staticmethod
    def take(put: Put, first: int, bodies: Sequence[str], *, is_end: bool) -> None:
        """Take events into a turn, numbered without gaps."""
        sizes = [len(body.encode()) for body in bodies]
        if not bodies or not all(bodies) or first != put.told + 1:
            raise BoardRefuses("the board's database refuses: events out of order")
        weight = put.weight + sum(sizes) + 100 * len(bodies)
        if max(sizes) > LONGEST_BODY or (weight > HEAVIEST and not is_end):
            raise BoardRefuses("the board's database refuses: more than a turn may tell")
        put.events.update(enumerate(bodies, first))
        put.told, put.weight = put.told + len(bodies), weight
        if is_end:
            put.ends = put.told

    def heard(self, key: TurnKey, attempt: int, name: str, worker: str, waiting: Sequence[int]) -> Rows:
        """The replies to calls that wait for one."""
        put = self.own(key, attempt, name, worker)
        return [(number, body) for number, body in put.replies.items() if number in waiting] if put else []

    def mine(self, name: str, worker: str) -> Rows:
        """Every turn that a worker has claimed."""
        return [
            (*key, not put.cancelled, put.attempt)
            for key, put in self.orders.items()
            if (put.host, put.worker) == (name, worker) and put.state in ("claimed", "begun")
        ]

    def end(self, key: TurnKey, attempt: int, name: str, worker: str, how: str, number: int, body: str) -> bool:
        """A turn is over."""
        put = self.own(key, attempt, name, worker)
        if put is None or how not in ("ended", "dead", "handed back"):
            return False
        if put.state == "over":
            return put.how == how
        if how == "ended" and (put.state != "begun" or put.cancelled):
            return False
        if body or how == "ended":
            self.take(put, number, [body], is_end=True)
        if how == "handed back" and put.state == "claimed" and not put.cancelled and put.attempt < MOST_ATTEMPTS:
            put.state, put.host, put.worker = "open", "", ""
        else:
            put.state, put.how = "over", how
        self.ring(COORDINATORS, key)
        return True

    def rested(self, name: str, worker: str, job: str) -> Rows:
        """How often a job was to rest."""
        return [(self.rests.get(job, 0),)]

    # ---- what the coordinator does ---------------------------------------------------------------------

    def put(self, key: TurnKey, agent: str, thread: str, document: str, shipped: str, label: str = "") -> bool:
        """Put an order out."""
        if not self.owns(key.job, key.epoch):
            return False
        self.orders.setdefault(key, Put(agent, thread, document=document, shipped=shipped, label=label))
        return True

    def reply(self, key: TurnKey, number: int, body: str) -> None:
        """Answer a call."""
        if key in self.orders:
            self.orders[key].replies.setdefault(number, body)
        self.ring(HOSTS, key)

    def cancel(self, key: TurnKey) -> bool:
        """End a turn."""
        put = self.orders.setdefault(key, Put("", "", "", "", state="over", how="dead"))
        put.cancelled = True
        if put.state == "open":
            put.state, put.how = "over", "dead"
        self.ring(HOSTS, key)
        return True

    def unfinished(self, job: str) -> list[TurnKey]:
        """The turns of a job that are not over."""
        return [key for key, put in self.orders.items() if key.job == job and put.state != "over"]

    def left_out(self, job: str) -> list[TurnKey]:
        """Those that former owners have put out."""
        return [key for key in self.unfinished(job) if not self.owns(job, key.epoch)]

    def document(self, key: TurnKey) -> str:
        """A turn's order."""
        return self.orders[key].document if key in self.orders else ""

    def standings(self, keys: Collection[TurnKey]) -> dict[TurnKey, TurnStanding]:
        """Where turns stand."""
        found = {key: self.orders[key] for key in keys if key in self.orders}
        return {key: self._standing(put) for key, put in found.items()}

    def _standing(self, put: Put) -> TurnStanding:
        host = self.hosts.get(put.host)
        silent = self.now() - host.seen if host is not None and host.worker == put.worker else 0.0
        lives = self.lives(put.host, put.worker)
        return TurnStanding(
            state=put.state,
            how=put.how,
            host=put.host,
            agent=put.agent,
            thread=put.thread,
            lives=lives,
            silent=silent,
        )

    def events(self, read: Sequence[tuple[TurnKey, int]]) -> list[BoardEvent]:
        """What was told of turns after the numbers that were read."""
        found = [
            BoardEvent(key, number, body, how=put.how if number == put.ends else "", host=put.host)
            for key, last in read
            if (put := self.orders.get(key)) is not None
            for number, body in put.events.items()
            if number > last
        ]
        return sorted(found, key=lambda event: event.number)

    def last_host(self, job: str, agent: str, thread: str) -> str:
        """Where an instance's last turn ended well."""
        found = [
            (*_order(key), put.host)
            for key, put in self.orders.items()
            if (key.job, put.agent, put.thread, put.how) == (job, agent, thread, "ended") and put.host
        ]
        return max(found)[-1] if found else ""

    def strip(self, key: TurnKey, *, warm: bool = True) -> None:
        """A turn is over, and its owner knows."""
        put = self.orders.get(key)
        if put is None:
            return
        for other, one in list(self.orders.items()):
            same = (other.job, one.agent, one.thread) == (key.job, put.agent, put.thread)
            if same and one.state == "over" and _order(other) < _order(key):
                del self.orders[other]
        put.events, put.replies, put.document, put.shipped = {}, {}, "", ""
        put.host = put.host if warm or put.how != "ended" else ""

    def forget_all_but(self, jobs: Collection[str]) -> None:
        """All other jobs have ended."""
        for key in [key for key, put in self.orders.items() if key.job not in jobs and put.state == "over"]:
            del self.orders[key]
        self.rests = {job: times for job, times in self.rests.items() if job in jobs}

    def rest(self, job: str) -> None:
        """Tell the hosts to end what they keep ready of a job."""
        self.rests[job] = self.rests.get(job, 0) + 1
        self._tell(HOSTS, f"{job}/")

    def listed(self) -> list[HostRow]:
        """Every host that has come, by name."""
        return [
            HostRow(
                name=name,
                slots=one.slots,
                used=one.used,
                labels=one.labels,
                version=one.version,
                boundary=one.boundary,
                seen_seconds=self.now() - one.seen,
                draining=one.draining,
                gone=one.gone,
                lives=self.lives(name, one.worker),
            )
            for name, one in sorted(self.hosts.items())
        ]


def _order(key: TurnKey) -> tuple[int, int, str]:
    """By which turns come one after the other."""
    return key.epoch, len(key.turn), key.turn
