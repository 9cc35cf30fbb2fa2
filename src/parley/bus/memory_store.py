"""The bus in memory, for tests and the simulator: what the SQLite bus does, without a disk.

A `MemoryBus` is what the disk would hold; a `MemoryStore` is one process's view of it. Processes die (`kill`)
and lose their locks (`steal`) on demand.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from operator import attrgetter
from typing import Generic, Protocol, TypeVar

from msgspec.structs import asdict, replace

from parley.bus.rows import (
    BusError,
    Commit,
    Duplicate,
    EndedTurn,
    InputRow,
    JobProgress,
    JobRow,
    Loaded,
    LostOwnership,
    MessageRow,
    NoMessage,
    Owned,
    Spent,
    StepRow,
    TakenInput,
    TransactionRow,
    TurnRow,
    check_job,
    no_job,
)
from parley.bus.signatures import LeftInput, is_signed, sign_input
from parley.bus.slots import check_numbers, turn_number


class _Numbered(Protocol):
    @property
    def number(self) -> int: ...


Row = TypeVar("Row", bound=_Numbered)
Undo = list[Callable[[], object]]
_number = attrgetter("number")


class _Log(Generic[Row]):
    """Rows by their numbers, which come in order but for mistakes. Rows are added and never changed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[Row] = []

    def add(self, row: Row, undo: Undo) -> None:
        if not self.rows or self.rows[-1].number < row.number:
            self.rows.append(row)
        else:
            if self.find(row.number) is not None:
                raise Duplicate(f"the bus has this already; nothing of it was written ({self.name} {row.number})")
            insort(self.rows, row, key=_number)
        undo.append(lambda: self.rows.remove(row))

    def find(self, number: int) -> Row | None:
        place = bisect_left(self.rows, number, key=_number)
        return self.rows[place] if place < len(self.rows) and self.rows[place].number == number else None

    def after(self, number: int) -> list[Row]:
        return self.rows[bisect_right(self.rows, number, key=_number) :]


class _Job:
    """What the bus has of one job."""

    def __init__(self, row: JobRow) -> None:
        self.row = row
        self.epoch = 0
        self.owner: str | None = None
        self.transactions = _Log[TransactionRow]("transaction")
        self.steps = _Log[StepRow]("step")
        self.messages = _Log[MessageRow]("message")
        self.sequences: dict[tuple[str, str], int] = {}
        self.keys: set[str] = set()
        self.molecules: dict[str, str] = {}
        self.turns: dict[int, TurnRow] = {}  # by their numbers
        self.out: set[int] = set()  # the turns still submitted
        self.inputs: dict[int, InputRow] = {}
        self.waiting: dict[int, None] = {}
        self.input_keys: set[str] = set()
        self.spent: dict[str, Spent] = {}  # by day


class MemoryBus:
    """What all stores of a test share."""

    def __init__(self, secret: bytes | None = None) -> None:
        self.lock = threading.RLock()
        self.jobs: dict[str, _Job] = {}
        self.writes = 0
        self.inputs = 0
        self.secret = secret or os.urandom(32)  # given where a run must come out the same again

    def kill(self, owner: str) -> None:
        """Let a process die: the kernel frees its locks, and the bus keeps what was committed."""
        with self.lock:
            for job in self.jobs.values():
                if job.owner == owner:
                    job.owner = None

    def steal(self, job: str, by: str = "thief") -> int:
        """Take the job from an owner that does not notice: its lock is lost, the epoch counted up."""
        with self.lock:
            found = self.find(job)
            found.owner = by
            found.epoch += 1
            self.writes += 1
            return found.epoch

    def find(self, job: str) -> _Job:
        """The job, which has to be there."""
        try:
            return self.jobs[job]
        except KeyError:
            raise no_job(job) from None


class MemoryStore:
    """One process's view of a bus."""

    def __init__(self, bus: MemoryBus, owner: str = "one") -> None:
        self.bus = bus
        self.owner = owner
        self._closed = False
        self._own_writes = 0
        self._seen = bus.writes

    # ---- jobs and owners

    def create(self, row: JobRow) -> None:
        """Make a job known, with no owner yet."""
        check_job(row.job)
        with (bus := self._open()).lock:
            if row.job in bus.jobs:
                raise Duplicate(f"there is a job {row.job} already; choose another id")
            bus.jobs[row.job] = _Job(row)
            self._wrote()

    def own(self, job: str) -> int:
        """Become the owner, unless there is one."""
        check_job(job)
        with (bus := self._open()).lock:
            found = bus.find(job)
            if found.owner is not None:
                raise Owned(f"job {job} has a living owner ({found.owner}); end it, or ask it through the bus")
            found.owner = self.owner
            found.epoch += 1
            self._wrote()
            return found.epoch

    def disown(self, job: str) -> None:
        """Let go of the job, if it is this process's."""
        with self.bus.lock:
            found = self.bus.jobs.get(job)
            if found is not None and found.owner == self.owner:
                found.owner = None

    def owner_lives(self, job: str) -> bool:
        """Whether a process owns it."""
        check_job(job)
        with (bus := self._open()).lock:
            return job in bus.jobs and bus.jobs[job].owner is not None

    def owner_stopped(self, job: str) -> int:
        """No signal can stop what runs in this very process alone."""
        check_job(job)
        return 0

    def jobs(self) -> list[JobRow]:
        """Every job, oldest first."""
        with (bus := self._open()).lock:
            return sorted((job.row for job in bus.jobs.values()), key=attrgetter("created", "job"))

    # ---- commits

    def alone(self) -> AbstractContextManager[object]:
        """No other process writes while it lasts."""
        return self._open().lock

    def commit(self, commits: Sequence[Commit]) -> None:
        """Write all or none."""
        with (bus := self._open()).lock:
            for commit in commits:
                if commit.job not in bus.jobs or bus.jobs[commit.job].owner != self.owner:
                    raise LostOwnership(f"this process does not own job {commit.job}; nothing was written")
            undo: Undo = []
            try:
                for commit in commits:
                    _write(bus.jobs[commit.job], commit, undo)
            except BaseException:
                for step in reversed(undo):
                    step()
                raise
            if commits:
                self._wrote()

    @property
    def ahead(self) -> int:
        """There is no one else to write."""
        return 0

    def begin_commit(self, commits: Sequence[Commit]) -> None:
        """Write all or none, at once."""
        self.commit(commits)

    # ---- inputs

    def put(self, job: str, kind: str, key: str, time: float, by: str, body: str) -> int:
        """Leave an input. It needs no ownership: any process may."""
        with (bus := self._open()).lock:
            found = bus.find(job)
            if key in found.input_keys:
                raise Duplicate(f"job {job} was given an input of the key {key} before; it counts once")
            bus.inputs += 1
            found.inputs[bus.inputs] = InputRow(
                number=bus.inputs,
                job=job,
                kind=kind,
                key=key,
                time=time,
                by=by,
                body=body,
                signature=sign_input(bus.secret, LeftInput(job=job, kind=kind, key=key, time=time, by=by, body=body)),
            )
            found.waiting[bus.inputs] = None
            found.input_keys.add(key)
            self._wrote()
            return bus.inputs

    def inputs(self, job: str, *, waiting: bool = True) -> list[InputRow]:
        """Those that no transaction has taken yet, or all."""
        with (bus := self._open()).lock:
            found = bus.jobs.get(job)
            if found is None:
                return []
            return [found.inputs[number] for number in sorted(found.waiting if waiting else found.inputs)]

    def waiting(self, jobs: Collection[str]) -> list[InputRow]:
        """The inputs of some jobs that no transaction has taken yet."""
        return [row for job in jobs for row in self.inputs(job)]

    def authentic(self, row: InputRow) -> bool | None:
        """Whether it was left by `put`."""
        return is_signed(self._open().secret, row, row.signature)

    def unsealed(self, job: str) -> int | None:
        """No other hand reaches what is in memory."""
        self._open().find(job)
        return 0

    # ---- reading

    def load(self, job: str) -> Loaded:
        """The job as it is now."""
        with (bus := self._open()).lock:
            found = bus.find(job)
            return Loaded(
                row=found.row,
                molecules=dict(sorted(found.molecules.items())),
                transaction=found.transactions.rows[-1] if found.transactions.rows else None,
                sequences=dict(found.sequences),
                turns=tuple(found.turns[number] for number in sorted(found.out)),
                epoch=found.epoch,
                spent=dict(found.spent),
            )

    def spent(self, day: str) -> Spent:
        """What all jobs together have used up on a day."""
        with (bus := self._open()).lock:
            total = Spent()
            for job in bus.jobs.values():
                total = _sum(total, job.spent.get(day, Spent()))
            return total

    def steps(self, job: str, after: int = 0) -> Iterator[StepRow]:
        """The job's steps, in order."""
        with (bus := self._open()).lock:
            return iter(bus.jobs[job].steps.after(after) if job in bus.jobs else ())

    def messages(self, job: str, after: int = 0) -> Iterator[MessageRow]:
        """The job's messages, in order."""
        with (bus := self._open()).lock:
            return iter(bus.jobs[job].messages.after(after) if job in bus.jobs else ())

    def message(self, job: str, number: int) -> MessageRow:
        """One message."""
        with (bus := self._open()).lock:
            row = bus.jobs[job].messages.find(number) if job in bus.jobs else None
            if row is None:
                raise NoMessage(f"job {job} has no message {number}; `parley log` lists those it has")
            return row

    def transactions(self, job: str) -> Iterator[TransactionRow]:
        """The job's transactions, in order."""
        with (bus := self._open()).lock:
            return iter(list(bus.jobs[job].transactions.rows) if job in bus.jobs else ())

    def turns(self, job: str) -> Iterator[TurnRow]:
        """Every turn of the job, in order."""
        with (bus := self._open()).lock:
            turns = bus.jobs[job].turns if job in bus.jobs else {}
            return iter([turns[number] for number in sorted(turns)])

    def hosts_of(self, job: str) -> Mapping[str, str]:
        """Where the job's turns run: none runs on another host."""
        return {}

    def changed(self) -> bool:
        """Whether another process has written since the last call."""
        with (bus := self._open()).lock:
            before, self._seen = self._seen, bus.writes - self._own_writes
            return self._seen != before

    def wait(self, seconds: float) -> None:
        """Wait this long."""
        time.sleep(seconds)

    def close(self) -> None:
        """Let go of every job. More than once does no harm."""
        if not self._closed:
            self._closed = True
            self.bus.kill(self.owner)

    def _open(self) -> MemoryBus:
        if self._closed:
            raise BusError("this store was closed; open another")
        return self.bus

    def _wrote(self) -> None:
        self.bus.writes += 1
        self._own_writes += 1


# ---- writing one commit: each step of it can be undone -------------------------------------------


def _write(job: _Job, commit: Commit, undo: Undo) -> None:
    if job.epoch != commit.epoch:
        raise LostOwnership(f"another owner has taken the job ({commit.job}); nothing was written")
    check_numbers(commit)
    job.transactions.add(commit.transaction, undo)
    for step in commit.steps:
        job.steps.add(step, undo)
    for message in commit.messages:
        _deliver(job, message, undo)
    if commit.molecules:
        _react(job, commit, undo)
    for turn in commit.started:
        _start(job, turn, undo)
    for end in commit.ended:
        _end(job, commit.job, end, undo)
    for taken in commit.taken:
        _take(job, commit, taken, undo)
    for day, more in commit.spent.items():
        _spend(job, day, more, undo)
    if commit.progress is not None:
        _list(job, commit.progress, undo)


def _deliver(job: _Job, row: MessageRow, undo: Undo) -> None:
    recipient = (row.agent, row.thread)
    last = job.sequences.get(recipient)
    if row.key in job.keys or (last is not None and row.seq <= last):
        raise Duplicate(
            f"the bus has this already; nothing of it was written (message {row.key}, {recipient}: {row.seq})"
        )
    job.messages.add(row, undo)
    job.keys.add(row.key)
    job.sequences[recipient] = row.seq

    def back() -> None:
        job.keys.remove(row.key)
        if last is None:
            del job.sequences[recipient]
        else:
            job.sequences[recipient] = last

    undo.append(back)


def _react(job: _Job, commit: Commit, undo: Undo) -> None:
    molecules = job.molecules
    before = {slot: molecules.get(slot) for slot in commit.molecules}
    undo.append(lambda: _put(molecules, before))
    _put(molecules, commit.molecules)


def _put(molecules: dict[str, str], changes: Mapping[str, str | None]) -> None:
    for slot, body in changes.items():
        if body is None:
            molecules.pop(slot, None)
        else:
            molecules[slot] = body


def _start(job: _Job, row: TurnRow, undo: Undo) -> None:
    number = turn_number(row.turn)
    if number in job.turns:
        raise Duplicate(f"the bus has this already; nothing of it was written (turn {row.turn})")
    job.turns[number] = row
    undo.append(lambda: job.turns.pop(number))
    if row.status == "submitted":
        job.out.add(number)
        undo.append(lambda: job.out.discard(number))


def _end(job: _Job, name: str, end: EndedTurn, undo: Undo) -> None:
    number = turn_number(end.turn)
    row = job.turns.get(number)
    if row is None or row.status != "submitted" or row.epoch != end.epoch:
        raise BusError(
            "a turn that the commit ends is not out, or not in that epoch; nothing was written: "
            f"load the job anew ({name} {end.turn})"
        )
    job.turns[number] = replace(row, status=end.status)
    if end.status != "submitted":
        job.out.remove(number)

    def back() -> None:
        job.turns[number] = row
        job.out.add(number)

    undo.append(back)


def _take(job: _Job, commit: Commit, taken: TakenInput, undo: Undo) -> None:
    number = taken.number
    row = job.inputs.get(number)
    if row is None or row.taken:
        raise BusError(
            "an input that the commit takes is not the job's, or was taken; nothing was written: "
            f"read the inputs anew ({commit.job} {number})"
        )
    job.inputs[number] = replace(row, taken=commit.transaction.number, note=taken.note)
    job.waiting.pop(number)

    def back() -> None:
        job.inputs[number] = row
        job.waiting[number] = None

    undo.append(back)


def _spend(job: _Job, day: str, more: Spent, undo: Undo) -> None:
    before = job.spent.get(day)
    job.spent[day] = _sum(before or Spent(), more)

    def back() -> None:
        if before is None:
            del job.spent[day]
        else:
            job.spent[day] = before

    undo.append(back)


def _sum(one: Spent, other: Spent) -> Spent:
    return Spent(
        turns=one.turns + other.turns,
        tokens=one.tokens + other.tokens,
        micros=one.micros + other.micros,
        millis=one.millis + other.millis,
    )


def _list(job: _Job, progress: JobProgress, undo: Undo) -> None:
    before, job.row = job.row, replace(job.row, **asdict(progress))

    def back() -> None:
        job.row = before

    undo.append(back)
