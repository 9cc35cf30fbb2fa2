"""`parley inbox`: all that needs the human, in all jobs; or one thing of it in full."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import groupby
from typing import Any

from parley.adapters.files import JobFiles
from parley.adapters.sqlite import SqliteStore
from parley.adapters.worktrees import Worktrees
from parley.engine.attention import Need, needs
from parley.faces.cli import OK
from parley.faces.cli.bus import ShownStore, bus, pick
from parley.faces.cli.desk import Place, columns, me, one_line, place_of, print_json
from parley.faces.cli.need import exhibit, lines
from parley.faces.cli.workshop import file_of
from parley.ports import JobRow


def run(words: argparse.Namespace) -> int:
    """List what needs the human, grouped by job, the oldest first."""
    place = place_of(words.repo)
    if not SqliteStore.exists(place.home):
        _tell(words, place, [], [])
        return OK
    with bus(place) as store:
        rows = store.jobs()
        redact = store.secrets.redact if isinstance(store, ShownStore) else str
        found = needs(store, JobFiles(place.home), rows)
        if words.id:
            found = _named(found, rows, words.id)
        if words.json:
            _tell(words, place, found, [_document(store, place, need, redact, whole=bool(words.id)) for need in found])
        else:
            _print(store, place, found, {row.job: row for row in rows}, redact, whole=bool(words.id))
    return OK


def _named(found: list[Need], rows: list[JobRow], given: str) -> list[Need]:
    """What an id names: one need, or all of a job's."""
    given = given.removeprefix("escalation:").removeprefix("job:")
    by_id = {need.id: need for need in found}
    jobs = {row.job for row in rows if row.job.startswith(given)} if given else set[str]()
    if len(jobs) == 1 and not any(name.startswith(given) and by_id[name].job not in jobs for name in by_id):
        return [need for need in found if need.job in jobs]
    return [by_id[pick(given, by_id, "thing that waits for you", "`parley inbox` lists them")]]


def _document(
    store: SqliteStore, place: Place, need: Need, redact: Callable[[str], str], *, whole: bool
) -> dict[str, Any]:
    trees = Worktrees(place.home, place.root)
    file = str(file_of(trees, need.asked)) if need.asked and need.artifact else None
    shown = exhibit(store, trees, need, redact, whole=whole)
    return {**need.document(), "file": file, **shown.document(whole=whole)}


def _tell(words: argparse.Namespace, place: Place, found: list[Need], documents: list[dict[str, Any]]) -> None:
    if not words.json:
        print("nothing waits for you")
        return
    questions = [
        {
            **need.asked.document(),
            "file": document["file"],
            "answers": [way.command for way in need.exits],
        }
        for need, document in zip(found, documents, strict=True)
        if need.asked is not None
    ]
    print_json({"home": str(place.home), "needs": documents, "questions": questions})


def _print(
    store: SqliteStore,
    place: Place,
    found: list[Need],
    rows: dict[str, JobRow],
    redact: Callable[[str], str],
    *,
    whole: bool,
) -> None:
    if not found:
        print("nothing waits for you")
        return
    trees, who = Worktrees(place.home, place.root), me()
    order = {job: number for number, job in enumerate(dict.fromkeys(need.job for need in found))}
    for job, group in groupby(sorted(found, key=lambda need: order[need.job]), key=lambda need: need.job):
        if order[job]:
            print()
        print(one_line(f"job {job}: {rows[job].request}", columns()))
        for need in group:
            print()
            shown = exhibit(store, trees, need, redact, whole=whole)
            for line in lines(need, shown, trees, who, whole=whole):
                print(line)
