"""`parley audit` and `parley export`: verify a job's record, and write it into one file."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from pathlib import Path

from parley.audit.audit import AuditReport, audit, read_anchor, render
from parley.audit.export import STATE, export, load_export, write_export
from parley.base.text import lenient
from parley.bus.rows import BusError
from parley.bus.store import Store
from parley.cli import FAILED, OK, CommandError
from parley.cli.common import Workplace, one_line, place_of, print_json
from parley.cli.open_bus import find_job, known_secrets, open_bus, pick
from parley.cli.shared_home import job_files, workspaces
from parley.machine.job_files import JobFiles

LOOKS = 5  # tries, for a job that goes on while its files are read


def run(words: argparse.Namespace) -> int:
    """Verify a record, or export it."""
    if words.command == "export":
        return _export(words)
    report = _audit(words)
    if words.json:
        print_json(report.document())
    else:
        for line in render(report):
            print(line)
    return OK if report.ok else FAILED


def _audit(words: argparse.Namespace) -> AuditReport:
    path = Path(words.job)
    if path.is_file():
        exported = load_export(path)
        return audit(exported, exported.job, read_anchor(exported.state), redacted=exported.redacted)
    if os.sep in words.job or path.suffix:
        raise CommandError(f"{path}: there is no such file; name an export, or a job")
    place = place_of(words.repo)
    with open_bus(place, unredacted=True) as store:
        # a job that has a state record was on the bus: a missing row must be reported
        known = {row.job for row in store.jobs()} | JobFiles(place.home).recorded()
        return audited(store, place, pick(words.job.removeprefix("job:"), known, "job", "`parley ls` lists them"))


def audited(store: Store, place: Workplace, job: str) -> AuditReport:
    """The audit of a job on the bus, compared with the anchors in its state record and its turns' commits."""
    # the anchors first: if the job goes on meanwhile, the bus is ahead of them and not behind
    trees = workspaces(place.home)
    witnesses = trees.anchors(job)
    looks = 0
    while True:
        before, looks = _last(store, job), looks + 1
        anchor = read_anchor(state_text(place, job))
        report = audit(store, job, anchor, witnesses=witnesses, papers=trees.orchestration_view(job))
        differs = report.files is not None and report.files.odd
        if not differs or looks == LOOKS or _last(store, job) == before:
            return report  # an owner would have written its files by now


def unsound(store: Store, place: Workplace, job: str, *, whole: bool = False) -> str:
    """Why the record of a job without an owner is not sound; empty where it is.

    `whole`: each commit waited for the disk, so only another program can have cut the record's end. Where coordinators
    share a home, another one may have seen more of it: what its turns' commits say is then asked for.
    """
    witnesses = workspaces(place.home).latest_anchors(job) if whole else []
    found = audit(store, job, read_anchor(state_text(place, job)) if whole else None, witnesses=witnesses).findings
    if not found or store.owner_lives(job):
        return ""
    return (
        f"{job}: its record does not hold ({one_line(str(found[0]), 200)}): another program changed it, and it is "
        f"not used; see `parley audit {job}`, put back a copy"
    )


def _last(store: Store, job: str) -> int:
    try:
        last = store.load(job).transaction
    except BusError:
        return 0
    return last.number if last else 0


def state_text(place: Workplace, job: str) -> str | None:
    """A job's state record; None where there is none, empty where it can't be read or is no file, which could block."""
    path = job_files(place.home).home(job) / STATE
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return ""
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # before a file is made of it: of a folder that would fail
        os.close(handle)
        return ""
    with os.fdopen(handle, "rb") as file:
        return lenient(file.read())


def _export(words: argparse.Namespace) -> int:
    place = place_of(words.repo)
    with open_bus(place, unredacted=True) as store:
        job = find_job(store.jobs(), words.job).job
        lines = export(store, job_files(place.home).home(job), job, known_secrets(place))
        if words.output is None:
            sys.stdout.flush()
            for line in lines:
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
            return OK
        write_export(Path(words.output), lines)
    print(f"{job} is exported to {words.output}; verify it with: parley audit {words.output}")
    return OK
