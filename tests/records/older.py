"""A record as an earlier Parley left it: transactions without digests, on a bus of the second schema."""

import re
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from parley.adapters import sqlite
from parley.engine.chain import link
from parley.ports import MessageRow, StepRow, Store, TransactionRow


def dayless(step: StepRow) -> StepRow:
    """A step as it was before a turn's day was counted."""
    return step._replace(extra=re.sub(r',"day":"[^"]*"', "", step.extra))


def kindless(message: MessageRow) -> MessageRow:
    """A message as it was before it said what it is to its recipient."""
    return message._replace(kind="")


def undigested(
    store: Store,
    as_it_was: Callable[[StepRow], StepRow] = lambda step: step,
    told: Callable[[MessageRow], MessageRow] = lambda message: message,
) -> list[TransactionRow]:
    """A job's transactions with the heads that they would have without digests."""
    (job,) = [row.job for row in store.jobs()]
    head, made = "", []
    for row in store.transactions(job):
        rows = (
            [as_it_was(step) for step in store.steps(job) if step.transaction == row.number],
            [told(message) for message in store.messages(job) if message.transaction == row.number],
            [given for given in store.inputs(job, waiting=False) if given.taken == row.number],
        )
        head, digests = link(head, row.number, row.time, row.epoch, *rows, digested=False)
        made.append(row._replace(head=head, digests=digests))
    return made


def write_schema_2(home: Path, store: Store) -> None:
    """Write a store's one job to a new bus as the second schema had it."""
    row = store.jobs()[0]
    loaded = store.load(row.job)
    steps, messages = list(map(dayless, store.steps(row.job))), list(store.messages(row.job))
    with closing(sqlite3.connect(home / sqlite.FILE)) as raw:
        for number in (1, 2):
            raw.executescript(sqlite._SQL[f"schema-{number}"])
        raw.execute("INSERT INTO meta VALUES ('protocol', ?)", [sqlite.PROTOCOL])
        state = [getattr(row, name) for name in _columns(raw, "jobs")]
        _insert(raw, "jobs", [state])
        _insert(raw, "charters", [(row.job, row.request, row.settings)])
        _insert(raw, "owners", [(row.job, loaded.epoch)])
        _insert(raw, "commits", [(row.job, *each[:-1]) for each in undigested(store, dayless, kindless)])
        _insert(raw, "steps", [(row.job, *each) for each in steps])
        _insert(raw, "messages", [(row.job, *each[:-1]) for each in messages])
        _insert(raw, "molecules", [(row.job, where, body) for where, body in loaded.molecules.items()])
        _insert(raw, "turns", [(None, row.job, *each) for each in store.turns(row.job)])
        _insert(raw, "inputs", store.inputs(row.job, waiting=False))
        raw.executescript(f"PRAGMA application_id = {sqlite._APPLICATION}; PRAGMA user_version = 2")


def _columns(raw: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in raw.execute(f"PRAGMA table_info({table})")]


def _insert(raw: sqlite3.Connection, table: str, rows: Iterable[Any]) -> None:
    marks = ", ".join("?" for _ in _columns(raw, table))
    raw.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)  # noqa: S608 - names of this module
    raw.commit()
