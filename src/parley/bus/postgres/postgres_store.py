"""The bus on a PostgreSQL server: one PostgreSQL schema a bus, a group of commits in one call, notices, no polls.

A job has at most one owner: a lease that ends by the server's clock, and an epoch that each commit must name. Both are
checked inside the commit itself, so that an owner that lost its lease can't write. No client's clock counts.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import psycopg
from msgspec.structs import asdict
from psycopg import sql

from parley.bus.commit_waves import some
from parley.bus.glimpses import Glimpse, glimpse_of
from parley.bus.hash_chain import seal_head
from parley.bus.key_files import Key
from parley.bus.patient_lock import is_stopped
from parley.bus.postgres import postgres_copy, postgres_schema
from parley.bus.postgres.bus_text import from_column, to_column, to_json
from parley.bus.postgres.lease_thread import LEASE_SECONDS, LeaseThread
from parley.bus.postgres.postgres_errors import (
    JOB_KNOWN,
    KEY_USED,
    LOST,
    NO_INPUT,
    NO_JOB,
    NOT_OUT,
    OUT_OF_ORDER,
    explain,
)
from parley.bus.postgres.postgres_queries import QUERIES
from parley.bus.postgres.postgres_schema import MIGRATIONS, board_of, schema_of
from parley.bus.postgres.postgres_writes import PlacedCommit, Values, Written
from parley.bus.postgres.server_address import Address
from parley.bus.postgres.server_connection import IDLE_SECONDS, Begun, ServerConnection, Session, connect, run
from parley.bus.rows import (
    PROTOCOL,
    REACH,
    BusError,
    Commit,
    Duplicate,
    InputRow,
    JobRow,
    Loaded,
    LostOwnership,
    MessageRow,
    NoMessage,
    Owned,
    Spent,
    StepRow,
    TransactionRow,
    TurnRow,
    check_job,
    no_job,
)
from parley.bus.signatures import LeftInput, is_authentic, is_signed, sign_input
from parley.bus.slots import check_numbers

DURABILITY = ("full", "normal")
_BEFORE_ALL = -REACH - 1
_NOTICE_SECONDS = 0.25  # a store that is told when something is written need not look more often
_AHEAD = 128  # events: the server writes what follows from them in less time than it takes to get as much ready
_PAGE_ROWS = 500  # a long read is many short ones: none keeps a snapshot for long


class _Seal(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction's head and its signature, of which only the store knows."""

    number: int
    head: str
    seal: str


Row = TypeVar("Row")
Found = TypeVar("Found")
Paged = TypeVar("Paged", StepRow, MessageRow, TransactionRow, _Seal)


class PostgresStore:
    """The bus of a home, on a server. Its methods may be called from any thread, one at a time goes on.

    durability: "full" waits for the server's disk at every commit; "normal" may lose some when the server crashes.
    """

    def __init__(
        self,
        home: Path,
        key: Key,
        address: Address,
        *,
        durability: str = "full",
        protocol: str = PROTOCOL,
        migrations: Sequence[str] = MIGRATIONS,
        lease_seconds: float = LEASE_SECONDS,
        identity: Path | None = None,
        idle_seconds: int = IDLE_SECONDS,
    ) -> None:
        """Open a bus that is there. `identity` is the file that says which bus is the home's, if it says so yet.

        A store that is alone and asks nothing of the server for `idle_seconds` loses what it has written since.
        """
        if durability not in DURABILITY:
            raise BusError(f"durability {durability!r} is not known; it is one of: {', '.join(DURABILITY)}")
        self.home = home
        self.key: Key | None = key
        self._secret = key.secret
        self._key = key
        self.schema = schema_of(key.id)
        self.where = f"{home} on {address.server}"
        self._identity = identity
        self._file = _file(identity)
        self._version = postgres_schema.latest(migrations)
        self._lease_seconds = lease_seconds
        self._sender = f"{socket.gethostname()} {os.getpid()} {secrets.token_hex(8)}"
        self._generation = 0
        self._held: set[str] = set()
        self._serials: dict[str, int] = {}
        self._inside: list[PlacedCommit] = []  # what was committed since the store is alone
        self._known: dict[str, TransactionRow] = {}  # the last transaction of each owned job, as the server said
        self._open_session = partial(connect, address, self.schema, durability=durability, idle_seconds=idle_seconds)
        self._lease: LeaseThread | None = None
        self._server = ServerConnection(self._open_session, self.where, self._fence)
        try:
            self._server.call(lambda session: self._prepare(session, protocol, migrations))
        except BaseException:
            self._server.close()
            raise

    def _prepare(self, session: Session, protocol: str, migrations: Sequence[str]) -> None:
        if postgres_copy.is_aside(session, self._key):
            raise BusError(
                f"{self.where}: it was moved into a file; where that is not done yet, finish it with `parley bus copy "
                "file` on the host that began it"
            )
        if not postgres_schema.exists(session, self.schema):
            raise BusError(
                f"{self.where}: the server has no bus of this home ({self.schema}); name the database that has it in "
                "your own settings, or restore it from a backup"
            )
        if not postgres_schema.is_open_to(session, self.schema):
            raise BusError(
                f"{self.where}: this user may not use the schema {self.schema}; let the database's owner grant it (see "
                "docs/postgres.md), or name the user who made it in your own settings"
            )
        postgres_schema.prepare(session, self.where, self._key, protocol, migrations)

    def _fence(self, session: Session) -> None:
        """Keep what an earlier connection of this store had sent from being done late, and see that nothing is lost.

        A server that waits for no disk loses its last commits when it is killed, and so does a standby that had not
        received them. The jobs that this store has in memory are not those of the bus then.
        """
        found = session.execute(QUERIES["next_generation"], (self._sender, self._lease_seconds)).fetchone()
        if found is not None:
            self._generation = found[0]
        known = [(self._serials[job], row.number, row.head) for job, row in self._known.items() if job in self._held]
        if known:
            lost = session.execute(QUERIES["find_lost"], tuple(map(list, zip(*known, strict=True)))).fetchall()
            if lost:
                raise LostOwnership(
                    f"{self.where}: the server has lost what it had committed of {some(job for (job,) in lost)}; "
                    "nothing more is written by this process: go on with `parley resume`"
                )

    # ---- jobs and owners

    def create(self, row: JobRow) -> None:
        """Make a job known, with no owner yet."""
        check_job(row.job)

        def write(session: Session) -> None:
            session.execute(QUERIES["create_job"], (self._version, self._sender, to_json(asdict(row))))

        def again(session: Session) -> None:
            if _rows(session, JobRow, "get_job", (row.job,)) != [row]:
                write(session)

        with _Explained(JOB_KNOWN, lambda: Duplicate(f"there is a job {row.job} already; choose another id")):
            self._server.call(write, again)

    def own(self, job: str) -> int:
        """Take the job's lease, and count its epoch up: earlier owners can't write now."""
        check_job(job)
        if job in self._held:
            raise Owned(f"job {job} has a living owner ({self._sender}); end it, or ask it through the bus")
        lease = self._listen()
        values = (self._version, self._sender, job, self._generation, self._lease_seconds)
        with _Explained(NO_JOB, lambda: no_job(job)):
            serial, epoch, holder, remains = self._server.call(
                lambda session: session.execute(QUERIES["own_job"], values).fetchone() or (0, 0, "", 0.0)
            )
        if holder != self._sender:
            raise Owned(
                f"job {job} has a living owner ({holder.rpartition(' ')[0]}; if it has died, its lease ends in "
                f"{remains:.0f} s); end it, or ask it through the bus"
            )
        lease.owning = True
        self._serials[job] = serial
        self._held.add(job)
        return int(epoch)

    def disown(self, job: str) -> None:
        """Give the job up at once. The epoch stays: the next owner counts it up."""
        if job not in self._held or not self._server.is_ours:
            return
        self._held.discard(job)
        self._known.pop(job, None)
        values = (self._sender, self._serials[job], self._sender)
        self._server.call(lambda session: run(session, QUERIES["disown"], values))

    @property
    def owner(self) -> str:
        """What this store is called as the owner of jobs."""
        return self._sender

    def owner_process(self, job: str) -> int:
        """The process that owns the job, if it is one of this machine; 0 if none does, or it can't be told."""
        host, _, rest = self._owner(job).partition(" ")
        pid = rest.partition(" ")[0]
        return int(pid) if host == socket.gethostname() and pid.isdecimal() else 0

    def owner_stopped(self, job: str) -> int:
        """The process that owns the job, if a signal has stopped it; 0 if that is not so, or can't be told."""
        pid = self.owner_process(job)
        return pid if pid and is_stopped(pid) else 0

    def owner_lives(self, job: str) -> bool:
        """Whether the job has a lease that has not ended, by the server's clock."""
        return bool(self._owner(job))

    def _owner(self, job: str) -> str:
        check_job(job)
        return next((str(owner) for (owner,) in self._read("get_owner", (job,))), "")

    def living(self, jobs: Collection[str]) -> set[str]:
        """Those of some jobs that have a lease that has not ended."""
        owned = {str(job) for (job,) in self._read("list_owned")} if jobs else set()
        return owned.intersection(jobs)

    def jobs(self) -> list[JobRow]:
        """Every job, oldest first."""
        return self._all(JobRow, "list_jobs")

    def unfinished(self) -> dict[str, bool]:
        """The jobs that have not ended, oldest first, and whether each is held. No job is read."""
        return {str(job): bool(held) for job, held in self._read("list_unfinished")}

    # ---- the hot path

    @contextmanager
    def alone(self) -> Iterator[None]:
        """A transaction around others: no other process writes until it ends, and it ends with what they wrote."""
        with self._server.lock:
            if self._server.is_inside:
                yield
                return
            self._inside.clear()
            with self._server.transaction(QUERIES["alone"], lambda session: self._is_written(session, self._inside)):
                yield
            self._note(self._inside)

    def _note(self, written: Sequence[PlacedCommit]) -> None:
        self._known.update({each.commit.job: each.commit.transaction for each in written})

    def commit(self, commits: Sequence[Commit]) -> None:
        """Write all or none, with one call of the server and one wait for its disk."""
        if not commits:
            self._server.finish()
            return
        placed, values = self._lay_out(commits)
        with self._server.lock:
            self._server.finish()
            try:
                self._server.call(partial(self._write, values), partial(self._write_again, placed, values))
            except BusError as error:
                raise _refusal(error, commits) from error
            if self._server.is_inside:
                self._inside += placed
            else:
                self._note(placed)

    @property
    def ahead(self) -> int:
        """The server writes beside this process: while it does, as much again is got ready."""
        return _AHEAD

    def begin_commit(self, commits: Sequence[Commit]) -> None:
        """Begin to write all or none: it is sent, and the next call waits for the answer."""
        if not commits or self._server.is_inside:
            self.commit(commits)
            return
        placed, values = self._lay_out(commits)

        def failed(error: BusError) -> BusError:
            return _refusal(error, commits)

        with self._server.lock:
            self._server.begin(
                Begun(
                    QUERIES["commit_jobs"],
                    lambda: (self._sender, self._generation, *values),
                    again=partial(self._write_again, placed, values),
                    done=partial(self._note, placed),
                    failed=failed,
                )
            )

    def _lay_out(self, commits: Sequence[Commit]) -> tuple[list[PlacedCommit], Values]:
        for commit in commits:
            if commit.job not in self._held or not self._server.is_ours:
                raise LostOwnership(f"this process does not own job {commit.job}; nothing was written")
            check_numbers(commit)
        self.check()
        placed = [PlacedCommit(commit, self._serials[commit.job]) for commit in commits]
        try:
            return placed, Written(placed, self._secret).values
        except (ValueError, TypeError, OverflowError) as error:
            raise BusError(
                f"{self.where}: a row can't be kept as it is; nothing of it was written ({error})"
            ) from error

    def _write(self, values: Values, session: Session) -> None:
        session.execute(QUERIES["commit_jobs"], (self._sender, self._generation, *values), prepare=True)

    def _write_again(self, placed: Sequence[PlacedCommit], values: Values, session: Session) -> None:
        # The lost connection's call is over, or will be refused: what is not there now was not written.
        if not self._is_written(session, placed):
            self._write(values, session)

    def _is_written(self, session: Session, placed: Sequence[PlacedCommit]) -> bool:
        """Whether a group of commits is on the bus: all of it is, or none. A seal tells whose a transaction is."""
        for each in placed:
            row = each.commit.transaction
            found = session.execute(QUERIES["get_head"], (each.serial, row.number)).fetchone()
            sealed = seal_head(self._secret, each.commit.job, row.number, row.head)
            if found is None or (from_column(found[0]), found[1]) != (row.head, sealed):
                return False
        return True

    # ---- inputs

    def put(self, job: str, kind: str, key: str, time: float, by: str, body: str) -> int:
        """Leave an input. It needs no ownership: any process may."""
        self.check()
        left = LeftInput(job=job, kind=kind, key=key, time=time, by=by, body=body)
        try:
            signed = left._replace(signature=sign_input(self._secret, left))
            values = [to_column(part) if isinstance(part, str) else part for part in signed]
        except (ValueError, TypeError) as error:
            raise BusError(f"{self.where}: it can't be kept as it is; nothing of it was written ({error})") from error

        def write(session: Session) -> int:
            found = session.execute(QUERIES["leave_input"], (self._version, self._sender, *values)).fetchone()
            return int(found[0]) if found is not None else 0

        def again(session: Session) -> int:
            for number, signature in session.execute(QUERIES["find_input"], (values[0], values[2])):
                if signature == signed.signature:
                    return int(number)
            return write(session)

        used = f"job {job} was given an input of the key {key} before; it counts once"
        with _Explained(KEY_USED, lambda: Duplicate(used)), _Explained(NO_JOB, lambda: no_job(job)):
            return self._server.call(write, again)

    def inputs(self, job: str, *, waiting: bool = True) -> list[InputRow]:
        """Those that no transaction has taken yet, or all."""
        return self._all(InputRow, "list_waiting" if waiting else "list_inputs", (job,))

    def waiting(self, jobs: Collection[str]) -> list[InputRow]:
        """The inputs of some jobs that no transaction has taken yet, with one wait for the server."""
        return self._all(InputRow, "list_all_waiting", ([to_column(job) for job in jobs],)) if jobs else []

    def authentic(self, row: InputRow) -> bool | None:
        """Whether a process with this bus's key left the input; None where that can't be told any more."""
        return is_authentic(self.key, row)

    def unsealed(self, job: str) -> int | None:
        """The job's first transaction that was not written with this bus's key; 0: none."""
        for row in self._pages(_Seal, "list_seals", job, _BEFORE_ALL):
            if row.seal != seal_head(self._secret, job, row.number, row.head):
                return row.number
        return 0

    # ---- reading

    def has(self, job: str) -> bool:
        """Whether there is such a job; it is not read."""
        return self._serial(job) is not None

    def load(self, job: str) -> Loaded:
        """Read the job as it is now, all of it from one moment and with one wait for the server."""
        serial = self._serial(job)
        if serial is None:
            raise no_job(job)

        def read(session: Session) -> Loaded:
            if self._server.is_inside:  # no other process writes meanwhile
                return _load(session, job, serial)
            with session.pipeline(), session.transaction():
                return _load(session, job, serial)

        with self._server.lock:
            loaded = self._server.call(read)
            if job in self._held and loaded.transaction is not None:
                self._known[job] = loaded.transaction
            return loaded

    def spent(self, day: str) -> Spent:
        """What all jobs together have used up on a day."""
        return self._all(Spent, "get_spent", (day,))[0]

    def versions(self) -> dict[str, tuple[int, int]]:
        """How far each job has come: the numbers of its last transaction and its last input. No job is read."""
        return {job: (commits, inputs) for job, commits, inputs in self._read("list_versions")}

    def spending(self, since: str) -> list[tuple[str, str, Spent]]:
        """What each job has used up on each day, from a day on."""
        return [
            (job, day, Spent(turns=turns, tokens=tokens, micros=micros, millis=millis))
            for job, day, turns, tokens, micros, millis in self._read("list_spending", (since,))
        ]

    def steps(self, job: str, after: int = 0) -> Iterator[StepRow]:
        """The job's steps, in order."""
        return self._pages(StepRow, "list_steps", job, after)

    def messages(self, job: str, after: int = 0) -> Iterator[MessageRow]:
        """The job's messages, in order."""
        return self._pages(MessageRow, "list_messages", job, after)

    def message(self, job: str, number: int) -> MessageRow:
        """One message."""
        serial = self._serial(job)
        rows = self._all(MessageRow, "get_message", (serial, number)) if serial is not None else []
        if not rows:
            raise NoMessage(f"job {job} has no message {number}; `parley log` lists those it has")
        return rows[0]

    def transactions(self, job: str) -> Iterator[TransactionRow]:
        """The job's transactions, in order."""
        return self._pages(TransactionRow, "list_commits", job, _BEFORE_ALL)

    def turns(self, job: str) -> Iterator[TurnRow]:
        """Every turn of the job, in order."""
        serial = self._serial(job)
        return iter(self._all(TurnRow, "list_turns", (serial,)) if serial is not None else ())

    def hosts_of(self, job: str) -> dict[str, str]:
        """Where the job's turns run, or ran last: as the board beside the bus has it, if there is one."""
        board = board_of(self.schema)
        found = QUERIES["list_hosts"].format(board=sql.Identifier(board).as_string())

        def read(session: Session) -> dict[str, str]:
            if session.execute(QUERIES["has_board"], (f"{board}.board_orders",)).fetchone() != (True,):
                return {}
            return dict(session.execute(found, (job,)).fetchall())

        return self._server.call(read)

    def glimpses(self) -> list[Glimpse]:
        """The jobs as a listing shows them, oldest first."""
        answers = [LeftInput._make(row) for row in self._read("list_answers")]
        answered = [row.job for row in answers if is_signed(self._secret, row, row.signature)]
        return [glimpse_of(row, answered.count(row["job"])) for row in self._named("list_glimpses")]

    def table(self, name: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table, as a copy carries them."""
        rows: list[tuple[Any, ...]] = []
        while rows := self._server.call(partial(postgres_copy.read_page, name=name, after=rows[-1] if rows else None)):
            yield from rows

    def put_aside(self) -> None:
        """Give the bus another name, for good, with what else is written while the store is alone."""
        self._server.call(lambda session: postgres_copy.put_aside(session, self._key))

    @property
    def kind(self) -> str:
        """What keeps it."""
        return "postgresql"

    @property
    def name(self) -> str:
        """Its PostgreSQL schema."""
        return f"schema {self.schema}"

    @property
    def schema_version(self) -> int:
        """The version of its schema."""
        return self._version

    def size(self) -> int:
        """How many bytes the bus takes on the server."""
        return int(self._read("get_size")[0][0])

    def waits_for_disk(self) -> bool:
        """Whether a commit is on the server's disk when it is answered, by the server's own settings."""
        fsync, waits = self._server.call(
            lambda session: [session.execute(f"SHOW {name}").fetchone() for name in ("fsync", "synchronous_commit")]
        )
        return fsync == ("on",) and waits != ("off",)

    # ---- what others write

    def check(self) -> None:
        """Refuse to go on where the home has another bus now: no other process reads what is written here."""
        if self._identity is not None and _file(self._identity) != self._file:
            raise BusError(
                f"{self.where}: the home's bus was moved or deleted while it was in use; go on with `parley resume`"
            )

    def changed(self) -> bool:
        """Whether another process has written since the last call: what was heard, nothing is asked of the server.

        The first call says that one may have.
        """
        self.check()
        self._refuse_closed()
        if self._lease is None:
            self._listen()
            return True
        return self._lease.heard()

    def call_on_notice(self, call: Callable[[], None]) -> None:
        """Call this, in the thread that hears notices, when another process has written."""
        self._listen().calls.append(call)

    def wait(self, seconds: float) -> None:
        """Wait until a notice says that another process has written, for a while; `changed` says whether one has."""
        self._listen().wait(max(seconds, _NOTICE_SECONDS))

    def _listen(self) -> LeaseThread:
        with self._server.lock:
            self._refuse_closed()
            if self._lease is None:
                session = self._server.another()  # waits for a server that is down or crowded, or says why
                try:
                    self._lease = LeaseThread(
                        self._open_session,
                        channel=self.schema,
                        owner=self._sender,
                        lease_seconds=self._lease_seconds,
                        session=session,
                    )
                except psycopg.Error as error:
                    raise explain(error, self.where) from error
            return self._lease

    def _refuse_closed(self) -> None:
        if self._server.is_closed:
            raise BusError(f"{self.where}: this store was closed; open another")

    def close(self) -> None:
        """Give every job up and close the connections. More than once does no harm."""
        lease, self._lease = self._lease, None
        if lease is not None:
            lease.stop()
            if lease.owning and self._server.is_ours:
                values = (self._sender, self._sender, self._sender)
                self._server.part(lambda session: run(session, QUERIES["disown_all"], values))  # it ends by itself
        self._held.clear()
        self._server.close()

    # ---- rows

    def _read(self, name: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        found = self._server.call(lambda session: session.execute(QUERIES[name], _columns(values)).fetchall())
        return [tuple(map(from_column, row)) for row in found]

    def _all(self, kind: type[Row], name: str, values: tuple[Any, ...] = ()) -> list[Row]:
        return self._server.call(lambda session: _rows(session, kind, name, values))

    def _named(self, name: str) -> list[dict[str, Any]]:
        def read(session: Session) -> list[dict[str, Any]]:
            found = session.execute(QUERIES[name])
            names = [column.name for column in found.description or ()]
            return [dict(zip(names, map(from_column, row), strict=True)) for row in found]

        return self._server.call(read)

    def _serial(self, job: str) -> int | None:
        """The job's number on this bus, which never changes."""
        self._refuse_closed()
        known = self._serials.get(job)
        if known is None and (found := self._read("get_serial", (job,))):
            known = self._serials[job] = int(found[0][0])
        return known

    def _pages(self, kind: type[Paged], name: str, job: str, after: int) -> Iterator[Paged]:
        """Read on and on from the last number: rows are only ever added, so the pages fit together."""
        serial = self._serial(job)
        if serial is None:
            return
        last = min(max(after, _BEFORE_ALL), REACH)
        while rows := self._all(kind, name, (serial, last, _PAGE_ROWS)):
            yield from rows
            last = rows[-1].number


# ---- helpers -------------------------------------------------------------------------------------


def _load(session: Session, job: str, serial: int) -> Loaded:
    names = ("list_molecules", "last_commit", "list_sequences", "list_submitted", "get_epoch", "list_spent")
    asked = [
        session.execute(QUERIES["get_job"], (job,)),
        *(session.execute(QUERIES[name], (serial,)) for name in names),
    ]
    row, molecules, last, sequences, turns, epoch, spent = (
        [
            dict(zip([c.name for c in one.description or ()], map(from_column, each), strict=True))
            for each in one.fetchall()
        ]
        for one in asked
    )
    return Loaded(
        row=JobRow(**row[0]),
        molecules={each["slot"]: each["body"] for each in molecules},
        transaction=TransactionRow(**last[0]) if last else None,
        sequences={(each["agent"], each["thread"]): each["seq"] for each in sequences},
        turns=tuple(TurnRow(**each) for each in turns),
        epoch=epoch[0]["epoch"] if epoch else 0,
        spent={each.pop("day"): Spent(**each) for each in spent},
    )


def _rows(session: Session, kind: type[Row], name: str, values: tuple[Any, ...] = ()) -> list[Row]:
    """Read rows by the names of their columns, which are those of the row's fields."""
    found = session.execute(QUERIES[name], _columns(values))
    names = [column.name for column in found.description or ()]
    return [kind(**dict(zip(names, map(from_column, row), strict=True))) for row in found]


def _columns(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(to_column(value) if isinstance(value, str) else value for value in values)


def _file(path: Path | None) -> tuple[int, int] | None:
    """Which file a path names now; None: none."""
    try:
        found = os.stat(path) if path is not None else None  # noqa: PTH116 - asked before every commit
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found is not None else None


class _Explained(AbstractContextManager[None]):
    """Say what a code of the server's functions means here."""

    def __init__(self, code: str, say: Callable[[], BusError]) -> None:
        self._code = code
        self._say = say

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, BusError) and _code(error) == self._code:
            raise self._say() from error


def _code(error: BusError) -> str:
    cause = error.__cause__
    return (cause.sqlstate or "") if isinstance(cause, psycopg.Error) else ""


def _refusal(error: BusError, commits: Sequence[Commit]) -> BusError:
    """Name the rows that a commit was refused for."""
    match _code(error):
        case code if code == LOST:
            jobs = some(commit.job for commit in commits)
            return LostOwnership(
                f"another owner has taken the job ({jobs}), or this process's lease has ended; nothing was written"
            )
        case code if code == OUT_OF_ORDER:
            names = (f"{row.agent} on {row.thread}: {row.seq}" for commit in commits for row in commit.messages)
            return Duplicate(
                "a message of the commit is not numbered after the last of its recipient; nothing of it was "
                f"written ({some(names)})"
            )
        case code if code == NOT_OUT:
            names = (f"{commit.job} {end.turn}" for commit in commits for end in commit.ended)
            return BusError(
                "a turn that the commit ends is not out, or not in that epoch; nothing was written: "
                f"load the job anew ({some(names)})"
            )
        case code if code == NO_INPUT:
            names = (f"{commit.job} {row.number}" for commit in commits for row in commit.taken)
            return BusError(
                "an input that the commit takes is not the job's, or was taken; nothing was written: "
                f"read the inputs anew ({some(names)})"
            )
        case _:
            return error
