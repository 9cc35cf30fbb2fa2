"""What the parts of a cluster take bare, in the same run: the round trips that a turn on another host is made of."""

from __future__ import annotations

import asyncio
import secrets
import statistics
import subprocess
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import psycopg
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from bench.one_machine import Cluster

TIMES = 20


@activity.defn
async def nothing() -> str:
    """An activity that does nothing."""
    return ""


@workflow.defn
class Bare:
    """A workflow of one activity."""

    @workflow.run
    async def run(self) -> str:
        """Have it done."""
        return await workflow.execute_activity(nothing, start_to_close_timeout=timedelta(seconds=60))


def measure(made: Cluster) -> dict[str, float]:
    """Medians, in ms."""
    return {
        "a workflow with one activity, on Temporal": asyncio.run(_temporal(made.temporal.address)),
        "git push and git fetch of one small commit": _git(made.base / "floor", made.remote),
        "a row written and committed, on PostgreSQL": _postgres(made.server.url),
    }


def _median_ms(act: Callable[[], object]) -> float:
    act()  # the first opens files and connections
    times = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        act()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e3


async def _temporal(address: str) -> float:
    client = await Client.connect(address)
    times = []
    async with Worker(
        client, task_queue="bare", workflows=[Bare], activities=[nothing], workflow_runner=UnsandboxedWorkflowRunner()
    ):
        for _ in range(TIMES + 1):
            begun = time.perf_counter()
            await client.execute_workflow(Bare.run, id=f"bare-{secrets.token_hex(8)}", task_queue="bare")
            times.append(time.perf_counter() - begun)
    return statistics.median(times[1:]) * 1e3


def _git(folder: Path, remote: Path) -> float:
    here, there = folder / "here", folder / "there"
    for each in (here, there):
        each.mkdir(parents=True)
        _run(each, "init", "-q")

    def round_trip() -> None:
        (here / "a.txt").write_text(secrets.token_hex(), encoding="ascii")
        _run(here, "add", "a.txt")
        _run(here, "-c", "user.name=u", "-c", "user.email=u@example.org", "commit", "-qm", "more")
        begun = time.perf_counter()
        _run(here, "push", "-q", str(remote), "HEAD:refs/heads/floor")
        _run(there, "fetch", "-q", str(remote), "refs/heads/floor")
        times.append(time.perf_counter() - begun)

    times: list[float] = []
    for _ in range(TIMES + 1):
        round_trip()
    return statistics.median(times[1:]) * 1e3


def _run(folder: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True)


def _postgres(url: str) -> float:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE watched.floor (a text)")
        return _median_ms(lambda: connection.execute("INSERT INTO watched.floor VALUES ('a')"))
