"""A store that forwards every call to another: what changes some of them is built on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from parley.bus.rows import Commit, InputRow, JobRow, Loaded, MessageRow, Spent, StepRow, TransactionRow, TurnRow
from parley.bus.store import HomeStore


class ForwardingStore:
    """Forwards to the store of a home."""

    def __init__(self, store: HomeStore) -> None:
        self._store = store

    def create(self, row: JobRow) -> None:
        """Make a job known."""
        self._store.create(row)

    def own(self, job: str) -> int:
        """Become the job's owner."""
        return self._store.own(job)

    def disown(self, job: str) -> None:
        """Let go of a job."""
        self._store.disown(job)

    def owner_lives(self, job: str) -> bool:
        """Whether a living process owns the job."""
        return self._store.owner_lives(job)

    def living(self, jobs: Collection[str]) -> set[str]:
        """Those of some jobs that a living process owns."""
        return self._store.living(jobs)

    def owner_stopped(self, job: str) -> int:
        """The process that owns the job, if a signal has stopped it."""
        return self._store.owner_stopped(job)

    def owner_process(self, job: str) -> int:
        """The process that owns the job."""
        return self._store.owner_process(job)

    def commit(self, commits: Sequence[Commit]) -> None:
        """Write all or none."""
        self._store.commit(commits)

    @property
    def ahead(self) -> int:
        """After how many events a commit is best begun."""
        return self._store.ahead

    def begin_commit(self, commits: Sequence[Commit]) -> None:
        """Begin to write all or none."""
        self._store.begin_commit(commits)

    def alone(self) -> AbstractContextManager[object]:
        """No other process writes while it lasts."""
        return self._store.alone()

    def spent(self, day: str) -> Spent:
        """What all jobs together have used up on a day."""
        return self._store.spent(day)

    def spending(self, since: str) -> list[tuple[str, str, Spent]]:
        """What each job has used up on each day."""
        return self._store.spending(since)

    def load(self, job: str) -> Loaded:
        """The job as it is now."""
        return self._store.load(job)

    def has(self, job: str) -> bool:
        """Whether there is such a job."""
        return self._store.has(job)

    def jobs(self) -> list[JobRow]:
        """Every job."""
        return self._store.jobs()

    def unfinished(self) -> dict[str, bool]:
        """The jobs that have not ended."""
        return self._store.unfinished()

    def versions(self) -> dict[str, tuple[int, int]]:
        """How far each job has come."""
        return self._store.versions()

    def steps(self, job: str, after: int = 0) -> Iterator[StepRow]:
        """The job's steps."""
        return self._store.steps(job, after)

    def messages(self, job: str, after: int = 0) -> Iterator[MessageRow]:
        """The job's messages."""
        return self._store.messages(job, after)

    def message(self, job: str, number: int) -> MessageRow:
        """One message."""
        return self._store.message(job, number)

    def transactions(self, job: str) -> Iterator[TransactionRow]:
        """The job's transactions."""
        return self._store.transactions(job)

    def turns(self, job: str) -> Iterator[TurnRow]:
        """Every turn of the job."""
        return self._store.turns(job)

    def hosts_of(self, job: str) -> Mapping[str, str]:
        """Where the job's turns run."""
        return self._store.hosts_of(job)

    def put(self, job: str, kind: str, key: str, time: float, by: str, body: str) -> int:
        """Leave an input."""
        return self._store.put(job, kind, key, time, by, body)

    def inputs(self, job: str, *, waiting: bool = True) -> list[InputRow]:
        """The job's inputs."""
        return self._store.inputs(job, waiting=waiting)

    def waiting(self, jobs: Collection[str]) -> list[InputRow]:
        """The inputs of some jobs that no transaction has taken yet."""
        return self._store.waiting(jobs)

    def authentic(self, row: InputRow) -> bool | None:
        """Whether a process that has the bus's key left the input."""
        return self._store.authentic(row)

    def unsealed(self, job: str) -> int | None:
        """The job's first transaction that was not written with the bus's key."""
        return self._store.unsealed(job)

    def check(self) -> None:
        """Refuse to go on where the bus is gone."""
        self._store.check()

    def changed(self) -> bool:
        """Whether another process has written."""
        return self._store.changed()

    def size(self) -> int:
        """How many bytes it takes."""
        return self._store.size()

    def call_on_notice(self, call: Callable[[], None]) -> None:
        """Call this when another process has written."""
        self._store.call_on_notice(call)

    def wait(self, seconds: float) -> None:
        """Wait until another process may have written."""
        self._store.wait(seconds)

    def close(self) -> None:
        """Let go of everything."""
        self._store.close()
