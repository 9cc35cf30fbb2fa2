"""The board as the coordinator has it: orders put out, what their hosts tell, and which hosts there are."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from parley import __version__
from parley.bus.rows import BusError
from parley.hosts.board_link import BoardLink
from parley.ports.turns import Ended

PROTOCOL = 1  # of the board: its tables, its functions, and what passes over it
HOST_FUNCTIONS = (
    "board_hello", "board_alive", "board_bye", "board_claim", "board_begin", "board_tell", "board_heard", "board_mine",
    "board_end",
)  # fmt: skip
COORDINATORS, HOSTS = "_told", "_asked"  # what a channel's name has after the schema's
OVER = "over"
_INSTALL_LOCK = 0x7061726C6579  # of the advisory locks: one process at a time makes the tables


def board_of(bus: str) -> str:
    """The PostgreSQL schema of a bus's board: one of its own, so that hosts need no right on the bus's."""
    return f"{bus}_board"


class TurnKey(NamedTuple):
    """A turn of an owner."""

    job: str
    turn: str
    epoch: int

    def ended(self, fault: str, *, host: str = "", given_back: bool = False, parked_seconds: float = 0.0) -> Ended:
        """The end of the turn where it did not come to its own."""
        return Ended(
            job=self.job,
            turn=self.turn,
            epoch=self.epoch,
            fault=fault,
            host=host,
            given_back=given_back,
            parked_seconds=parked_seconds,
        )


class TurnStanding(NamedTuple):
    """Where a turn stands."""

    state: str  # open, claimed, begun, over
    how: str  # of one that is over: ended, dead, lost, handed back
    host: str


class HostRow(NamedTuple):
    """A host, as it described itself."""

    name: str
    slots: int
    used: int
    labels: tuple[str, ...]
    version: str
    boundary: str
    seen_seconds: float  # ago, by the server's clock
    draining: bool
    gone: bool
    lives: bool


class BoardEvent(NamedTuple):
    """What a host tells of a turn."""

    key: TurnKey
    number: int
    body: str


class Board:
    """The board of one bus. Its role owns the tables."""

    def __init__(self, link: BoardLink, schema: str) -> None:
        self._link = link
        self.schema = schema

    def install(self, lost_seconds: float, roles: Iterable[str] = ()) -> None:
        """Make the tables and functions, and let hosts come with these database roles."""
        text = files("parley.hosts").joinpath("board.sql").read_text(encoding="utf-8")
        digest = hashlib.sha256(text.encode()).hexdigest()
        try:
            found = self._found()
            if found != (PROTOCOL, __version__, digest):
                found = None
                self._link.script(_script(self.schema, text))
            self._link.rows(
                "INSERT INTO board_meta (protocol, version, script, lost_seconds) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (one) DO UPDATE SET protocol = excluded.protocol, version = excluded.version, "
                "script = excluded.script, lost_seconds = excluded.lost_seconds",
                (PROTOCOL, __version__, digest, lost_seconds),
            )
            for role in roles:
                may = "SELECT has_schema_privilege(%s, current_schema(), 'USAGE')"
                if not self._link.rows(may, (role,))[0][0] or found is None:
                    self._link.script(_grants(self.schema, role))
        except psycopg.Error as error:
            raise BusError(f"the board can't be made beside the bus: {str(error).strip().splitlines()[0]}") from error

    def _found(self) -> tuple[int, str, str] | None:
        """Which board is there. One of another version is deleted, but not while its turns run."""
        if not self.exists():
            return None
        found = self._link.rows("SELECT protocol, version, script FROM board_meta")
        if found and found[0][0] != PROTOCOL:
            if self._link.rows("SELECT 1 FROM board_orders WHERE state <> 'over' LIMIT 1"):
                raise BusError(f"Parley {found[0][1]} runs turns on this board: let them end, or use that version")
            self._link.script("DROP TABLE board_replies, board_events, board_orders, board_hosts, board_meta")
        return found[0] if found else None

    def exists(self) -> bool:
        """Whether there is a board: the first job that runs turns on other hosts makes it."""
        return bool(self._link.rows("SELECT to_regclass('board_meta')::text")[0][0])

    # ---- turns -------------------------------------------------------------------------------------

    def put(self, key: TurnKey, agent: str, thread: str, document: str, shipped: str) -> None:
        """Put an order out. Again with the same turn and epoch, or after it was cancelled: nothing happens."""
        self._link.rows(
            "INSERT INTO board_orders (job, turn, epoch, agent, thread, document, shipped) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (*key, agent, thread, document, shipped),
        )

    def reply(self, key: TurnKey, number: int, body: str) -> None:
        """Answer a call of a turn that is still out."""
        self._link.rows(
            "WITH put AS (INSERT INTO board_replies SELECT job, turn, epoch, %s, %s FROM board_orders "
            "WHERE (job, turn, epoch) = (%s, %s, %s) ON CONFLICT DO NOTHING) SELECT board_ring(%s, %s, %s)",
            (number, body, *key, HOSTS, key.job, key.turn),
        )

    def cancel(self, key: TurnKey) -> None:
        """End a turn: at once where no host has it; else its host hears of it."""
        self._link.rows(
            "INSERT INTO board_orders (job, turn, epoch, agent, thread, document, shipped, state, how, cancelled) "
            "VALUES (%s, %s, %s, '', '', '', '', 'over', 'dead', true) ON CONFLICT (job, turn, epoch) DO UPDATE SET "
            "cancelled = true, state = CASE board_orders.state WHEN 'open' THEN 'over' ELSE board_orders.state END, "
            "how = CASE board_orders.state WHEN 'open' THEN 'dead' ELSE board_orders.how END",
            key,
        )
        self._link.rows("SELECT board_ring(%s, %s, %s)", (HOSTS, key.job, key.turn))

    def unfinished(self, job: str) -> list[TurnKey]:
        """The turns of a job that some owner has put out and that are not over."""
        found = self._link.rows("SELECT job, turn, epoch FROM board_orders WHERE job = %s AND state <> 'over'", (job,))
        return [TurnKey._make(row) for row in found]

    def document(self, key: TurnKey) -> str:
        """A turn's order; empty where there is none."""
        found = self._link.rows("SELECT document FROM board_orders WHERE (job, turn, epoch) = (%s, %s, %s)", key)
        return str(found[0][0]) if found else ""

    def standings(self, keys: Collection[TurnKey]) -> dict[TurnKey, TurnStanding]:
        """Where turns stand."""
        found = self._link.rows(
            "SELECT job, turn, epoch, state, how, host FROM board_orders "
            "JOIN unnest(%s::text[], %s::text[], %s::bigint[]) k (job, turn, epoch) USING (job, turn, epoch)",
            _columns(keys),
        )
        return {TurnKey._make(row[:3]): TurnStanding._make(row[3:]) for row in found}

    def let_go(self, keys: Collection[TurnKey]) -> None:
        """Give up the claims that lost hosts have on these turns."""
        self._link.rows(
            "SELECT board_let_go(job, turn, epoch) FROM board_orders "
            "JOIN unnest(%s::text[], %s::text[], %s::bigint[]) k (job, turn, epoch) USING (job, turn, epoch) "
            "WHERE state IN ('claimed', 'begun') AND NOT board_lives(host, worker)",
            _columns(keys),
        )

    def events(self, read: Sequence[tuple[TurnKey, int]]) -> list[BoardEvent]:
        """What was told of turns after the numbers that were read."""
        keys, numbers = [key for key, _ in read], [number for _, number in read]
        found = self._link.rows(
            "SELECT e.job, e.turn, e.epoch, e.number, e.body FROM board_events e JOIN "
            "unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[]) k (job, turn, epoch, number) "
            "USING (job, turn, epoch) WHERE e.number > k.number ORDER BY e.number",
            (*_columns(keys), numbers),
        )
        return [BoardEvent(TurnKey._make(row[:3]), row[3], row[4]) for row in found]

    def last_host(self, job: str, agent: str, thread: str) -> str:
        """Where an instance's last turn ran; empty if that is not known."""
        found = self._link.rows(
            "SELECT host FROM board_orders WHERE (job, agent, thread) = (%s, %s, %s) AND state = 'over' AND host <> '' "
            "ORDER BY epoch DESC, length(turn) DESC, turn DESC LIMIT 1",
            (job, agent, thread),
        )
        return str(found[0][0]) if found else ""

    def strip(self, key: TurnKey) -> None:
        """A turn is over, and its owner knows: all of it goes but where it ran, and that of earlier ones too."""
        self._link.rows(
            "WITH gone AS (DELETE FROM board_orders o USING board_orders n "
            "WHERE (n.job, n.turn, n.epoch) = (%s, %s, %s) AND (o.job, o.agent, o.thread) = (n.job, n.agent, n.thread) "
            "AND o.state = 'over' AND (o.turn, o.epoch) <> (n.turn, n.epoch)), "
            "told AS (DELETE FROM board_events WHERE (job, turn, epoch) = (%s, %s, %s)), "
            "heard AS (DELETE FROM board_replies WHERE (job, turn, epoch) = (%s, %s, %s)) "
            "UPDATE board_orders SET document = '', shipped = '' WHERE (job, turn, epoch) = (%s, %s, %s)",
            (*key, *key, *key, *key),
        )

    def forget_all_but(self, jobs: Collection[str]) -> None:
        """All other jobs have ended: nothing of theirs stays."""
        self._link.rows("DELETE FROM board_orders WHERE job <> ALL (%s) AND state = 'over'", (list(jobs),))

    def rest(self, job: str) -> None:
        """Tell the hosts to end what they keep ready of a job."""
        self._link.rows("SELECT board_ring(%s, %s, '')", (HOSTS, job))

    # ---- hosts -------------------------------------------------------------------------------------

    def hosts(self) -> list[HostRow]:
        """Every host that has come, by name."""
        found = self._link.rows(
            "SELECT name, slots, used, labels, version, boundary, "
            "extract(epoch FROM clock_timestamp() - seen)::double precision, draining, gone, board_lives(name, worker) "
            "FROM board_hosts ORDER BY name"
        )
        return [HostRow._make((*row[:3], tuple(row[3]), *row[4:])) for row in found]


def _columns(keys: Collection[TurnKey]) -> tuple[list[Any], list[Any], list[Any]]:
    return [key.job for key in keys], [key.turn for key in keys], [key.epoch for key in keys]


def _script(schema: str, text: str) -> str:
    """What makes the board, one process at a time."""
    made = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)).as_string()
    return f"SELECT pg_advisory_xact_lock({_INSTALL_LOCK}); {made}; {text}"


def _grants(schema: str, role: str) -> str:
    """What lets a host's role call its functions, and do nothing else."""
    owner, who = sql.Identifier(schema), sql.Identifier(role)
    functions = sql.SQL(", ").join(sql.SQL("{}.{}").format(owner, sql.Identifier(name)) for name in HOST_FUNCTIONS)
    given = sql.SQL(
        "SELECT pg_advisory_xact_lock({}); GRANT USAGE ON SCHEMA {} TO {}; GRANT EXECUTE ON FUNCTION {} TO {}"
    )
    return given.format(sql.Literal(_INSTALL_LOCK), owner, who, functions, who).as_string()
