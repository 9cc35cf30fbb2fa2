"""`parley audit` and `parley export`."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from pathlib import Path

from parley.adapters.files import JobFiles
from parley.adapters.worktrees import Worktrees
from parley.engine.audit import Report, audit, read_anchor, render
from parley.engine.export import STATE, export, load_export, write_export
from parley.faces.cli import FAILED, OK, Trouble
from parley.faces.cli.bus import bus, find_job, known_secrets, pick
from parley.faces.cli.desk import Place, one_line, place_of, print_json
from parley.ports import BusError, Store
from parley.text import lenient

LOOKS = 5  # at a job that goes on while its files are read


def run(words: argparse.Namespace) -> int:
    """Prove a record, or hand it out."""
    if words.command == "export":
        return _export(words)
    report = _audit(words)
    if words.json:
        print_json(report.document())
    else:
        for line in render(report):
            print(line)
    return OK if report.ok else FAILED


def _audit(words: argparse.Namespace) -> Report:
    path = Path(words.job)
    if path.is_file():
        exported = load_export(path)
        return audit(exported, exported.job, read_anchor(exported.state), sealed=exported.sealed)
    if os.sep in words.job or path.suffix:
        raise Trouble(f"{path}: there is no such file; name an export, or a job")
    place = place_of(words.repo)
    with bus(place, true=True) as store:
        # a job that has a state record was on the bus: should its row be gone, that is what is to be told
        known = {row.job for row in store.jobs()} | JobFiles(place.home).recorded()
        return audited(store, place, pick(words.job.removeprefix("job:"), known, "job", "`parley ls` lists them"))


def audited(store: Store, place: Place, job: str) -> Report:
    """The audit of a job on the bus, held against the anchors in its state record and in its turns' commits."""
    # the anchors first: should the job go on meanwhile, the bus is ahead of them and not behind
    trees = Worktrees(place.home)
    witnesses = trees.anchors(job)
    looks = 0
    while True:
        before, looks = _last(store, job), looks + 1
        anchor = read_anchor(state_text(place, job))
        report = audit(store, job, anchor, witnesses=witnesses, papers=trees.filed(job))
        differs = report.files is not None and report.files.odd
        if not differs or looks == LOOKS or _last(store, job) == before:
            return report  # what an owner was about to write would be there by now


def unsound(store: Store, place: Place, job: str, *, whole: bool = False) -> str:
    """Why the record of a job that no process works on can't be believed; nothing where its record holds.

    `whole`: each commit waited for the disk, and nothing but another hand takes a record's end away.
    """
    found = audit(store, job, read_anchor(state_text(place, job)) if whole else None).findings
    if not found or store.owner_lives(job):
        return ""
    return (
        f"{job}: its record does not hold ({one_line(str(found[0]), 200)}): another program changed it, and nothing is "
        f"done by it; see `parley audit {job}`, put back a copy"
    )


def _last(store: Store, job: str) -> int:
    try:
        last = store.load(job).transaction
    except BusError:
        return 0
    return last.number if last else 0


def state_text(place: Place, job: str) -> str | None:
    """A job's state record. What is no file in its place is not waited for, and says nothing that can be believed."""
    path = JobFiles(place.home).home(job) / STATE
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        return lenient(file.read()) if stat.S_ISREG(os.fstat(handle).st_mode) else ""


def _export(words: argparse.Namespace) -> int:
    place = place_of(words.repo)
    with bus(place, true=True) as store:
        job = find_job(store.jobs(), words.job).job
        lines = export(store, JobFiles(place.home).home(job), job, known_secrets(place))
        if words.output is None:
            sys.stdout.flush()
            for line in lines:
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            return OK
        write_export(Path(words.output), lines)
    print(f"{job} is exported to {words.output}; prove it with: parley audit {words.output}")
    return OK
