"""One day's budget, many jobs, several processes at once on one bus."""

import threading
from pathlib import Path
from random import Random

import pytest

from parley.assembly import make_engine
from parley.audit.audit import audit
from parley.base.json_codec import encode
from parley.bus.rows import JobRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.engine.values.job_roles import charter_of
from parley.engine.world import World
from parley.protocol.molecules import Hold
from simulator.agents import SimTurns
from simulator.disk import SimDisk, SimFiles, SimWorkspace
from simulator.world import BEGINNING, Fuse, Schedule, SimClock, SimIds
from tests.budgets.test_jobs import budget, fan
from tests.engine.job_harness import JobHarness


class Process:
    """An engine of its own, with its own connection to the bus that all share."""

    def __init__(self, home: Path, jobs: list[str], limits: dict[str, float]) -> None:
        self.jobs = jobs
        self.limits = limits
        self.store = SqliteStore(home, durability="normal")
        self.outside = SqliteStore(home, durability="normal")
        clock, disk, fuse = SimClock(), SimDisk(), Fuse(None, Random(0))
        turns = SimTurns(Schedule(clock), disk, Random(1), fuse, {}, self.outside)  # type: ignore[arg-type] # it only loads
        self.engine = make_engine(
            World(
                store=self.store,
                turns=turns,
                workspace=SimWorkspace(disk, fuse),
                files=SimFiles(disk, fuse),
                clock=clock,
                ids=SimIds(),
            )
        )

    def run(self) -> None:
        settings = JobHarness(fan(3), **budget("day", **self.limits)).settings
        for job in self.jobs:
            row = JobRow(
                job=job,
                request="do it",
                decider="ada",
                created=BEGINNING,
                updated=BEGINNING,
                agent="scripted",
                settings=encode(settings),
            )
            self.engine.start(row, charter_of(row))
        idle = 0
        while idle < 3:
            idle = 0 if self.engine.crank(5.0) else idle + 1

    def close(self) -> None:
        self.store.close()
        self.outside.close()


@pytest.mark.parametrize("cap", [1, 7, 20, 45])
def test_processes_at_once_do_not_exceed_a_days_turns_by_one(tmp_path: Path, cap: int) -> None:
    processes = [Process(tmp_path, [f"p{number}-a", f"p{number}-b"], {"turns": cap}) for number in range(3)]
    threads = [threading.Thread(target=process.run) for process in processes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = SqliteStore(tmp_path)
    jobs = [job for process in processes for job in process.jobs]
    started = {job: len(list(store.turns(job))) for job in jobs}
    held = [job for process in processes for job, live in process.engine.jobs.items() if live.soup.of(Hold)]
    (day,) = {day for job in jobs for day in store.load(job).spent or {}}

    assert sum(started.values()) == cap == store.spent(day).turns
    assert len(held) == len([job for job in jobs if store.load(job).row.state != "DONE"])
    assert all(audit(store, job, None).ok for job in jobs)
    store.close()
    for process in processes:
        process.close()


def test_a_job_without_a_days_budget_is_counted_for_those_that_have_one(tmp_path: Path) -> None:
    free, bound = Process(tmp_path, ["free"], {}), Process(tmp_path, ["bound"], {"turns": 30})
    free.run()
    used = len(list(free.store.turns("free")))
    bound.run()

    assert used > 10
    assert len(list(free.store.turns("bound"))) == 30 - used
    for process in (free, bound):
        process.close()
