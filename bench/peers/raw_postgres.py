"""Raw PostgreSQL: the floor of rules of `raw_sqlite`, on a server that waits for its disk.

The tables, the rules and the statements are those of raw SQLite. A rule is one call of a function on the server, and
its four statements are inside; nothing is read, because one process knows who is ready. In `pg_rule` each rule is a
call and a transaction, so a round trip is four. In `pg_turn` the two rules of a turn are one call, so it is two. In
`pg_grouped` one transaction takes the ready turn of every conversation, as raw SQLite's does: a call for each rule of
each, all sent before the first answer is awaited. `pg_arrays` is leaner than that: one call takes all of them as
arrays, and each of a rule's four statements is one for all conversations.

The bench starts the server, and its address is in `PARLEY_BUS_URL`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from itertools import count

import psycopg

from bench.peers.harness import PAYLOAD, Form, Run, main, take_turns

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
CREATE FUNCTION send(p_agents bigint[], p_messages bigint[], p_bodies text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM molecules m USING unnest(p_agents) a WHERE m.id = 2 * a + 1;
    INSERT INTO molecules SELECT 2 * a, a, 'idle', n FROM unnest(p_agents, p_messages) u (a, n);
    INSERT INTO steps (rule, agent, consumed, produced) SELECT 'send', a, 'run', 'idle' FROM unnest(p_agents) a;
    INSERT INTO messages SELECT n, a, a # 1, b, 0 FROM unnest(p_agents, p_messages, p_bodies) u (a, n, b);
END $$;
CREATE FUNCTION wake(p_agents bigint[], p_messages bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM molecules m USING unnest(p_agents) a WHERE m.id = 2 * a;
    INSERT INTO molecules SELECT 2 * a + 1, a, 'run', n FROM unnest(p_agents, p_messages) u (a, n);
    INSERT INTO steps (rule, agent, consumed, produced) SELECT 'wake', a, 'idle', 'run' FROM unnest(p_agents) a;
    UPDATE messages m SET taken = 1 FROM unnest(p_messages) n WHERE m.id = n;
END $$;
CREATE FUNCTION turn(p_agents bigint[], p_others bigint[], p_messages bigint[], p_bodies text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM send(p_agents, p_messages, p_bodies);
    PERFORM wake(p_others, p_messages);
END $$;
"""
# As Parley sets them too: a plan that is made while the tables are tiny would scan them, and be kept.
_SETTINGS = (
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; "
    "SET plan_cache_mode = force_generic_plan; SET jit = off"
)


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

    def rules(self, senders: list[int]) -> None:
        """A turn of each agent, with a call a rule."""
        messages = [next(self._ids) for _ in senders]
        self.connection.execute("SELECT send(%s, %s, %s)", (senders, messages, [PAYLOAD] * len(senders)))
        self.connection.execute("SELECT wake(%s, %s)", ([sender ^ 1 for sender in senders], messages))

    def turns(self, senders: list[int]) -> None:
        """A turn of each agent, with one call."""
        messages = [next(self._ids) for _ in senders]
        others = [sender ^ 1 for sender in senders]
        self.connection.execute("SELECT turn(%s, %s, %s, %s)", (senders, others, messages, [PAYLOAD] * len(senders)))

    def grouped(self, senders: list[int]) -> None:
        """A turn of each agent, with a call a rule, all in one transaction and sent together."""
        messages = [next(self._ids) for _ in senders]
        sent = [([sender], [message], [PAYLOAD]) for sender, message in zip(senders, messages, strict=True)]
        woken = [([sender ^ 1], [message]) for sender, message in zip(senders, messages, strict=True)]
        with self.connection.pipeline(), self.connection.transaction(), self.connection.cursor() as cursor:
            cursor.executemany("SELECT send(%s, %s, %s)", sent)
            cursor.executemany("SELECT wake(%s, %s)", woken)


def _one_by_one(write: Callable[[_Floor, list[int]], None]) -> Callable[[Run], None]:
    def drive(run: Run) -> None:
        floor = _Floor(run.conversations)
        with closing(floor.connection):

            def trip(conversation: int) -> None:
                write(floor, [2 * conversation])
                write(floor, [2 * conversation + 1])

            take_turns(run, trip)

    return drive


def _together(write: Callable[[_Floor, list[int]], None]) -> Callable[[Run], None]:
    def drive(run: Run) -> None:
        floor = _Floor(run.conversations)
        agents = range(2 * run.conversations)
        with closing(floor.connection):
            while run.meter.going:
                write(floor, [*agents[::2]])
                write(floor, [*agents[1::2]])
                run.meter.mark(run.conversations)

    return drive


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
                drive=_one_by_one(_Floor.turns),
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
                drive=_together(_Floor.turns),
            ),
        ],
    )
