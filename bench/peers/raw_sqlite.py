"""Raw SQLite: the least durable work that makes the round trip, as a floor for all others.

The database is in WAL mode with ``synchronous=FULL``: a commit returns once it is on the disk. There are
three tables: `agents`, one row for each of the two agents of each conversation, holding how many turns it
took and which message waits for it; `messages`, the messages with their bodies; and `steps`, the log of
turns. A turn is four statements, the same in both forms:

1. insert the message of 1 KiB into `messages`;
2. insert the turn into `steps`: whose, which of its turns, which message woke it, which it sent;
3. update the recipient's row in `agents`: the message now waits for it;
4. update the sender's row in `agents`: one turn more, nothing waiting.

A round trip is two such turns: A's, which wakes B, and B's, which wakes A. Nothing is read, because one
process knows who is ready; nothing is serialised; no code of an agent runs. In `raw_turn` each turn is a
transaction, so a round trip syncs twice. In `raw_grouped` one transaction takes the ready turn of every
conversation, so a sync is shared by as many turns as there are conversations: the difference between the two
is the grouping and nothing else.

This module needs nothing but the standard library.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from bench.peers.harness import PAYLOAD, Form, Run, Trip, main, take_turns

_SCHEMA = """
CREATE TABLE agents (id INTEGER PRIMARY KEY, turns INTEGER NOT NULL, waiting INTEGER);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY, sender INTEGER NOT NULL, recipient INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE TABLE steps (
    agent INTEGER NOT NULL, turn INTEGER NOT NULL, woken_by INTEGER NOT NULL, sent INTEGER NOT NULL,
    PRIMARY KEY (agent, turn)
) WITHOUT ROWID;
"""


class _Floor:
    """The database, and the turns written to it.

    The two agents of conversation `n` have the ids `2n` and `2n + 1`. The message that woke an agent is held
    in memory between turns, as a process that made the message would hold it.
    """

    def __init__(self, where: Path, conversations: int) -> None:
        self.connection = sqlite3.connect(where / "floor.db", isolation_level=None)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.executescript(_SCHEMA)
        agents = range(2 * conversations)
        self.connection.executemany("INSERT INTO agents VALUES (?, 0, NULL)", ((agent,) for agent in agents))
        self._turns = [0] * len(agents)
        self._waiting = [0] * len(agents)
        self._ids = count(1)

    def turn(self, sender: int) -> None:
        """Write one turn, in whatever transaction is open."""
        execute = self.connection.execute
        recipient = sender ^ 1
        message = next(self._ids)
        self._turns[sender] += 1
        turn = self._turns[sender]
        execute("INSERT INTO messages VALUES (?, ?, ?, ?)", (message, sender, recipient, PAYLOAD))
        execute("INSERT INTO steps VALUES (?, ?, ?, ?)", (sender, turn, self._waiting[sender], message))
        execute("UPDATE agents SET waiting = ? WHERE id = ?", (message, recipient))
        execute("UPDATE agents SET waiting = NULL, turns = ? WHERE id = ?", (turn, sender))
        self._waiting[recipient] = message

    def commit(self, senders: range) -> None:
        """Write the turns of these agents as one transaction."""
        self.connection.execute("BEGIN IMMEDIATE")
        for sender in senders:
            self.turn(sender)
        self.connection.execute("COMMIT")

    def round_trip(self, conversation: int) -> None:
        """Make a round trip with a transaction a turn."""
        first = 2 * conversation
        self.commit(range(first, first + 1))
        self.commit(range(first + 1, first + 2))


def _drive_turn(run: Run) -> None:
    floor = _Floor(run.where, run.conversations)
    with closing(floor.connection):
        take_turns(run, floor.round_trip)


def _drive_grouped(run: Run) -> None:
    floor = _Floor(run.where, run.conversations)
    agents = 2 * run.conversations
    with closing(floor.connection):
        while run.meter.going:
            floor.commit(range(0, agents, 2))
            floor.commit(range(1, agents, 2))
            run.meter.mark(run.conversations)


@contextmanager
def _late(where: Path) -> Iterator[Trip]:
    floor = _Floor(where, 2)
    with closing(floor.connection):
        yield floor.round_trip


if __name__ == "__main__":
    main(
        sqlite3.sqlite_version,
        [
            Form(
                peer="raw_turn",
                durable=True,
                notes="WAL, synchronous=FULL; four statements and one transaction a turn",
                drive=_drive_turn,
                late=_late,
                at=(100, 10_000),
            ),
            Form(
                peer="raw_grouped",
                durable=True,
                notes="WAL, synchronous=FULL; four statements a turn, all ready turns in one transaction",
                drive=_drive_grouped,
            ),
        ],
    )
