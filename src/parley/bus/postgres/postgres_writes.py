"""How commits are written to PostgreSQL: all of a group in one call. Here alone do rows become columns.

The function commit_jobs of schema.sql takes what `Written` holds. All numbers, all times and all texts are one value
each: the server reads these in a fraction of the time that a document of rows takes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import astuple

from parley.bus.commit_waves import waves
from parley.bus.hash_chain import seal_head
from parley.bus.postgres.bus_text import to_json
from parley.bus.rows import Commit, Duplicate
from parley.bus.slots import turn_number

_encode = msgspec.json.encode
_BETWEEN = "\x1f"
_ESCAPED = ("\0", "\1")  # bus_text has to write these in another way
_STEP_TEXTS = attrgetter("rule", "who", "at", "choice", "consumed", "produced", "extra")
_MESSAGE_TEXTS = attrgetter("sender", "sender_thread", "agent", "thread", "key", "body", "meta", "kind")
_TURN_TEXTS = attrgetter("agent", "thread", "message", "host", "status")


Values = tuple[str, str, str, str | None, str | None]
"""How many rows each wave has of each table, all numbers, all times, and all texts in one of two ways."""


class PlacedCommit(msgspec.Struct, frozen=True):
    """A commit, and its job's number on this bus."""

    commit: Commit
    serial: int


class Written:
    """Commits as commit_jobs takes them: the lists of each wave one after the other, in its order."""

    def __init__(self, placed: Sequence[PlacedCommit], secret: bytes) -> None:
        """Lay them out. ValueError, TypeError or OverflowError where a row holds what no column can."""
        self._secret = secret
        self._numbers: list[int] = []
        self._times: list[float] = []
        self._texts: list[str] = []
        counts = [self._wave(wave) for wave in waves(placed)]
        joined = _BETWEEN.join(self._texts)
        is_plain = joined.count(_BETWEEN) == len(self._texts) - 1 and not any(each in joined for each in _ESCAPED)
        texts = (joined, None) if is_plain else (None, to_json(self._texts))
        self.values: Values = (_array(counts), _array(self._numbers), _array(self._times), *texts)

    def _wave(self, wave: Sequence[PlacedCommit]) -> list[int]:
        """Lay out commits of different jobs; how many rows each table gets."""
        return [
            sum(add(each.serial, each.commit) for each in wave)
            for add in (
                self._add_transaction, self._add_steps, self._add_messages, self._add_recipients, self._add_gone,
                self._add_kept, self._add_started, self._add_ended, self._add_spent, self._add_taken,
                self._add_progress,
            )
        ]  # fmt: skip

    def _add_transaction(self, serial: int, commit: Commit) -> int:
        row = commit.transaction
        sealed = seal_head(self._secret, commit.job, row.number, row.head)
        self._numbers += (serial, row.number, row.epoch, row.steps, row.messages, commit.epoch)
        self._times.append(row.time)
        self._texts += (row.head, row.digests, sealed)
        return 1

    def _add_steps(self, serial: int, commit: Commit) -> int:
        for row in commit.steps:
            self._numbers += (serial, row.number, row.transaction)
            self._times.append(row.time)
            self._texts += _STEP_TEXTS(row)
        return len(commit.steps)

    def _add_messages(self, serial: int, commit: Commit) -> int:
        for row in commit.messages:
            self._numbers += (serial, row.number, row.transaction, row.seq)
            self._times.append(row.time)
            self._texts += _MESSAGE_TEXTS(row)
        return len(commit.messages)

    def _add_recipients(self, serial: int, commit: Commit) -> int:
        found = _recipients(commit)
        for recipient, numbers in found.items():
            self._numbers += (serial, *numbers)
            self._texts += recipient
        return len(found)

    def _add_gone(self, serial: int, commit: Commit) -> int:
        gone = [slot for slot, body in commit.molecules.items() if body is None]
        self._numbers += [serial] * len(gone)
        self._texts += gone
        return len(gone)

    def _add_kept(self, serial: int, commit: Commit) -> int:
        kept = [(slot, body) for slot, body in commit.molecules.items() if body is not None]
        self._numbers += [serial] * len(kept)
        for each in kept:
            self._texts += each
        return len(kept)

    def _add_started(self, serial: int, commit: Commit) -> int:
        for row in commit.started:
            self._numbers += (serial, turn_number(row.turn), row.epoch)
            self._times.append(row.started)
            self._texts += _TURN_TEXTS(row)
        return len(commit.started)

    def _add_ended(self, serial: int, commit: Commit) -> int:
        for end in commit.ended:
            self._numbers += (serial, turn_number(end.turn), end.epoch)
            self._texts.append(end.status)
        return len(commit.ended)

    def _add_spent(self, serial: int, commit: Commit) -> int:
        for day, more in commit.spent.items():
            self._numbers += (serial, *astuple(more))
            self._texts.append(day)
        return len(commit.spent)

    def _add_taken(self, _: int, commit: Commit) -> int:
        for each in commit.taken:
            self._numbers += (each.number, commit.transaction.number)
            self._texts += (commit.job, each.note)
        return len(commit.taken)

    def _add_progress(self, serial: int, commit: Commit) -> int:
        row = commit.progress
        if row is None:
            return 0
        self._numbers += (serial, row.visit, row.backtracks, row.needs_human, row.held)
        self._times.append(row.updated)
        self._texts.append(row.state)
        return 1


def _array(values: Iterable[Any]) -> str:
    """Numbers, or lists of them, as PostgreSQL writes an array. What is not finite is null, which is refused."""
    return _encode(values).decode().translate({ord("["): "{", ord("]"): "}"})


def _recipients(commit: Commit) -> dict[tuple[str, str], tuple[int, int]]:
    """Each recipient once, with the first and the last of its new numbers, which have to count up."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for row in commit.messages:
        recipient = (row.agent, row.thread)
        first, last = found.get(recipient, (row.seq, row.seq - 1))
        if row.seq <= last:
            raise Duplicate(
                "a message of the commit is not numbered after the last of its recipient; nothing of it was "
                f"written ({row.agent} on {row.thread}: {row.seq})"
            )
        found[recipient] = (first, row.seq)
    return found
