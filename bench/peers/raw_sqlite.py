"""Raw SQLite: the least durable work that makes the round trip, as three floors for all others.

The databases are in WAL mode with ``synchronous=FULL``: a commit returns once it is on the disk. A round trip is
two turns: A's, which wakes B, and B's, which wakes A. Nothing is read, because one process knows who is ready;
nothing is serialised; no code of an agent runs.

The lean floor (`raw_turn`, `raw_grouped`) keeps no more than what the next turn needs: `agents`, one row for each of
the two agents of each conversation, with how many turns it took and which message waits for it; `messages`, with
their bodies; and `steps`, the log of turns. A turn is four statements:

1. insert the message of 1 KiB into `messages`;
2. insert the turn into `steps`: whose, which of its turns, which message woke it, which it sent;
3. update the recipient's row in `agents`: the message now waits for it;
4. update the sender's row in `agents`: one turn more, nothing waiting.

The floor of rules (`raw_rules_turn`, `raw_rules_grouped`) keeps what a system of reaction rules keeps: the soup as
it is, and a log of every rule that fired. A turn is two rules, [send] and [wake], a round trip four, and each rule
is four statements:

1. delete the molecule that it consumes: the sender's `run`, or the recipient's `idle`;
2. insert the molecule that it produces: the sender's `idle`, or the recipient's `run`;
3. insert the firing into `steps`: which rule, whose, what was consumed and produced;
4. insert the message of 1 KiB into `messages`, or mark it there as taken.

The floor of a writer (`raw_writer_grouped`) fires the same rules, as a program of many conversations would with raw
SQLite: each conversation is a task of its own, which hands one rule after the other to one writer thread and goes on
when that rule is on the disk. The writer takes all that wait into one transaction.

In `raw_turn` and `raw_rules_turn` each turn is a transaction, so a round trip syncs twice. In `raw_grouped` and
`raw_rules_grouped` one transaction takes the ready turn of every conversation, so a sync is shared by as many turns
as there are conversations: the difference is the grouping and nothing else. In `raw_writer_grouped` a round trip waits
for four syncs, and shares each with all that wait for it.

This module needs nothing but the standard library.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path

from bench.peers.harness import PAYLOAD, Form, Run, Trip, main, take_turns
from bench.peers.writer import Asked, drive_by_writer

_LEAN = """
CREATE TABLE agents (id INTEGER PRIMARY KEY, turns INTEGER NOT NULL, waiting INTEGER);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY, sender INTEGER NOT NULL, recipient INTEGER NOT NULL, body TEXT NOT NULL
);
CREATE TABLE steps (
    agent INTEGER NOT NULL, turn INTEGER NOT NULL, woken_by INTEGER NOT NULL, sent INTEGER NOT NULL,
    PRIMARY KEY (agent, turn)
) WITHOUT ROWID;
"""

_RULES = """
CREATE TABLE molecules (id INTEGER PRIMARY KEY, agent INTEGER NOT NULL, kind TEXT NOT NULL, message INTEGER);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY, sender INTEGER NOT NULL, recipient INTEGER NOT NULL, body TEXT NOT NULL,
    taken INTEGER NOT NULL
);
CREATE TABLE steps (
    id INTEGER PRIMARY KEY, rule TEXT NOT NULL, agent INTEGER NOT NULL, consumed TEXT NOT NULL, produced TEXT NOT NULL
);
"""


class _Floor:
    """A database, and the turns written to it.

    The two agents of conversation `n` have the ids `2n` and `2n + 1`. The message that woke an agent is held
    in memory between turns, as a process that made the message would hold it.
    """

    schema = ""

    def __init__(self, where: Path, conversations: int) -> None:
        self.connection = sqlite3.connect(where / "floor.db", isolation_level=None, check_same_thread=False)
        self.connection.execute("PRAGMA journal_mode=WAL")
        self.connection.execute("PRAGMA synchronous=FULL")
        self.connection.executescript(self.schema)
        self._waiting = [0] * (2 * conversations)
        self._ids = count(1)
        self.begin(range(2 * conversations))

    def begin(self, agents: range) -> None:
        """Write what there is of the agents before their first turn."""
        raise NotImplementedError

    def turn(self, sender: int) -> None:
        """Write one turn, in whatever transaction is open."""
        raise NotImplementedError

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


class _Lean(_Floor):
    """Four statements a turn: no more than what the next turn needs."""

    schema = _LEAN

    def begin(self, agents: range) -> None:
        self._turns = [0] * len(agents)
        self.connection.executemany("INSERT INTO agents VALUES (?, 0, NULL)", ((agent,) for agent in agents))

    def turn(self, sender: int) -> None:
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


class _Rules(_Floor):
    """Two rules of four statements a turn: the soup as it is, and every rule that fired.

    An agent's `idle` molecule has the id `2 * agent`, its `run` the next.
    """

    schema = _RULES

    def begin(self, agents: range) -> None:
        """A's run, of the message that began its conversation, and B's idle."""
        self._steps = count(1)
        runs = ((2 * agent + 1, agent, "run", 0) for agent in agents[::2])
        idles = ((2 * agent, agent, "idle", None) for agent in agents[1::2])
        self.connection.executemany("INSERT INTO molecules VALUES (?, ?, ?, ?)", (*runs, *idles))

    def turn(self, sender: int) -> None:
        message = next(self._ids)
        self.send(sender, message)
        self.wake(sender ^ 1, message)

    def send(self, agent: int, message: int) -> None:
        """Fire [send]: an agent's run sends a message to its partner and is over."""
        self._fire("send", agent, "run", "idle", message)
        self.connection.execute("INSERT INTO messages VALUES (?, ?, ?, ?, 0)", (message, agent, agent ^ 1, PAYLOAD))

    def wake(self, agent: int, message: int) -> None:
        """Fire [wake]: an idle agent runs, for a message that it takes."""
        self._fire("wake", agent, "idle", "run", message)
        self.connection.execute("UPDATE messages SET taken = 1 WHERE id = ?", (message,))

    def _fire(self, rule: str, agent: int, gone: str, come: str, message: int) -> None:
        execute = self.connection.execute
        woken = come == "run"
        execute("DELETE FROM molecules WHERE id = ?", (2 * agent + (not woken),))
        execute("INSERT INTO molecules VALUES (?, ?, ?, ?)", (2 * agent + woken, agent, come, message))
        execute("INSERT INTO steps VALUES (?, ?, ?, ?, ?)", (next(self._steps), rule, agent, gone, come))


def _by_writer(run: Run) -> None:
    floor = _Rules(run.where, run.conversations)

    def write(together: Sequence[Asked]) -> None:
        floor.connection.execute("BEGIN IMMEDIATE")
        for asked in together:
            (floor.send if asked.rule == "send" else floor.wake)(asked.agent, asked.message)
        floor.connection.execute("COMMIT")

    with closing(floor.connection):
        drive_by_writer(run, write)


def _by_turns(floor: type[_Floor]) -> Callable[[Run], None]:
    def drive(run: Run) -> None:
        made = floor(run.where, run.conversations)
        with closing(made.connection):
            take_turns(run, made.round_trip)

    return drive


def _grouped(floor: type[_Floor]) -> Callable[[Run], None]:
    def drive(run: Run) -> None:
        made = floor(run.where, run.conversations)
        agents = 2 * run.conversations
        with closing(made.connection):
            while run.meter.going:
                made.commit(range(0, agents, 2))
                made.commit(range(1, agents, 2))
                run.meter.mark(run.conversations)

    return drive


@contextmanager
def _late(where: Path) -> Iterator[Trip]:
    floor = _Lean(where, 2)
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
                drive=_by_turns(_Lean),
                late=_late,
                at=(100, 10_000),
            ),
            Form(
                peer="raw_grouped",
                durable=True,
                notes="WAL, synchronous=FULL; four statements a turn, all ready turns in one transaction",
                drive=_grouped(_Lean),
            ),
            Form(
                peer="raw_rules_turn",
                durable=True,
                notes="WAL, synchronous=FULL; two rules of four statements and one transaction a turn",
                drive=_by_turns(_Rules),
            ),
            Form(
                peer="raw_rules_grouped",
                durable=True,
                notes="WAL, synchronous=FULL; two rules of four statements a turn, all ready turns in one transaction",
                drive=_grouped(_Rules),
            ),
            Form(
                peer="raw_writer_grouped",
                durable=True,
                notes="WAL, synchronous=FULL; two rules of four statements a turn, all that wait in one transaction",
                drive=_by_writer,
            ),
        ],
    )
