"""`parley audit` and `parley export`."""

from __future__ import annotations

import argparse
from pathlib import Path

from parley.adapters.files import JobFiles
from parley.adapters.sqlite import SqliteStore
from parley.engine.audit import Report, audit, read_anchor, render
from parley.faces.cli import FAILED, OK
from parley.faces.cli.desk import Place, bus, find_job, place_of, print_json


def run(words: argparse.Namespace) -> int:
    """Prove a record, or hand it out."""
    place = place_of(words.repo)
    with bus(place) as store:
        report = audited(store, place, find_job(store.jobs(), words.job).job)
    if words.json:
        print_json(report.document())
    else:
        for line in render(report):
            print(line)
    return OK if report.ok else FAILED


def audited(store: SqliteStore, place: Place, job: str) -> Report:
    """The audit of a job on the bus, held against the anchor in its state record."""
    state = JobFiles(place.home).home(job) / "state.json"
    return audit(store, job, read_anchor(_text(state)))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return None
