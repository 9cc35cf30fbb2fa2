"""The board as a host has it: functions that it may call, for turns that it has claimed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from parley.hosts.board import TurnKey
from parley.hosts.board_link import BoardLink


class Claimed(NamedTuple):
    """A turn that this host has claimed."""

    attempt: int
    document: str
    shipped: str


class HostRefused(Exception):
    """The board does not take this worker: the text says why and what to do."""


class HostBoard:
    """The board for one worker process: `name` is its host's, `worker` its own."""

    def __init__(self, link: BoardLink, name: str, worker: str) -> None:
        self._link = link
        self._me = (name, worker)
        self.name, self.worker = name, worker

    def hello(self, slots: int, labels: Sequence[str], version: str, protocol: int, boundary: str) -> tuple[str, float]:
        """Start: why this worker is not taken, as a code, or nothing; after how much silence it counts as lost."""
        given = (*self._me, slots, list(labels), version, protocol, boundary)
        problem, seconds = self._link.rows("SELECT * FROM board_hello(%s, %s, %s, %s, %s, %s, %s)", given)[0]
        return str(problem), float(seconds)

    def alive(self, used: int, *, draining: bool) -> bool:
        """Show a sign of life. False: this worker has to end."""
        return bool(self._link.rows("SELECT board_alive(%s, %s, %s, %s)", (*self._me, used, draining))[0][0])

    def bye(self) -> None:
        """Say that this worker ends."""
        self._link.rows("SELECT board_bye(%s, %s)", self._me)

    def claim(self, key: TurnKey) -> tuple[str, Claimed]:
        """Claim a turn: a code, and the turn where the code is `yours`."""
        code, *claimed = self._link.rows("SELECT * FROM board_claim(%s, %s, %s, %s, %s)", (*key, *self._me))[0]
        return str(code), Claimed._make(claimed)

    def begin(self, key: TurnKey, attempt: int) -> bool:
        """Whether the agent may be started."""
        given = (*key, attempt, *self._me)
        return bool(self._link.rows("SELECT board_begin(%s, %s, %s, %s, %s, %s)", given)[0][0])

    def tell(self, key: TurnKey, attempt: int, first: int, bodies: Sequence[str]) -> bool:
        """Add events. False: the turn is not this worker's any more."""
        given = (*key, attempt, *self._me, first, list(bodies))
        return bool(self._link.rows("SELECT board_tell(%s, %s, %s, %s, %s, %s, %s, %s)", given)[0][0])

    def heard(self, key: TurnKey, attempt: int, waiting: Sequence[int]) -> list[tuple[int, str]]:
        """The replies to calls that wait for one."""
        given = (*key, attempt, *self._me, list(waiting))
        found = self._link.rows("SELECT * FROM board_heard(%s, %s, %s, %s, %s, %s, %s)", given)
        return [(int(number), str(body)) for number, body in found]

    def mine(self) -> dict[TurnKey, tuple[bool, int]]:
        """Every turn that this worker has: whether it goes on, or was cancelled, and which attempt it is."""
        found = self._link.rows("SELECT * FROM board_mine(%s, %s)", self._me)
        return {TurnKey._make(row[:3]): (bool(row[3]), int(row[4])) for row in found}

    def rested(self, job: str) -> int:
        """How often a job was to rest."""
        return int(self._link.rows("SELECT board_rested(%s, %s, %s)", (*self._me, job))[0][0])

    def end(self, key: TurnKey, attempt: int, how: str, number: int = 0, body: str = "") -> bool:
        """A turn is over, and every process of it gone. False: it is not this worker's any more."""
        given = (*key, attempt, *self._me, how, number, body)
        return bool(self._link.rows("SELECT board_end(%s, %s, %s, %s, %s, %s, %s, %s, %s)", given)[0][0])
