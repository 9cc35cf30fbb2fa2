"""Raw PostgreSQL: the floor of rules of `raw_sqlite`, on a server that waits for its disk.

The tables, the rules and the statements are those of raw SQLite. A rule is one call of a function on the server, and
its four statements are inside; nothing is read, because one process knows who is ready. In `pg_rule` each rule is a
call and a transaction, so a round trip is four. In `pg_turn` the two rules of a turn are one call, so it is two.

Three forms have one connection and group what they write. In `pg_writer` each conversation is a task of its own, which
hands one rule after the other to one writer and goes on when that rule is on the disk: the writer takes all that wait
into one transaction, with a call a rule. In `pg_grouped` one transaction takes the ready turn of every conversation: a
call for each rule of each. In both, all calls are sent before the first answer is awaited. `pg_arrays` is leaner: one
call takes all turns as arrays, and each of a rule's four statements is one for all conversations.

The bench starts the server, and its address is in `PARLEY_BUS_URL`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count

import psycopg

from bench.peers.harness import PAYLOAD, Form, Run, main, take_turns
from bench.peers.writer import Asked, drive_by_writer

_SCHEMA = """
DROP SCHEMA IF EXISTS floor CASCADE;
CREATE SCHEMA floor;
SET search_path TO floor;
CREATE TABLE molecules (id bigint PRIMARY KEY, agent bigint NOT NULL, kind text NOT NULL, message bigint);
CREATE TABLE messages (
    id bigint PRIMARY KEY, sender bigint NOT NULL, recipient bigint NOT NULL, body text NOT NULL, taken integer NOT NULL
);
CREATE TABLE steps (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, rule text NOT NULL, agent bigint NOT NULL,
    consumed text NOT NULL, produced text NOT NULL
);
CREATE FUNCTION send(p_agent bigint, p_message bigint, p_body text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM molecules WHERE id = 2 * p_agent + 1;
    INSERT INTO molecules VALUES (2 * p_agent, p_agent, 'idle', p_message);
    INSERT INTO steps (rule, agent, consumed, produced) VALUES ('send', p_agent, 'run', 'idle');
    INSERT INTO messages VALUES (p_message, p_agent, p_agent # 1, p_body, 0);
END $$;
CREATE FUNCTION wake(p_agent bigint, p_message bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM molecules WHERE id = 2 * p_agent;
    INSERT INTO molecules VALUES (2 * p_agent + 1, p_agent, 'run', p_message);
    INSERT INTO steps (rule, agent, consumed, produced) VALUES ('wake', p_agent, 'idle', 'run');
    UPDATE messages SET taken = 1 WHERE id = p_message;
END $$;
CREATE FUNCTION turn(p_agent bigint, p_other bigint, p_message bigint, p_body text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM send(p_agent, p_message, p_body);
    PERFORM wake(p_other, p_message);
END $$;
CREATE FUNCTION turns(p_agents bigint[], p_others bigint[], p_messages bigint[], p_bodies text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM molecules m USING unnest(p_agents) a WHERE m.id = 2 * a + 1;
    INSERT INTO molecules SELECT 2 * a, a, 'idle', n FROM unnest(p_agents, p_messages) u (a, n);
    INSERT INTO steps (rule, agent, consumed, produced) SELECT 'send', a, 'run', 'idle' FROM unnest(p_agents) a;
    INSERT INTO messages SELECT n, a, a # 1, b, 0 FROM unnest(p_agents, p_messages, p_bodies) u (a, n, b);
    DELETE FROM molecules m USING unnest(p_others) a WHERE m.id = 2 * a;
    INSERT INTO molecules SELECT 2 * a + 1, a, 'run', n FROM unnest(p_others, p_messages) u (a, n);
    INSERT INTO steps (rule, agent, consumed, produced) SELECT 'wake', a, 'idle', 'run' FROM unnest(p_others) a;
    UPDATE messages m SET taken = 1 FROM unnest(p_messages) n WHERE m.id = n;
END $$;
"""
# As Parley sets them too: a plan that is made while the tables are tiny would scan them, and be kept.
_SETTINGS = (
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; "
    "SET plan_cache_mode = force_generic_plan; SET jit = off"
)


_SEND, _WAKE = "SELECT send(%s, %s, %s)", "SELECT wake(%s, %s)"


class _Floor:
    """The tables of the agents of some conversations: the two of conversation `n` have the ids `2n` and `2n + 1`."""

    def __init__(self, conversations: int) -> None:
        self.connection = psycopg.connect(os.environ["PARLEY_BUS_URL"], autocommit=True, prepare_threshold=1)
        self.connection.execute(_SCHEMA)
        self.connection.execute(_SETTINGS)
        self._ids = count(1)
        agents = range(2 * conversations)
        with self.connection.cursor() as cursor:
            rows = [(2 * agent + 1, agent, "run", 0) for agent in agents[::2]]
            rows += [(2 * agent, agent, "idle", 0) for agent in agents[1::2]]
            cursor.executemany("INSERT INTO molecules VALUES (%s, %s, %s, %s)", rows)

    def rules(self, sender: int) -> None:
        """A turn of an agent, with a call a rule."""
        message = next(self._ids)
        self.connection.execute(_SEND, (sender, message, PAYLOAD))
        self.connection.execute(_WAKE, (sender ^ 1, message))

    def turn(self, sender: int) -> None:
        """A turn of an agent, with one call."""
        self.connection.execute("SELECT turn(%s, %s, %s, %s)", (sender, sender ^ 1, next(self._ids), PAYLOAD))

    def grouped(self, senders: Sequence[int]) -> None:
        """A turn of each agent, with a call a rule."""
        turns = [(sender, next(self._ids)) for sender in senders]
        self._fire(turns, [(sender ^ 1, message) for sender, message in turns])

    def waiting(self, together: Sequence[Asked]) -> None:
        """The rules that wait, with a call each."""
        sent, woken = (
            [(asked.agent, asked.message) for asked in together if asked.rule == rule] for rule in ("send", "wake")
        )
        self._fire(sent, woken)

    def _fire(self, sent: Sequence[tuple[int, int]], woken: Sequence[tuple[int, int]]) -> None:
        """All in one transaction, and sent together."""
        with self.connection.pipeline(), self.connection.transaction(), self.connection.cursor() as cursor:
            if sent:
                cursor.executemany(_SEND, [(*each, PAYLOAD) for each in sent])
            if woken:
                cursor.executemany(_WAKE, woken)

    def arrays(self, senders: Sequence[int]) -> None:
        """A turn of each agent, with one call for all."""
        values = [*senders], [sender ^ 1 for sender in senders], [next(self._ids) for _ in senders]
        self.connection.execute("SELECT turns(%s, %s, %s, %s)", (*values, [PAYLOAD] * len(senders)))


def _one_by_one(write: Callable[[_Floor, int], None]) -> Callable[[Run], None]:
    def drive(run: Run) -> None:
        floor = _Floor(run.conversations)
        with closing(floor.connection):

            def trip(conversation: int) -> None:
                write(floor, 2 * conversation)
                write(floor, 2 * conversation + 1)

            take_turns(run, trip)

    return drive


def _together(write: Callable[[_Floor, Sequence[int]], None]) -> Callable[[Run], None]:
    def drive(run: Run) -> None:
        floor = _Floor(run.conversations)
        agents = range(2 * run.conversations)
        with closing(floor.connection):
            while run.meter.going:
                write(floor, agents[::2])
                write(floor, agents[1::2])
                run.meter.mark(run.conversations)

    return drive


def _by_writer(run: Run) -> None:
    floor = _Floor(run.conversations)
    with closing(floor.connection):
        drive_by_writer(run, floor.waiting)


if __name__ == "__main__":
    main(
        psycopg.__version__,
        [
            Form(
                peer="pg_rule",
                durable=True,
                notes="fsync and synchronous_commit on; one call of the server and one transaction a rule",
                drive=_one_by_one(_Floor.rules),
            ),
            Form(
                peer="pg_turn",
                durable=True,
                notes="fsync and synchronous_commit on; one call of the server and one transaction a turn of two rules",
                drive=_one_by_one(_Floor.turn),
            ),
            Form(
                peer="pg_writer",
                durable=True,
                notes="fsync and synchronous_commit on; one call a rule, all rules that wait in one transaction",
                drive=_by_writer,
            ),
            Form(
                peer="pg_grouped",
                durable=True,
                notes="fsync and synchronous_commit on; one call a rule, those of all ready turns in one transaction",
                drive=_together(_Floor.grouped),
            ),
            Form(
                peer="pg_arrays",
                durable=True,
                notes="fsync and synchronous_commit on; all ready turns in one call of the server and one transaction",
                drive=_together(_Floor.arrays),
            ),
        ],
    )
