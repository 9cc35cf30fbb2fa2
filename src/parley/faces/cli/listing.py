"""`parley ls`. It reads the jobs' rows and nothing else, and imports as little as that takes."""

from __future__ import annotations

import argparse
import shutil
import time
from importlib import import_module

from parley.adapters.sqlite import SqliteStore
from parley.faces.cli import OK
from parley.faces.cli.desk import lasting, one_line, place_of, print_json
from parley.ports import JobRow, Store

GROUPS = ("needs you", "working", "paused", "interrupted", "finished")
FINISHED = {"DONE": "done", "WITHDRAWN": "withdrawn", "FAILURE": "failed"}


def run(words: argparse.Namespace) -> int:
    """List the jobs."""
    place = place_of(words.repo)
    if not SqliteStore.exists(place.home):
        if words.json:
            print_json({"home": str(place.home), "jobs": []})
        else:
            print(f"no jobs in {place.home} yet; start one with `parley run`")
        return OK
    store = SqliteStore(place.home)
    try:
        if words.json:
            # a document holds what only the molecules know, which takes longer to import
            documents = import_module("parley.faces.cli.documents")
            jobs = [documents.listed(store, row) for row in store.jobs()]
            print_json({"home": str(place.home), "jobs": jobs})
            return OK
        groups: dict[str, list[JobRow]] = {name: [] for name in GROUPS}
        for row in store.jobs():
            groups[group_of(row, store)].append(row)
    finally:
        store.close()
    _print(groups)
    return OK


def group_of(row: JobRow, store: Store) -> str:
    """Where a job is listed. Only a live job's owner has to be asked for."""
    if row.state in FINISHED:
        return "finished"
    if row.needs_human and row.needs_human > _answered(store, row.job):
        return "needs you"
    if row.held:
        return "paused"
    return "working" if store.owner_lives(row.job) else "interrupted"


def _answered(store: Store, job: str) -> int:
    """How many answers wait for somebody to go on with the job."""
    return sum(row.kind == "answer" for row in store.inputs(job))


def _print(groups: dict[str, list[JobRow]]) -> None:
    now, width = time.time(), shutil.get_terminal_size().columns
    remedies = {
        "needs you": "parley inbox",
        "paused": "parley resume JOB",
        "interrupted": "parley resume",
    }
    first = True
    for name, rows in groups.items():
        if not rows:
            continue
        if not first:
            print()
        first = False
        print(f"{name} ({remedies[name]})" if name in remedies else name)
        for row in reversed(rows):
            state = FINISHED.get(row.state, row.state)
            back = f"  {row.backtracks} back" if row.backtracks else ""
            head = f"  {row.job:<10}{state:<10}{lasting(now - row.updated):>7} ago{back:<8} "
            print(head + one_line(row.request, max(20, width - len(head))))
