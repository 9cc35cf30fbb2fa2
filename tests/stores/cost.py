"""What a commit costs: `python -m tests.stores.cost [FOLDER]`. The folder is on the disk to be measured.

A turn is a handful of rows: a transaction, four steps, a message of 1 KiB, four molecules, a turn begun and
one ended, the listing's row. Of the processor's time, Python's own part is what is left without SQLite.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from parley.bus.memory_store import MemoryBus, MemoryStore
from parley.bus.rows import Commit
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.bus.sqlite.sqlite_writes import place, write
from parley.bus.store import Store
from tests.stores.rows import change, commit, end, job, message, step, turn

BODY = "x" * 1024
SETTINGS = "y" * 8192  # roles and playbook
ROWS_A_TURN = 13


class NoCursor:
    """Takes rows and does nothing with them."""

    rowcount = 0

    def executemany(self, sql: str, rows: Sequence[object]) -> None:
        self.rowcount = len(rows)


def a_turn(name: str, number: int) -> Commit:
    place = {"sender": "lead", "thread": "dispatch:12345678"}
    return commit(
        number,
        name=name,
        steps=[step(4 * number + n, number, consumed="c" * 100, produced="p" * 100) for n in range(4)],
        messages=[message(number, number, key=f"{number:08d}-key", body=BODY, **place)],
        molecules={
            "idle": "i" * 60,
            "mail": "m" * 60,
            f"send:{number}": "s" * 60,
            f"send:{number - 1}": None,
        },
        started=[turn(f"t{number}")],
        ended=[end(f"t{number - 1}", 1, "ended")] if number > 1 else [],
        progress=change(updated=float(number)),
    )


def measure(store: Store, jobs: int, rounds: int) -> tuple[float, float]:
    """Commit that many rounds of a turn of each job; the median time of a round, and the processor's part."""
    names = [f"job{number:06d}" for number in range(jobs)]
    for name in names:
        store.create(job(name, settings=SETTINGS))
        store.own(name)
    spent, busy = [], []
    for number in range(1, rounds + 1):
        group = [a_turn(name, number) for name in names]
        before, before_busy = time.perf_counter(), time.process_time()
        store.commit(group)
        spent.append(time.perf_counter() - before)
        busy.append(time.process_time() - before_busy)
    return statistics.median(spent), statistics.median(busy)


def python_part(home: Path, jobs: int) -> float:
    """Time what commit does besides SQLite's own work."""
    store = SqliteStore(home)
    names = [f"job{number:06d}" for number in range(jobs)]
    for name in names:
        store.create(job(name))
        store.own(name)
    group = [place(a_turn(name, 2), store._serials[name]) for name in names]
    rounds = 20_000 // jobs
    before = time.process_time()
    for _ in range(rounds):
        write(NoCursor(), group, store._secret)  # type: ignore[arg-type] # it only counts
    spent = (time.process_time() - before) / rounds
    store.close()
    return spent


def report(name: str, jobs: int, wall: float, busy: float) -> None:
    sys.stdout.write(
        f"{name:8} {jobs:5} jobs a commit: {wall * 1e6:9.1f} us, processor {busy * 1e6:9.1f} us: "
        f"{busy / jobs * 1e6:6.1f} us a turn, {busy / jobs / ROWS_A_TURN * 1e6:5.2f} us a row\n"
    )


def main() -> None:
    folder = sys.argv[1] if len(sys.argv) > 1 else None
    for jobs, rounds in ((1, 2000), (1000, 30)):
        report("memory", jobs, *measure(MemoryStore(MemoryBus()), jobs, rounds))
        with tempfile.TemporaryDirectory(dir=folder) as home:
            spent = python_part(Path(home), jobs)
        report("python", jobs, spent, spent)
        for durability in ("full", "normal"):
            with tempfile.TemporaryDirectory(dir=folder) as home:
                store = SqliteStore(Path(home), durability=durability)
                report(durability, jobs, *measure(store, jobs, rounds))
                store.close()


if __name__ == "__main__":
    main()
