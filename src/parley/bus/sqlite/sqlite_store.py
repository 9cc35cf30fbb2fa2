"""The bus as one SQLite file: WAL, one writer at a time, durable when a call returns.

A job has at most one owner: a lock of the kernel, which ends with its process, and an epoch that each commit must name,
so that an owner whose lock was lost can't write. The epoch is what counts in the end.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from time import sleep
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict

from parley.bus import key_files
from parley.bus.bus_tables import KEY_COLUMNS, TABLES
from parley.bus.commit_waves import waves
from parley.bus.hash_chain import seal_head
from parley.bus.key_files import Key, KeyRefused
from parley.bus.owner_locks import Locks
from parley.bus.patient_lock import is_stopped
from parley.bus.rows import (
    MERGE,
    PROTOCOL,
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
from parley.bus.signatures import LeftInput, is_authentic, sign_input
from parley.bus.slots import check_numbers
from parley.bus.sqlite import bus_schema, safe_open, sqlite_writes
from parley.bus.sqlite.bus_schema import MIGRATIONS
from parley.bus.sqlite.mounts import MOUNTINFO, network_filesystem
from parley.bus.sqlite.queries import QUERIES
from parley.bus.sqlite.safe_open import FILE, META
from parley.bus.sqlite.sqlite_errors import REFUSED, TAKEN, explain, explain_os
from parley.bus.sqlite.sqlite_writes import BEFORE_ALL, KEYED, WriteTransaction, place, span

BUSY_SECONDS = 10.0

_DURABILITY = {"full": "FULL", "normal": "NORMAL"}
# A conversation's commit writes some 10 pages, and a checkpoint waits for the disk twice more: so that is one
# commit in 400, not in 100. Larger gained nothing, nor did other pages or a larger cache: those are SQLite's own.
_CHECKPOINT_PAGES = 4000
_WAL_BYTES = 64 * 1024 * 1024  # what a burst leaves of the log's file
_FULL = 2  # what SQLite calls that
_PAGE_ROWS = 500  # a long read is many short ones: none keeps the log from being checkpointed


class _Seal(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction's head and its signature, of which only this store knows."""

    number: int
    head: str
    seal: str


Row = TypeVar("Row")
Paged = TypeVar("Paged", StepRow, MessageRow, TransactionRow, _Seal)


# ---- the store -----------------------------------------------------------------------------------


class SqliteStore:
    """The bus in a home folder. Its methods may be called from any thread, one at a time goes on.

    durability: "full" waits for the disk at every commit; "normal" may lose some when the power fails.
    """

    def __init__(
        self,
        home: Path,
        *,
        durability: str = "full",
        protocol: str = PROTOCOL,
        migrations: Sequence[str] = MIGRATIONS,
        busy_seconds: float = BUSY_SECONDS,
        mountinfo: Path = MOUNTINFO,
        stranger: bool = False,
        relieve: Callable[[], None] | None = None,
    ) -> None:
        """Open the bus, or make one. `stranger`: it may be one that this user did not make here, to be adopted.

        `relieve` makes room on the disk before something is written.
        """
        if durability not in _DURABILITY:
            raise BusError(f"durability {durability!r} is not known; it is one of: {', '.join(_DURABILITY)}")
        self.home = home
        self.path = home / FILE
        _check_home(home, mountinfo)
        self._migrations = tuple(migrations)
        self._locks = Locks(home / "locks")
        self._lock = threading.RLock()
        self._serials: dict[str, int] = {}  # of the jobs that this process has owned
        with _explained(self.path):
            self.key: Key | None = None
            there = True
            if stranger:
                safe_open.admit_any(home)
            else:
                self.key = safe_open.admit(home)
                there = self.key is not None
                if self.key is not None and self.key.server:
                    raise KeyRefused(f"{home}: its bus is on the PostgreSQL server {self.key.server!r}, not in a file")
                self.key = self.key or safe_open.make(home)
            self._locks.folder.mkdir(mode=0o700, exist_ok=True)
            self._connection = safe_open.connect(home, busy_seconds, shared=True)
        try:
            with _explained(self.path):
                self._prepare(durability, protocol, there=there)
            self._version = self._data_version()
        except BaseException:
            self._connection.close()
            raise
        self._writing = WriteTransaction(self._connection, self._lock, self.path, relieve)
        self._file = self._files()

    @staticmethod
    def exists(home: Path) -> bool:
        """Whether there is a bus to open. Opening one makes it. A home that is a link or another user's is refused."""
        with _explained(home):
            return safe_open.exists(home)

    # ---- opening

    def _prepare(self, durability: str, protocol: str, *, there: bool) -> None:
        version = bus_schema.version_of(self._connection, self.path, self._migrations)
        if not version:
            if self.key is None:
                raise KeyRefused(
                    f"{self.path}: there is nothing in this bus; delete it, and start a job with `parley run`"
                )
            if there:
                safe_open.refuse_emptied(self.home)
            with self._locks.alone():  # another process may be making the same bus: going over to WAL waits for none
                self._make(self.key, protocol)
        elif version < self._latest:
            self._migrate(version)
        bus_schema.check_schema(self._connection, self.path, self._latest, self._migrations)
        if self.key is None:
            self._find_key()
        else:
            safe_open.check_identity(self._connection, self.home, self.key)
        self._check_protocol(protocol)
        self._set("synchronous", _DURABILITY[durability])
        self._set("fullfsync", "ON")  # macOS: a plain fsync does not wait for the disk
        self._set("wal_autocheckpoint", str(_CHECKPOINT_PAGES))
        self._set("journal_size_limit", str(_WAL_BYTES))

    @property
    def _latest(self) -> int:
        return bus_schema.latest(self._migrations)

    def _set(self, name: str, value: str) -> None:
        self._connection.execute(f"PRAGMA {name} = {value}").close()

    def _get(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _make(self, key: Key, protocol: str) -> None:
        """Make the schema in one transaction."""
        self._set("synchronous", "FULL")
        self._set("journal_mode", "WAL")
        with WriteTransaction(self._connection, self._lock, self.path) as cursor:
            if bus_schema.version_of(self._connection, self.path, self._migrations):
                return  # another process has made it before this one was alone
            for script in (bus_schema.SCRIPT, *self._migrations):
                for statement in bus_schema.statements(script):
                    cursor.execute(statement)
            cursor.executemany(QUERIES["set_meta"], [("protocol", protocol), (META, key.id)])
            cursor.execute(f"PRAGMA application_id = {bus_schema.APPLICATION}")
            cursor.execute(f"PRAGMA user_version = {self._latest}")
        key_files.sync(self.home)

    def _migrate(self, version: int) -> None:
        """Bring an older bus to the latest schema, a transaction for each migration, while no process owns a job."""
        if self.key is None:
            raise KeyRefused(
                f"{self.path}: it was written by an older Parley (schema {version}, this one knows {self._latest}); "
                "take it in with that one, then open it with this one"
            )
        self._set("synchronous", "FULL")
        for number in range(version, self._latest):
            with WriteTransaction(self._connection, self._lock, self.path) as cursor:
                if bus_schema.version_of(self._connection, self.path, self._migrations) != number:
                    continue  # another process has done it meanwhile
                bus_schema.check_schema(self._connection, self.path, number, self._migrations)
                safe_open.check_identity(self._connection, self.home, self.key)
                # Each owner holds its job's lock for as long as it lives; one that comes now has to wait for this
                # transaction before it writes, and then `own` refuses it.
                for (job,) in cursor.execute(QUERIES["list_names"]).fetchall():
                    check_job(job)
                    if self._locks.is_taken(job):
                        raise Owned(
                            f"{self.path}: it has to be brought to schema {number + 1}, and a process of an older "
                            f"Parley works on job {job}; end that one first"
                        )
                for statement in bus_schema.statements(self._migrations[number - bus_schema.FIRST]):
                    cursor.execute(statement)
                cursor.execute(f"PRAGMA user_version = {number + 1}")

    def _refuse_migrated(self, cursor: sqlite3.Cursor) -> None:
        """Refuse to write where another process has migrated the bus since this one opened it."""
        self.check()  # the home may have gone over to a server while this one waited
        version = cursor.execute("PRAGMA user_version").fetchone()[0]
        if version != self._latest:
            raise BusError(
                f"{self.path}: a newer Parley has brought it to schema {version} meanwhile, and this one knows "
                f"{self._latest}; update Parley, and start anew"
            )

    def _check_protocol(self, protocol: str) -> None:
        found = self._connection.execute(QUERIES["get_meta"], ("protocol",)).fetchone()
        there = found[0] if found else "not said"
        if there != protocol:
            raise BusError(
                f"{self.path}: its jobs follow another version of the protocol ({there!s:.200}) "
                f"than this Parley ({protocol}); "
                "finish them with the Parley that began them, or name another home"
            )

    # ---- adopting

    def _find_key(self) -> None:
        """The key of a bus that was made elsewhere, if this machine has it: then what it signed can be checked."""
        found = self._connection.execute(QUERIES["get_meta"], (META,)).fetchone()
        self.key = key_files.read(found[0]) if found and isinstance(found[0], str) else None

    def adopt(self) -> None:
        """Make a bus that this user did not make here their own: with an identity and a key of its own.

        Its record stays to the letter. Heads are sealed anew, for which the record has to be sound. Inputs that no
        transaction took are deleted: another program may have written them. One that asks for nothing, and was signed
        with a key that is here, stays: the audit tells which merges were refused. Until the last step the bus stays
        refused.
        """
        with _explained(self.path):
            self._set("synchronous", "FULL")
            self._set("journal_mode", "WAL")
            last = int(self._connection.execute(QUERIES["last_input"]).fetchone()[0])
            unknown = last if self.key is None else self.key.unknown
            inode = self.path.lstat().st_ino
            key = key_files.make(os.path.realpath(self.home), inode, taken_in=last, unknown=unknown)
            with self._writing as cursor:
                if self.changed():  # what is sealed has to be what was audited
                    key_files.forget(key.id)
                    raise KeyRefused(f"{self.path}: another process wrote to it while it was looked at; try again")
                triggers = cursor.execute(QUERIES["list_triggers"], ("commits",)).fetchall()
                for name, _ in triggers:
                    cursor.execute(f"DROP TRIGGER {name}")
                heads = cursor.execute(QUERIES["list_heads"]).fetchall()
                seals = [(seal_head(key.secret, job, number, head), id_) for id_, job, number, head in heads]
                cursor.executemany(QUERIES["seal"], seals)
                kept, dropped = self._waiting()
                cursor.executemany(QUERIES["drop_input"], [(row.number,) for row in dropped])
                cursor.executemany(QUERIES["sign_again"], [(sign_input(key.secret, row), row.number) for row in kept])
                cursor.execute(QUERIES["set_meta"], (META, key.id))
                for _, statement in triggers:
                    cursor.execute(statement)
            safe_open.identify(self.home, key)
        self.key = key
        self._file = self._files()

    def dropped(self) -> list[InputRow]:
        """The inputs that an adoption deletes."""
        return self._waiting()[1]

    def _waiting(self) -> tuple[list[InputRow], list[InputRow]]:
        """The inputs that no transaction took: those that an adoption keeps, and those that it deletes."""
        rows = [each for row in self.jobs() for each in self.inputs(row.job)]
        kept = [row for row in rows if row.kind == MERGE and self.authentic(row)]
        return kept, [row for row in rows if row not in kept]

    # ---- jobs and owners

    def create(self, row: JobRow) -> None:
        """Make a job known, with no owner yet."""
        check_job(row.job)
        with self._writing as cursor:
            if cursor.execute(QUERIES["get_serial"], (row.job,)).fetchone():
                raise Duplicate(f"there is a job {row.job} already; choose another id")
            self._refuse_migrated(cursor)
            cursor.execute(QUERIES["add_job"], asdict(row))
            cursor.execute(QUERIES["add_owner"], (cursor.lastrowid,))
            cursor.execute(QUERIES["add_charter"], asdict(row))

    def own(self, job: str) -> int:
        """Lock the job for this process's life, then count its epoch up: earlier owners can't write now."""
        check_job(job)
        serial = self._serial(job)
        if serial is None:
            raise no_job(job)
        try:
            self._locks.take(job)
        except OSError as error:
            raise explain_os(error, self._locks.folder) from error
        try:
            with self._writing as cursor:
                self._refuse_migrated(cursor)
                cursor.execute(QUERIES["next_epoch"], (serial,))
                epoch: int = cursor.execute(QUERIES["get_epoch"], (serial,)).fetchone()[0]
        except BaseException:
            self._locks.give_up(job)
            raise
        self._serials[job] = serial
        return epoch

    def disown(self, job: str) -> None:
        """Unlock the job. The epoch stays: the next owner counts it up."""
        self._locks.give_up(job)

    def owner_process(self, job: str) -> int:
        """The process that owns the job; 0 if none does, or it can't be told."""
        check_job(job)
        return self._locks.holder(job)

    def owner_stopped(self, job: str) -> int:
        """The process that owns the job, if a signal has stopped it; 0 if that is not so, or can't be told."""
        pid = self.owner_process(job)
        return pid if pid and is_stopped(pid) else 0

    def owner_lives(self, job: str) -> bool:
        """Whether a living process owns the job: the kernel's word on its lock."""
        check_job(job)
        try:
            return self._locks.is_taken(job)
        except OSError as error:
            raise explain_os(error, self._locks.folder) from error

    def living(self, jobs: Collection[str]) -> set[str]:
        """Those of some jobs that a living process owns. A lock that can't be read hides no other job."""
        found = set()
        for job in jobs:
            with suppress(BusError):
                if self.owner_lives(job):
                    found.add(job)
        return found

    def jobs(self) -> list[JobRow]:
        """Every job, oldest first."""
        return self._rows(JobRow, "list_jobs")

    def unfinished(self) -> dict[str, bool]:
        """The jobs that have not ended, oldest first, and whether each is held. No job is read."""
        return {str(job): bool(held) for job, held in self._read("list_unfinished", ())}

    # ---- the hot path

    def alone(self) -> AbstractContextManager[object]:
        """A transaction around others: no other process writes until it ends, and it ends with what they wrote."""
        return self._writing

    def commit(self, commits: Sequence[Commit]) -> None:
        """Write all or none, with one wait for the disk."""
        held = self._locks.held
        for commit in commits:
            if commit.job not in held:
                raise LostOwnership(f"this process does not own job {commit.job}; nothing was written")
            check_numbers(commit)
        if not commits:
            return
        self.check()
        placed = [place(commit, self._serials[commit.job]) for commit in commits]
        with self._writing as cursor:
            for wave in waves(placed) if len(placed) > 1 else (placed,):
                sqlite_writes.write(cursor, wave, self._secret)

    @property
    def ahead(self) -> int:
        """A file is written by this process alone."""
        return 0

    def begin_commit(self, commits: Sequence[Commit]) -> None:
        """Write all or none, at once."""
        self.commit(commits)

    # ---- inputs

    def put(self, job: str, kind: str, key: str, time: float, by: str, body: str) -> int:
        """Leave an input. It needs no ownership: any process may."""
        left = LeftInput(job=job, kind=kind, key=key, time=time, by=by, body=body)
        with self._writing as cursor:
            if not cursor.execute(QUERIES["get_serial"], (job,)).fetchone():
                raise no_job(job)
            self._refuse_migrated(cursor)
            try:
                cursor.execute(QUERIES["add_input"], left._replace(signature=sign_input(self._secret, left)))
            except sqlite3.IntegrityError as error:
                if error.sqlite_errorname not in TAKEN:
                    raise
                raise Duplicate(f"job {job} was given an input of the key {key} before; it counts once") from error
            number = cursor.lastrowid
        return number or 0

    def inputs(self, job: str, *, waiting: bool = True) -> list[InputRow]:
        """Those that no transaction has taken yet, or all."""
        return self._rows(InputRow, "list_waiting" if waiting else "list_inputs", (job,))

    def waiting(self, jobs: Collection[str]) -> list[InputRow]:
        """The inputs of some jobs that no transaction has taken yet, those of each job in order."""
        return [row for job in jobs for row in self._rows(InputRow, "list_waiting", (job,))]

    def authentic(self, row: InputRow) -> bool | None:
        """Whether a process with this bus's key left the input; None where that can't be told any more."""
        return is_authentic(self.key, row)

    def unsealed(self, job: str) -> int | None:
        """The job's first transaction that was not written with this bus's key; 0: none; None: it can't be told."""
        if self.key is None:
            return None
        secret = self.key.secret
        for row in self._pages(_Seal, "list_seals", job, BEFORE_ALL):
            if row.seal != seal_head(secret, job, row.number, str(row.head)):
                return int(row.number)
        return 0

    @property
    def _secret(self) -> bytes:
        if self.key is None:
            raise BusError(
                f"{self.path}: nothing is written to a bus that is not yours; take it in with `parley bus adopt`"
            )
        return self.key.secret

    # ---- reading

    def has(self, job: str) -> bool:
        """Whether there is such a job; it is not read."""
        return self._serial(job) is not None

    def load(self, job: str) -> Loaded:
        """Read the job as it is now, all of it from one moment."""
        with self._lock:
            own = False  # whether this begins a transaction: a store that is alone is in one, which is not to end here
            try:
                own = not self._connection.in_transaction
                if own:
                    self._connection.execute("BEGIN")
                return self._load(job)
            except sqlite3.Error as error:
                raise explain(error, self.path) from error
            finally:
                with suppress(sqlite3.Error):
                    if own:
                        self._connection.execute("COMMIT")

    def _load(self, job: str) -> Loaded:
        rows, serial = self._rows(JobRow, "get_job", (job,)), self._serial(job)
        if not rows or serial is None:
            raise no_job(job)
        last = self._rows(TransactionRow, "last_commit", span(serial))
        return Loaded(
            row=rows[0],
            molecules=dict(self._read("list_molecules", (serial,))),
            transaction=last[0] if last else None,
            sequences={(agent, thread): seq for agent, thread, seq in self._read("list_sequences", (serial,))},
            turns=tuple(self._rows(TurnRow, "list_submitted", span(serial))),
            epoch=next((epoch for (epoch,) in self._read("get_epoch", (serial,))), 0),
            spent={
                day: Spent(turns=turns, tokens=tokens, micros=micros, millis=millis)
                for day, turns, tokens, micros, millis in self._read("list_spent", (serial,))
            },
        )

    def spent(self, day: str) -> Spent:
        """What all jobs together have used up on a day."""
        return self._rows(Spent, "get_spent", (day,))[0]

    def versions(self) -> dict[str, tuple[int, int]]:
        """How far each job has come: the numbers of its last transaction and its last input. No job is read."""
        return {job: (commits, inputs) for job, commits, inputs in self._read("list_versions", ())}

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
        rows = self._rows(MessageRow, "get_message", (sqlite_writes.key(serial, number),)) if serial is not None else []
        if not rows:
            raise NoMessage(f"job {job} has no message {number}; `parley log` lists those it has")
        return rows[0]

    def transactions(self, job: str) -> Iterator[TransactionRow]:
        """The job's transactions, in order."""
        return self._pages(TransactionRow, "list_commits", job, BEFORE_ALL)

    def turns(self, job: str) -> Iterator[TurnRow]:
        """Every turn of the job, in order."""
        serial = self._serial(job)
        return iter(self._rows(TurnRow, "list_turns", span(serial)) if serial is not None else ())

    def hosts_of(self, job: str) -> Mapping[str, str]:
        """Where the job's turns run: none runs on another host."""
        return {}

    def check(self) -> None:
        """Refuse to go on where the file is not the one that was opened: no other process reads what is written."""
        now = self._files()
        if now == self._file:
            return
        folder = "" if self.home.is_dir() else " with its folder"
        what = "was replaced" if None not in now else f"is gone: it was deleted or moved{folder}"
        remedy = "put it back and go on with `parley resume`, or start another job"
        raise BusError(f"{self.path} {what} while it was in use; {remedy}")

    def changed(self) -> bool:
        """Whether another process has written since the last call."""
        self.check()
        before, self._version = self._version, self._data_version()
        return self._version != before

    def table(self, name: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table, as a copy carries them."""
        columns = TABLES[name]
        order = "id" if name in KEYED else ", ".join(columns[: KEY_COLUMNS[name]])  # as they lie: nothing is sorted
        query = f"SELECT {', '.join(columns)} FROM {name} ORDER BY {order}"  # noqa: S608 - TABLES' own names
        with self._lock, _explained(self.path):
            yield from self._connection.execute(query)

    @property
    def kind(self) -> str:
        """What keeps it."""
        return "sqlite"

    @property
    def name(self) -> str:
        """Its file."""
        return FILE

    @property
    def schema_version(self) -> int:
        """The version of its schema."""
        return self._latest

    def waits_for_disk(self) -> bool:
        """A commit of a file waits for the disk, unless its user has settled otherwise."""
        return self._get("synchronous") >= _FULL

    def size(self) -> int:
        """How many bytes the bus takes on the disk."""
        files = (self.home / f"{FILE}{end}" for end in ("", "-wal", "-shm"))
        return sum(path.stat().st_size for path in files if path.exists())

    def call_on_notice(self, call: Callable[[], None]) -> None:
        """SQLite tells no process that another has written."""

    def wait(self, seconds: float) -> None:
        """Wait this long: SQLite tells no process that another has written."""
        sleep(seconds)

    def close(self) -> None:
        """Close the file and unlock every job. More than once does no harm."""
        with self._lock:
            self._connection.close()
        self._locks.forget()

    def _files(self) -> tuple[tuple[int, int] | None, ...]:
        """The bus's file, and the one that says which bus is the home's: a copy to a server puts another there."""
        return _identity(self.path), _identity(self.home / safe_open.IDENTITY)

    def _data_version(self) -> int:
        with self._lock:
            try:
                return self._get("data_version")
            except sqlite3.Error as error:
                raise explain(error, self.path) from error

    def _read(self, name: str, values: Any) -> list[tuple[Any, ...]]:
        return self._select(QUERIES[name], values)

    def _select(self, sql: str, values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection.execute(sql, values).fetchall()
            except REFUSED as error:
                raise explain(error, self.path) from error

    def _rows(self, kind: type[Row], name: str, values: tuple[Any, ...] = ()) -> list[Row]:
        """Read rows by the names of their columns, which are those of the row's fields."""
        with self._lock:
            try:
                found = self._connection.execute(QUERIES[name], values)
                names = [column for column, *_ in found.description]
                return [kind(**dict(zip(names, row, strict=True))) for row in found]
            except REFUSED as error:
                raise explain(error, self.path) from error

    def _serial(self, job: str) -> int | None:
        return next((serial for (serial,) in self._read("get_serial", (job,))), None)

    def _pages(self, kind: type[Paged], name: str, job: str, after: int) -> Iterator[Paged]:
        """Read on and on from the last number: rows are only ever added, so the pages fit together."""
        serial = self._serial(job)
        if serial is None:
            return
        first, end = span(serial, after)
        while rows := self._rows(kind, name, (first, end, _PAGE_ROWS)):
            yield from rows
            first = sqlite_writes.key(serial, rows[-1].number)


# ---- helpers -------------------------------------------------------------------------------------


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file a path names now; None: none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - asked before every commit: a Path's own way takes longer
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what goes wrong inside into a BusError that says what to do."""
    try:
        yield
    except KeyRefused as refused:
        raise BusError(str(refused)) from refused
    except sqlite3.Error as error:
        raise explain(error, path) from error
    except OSError as error:
        raise explain_os(error, path) from error


def _check_home(home: Path, mountinfo: Path) -> None:
    if not home.is_dir():
        raise BusError(f"{home}: there is no such folder; make it, or name another home")
    if kind := network_filesystem(home, mountinfo):
        raise BusError(
            f"{home}: the bus can't lie on a network filesystem ({kind}), whose locks don't hold; "
            "name a home on a local disk"
        )
