"""The contract of a bus: what the engine asks of it, whichever store keeps the rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from parley.bus.key_files import Key
from parley.bus.rows import Commit, InputRow, JobRow, Loaded, MessageRow, Spent, StepRow, TransactionRow, TurnRow


class Store(Protocol):
    """A bus. Every write is one transaction, durable when the call returns."""

    def create(self, row: JobRow) -> None:
        """Make a job known, without any step yet. An id in use is a Duplicate."""

    def own(self, job: str) -> int:
        """Become the job's owner for as long as this process lives; the new epoch. Owned if another lives."""

    def disown(self, job: str) -> None:
        """Let go of a job."""

    def owner_lives(self, job: str) -> bool:
        """Whether some living process, this one included, owns the job."""

    def owner_stopped(self, job: str) -> int:
        """The process that owns the job, if a signal has stopped it; 0 if that is not so."""

    def commit(self, commits: Sequence[Commit]) -> None:
        """Write all or none, after what was begun. LostOwnership if an epoch is no longer the job's."""

    @property
    def ahead(self) -> int:
        """After how many events a commit is best begun, and more dealt with; 0: its caller waits for each."""

    def begin_commit(self, commits: Sequence[Commit]) -> None:
        """Begin to write all or none. The next call waits for the end of that, and raises what `commit` would have."""

    def alone(self) -> AbstractContextManager[object]:
        """No other process writes while it lasts: what is read inside still holds for a commit inside."""

    def spent(self, day: str) -> Spent:
        """What all jobs together have used up on a day."""

    def load(self, job: str) -> Loaded:
        """The job's current molecules and counters, in time that does not depend on its length."""

    def jobs(self) -> list[JobRow]:
        """Every job, oldest first."""

    def steps(self, job: str, after: int = 0) -> Iterator[StepRow]:
        """The job's steps, in order."""

    def messages(self, job: str, after: int = 0) -> Iterator[MessageRow]:
        """The job's messages, in order."""

    def message(self, job: str, number: int) -> MessageRow:
        """One message."""

    def transactions(self, job: str) -> Iterator[TransactionRow]:
        """The job's transactions, in order."""

    def turns(self, job: str) -> Iterator[TurnRow]:
        """Every turn of the job, in order."""

    def hosts_of(self, job: str) -> Mapping[str, str]:
        """Where the job's turns run, or ran last, by turn: of those that were given to other hosts and are not over."""

    def put(self, job: str, kind: str, key: str, time: float, by: str, body: str) -> int:
        """Leave an input for the job's owner; its number. Any process may. Duplicate if the key was used."""

    def inputs(self, job: str, *, waiting: bool = True) -> list[InputRow]:
        """The job's inputs, in order: those that no transaction has taken yet, or all."""

    def waiting(self, jobs: Collection[str]) -> list[InputRow]:
        """The inputs of some jobs that no transaction has taken yet, those of each job in order."""

    def authentic(self, row: InputRow) -> bool | None:
        """Whether a process that has the bus's key left the input; None where that can't be told."""

    def unsealed(self, job: str) -> int | None:
        """The job's first transaction that was not written with the bus's key; 0: none; None: it can't be told."""

    def changed(self) -> bool:
        """Whether another process has written since the last call: cheap enough to ask often."""

    def wait(self, seconds: float) -> None:
        """Wait until another process may have written: until it is told so, or for this long."""

    def close(self) -> None:
        """Let go of everything."""


class HomeStore(Store, Protocol):
    """The bus of a home, with what faces ask of it besides."""

    def call_on_notice(self, call: Callable[[], None]) -> None:
        """Call this, in any thread, when it is told that another process has written. A file tells nothing."""

    def check(self) -> None:
        """Refuse to go on where the bus is no longer the one that was opened."""

    def owner_process(self, job: str) -> int:
        """The process that owns the job, if it is one of this machine; 0 if none does, or it can't be told."""

    def living(self, jobs: Collection[str]) -> set[str]:
        """Those of some jobs that a living process owns, as far as that can be told of each."""

    def has(self, job: str) -> bool:
        """Whether there is such a job; it is not read."""

    def unfinished(self) -> dict[str, bool]:
        """The jobs that have not ended, oldest first, and whether each is held. No job is read."""

    def versions(self) -> dict[str, tuple[int, int]]:
        """How far each job has come: the numbers of its last transaction and its last input. No job is read."""

    def spending(self, since: str) -> list[tuple[str, str, Spent]]:
        """What each job has used up on each day, from a day on."""

    def size(self) -> int:
        """How many bytes it takes."""


class TableStore(HomeStore, Protocol):
    """The bus of a home, with what is known of its kind and its tables: for those who move it."""

    key: Key | None

    @property
    def kind(self) -> str:
        """What keeps it: `sqlite` or `postgresql`."""

    @property
    def name(self) -> str:
        """What it is called where it is kept."""

    @property
    def schema_version(self) -> int:
        """The version of its schema."""

    def waits_for_disk(self) -> bool:
        """Whether a commit is on a disk when it is answered, as far as can be told."""

    def table(self, name: str) -> Iterator[tuple[Any, ...]]:
        """The rows of a table, with the columns of bus_tables.TABLES."""
