"""How commits are written to PostgreSQL: all of a group in one call, as lists of rows. Here rows become columns.

The function commit_jobs of schema.sql takes what `waves_of` makes: the lists of a wave are in its order, and so are the
columns of each row, which are the fields of its Struct; tests/postgres compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import astuple

from parley.bus.commit_waves import waves
from parley.bus.hash_chain import seal_head
from parley.bus.rows import Commit, Duplicate
from parley.bus.slots import turn_number

Columns = list[tuple[Any, ...]]


class PlacedCommit(msgspec.Struct, frozen=True):
    """A commit, and its job's number on this bus."""

    commit: Commit
    serial: int


def waves_of(placed: Sequence[PlacedCommit], secret: bytes) -> list[list[Columns]]:
    """The commits as commit_jobs takes them."""
    return [_wave(each, secret) for each in waves(placed)]


def _wave(placed: Sequence[PlacedCommit], secret: bytes) -> list[Columns]:
    transactions, steps, messages, recipients, gone, kept, started, ended, spent, taken, progress = (
        list[tuple[Any, ...]]() for _ in range(11)
    )
    for each in placed:
        serial, commit, row = each.serial, each.commit, each.commit.transaction
        sealed = seal_head(secret, commit.job, row.number, row.head)
        transactions.append((serial, *astuple(row), sealed, commit.epoch))
        steps += [(serial, *astuple(step)) for step in commit.steps]
        messages += [(serial, *astuple(message)) for message in commit.messages]
        recipients += _recipients(each)
        for slot, body in commit.molecules.items():
            if body is None:
                gone.append((serial, slot))
            else:
                kept.append((serial, slot, body))
        started += [(serial, turn_number(turn.turn), *astuple(turn)[1:]) for turn in commit.started]
        ended += [(serial, turn_number(end.turn), end.epoch, end.status) for end in commit.ended]
        spent += [(serial, day, *astuple(more)) for day, more in commit.spent.items()]
        taken += [(commit.job, each.number, row.number, each.note) for each in commit.taken]
        if commit.progress is not None:
            progress.append((serial, *astuple(commit.progress)))
    return [transactions, steps, messages, recipients, gone, kept, started, ended, spent, taken, progress]


def _recipients(placed: PlacedCommit) -> Iterable[tuple[Any, ...]]:
    """Each recipient once, with the first and the last of its new numbers, which have to count up."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for row in placed.commit.messages:
        recipient = (row.agent, row.thread)
        first, last = found.get(recipient, (row.seq, row.seq - 1))
        if row.seq <= last:
            raise Duplicate(
                "a message of the commit is not numbered after the last of its recipient; nothing of it was "
                f"written ({row.agent} on {row.thread}: {row.seq})"
            )
        found[recipient] = (first, row.seq)
    return [(placed.serial, agent, thread, *numbers) for (agent, thread), numbers in found.items()]
