# mypy: disable-error-code="import-not-found,untyped-decorator"
"""DBOS on SQLite, in the two forms that a durable conversation can take there.

In `dbos` each agent is a workflow, and a turn is a `recv` and a `send`: messages between two parties, as in a
conversation, each delivery and each turn recorded. SQLite cannot notify, so DBOS looks for every waiting
workflow's message by itself, one query each, at an interval; a millisecond for each conversation was the
best of those tried, since a shorter one keeps the listener busy and the agents waiting.

In `dbos_steps` a conversation is one workflow and a turn is a step of it, whose result of 1 KiB is recorded:
less than a conversation, for neither party can be woken by anyone else, but the fastest durable form.

The database is in WAL mode with SQLite's own ``synchronous=FULL``, and the pool holds a single connection:
writers then queue in the process, which is faster than colliding on SQLite's lock.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from importlib.metadata import version
from threading import Barrier

from dbos import DBOS, SetWorkflowID

from bench.peers.harness import PAYLOAD, Form, Run, main

_WAIT = 600.0
"""Seconds that a receiver waits at most: longer than any measurement."""


@contextmanager
def _launched(run: Run) -> Iterator[None]:
    """Launch DBOS on a fresh database; workflows are registered before."""
    path = run.where / "dbos.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    DBOS(
        config={
            "name": "bench-peer",
            "system_database_url": f"sqlite:///{path}",
            "db_engine_kwargs": {"pool_size": 1, "max_overflow": 0, "pool_timeout": _WAIT},
            "notification_listener_polling_interval_sec": run.conversations / 1000,
            "log_level": "CRITICAL",
        }
    )
    DBOS.launch()
    try:
        yield
    finally:
        DBOS.destroy()


def _drive_messages(run: Run) -> None:
    meter = run.meter
    begin, enough = asyncio.Event(), asyncio.Event()

    @DBOS.workflow()
    async def ask(conversation: int) -> None:
        await begin.wait()
        while meter.going:
            await DBOS.send_async(f"b{conversation}", PAYLOAD)
            await DBOS.recv_async(timeout_seconds=_WAIT)
            meter.mark()
        enough.set()

    @DBOS.workflow()
    async def answer(conversation: int) -> None:
        await begin.wait()
        while True:
            await DBOS.recv_async(timeout_seconds=_WAIT)
            await DBOS.send_async(f"a{conversation}", PAYLOAD)

    async def talk() -> None:
        for conversation in range(run.conversations):
            for agent, workflow in (("b", answer), ("a", ask)):
                with SetWorkflowID(f"{agent}{conversation}"):
                    await DBOS.start_workflow_async(workflow, conversation)
        begin.set()
        await enough.wait()

    with _launched(run):
        asyncio.run(talk())


def _drive_steps(run: Run) -> None:
    meter = run.meter
    begin = Barrier(run.conversations)

    @DBOS.step()
    def say(_: str) -> str:
        return PAYLOAD

    @DBOS.workflow()
    def talk(_: int) -> None:
        begin.wait()
        while meter.going:
            say(say(PAYLOAD))
            meter.mark()

    with _launched(run), ThreadPoolExecutor(run.conversations) as threads:
        list(threads.map(talk, range(run.conversations)))


if __name__ == "__main__":
    main(
        version("dbos"),
        [
            Form(
                peer="dbos",
                durable=True,
                notes="SQLite, WAL, synchronous=FULL; an agent a workflow, a turn a recv and a send",
                drive=_drive_messages,
            ),
            Form(
                peer="dbos_steps",
                durable=True,
                notes="SQLite, WAL, synchronous=FULL; a conversation a workflow, a turn a step",
                drive=_drive_steps,
            ),
        ],
    )
