"""How long it takes until others go on, where a host or the coordinator is killed in the middle of a turn."""

from __future__ import annotations

import os
import signal
import subprocess
import time

from bench.one_machine import PARLEY, Cluster, wait_until

SLEEP = 2.0  # of the turns meanwhile
TURNS = 8
THREADS = 4  # of a coordinator that is ready: its own, one for its lease, one for Temporal, one for the board
_BEGUN = "SELECT job, turn, host, epoch FROM {board}.board_orders WHERE state = 'begun' ORDER BY job LIMIT 1"
_SINCE = (
    "SELECT 1 FROM watched.moments m WHERE job = %s AND what = 'begun/' AND epoch >= %s "
    "AND pg_xact_commit_timestamp(xmin) > to_timestamp(%s)"
)


def host_killed(made: Cluster) -> float:
    """Seconds from the death of the host that a job's turn runs on until the job's next turn begins on another."""
    made.add_jobs(1, TURNS, SLEEP)
    with made.coordinator():
        job, _, host, epoch = wait_until(lambda: next(iter(made.rows(_BEGUN)), None))
        process = made.workers.pop(host)
        process.kill()
        process.wait()
        killed = time.time()
        wait_until(lambda: made.rows(_SINCE, job, epoch, killed))
        taken = time.time() - killed
        _finish(made)
    return taken


def coordinator_killed(made: Cluster) -> float:
    """Seconds from the death of a job's coordinator until the job's next turn begins for another that waited."""
    made.add_jobs(1, TURNS, SLEEP)
    with made.coordinator() as coordinator:
        job, _, _, epoch = wait_until(lambda: next(iter(made.rows(_BEGUN)), None))
        with (made.base / "next.log").open("ab") as log:
            standing_by = subprocess.Popen(
                [PARLEY, "resume", job, "--json"], cwd=made.folder, env=made.environment("coordinator"),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip
        try:
            wait_until(lambda: _listens(standing_by.pid))
            coordinator.kill()
            coordinator.wait()
            killed = time.time()
            wait_until(lambda: made.rows(_SINCE, job, epoch + 1, killed))
            taken = time.time() - killed
            _finish(made)
        finally:
            standing_by.send_signal(signal.SIGTERM)
            standing_by.wait()
    return taken


def _listens(pid: int) -> bool:
    """Whether a process has made its engine: that listens to the board from a thread of its own."""
    return len(os.listdir(f"/proc/{pid}/task")) >= THREADS  # noqa: PTH208 - names alone


def _finish(made: Cluster) -> None:
    """Let the jobs end: what comes next begins on an idle cluster."""
    live = "SELECT 1 FROM {bus}.jobs WHERE state NOT IN ('DONE', 'FAILURE', 'WITHDRAWN')"
    wait_until(lambda: not made.rows(live))
