"""The board as the coordinator has it: orders put out, what their hosts tell, and which hosts there are."""

from __future__ import annotations

import contextlib
import hashlib
import time
from collections.abc import Collection, Iterable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

import psycopg
from psycopg import sql

from parley import __version__
from parley.bus.postgres.postgres_schema import BOARD
from parley.bus.rows import BusError
from parley.hosts.board_link import BoardLink
from parley.ports.turns import Ended

PROTOCOL = 2  # of the board: its tables, its functions, and what passes over it
HOST_FUNCTIONS = (
    "board_hello", "board_alive", "board_bye", "board_claim", "board_begin", "board_tell", "board_heard", "board_mine",
    "board_end", "board_rested",
)  # fmt: skip
COORDINATORS, HOSTS = "_told", "_asked"  # what a channel's name has after the schema's
OVER = "over"
INSTALL_TRIES = 20  # of making the board, while other processes make it, too: no lock is known that no host may hold
READ_BYTES = 32 << 20  # of events that are read at once

CROSSED_SECONDS = 0.1
_CROSSED = (  # how it fails where two processes make the same thing: the loser finds it made
    psycopg.errors.UniqueViolation,
    psycopg.errors.DuplicateObject,
    psycopg.errors.DuplicateTable,
    psycopg.errors.DuplicateSchema,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.InternalError_,
)
_DROP = "DROP TABLE IF EXISTS board_replies, board_events, board_orders, board_hosts, board_meta, board_rests"


def bus_of(board: str) -> str:
    """The PostgreSQL schema of a board's bus."""
    return board.removesuffix(BOARD)


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
    agent: str = ""
    thread: str = ""
    lives: bool = True  # the process that has claimed it
    silent: float = 0.0  # seconds without a sign of life of its host, by the server's clock


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
    how: str  # of what came along with the turn's end: how it ended
    host: str


class Board:
    """The board of one bus. Its role owns the tables.

    `bus`: the bus's own schema, where an order's owner is looked up; empty: there is no bus beside this board.
    """

    def __init__(self, link: BoardLink, schema: str, bus: str = "") -> None:
        self._link = link
        self.schema = schema
        self._owned, self._present = _owned(bus), _present(bus)

    def install(self, lost_seconds: float, roles: Iterable[str] = ()) -> None:
        """Make the tables and functions, and let hosts come with these database roles."""
        text = files("parley.hosts").joinpath("board.sql").read_text(encoding="utf-8")
        digest = hashlib.sha256(text.encode()).hexdigest()
        try:
            found = self._found()
            if found != (PROTOCOL, __version__, digest):
                found = None
                self._made(_script(self.schema, text))
            self._link.rows(
                "INSERT INTO board_meta (protocol, version, script, lost_seconds) VALUES (%s, %s, %s, %s) "
                "ON CONFLICT (one) DO UPDATE SET protocol = excluded.protocol, version = excluded.version, "
                "script = excluded.script, lost_seconds = excluded.lost_seconds",
                (PROTOCOL, __version__, digest, lost_seconds),
            )
            for role in roles:
                may = "SELECT has_schema_privilege(%s, current_schema(), 'USAGE')"
                if not self._link.rows(may, (role,))[0][0] or found is None:
                    self._made(_grants(self.schema, role))
        except psycopg.Error as error:
            raise BusError(f"the board can't be made beside the bus: {str(error).strip().splitlines()[0]}") from error

    def _made(self, script: str) -> None:
        """Run a script that can be run again; it may meet another process that runs the same."""
        for left in reversed(range(INSTALL_TRIES)):
            try:
                self._link.script(script)
                break
            except _CROSSED:
                if not left:
                    raise
                time.sleep(CROSSED_SECONDS)

    def _found(self) -> tuple[int, str, str] | None:
        """Which board is there. One of another version is deleted, but not while its turns run."""
        if not self.exists():
            return None
        found = self._link.rows("SELECT protocol, version, script FROM board_meta")
        if found and found[0][0] != PROTOCOL:
            if self._link.rows("SELECT 1 FROM board_orders WHERE state <> 'over' LIMIT 1"):
                raise BusError(f"Parley {found[0][1]} runs turns on this board: let them end, or use that version")
            self._link.script(_DROP)
        return found[0] if found else None

    def exists(self) -> bool:
        """Whether there is a board: the first job that runs turns on other hosts makes it."""
        return bool(self._link.rows("SELECT to_regclass('board_meta')::text")[0][0])

    # ---- turns -------------------------------------------------------------------------------------

    def put(self, key: TurnKey, agent: str, thread: str, document: str, shipped: str, label: str = "") -> bool:
        """Put an order out, for hosts that have the label. Again, or after it was cancelled, nothing happens.

        False, and nothing is put out: its epoch is not that of the job's owner, or the owner's lease has ended. So a
        coordinator that was suspended starts no turn of a job that another has taken over.
        """
        found = self._link.rows(
            "WITH given (job, turn, epoch, agent, thread, document, shipped, label) AS "  # noqa: S608 - a name of our own, quoted
            "(VALUES (%s::text, %s::text, %s::bigint, %s::text, %s::text, %s::text, %s::text, %s::text)), "
            f"owned AS ({self._owned}), "
            "put AS (INSERT INTO board_orders (job, turn, epoch, agent, thread, document, shipped, label) "
            "SELECT given.* FROM given, owned WHERE NOT EXISTS (SELECT FROM board_orders o "
            "WHERE (o.job, o.turn, o.epoch) = (given.job, given.turn, given.epoch)) ON CONFLICT DO NOTHING) "
            "SELECT 1 FROM owned",
            (*key, agent, thread, document, shipped, label),
        )
        return bool(found)

    def reply(self, key: TurnKey, number: int, body: str) -> None:
        """Answer a call of a turn that is still out."""
        self._link.rows(
            "WITH put AS (INSERT INTO board_replies SELECT job, turn, epoch, %s, %s FROM board_orders "
            "WHERE (job, turn, epoch) = (%s, %s, %s) ON CONFLICT DO NOTHING) SELECT board_ring(%s, %s, %s)",
            (number, body, *key, HOSTS, key.job, key.turn),
        )

    def cancel(self, key: TurnKey) -> bool:
        """End a turn: at once where no host has it; else its host hears of it. False: a session has it locked."""
        return bool(self._link.rows("SELECT board_cancel(%s, %s, %s)", key)[0][0])

    def end_sessions(self, seconds: float) -> None:
        """End sessions of hosts whose transaction has been open for so long: what they have locked is free again.

        The server lets only a member of their role do that.
        """
        with contextlib.suppress(BusError):
            self._link.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE usename IN (SELECT role FROM board_hosts) AND usename <> current_user "
                "AND xact_start < clock_timestamp() - make_interval(secs => %s)",
                (seconds,),
            )

    def left_out(self, job: str) -> list[TurnKey]:
        """The turns of a job that former owners have put out and that are not over.

        Never those of the present one: who asks may have been suspended, and another may have taken the job over.
        """
        found = self._link.rows(
            "SELECT job, turn, epoch FROM board_orders o WHERE job = %s AND state <> 'over' "  # noqa: S608 - a name of our own, quoted
            f"AND NOT EXISTS ({self._present})",
            (job,),
        )
        return [TurnKey._make(row) for row in found]

    def document(self, key: TurnKey) -> str:
        """A turn's order; empty where there is none."""
        found = self._link.rows("SELECT document FROM board_orders WHERE (job, turn, epoch) = (%s, %s, %s)", key)
        return str(found[0][0]) if found else ""

    def standings(self, keys: Collection[TurnKey]) -> dict[TurnKey, TurnStanding]:
        """Where turns stand."""
        found = self._link.rows(
            "SELECT o.job, o.turn, o.epoch, o.state, o.how, o.host, o.agent, o.thread, board_lives(o.host, o.worker), "
            "coalesce(extract(epoch FROM clock_timestamp() - h.seen), 0)::double precision FROM board_orders o "
            "JOIN unnest(%s::text[], %s::text[], %s::bigint[]) k (job, turn, epoch) USING (job, turn, epoch) "
            "LEFT JOIN board_hosts h ON h.name = o.host AND h.worker = o.worker",
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
        """What was told of turns after the numbers that were read; not all of it where it is much: ask again."""
        keys, numbers = [key for key, _ in read], [number for _, number in read]
        found = self._link.rows(
            "SELECT job, turn, epoch, number, body, how, host FROM (SELECT e.job, e.turn, e.epoch, e.number, e.body, "
            "CASE WHEN e.ends THEN o.how ELSE '' END AS how, o.host, "
            "sum(octet_length(e.body)) OVER (ORDER BY e.number, e.job, e.turn) - octet_length(e.body) AS before "
            "FROM board_events e JOIN board_orders o USING (job, turn, epoch) "
            "JOIN unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[]) "
            "k (job, turn, epoch, read) USING (job, turn, epoch) WHERE e.number > k.read) told "
            "WHERE before < %s ORDER BY number",
            (*_columns(keys), numbers, READ_BYTES),
        )
        return [BoardEvent._make((TurnKey._make(row[:3]), *row[3:])) for row in found]

    def last_host(self, job: str, agent: str, thread: str) -> str:
        """Where an instance's last turn ended well; empty if that is not known."""
        found = self._link.rows(
            "SELECT host FROM board_orders WHERE (job, agent, thread) = (%s, %s, %s) AND how = 'ended' AND host <> '' "
            "ORDER BY epoch DESC, length(turn) DESC, turn DESC LIMIT 1",
            (job, agent, thread),
        )
        return str(found[0][0]) if found else ""

    def strip(self, key: TurnKey, *, warm: bool = True) -> None:
        """A turn is over, and its owner knows: all of it goes but where it ran, and that of earlier ones too.

        Later ones stay: this call may come late, and what ended them may not have been read yet.
        `warm`: where it ended well, the next turn of its instance is to run there, too. What a host's session has
        locked stays until its job ends.
        """
        self._link.rows(
            "WITH earlier AS (SELECT o.job, o.turn, o.epoch FROM board_orders o JOIN board_orders n "
            "ON (n.job, n.turn, n.epoch) = (%s, %s, %s) AND (o.job, o.agent, o.thread) = (n.job, n.agent, n.thread) "
            "WHERE o.state = 'over' AND (o.epoch, length(o.turn), o.turn) < (n.epoch, length(n.turn), n.turn) "
            "FOR UPDATE OF o SKIP LOCKED), "
            "own AS (SELECT job, turn, epoch FROM board_orders WHERE (job, turn, epoch) = (%s, %s, %s) "
            "FOR NO KEY UPDATE SKIP LOCKED), "
            "gone AS (DELETE FROM board_orders WHERE (job, turn, epoch) IN (TABLE earlier)), "
            "told AS (DELETE FROM board_events WHERE (job, turn, epoch) = (%s, %s, %s)), "
            "heard AS (DELETE FROM board_replies WHERE (job, turn, epoch) = (%s, %s, %s)) "
            "UPDATE board_orders SET document = '', shipped = '', "
            "host = CASE WHEN %s OR how <> 'ended' THEN host ELSE '' END "
            "WHERE (job, turn, epoch) IN (TABLE own)",
            (*key, *key, *key, *key, warm),
        )

    def forget_all_but(self, jobs: Collection[str]) -> None:
        """All other jobs have ended: nothing of theirs stays."""
        self._link.rows(
            "WITH past AS (SELECT job, turn, epoch FROM board_orders WHERE job <> ALL (%s) AND state = 'over' "
            "FOR UPDATE SKIP LOCKED), rests AS (DELETE FROM board_rests WHERE job <> ALL (%s)) "
            "DELETE FROM board_orders WHERE (job, turn, epoch) IN (TABLE past)",
            (list(jobs), list(jobs)),
        )

    def rest(self, job: str) -> None:
        """Tell the hosts to end what they keep ready of a job."""
        self._link.rows(
            "WITH told AS (INSERT INTO board_rests AS r VALUES (%s, 1) "
            "ON CONFLICT (job) DO UPDATE SET times = r.times + 1) "
            "SELECT board_ring(%s, %s, '')",
            (job, HOSTS, job),
        )

    # ---- hosts -------------------------------------------------------------------------------------

    def hosts(self) -> list[HostRow]:
        """Every host that has come, by name."""
        found = self._link.rows(
            "SELECT name, slots, used, labels, version, boundary, "
            "extract(epoch FROM clock_timestamp() - seen)::double precision, draining, gone, board_lives(name, worker) "
            "FROM board_hosts ORDER BY name"
        )
        return [HostRow._make((*row[:3], tuple(row[3]), *row[4:])) for row in found]


def _owned(bus: str) -> str:
    """A row where the epoch of `given` is that of an owner whose lease has not ended.

    The owner's row is locked: another owner either waits until the order is out, and then finds and cancels it, or has
    counted the epoch up before.
    """
    if not bus:
        return "SELECT 1"
    query = sql.SQL(
        "SELECT 1 FROM given JOIN {0}.jobs j ON j.job = given.job "
        "JOIN {0}.owners o ON o.job = j.serial AND o.epoch = given.epoch "
        "JOIN {0}.leases l ON l.owner = o.owner AND l.expires > clock_timestamp() FOR SHARE OF o"
    )
    return query.format(sql.Identifier(bus)).as_string()


def _present(bus: str) -> str:
    """A row where the epoch of `o`, an order, is that of its job's present owner."""
    if not bus:
        return "SELECT WHERE false"
    query = sql.SQL(
        "SELECT FROM {0}.jobs j JOIN {0}.owners w ON w.job = j.serial WHERE j.job = o.job AND w.epoch = o.epoch"
    )
    return query.format(sql.Identifier(bus)).as_string()


def _columns(keys: Collection[TurnKey]) -> tuple[list[Any], list[Any], list[Any]]:
    return [key.job for key in keys], [key.turn for key in keys], [key.epoch for key in keys]


def _script(schema: str, text: str) -> str:
    """What makes the board."""
    made = sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)).as_string()
    return f"{made}; {text}"


def _grants(schema: str, role: str) -> str:
    """What lets a host's role call its functions, and do nothing else."""
    owner, who = sql.Identifier(schema), sql.Identifier(role)
    functions = sql.SQL(", ").join(sql.SQL("{}.{}").format(owner, sql.Identifier(name)) for name in HOST_FUNCTIONS)
    given = sql.SQL("GRANT USAGE ON SCHEMA {} TO {}; GRANT EXECUTE ON FUNCTION {} TO {}")
    return given.format(owner, who, functions, who).as_string()
