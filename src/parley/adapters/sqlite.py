"""The bus as one SQLite file: WAL, one writer at a time, durable when a call returns.

A job has at most one owner: a lock of the kernel, which ends with its process, and an epoch that each commit
must name, so that an owner whose lock was lost can't write. The epoch is what counts in the end.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice, starmap
from pathlib import Path
from typing import Any, TypeVar

from parley.adapters import bus_gate, bus_keys
from parley.adapters.bus_gate import APPLICATION, FILE, META, SCHEMA
from parley.adapters.bus_keys import Key, Refused
from parley.adapters.locks import Locks, is_stopped
from parley.adapters.mounts import MOUNTINFO, network_filesystem
from parley.adapters.signatures import is_signed, sign_head, sign_input
from parley.adapters.transactions import REFUSED, TAKEN, Writing, explain, explain_os, identity, refuse_gone
from parley.ports import (
    JOB_ID,
    MERGE,
    BusError,
    Commit,
    Duplicate,
    InputRow,
    JobRow,
    Loaded,
    LostOwnership,
    MessageRow,
    Spent,
    StepRow,
    TransactionRow,
    TurnRow,
)

# How identifiers are made, what molecules hold, states and actions: a bus written with others can't be gone on with.
PROTOCOL = (
    "ids 1; rules 3; states INTENT PLAN EXECUTE DONE WITHDRAWN FAILURE; "
    "actions APPROVED_INTENT APPROVED_PLAN APPROVED_WORK REALIGN REPLAN WITHDRAW FAILURE"
)
BUSY_SECONDS = 10.0

_DURABILITY = {"full": "FULL", "normal": "NORMAL"}
# A conversation's commit writes some 9 pages, and a checkpoint waits for the disk twice more: so that is one
# commit in 400, not in 100. Larger gained nothing, nor did a larger cache: that is SQLite's own.
_CHECKPOINT_PAGES = 4000
_WAL_BYTES = 64 * 1024 * 1024  # what a burst leaves of the log's file
# A row's key is its job's serial and its number in one integer, as queries.sql has it.
_SERIAL_BITS = 40
_REACH = 1 << (_SERIAL_BITS - 1)  # how far from zero a number may lie; one that is not positive is shown too
_PAGE_ROWS = 500  # a long read is many short ones: none keeps the log from being checkpointed

Row = TypeVar("Row")
_Group = Sequence[tuple[int, int, Commit]]  # a job's serial, the key that its numbers are added to, and its commit


def _read_queries() -> dict[str, str]:
    """Read the statements by their names, without comments: sqlite3 looks at a statement's first word."""
    text = Path(__file__).with_name("queries.sql").read_text(encoding="utf-8")
    _, *parts = re.split(r"^-- name: (\S+)$", text, flags=re.MULTILINE)
    bodies = (re.sub(r"^\s*--.*\n", "", body, flags=re.MULTILINE).strip() for body in parts[1::2])
    return dict(zip(parts[::2], bodies, strict=True))


_SQL = _read_queries()
# The hot path's, looked up once.
_ADD_COMMIT = _SQL["add_commit"]
_ADD_STEP = _SQL["add_step"]
_ADD_MESSAGE = _SQL["add_message"]
_DELIVER = _SQL["deliver"]
_SET_MOLECULE = _SQL["set_molecule"]
_DROP_MOLECULE = _SQL["drop_molecule"]
_ADD_TURN = _SQL["add_turn"]
_END_TURN = _SQL["end_turn"]
_TAKE_INPUT = _SQL["take_input"]
_SPEND = _SQL["spend"]
_SET_JOB = _SQL["set_job"]
_SET_CHARTER = _SQL["set_charter"]
_GET_EPOCH = _SQL["get_epoch"]


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
        busy_seconds: float = BUSY_SECONDS,
        mountinfo: Path = MOUNTINFO,
        stranger: bool = False,
        relieve: Callable[[], None] = lambda: None,
    ) -> None:
        """Open the bus, or make one. `stranger`: one that this user did not make here, to be adopted.

        `relieve` makes room on the disk before something is written.
        """
        if durability not in _DURABILITY:
            raise BusError(f"durability {durability!r} is not known; it is one of: {', '.join(_DURABILITY)}")
        self.home = home
        self.path = home / FILE
        _check_home(home, mountinfo)
        self._locks = Locks(home / "locks")
        self._lock = threading.RLock()
        self._serials: dict[str, int] = {}  # of the jobs that this process has owned
        self._charters: dict[str, tuple[str, str]] = {}
        with _explained(self.path):
            self.key: Key | None = None
            there = True
            if stranger:
                bus_gate.admit_any(home)
            else:
                self.key = bus_gate.admit(home)
                there = self.key is not None
                self.key = self.key or bus_gate.make(home)
            self._locks.folder.mkdir(mode=0o700, exist_ok=True)
            self._connection = bus_gate.connect(home, busy_seconds, shared=True)
        try:
            with _explained(self.path):
                self._prepare(durability, protocol, there=there)
            self._version = self._data_version()
        except BaseException:
            self._connection.close()
            raise
        self._writing = Writing(self._connection, self._lock, self.path, relieve)
        self._file = identity(self.path)

    @staticmethod
    def exists(home: Path) -> bool:
        """Whether there is a bus to open. Opening one makes it. A home that is a link or another user's is refused."""
        with _explained(home):
            return bus_gate.exists(home)

    # ---- opening

    def _prepare(self, durability: str, protocol: str, *, there: bool) -> None:
        if not bus_gate.version_of(self._connection, self.path):
            if self.key is None:
                raise Refused(
                    f"{self.path}: there is nothing in this bus; delete it, and start a job with `parley run`"
                )
            if there:
                bus_gate.refuse_emptied(self.home)
            with self._locks.alone():  # going over to WAL waits for nobody
                self._make(self.key, protocol)
        bus_gate.check_schema(self._connection, self.path, _SQL["schema"])
        if self.key is None:
            self._find_key()
        else:
            bus_gate.check_identity(self._connection, self.home, self.key)
        self._check_protocol(protocol)
        self._set("synchronous", _DURABILITY[durability])
        self._set("fullfsync", "ON")  # macOS: a plain fsync does not wait for the disk
        self._set("wal_autocheckpoint", str(_CHECKPOINT_PAGES))
        self._set("journal_size_limit", str(_WAL_BYTES))

    def _set(self, name: str, value: str) -> None:
        self._connection.execute(f"PRAGMA {name} = {value}").close()

    def _get(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def _make(self, key: Key, protocol: str) -> None:
        """Make the schema in one transaction."""
        self._set("synchronous", "FULL")
        self._set("journal_mode", "WAL")
        with Writing(self._connection, self._lock, self.path) as cursor:
            if bus_gate.version_of(self._connection, self.path):
                return  # another process has done it before this one was alone
            for statement in bus_gate.statements(_SQL["schema"]):
                cursor.execute(statement)
            cursor.executemany(_SQL["set_meta"], [("protocol", protocol), (META, key.id)])
            cursor.execute(f"PRAGMA application_id = {APPLICATION}")
            cursor.execute(f"PRAGMA user_version = {SCHEMA}")
        bus_keys.sync(self.home)

    def _check_protocol(self, protocol: str) -> None:
        found = self._connection.execute(_SQL["get_meta"], ("protocol",)).fetchone()
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
        found = self._connection.execute(_SQL["get_meta"], (META,)).fetchone()
        self.key = bus_keys.read(found[0]) if found and isinstance(found[0], str) else None

    def adopt(self) -> None:
        """Make a bus of a stranger's this user's own, here: with an identity and a key of its own.

        Its record stays to the letter. Heads are sealed anew, for which the record has to be sound. Inputs that no
        transaction took are deleted: they might be anybody's. Until the last step the bus stays refused. What asks for
        nothing, and was signed with a key that is here, stays: the audit tells which merges were refused.
        """
        with _explained(self.path):
            self._set("synchronous", "FULL")
            self._set("journal_mode", "WAL")
            last = int(self._connection.execute(_SQL["last_input"]).fetchone()[0])
            unknown = last if self.key is None else self.key.unknown
            inode = self.path.lstat().st_ino
            key = bus_keys.make(os.path.realpath(self.home), inode, taken_in=last, unknown=unknown)
            triggers = [each for each in bus_gate.statements(_SQL["schema"]) if " ON commits\n" in each]
            with self._writing as cursor:
                if self.changed():  # what is sealed has to be what was audited
                    bus_keys.forget(key.id)
                    raise Refused(f"{self.path}: another process wrote to it while it was looked at; try again")
                for each in triggers:
                    cursor.execute(f"DROP TRIGGER {each.split()[2]}")
                heads = cursor.execute(_SQL["list_heads"]).fetchall()
                seals = [(sign_head(key.secret, job, number, head), id_) for id_, job, number, head in heads]
                cursor.executemany(_SQL["seal"], seals)
                kept, dropped = self._waiting()
                cursor.executemany(_SQL["drop_input"], [(row.number,) for row in dropped])
                cursor.executemany(_SQL["sign_again"], [(_signature(key, row), row.number) for row in kept])
                cursor.execute(_SQL["set_meta"], (META, key.id))
                for each in triggers:
                    cursor.execute(each)
            bus_gate.identify(self.home, key)
        self.key = key

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
        _check_job(row.job)
        with self._writing as cursor:
            if cursor.execute(_SQL["get_serial"], (row.job,)).fetchone():
                raise Duplicate(f"there is a job {row.job} already; choose another id")
            cursor.execute(_SQL["add_job"], (row.job, *_state(row)))
            cursor.execute(_SQL["add_owner"], (cursor.lastrowid,))
            cursor.execute(_SQL["add_charter"], (row.job, row.request, row.settings))

    def own(self, job: str) -> int:
        """Lock the job for this process's life, then count its epoch up: earlier owners can't write now."""
        _check_job(job)
        serial = self._serial(job)
        if serial is None:
            raise BusError(_no_job(job))
        try:
            self._locks.take(job)
        except OSError as error:
            raise explain_os(error, self._locks.folder) from error
        try:
            with self._writing as cursor:
                cursor.execute(_SQL["next_epoch"], (serial,))
                epoch: int = cursor.execute(_GET_EPOCH, (serial,)).fetchone()[0]
        except BaseException:
            self._locks.give_up(job)
            raise
        self._serials[job] = serial
        self._charters.pop(job, None)
        return epoch

    def disown(self, job: str) -> None:
        """Unlock the job. The epoch stays: the next owner counts it up."""
        self._locks.give_up(job)

    def owner_process(self, job: str) -> int:
        """The process that owns the job; 0 if none does, or it can't be told."""
        _check_job(job)
        return self._locks.holder(job)

    def owner_stopped(self, job: str) -> int:
        """The process that owns the job and was stopped by somebody; 0 if that is not so, or can't be told."""
        pid = self.owner_process(job)
        return pid if pid and is_stopped(pid) else 0

    def owner_lives(self, job: str) -> bool:
        """Ask the kernel."""
        _check_job(job)
        try:
            return self._locks.is_taken(job)
        except OSError as error:
            raise explain_os(error, self._locks.folder) from error

    def jobs(self) -> list[JobRow]:
        """Every job, oldest first."""
        return list(starmap(JobRow, self._read("list_jobs", ())))

    # ---- the hot path

    def alone(self) -> AbstractContextManager[object]:
        """A transaction around others: nobody else writes until it ends, and it ends with what they wrote."""
        return self._writing

    def commit(self, commits: Sequence[Commit]) -> None:
        """Write all or none, with one wait for the disk."""
        held = self._locks.held
        for commit in commits:
            if commit.job not in held:
                raise LostOwnership(f"this process does not own job {commit.job}; nothing was written")
            _check_numbers(commit)
        if not commits:
            return
        self.check()
        with self._writing as cursor:
            for wave in _waves(commits):
                self._write(cursor, wave)
        for commit in commits:
            if commit.row is not None:
                self._charters[commit.job] = (commit.row.request, commit.row.settings)

    def _write(self, cursor: sqlite3.Cursor, commits: Sequence[Commit]) -> None:
        """Write commits of different jobs, one statement for each kind of row that there is."""
        serials, secret = self._serials, self._secret
        group = [(serial := serials[commit.job], serial << _SERIAL_BITS, commit) for commit in commits]
        many = cursor.executemany
        many(
            _ADD_COMMIT,
            [
                (
                    base + number,
                    *columns,
                    sign_head(secret, commit.job, number, commit.transaction.head),
                    serial,
                    commit.epoch,
                )
                for serial, base, commit in group
                for number, *columns in (commit.transaction,)
            ],
        )
        if cursor.rowcount != len(commits):
            lost = [c.job for serial, _, c in group if cursor.execute(_GET_EPOCH, (serial,)).fetchone() != (c.epoch,)]
            raise LostOwnership(f"another owner has taken the job ({_some(lost)}); nothing was written")
        if steps := [_keyed(base, row) for _, base, commit in group for row in commit.steps]:
            many(_ADD_STEP, steps)
        self._write_messages(cursor, group)
        self._write_molecules(many, group)
        self._write_turns(cursor, group)
        if spent := [
            (serial, day, each.turns, each.tokens, each.micros, each.millis)
            for serial, _, commit in group
            for day, each in commit.spent
        ]:
            many(_SPEND, spent)
        self._write_rest(cursor, group)

    @staticmethod
    def _write_messages(cursor: sqlite3.Cursor, group: _Group) -> None:
        if messages := [_keyed(base, row) for _, base, commit in group for row in commit.messages]:
            cursor.executemany(_ADD_MESSAGE, messages)
            delivered = [
                (serial, row.agent, row.thread, row.seq) for serial, _, commit in group for row in commit.messages
            ]
            cursor.executemany(_DELIVER, delivered)
            if cursor.rowcount != len(delivered):
                raise Duplicate(
                    "a message of the commit is not numbered after the last of its recipient; nothing of it was "
                    f"written ({_some(f'{who} on {thread}: {seq}' for _, who, thread, seq in delivered)})"
                )

    @staticmethod
    def _write_molecules(many: Callable[..., object], group: _Group) -> None:
        found = [(serial, slot, body) for serial, _, each in group for slot, body in each.molecules.items()]
        if gone := [(serial, slot) for serial, slot, body in found if body is None]:
            many(_DROP_MOLECULE, gone)
        if kept := [molecule for molecule in found if molecule[2] is not None]:
            many(_SET_MOLECULE, kept)

    @staticmethod
    def _write_turns(cursor: sqlite3.Cursor, group: _Group) -> None:
        if started := [(base + _turn_number(row[0]), *row[1:]) for _, base, commit in group for row in commit.started]:
            cursor.executemany(_ADD_TURN, started)
        if ended := [
            (status, base + _turn_number(turn), epoch)
            for _, base, commit in group
            for turn, epoch, status in commit.ended
        ]:
            cursor.executemany(_END_TURN, ended)
            if cursor.rowcount != len(ended):
                names = (f"{commit.job} {turn}" for _, _, commit in group for turn, _, _ in commit.ended)
                raise BusError(
                    "a turn that the commit ends is not out, or not in that epoch; nothing was written: "
                    f"load the job anew ({_some(names)})"
                )

    def _write_rest(self, cursor: sqlite3.Cursor, group: _Group) -> None:
        """Write what fewer commits have: inputs taken, and a changed row of the listing."""
        if taken := [
            (commit.transaction.number, note, number, commit.job)
            for _, _, commit in group
            for number, note in commit.taken
        ]:
            cursor.executemany(_TAKE_INPUT, taken)
            if cursor.rowcount != len(taken):
                raise BusError(
                    "an input that the commit takes is not the job's, or was taken; nothing was written: "
                    f"read the inputs anew ({_some(f'{job} {number}' for _, _, number, job in taken)})"
                )
        if rows := [(serial, commit.job, row) for serial, _, commit in group if (row := commit.row) is not None]:
            cursor.executemany(_SET_JOB, [(*_state(row), serial) for serial, _, row in rows])
            known = self._charters.get
            if charters := [
                (row.request, row.settings, job) for _, job, row in rows if known(job) != (row.request, row.settings)
            ]:
                cursor.executemany(_SET_CHARTER, charters)

    # ---- inputs

    def put(self, job: str, kind: str, key: str, time: float, by: str, body: str) -> int:
        """Leave an input. It needs no ownership: any process may."""
        with self._writing as cursor:
            if not cursor.execute(_SQL["get_serial"], (job,)).fetchone():
                raise BusError(_no_job(job))
            try:
                signature = sign_input(self._secret, job, kind, key, time, by, body)
                cursor.execute(_SQL["add_input"], (job, kind, key, time, by, body, signature))
            except sqlite3.IntegrityError as error:
                if error.sqlite_errorname not in TAKEN:
                    raise
                raise Duplicate(f"job {job} was given an input of the key {key} before; it counts once") from error
            number = cursor.lastrowid
        return number or 0

    def inputs(self, job: str, *, waiting: bool = True) -> list[InputRow]:
        """Those nobody took yet, or all."""
        return list(starmap(InputRow, self._read("list_waiting" if waiting else "list_inputs", (job,))))

    def authentic(self, row: InputRow) -> bool | None:
        """Whether a process with this bus's key left the input; None where that can't be told any more."""
        key = self.key
        if key is None:
            return None
        if is_signed(key.secret, row):
            return True
        if not row.taken or row.number > key.taken_in:
            return False
        # The record was adopted with it, and its head is sealed since: it was checked then, or could not be.
        return None if row.number <= key.unknown else True

    def unsealed(self, job: str) -> int | None:
        """The job's first transaction that was not written with this bus's key; 0: none; None: it can't be told."""
        if self.key is None:
            return None
        secret = self.key.secret
        for number, head, seal in self._pages("list_seals", lambda *row: row, job, -_REACH - 1):
            if seal != sign_head(secret, job, number, str(head)):
                return int(number)
        return 0

    @property
    def _secret(self) -> bytes:
        if self.key is None:
            raise BusError(
                f"{self.path}: nothing is written to a bus that is not yours; take it in with `parley bus adopt`"
            )
        return self.key.secret

    # ---- reading

    def load(self, job: str) -> Loaded:
        """Read the job as it is now, all of it from one moment."""
        with self._lock:
            try:
                self._connection.execute("BEGIN")
                return self._load(job)
            except sqlite3.Error as error:
                raise explain(error, self.path) from error
            finally:
                with suppress(sqlite3.Error):
                    self._connection.execute("COMMIT")

    def _load(self, job: str) -> Loaded:
        rows, serial = self._read("get_job", (job,)), self._serial(job)
        if not rows or serial is None:
            raise BusError(_no_job(job))
        last = self._read("last_commit", _span(serial))
        return Loaded(
            row=JobRow(*rows[0]),
            molecules=dict(self._read("list_molecules", (serial,))),
            transaction=TransactionRow(*last[0]) if last else None,
            sequences={(agent, thread): seq for agent, thread, seq in self._read("list_sequences", (serial,))},
            turns=tuple(starmap(TurnRow, self._read("list_submitted", _span(serial)))),
            epoch=next((epoch for (epoch,) in self._read("get_epoch", (serial,))), 0),
            spent={day: Spent(*sums) for day, *sums in self._read("list_spent", (serial,))},
        )

    def spent(self, day: str) -> Spent:
        """What all jobs together have used up on a day."""
        return Spent(*self._read("get_spent", (day,))[0])

    def steps(self, job: str, after: int = 0) -> Iterator[StepRow]:
        """The job's steps, in order."""
        return self._pages("list_steps", StepRow, job, after)

    def messages(self, job: str, after: int = 0) -> Iterator[MessageRow]:
        """The job's messages, in order."""
        return self._pages("list_messages", MessageRow, job, after)

    def message(self, job: str, number: int) -> MessageRow:
        """One message."""
        serial = self._serial(job)
        rows = self._read("get_message", (_key(serial, number),)) if serial is not None else []
        if not rows:
            raise BusError(f"job {job} has no message {number}; `parley log` lists those it has")
        return MessageRow(*rows[0])

    def transactions(self, job: str) -> Iterator[TransactionRow]:
        """The job's transactions, in order."""
        return self._pages("list_commits", TransactionRow, job, -_REACH - 1)

    def turns(self, job: str) -> Iterator[TurnRow]:
        """Every turn of the job, in order."""
        serial = self._serial(job)
        return starmap(TurnRow, self._read("list_turns", _span(serial)) if serial is not None else ())

    def check(self) -> None:
        """Refuse to go on where the file is not the one that was opened: no other process reads what is written."""
        refuse_gone(self.path, self._file)

    def changed(self) -> bool:
        """Whether another process has written since the last call."""
        self.check()
        before, self._version = self._version, self._data_version()
        return self._version != before

    def close(self) -> None:
        """Close the file and unlock every job. More than once does no harm."""
        with self._lock:
            self._connection.close()
        self._locks.forget()

    def _data_version(self) -> int:
        with self._lock:
            try:
                return self._get("data_version")
            except sqlite3.Error as error:
                raise explain(error, self.path) from error

    def _read(self, name: str, values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return self._connection.execute(_SQL[name], values).fetchall()
            except REFUSED as error:
                raise explain(error, self.path) from error

    def _serial(self, job: str) -> int | None:
        return next((serial for (serial,) in self._read("get_serial", (job,))), None)

    def _pages(self, name: str, make: Callable[..., Row], job: str, after: int) -> Iterator[Row]:
        """Read on and on from the last number: rows are only ever added, so the pages fit together."""
        serial = self._serial(job)
        if serial is None:
            return
        first, end = _span(serial, after)
        while rows := self._read(name, (first, end, _PAGE_ROWS)):
            yield from starmap(make, rows)
            first = _key(serial, rows[-1][0])


# ---- helpers -------------------------------------------------------------------------------------


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Let whatever goes wrong be a BusError that says what to do."""
    try:
        yield
    except Refused as refused:
        raise BusError(str(refused)) from refused
    except sqlite3.Error as error:
        raise explain(error, path) from error
    except OSError as error:
        raise explain_os(error, path) from error


def _signature(key: Key, row: InputRow) -> str:
    return sign_input(key.secret, row.job, row.kind, row.key, row.time, row.by, row.body)


def _check_home(home: Path, mountinfo: Path) -> None:
    if not home.is_dir():
        raise BusError(f"{home}: there is no such folder; make it, or name another home")
    if kind := network_filesystem(home, mountinfo):
        raise BusError(
            f"{home}: the bus can't lie on a network filesystem ({kind}), whose locks don't hold; "
            "name a home on a local disk"
        )


def _check_job(job: str) -> None:
    if not JOB_ID.fullmatch(job):
        raise BusError(f"{job[:100]!r} can't be a job's id; use letters, digits, dots, dashes and underscores")


def _no_job(job: str) -> str:
    return f"there is no job {job[:100]!r} on this bus; `parley ls` lists those it has"


def _some(names: Iterable[str]) -> str:
    """The first few of many, for an error's one line."""
    return ", ".join(islice(names, 3))


def _state(row: JobRow) -> tuple[Any, ...]:
    """What changes of a job."""
    return (row.decider, row.created, row.updated, row.state, row.visit, row.backtracks,
            row.needs_human, row.held, row.agent)  # fmt: skip


def _key(serial: int, number: int) -> int:
    return (serial << _SERIAL_BITS) + number


def _span(serial: int, after: int = -_REACH - 1) -> tuple[int, int]:
    """Between which keys the rows of a job lie, those after a number."""
    return _key(serial, min(max(after, -_REACH - 1), _REACH)), _key(serial, _REACH)


def _check_numbers(commit: Commit) -> None:
    """See that no number reaches into another job's keys."""
    for rows in ((commit.transaction,), commit.steps, commit.messages):
        for row in rows:
            if not -_REACH <= row[0] < _REACH:
                raise BusError(f"a row of job {commit.job} has a number that the bus can't hold; nothing was written")


def _keyed(base: int, row: StepRow | MessageRow) -> tuple[Any, ...]:
    """A row with its key in the place of its number."""
    columns: tuple[Any, ...] = row
    return (base + row[0],) + columns[1:]  # noqa: RUF005 - some rows are written for every turn: this makes no list


def _turn_number(turn: str) -> int:
    """A turn is called after its number: t17."""
    number = int(turn[1:])
    if turn != f"t{number}" or not 0 <= number < _REACH:
        raise ValueError(f"{turn!r:.40} is no turn")
    return number


def _waves(commits: Sequence[Commit]) -> Iterator[Sequence[Commit]]:
    """Part commits so that no job is twice in one part: what a job does in turn must be written in turn."""
    if len(commits) == 1 or len({commit.job for commit in commits}) == len(commits):
        yield commits
        return
    waves: list[list[Commit]] = []
    seen: dict[str, int] = {}
    for commit in commits:
        place = seen[commit.job] = seen.get(commit.job, -1) + 1
        if place == len(waves):
            waves.append([])
        waves[place].append(commit)
    yield from waves
