"""`parley bus copy`: moves the bus of a home from a file to a PostgreSQL server, or back.

The copy is made beside the bus, while no process owns a job and no other process writes; both are audited, job by job,
and compared row by row. Only then does the home go over, by the one file that says which bus is its own, `bus.id`. The
former bus is put aside under another name. A crash leaves the home with one whole bus; running the command again starts
anew, or finishes.
"""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from parley.base.wording import count
from parley.bus import key_files
from parley.bus.attendant import attended
from parley.bus.bus_tables import same_rows
from parley.bus.key_files import Key
from parley.bus.rows import BusError, JobRow
from parley.bus.sqlite import safe_open
from parley.bus.sqlite.safe_open import FILE, IDENTITY
from parley.bus.sqlite.sqlite_copy import make_copy
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.bus.store import Store
from parley.cli import BAD_USE, FAILED, OK, CommandError, home_bus
from parley.cli.common import Workplace, hide_home_from_git, make_home, one_line, place_of, print_json
from parley.cli.looking.audit_command import audited
from parley.cli.open_bus import refuse_foreign_home
from parley.cli.user_homes import remember

TO_FILE = "file"
FOLDER = "bus-copy"  # in the home: where a file is made before it takes its place
IDLE_SECONDS = 3600  # that the server waits for an audit: no other process can write meanwhile
_ENDS = ("", "-wal", "-shm", "-journal")


def run(words: argparse.Namespace) -> int:
    """Copy the bus and let the home go over to the copy."""
    if words.to is None:
        raise CommandError(
            f"say where to: `parley bus copy NAME` for a server of your own settings, or `parley bus copy {TO_FILE}`",
            BAD_USE,
        )
    place = place_of(words.repo)
    if words.to != TO_FILE:
        make_home(place)
    refuse_foreign_home(place)
    before = home_bus.on_server(place.home)
    told = _to_file(place, before) if words.to == TO_FILE else _to_server(place, before, words.to)
    hide_home_from_git(place.home)
    remember(place)
    if words.json:
        print_json({"home": str(place.home), "to": words.to, "what": told})
    else:
        print(f"{place.home}: {told}")
    return OK


# ---- to a server ---------------------------------------------------------------------------------


def _to_server(place: Workplace, before: Key | None, server: str) -> str:
    home = place.home
    if before is not None:
        if before.server != server:
            raise CommandError(
                f"the bus is on the server {before.server!r}; copy it into a file first, with `parley bus copy "
                f"{TO_FILE}`",
                FAILED,
            )
        kept = _put_file_aside(home, before)  # a crash may have come before that
        return f"it is on {server} already{kept}"
    address = home_bus.address_of(server)
    postgres_copy = home_bus.postgres_copy()
    if not home_bus.exists(home):
        key = key_files.make(os.path.realpath(home), 0)
        made = key_files.like(key, server=server)
        key_files.forget(key.id)
        postgres_copy.make_bus(address, made)
        home_bus.open_on_server(home, made).close()
        safe_open.identify(home, made)
        return f"its bus is on {server} now, and empty"
    with closing(SqliteStore(home)) as source:
        if source.key is None:
            raise CommandError(f"{home}: this bus is not yours; take it in with `parley bus adopt`", FAILED)
        with source.alone():  # until the home has gone over: a process that waits to write is refused then
            rows = _sound(source, place)
            made = key_files.like(source.key, server=server)
            postgres_copy.make_bus(address, made, source)
            try:
                with closing(home_bus.open_on_server(home, made)) as copy:
                    _refuse_different(same_rows(source, copy))
                    _sound(copy, place)
            except BaseException:
                postgres_copy.drop_bus(address, made)
                raise
            safe_open.identify(home, made)
            kept = _put_file_aside(home, made)
    return f"{count(len(rows), 'job')} moved to {server}; each record is sound on both sides{kept}"


def _put_file_aside(home: Path, made: Key) -> str:
    """Rename the file that the home has left."""
    name = f"bus-before-{made.id[:8]}.db"
    moved = False
    for end in _ENDS:
        path = home / f"{FILE}{end}"
        if os.path.lexists(path):
            path.rename(home / f"{name}{end}")
            moved = True
    if moved:
        key_files.sync(home)
    there = os.path.lexists(home / name)
    return f"; the former bus is {home / name}: delete it when you like" if there else ""


# ---- to a file -----------------------------------------------------------------------------------


def _to_file(place: Workplace, before: Key | None) -> str:
    home = place.home
    folder = home / FOLDER
    if before is None:
        if not home_bus.exists(home):
            raise CommandError(f"there is no bus in {home} yet; start a job with `parley run`")
        shutil.rmtree(folder, ignore_errors=True)
        return "it is a file already"
    finished = _finish(home, before)
    if finished:
        return finished
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    with closing(home_bus.open_on_server(home, before, idle_seconds=IDLE_SECONDS)) as source, source.alone():
        rows = _sound(source, place)
        made = make_copy(folder, source, before)
        with closing(SqliteStore(folder, stranger=True)) as copy:
            _refuse_different(same_rows(source, copy))
            _sound(copy, place)
        _write_ready(folder, made)
        source.put_aside()  # with the end of this transaction no process finds it any more
    if not home_bus.is_put_aside(before):
        raise CommandError(f"{home}: the server was lost just before the end; nothing was changed: try again", FAILED)
    _go_over(home, made)
    kept = home_bus.postgres_copy().aside(before)
    return (
        f"{count(len(rows), 'job')} moved into a file; each record is sound on both sides; the former bus is the "
        f"schema {kept} on {before.server}: drop it when you like"
    )


def _write_ready(folder: Path, made: Key) -> None:
    """Note, before the former bus is put aside, that the copy is sound: from now on it only has to take its place."""
    safe_open.identify(folder, made)


def _finish(home: Path, before: Key) -> str:
    """Finish what a crash has cut short: the bus on the server is put aside, and its sound copy is not in place yet."""
    if not home_bus.is_put_aside(before):
        return ""
    path = home / FOLDER / IDENTITY
    made = key_files.read(path.read_text(encoding="ascii").strip()) if path.is_file() else None
    if made is None:
        kept = home_bus.postgres_copy().aside(before)
        raise CommandError(
            f"{home}: its bus was put aside on {before.server}, and its copy is not here: where another host of yours "
            f"has moved it into a file, it is there; only where none has, rename the schema {kept} back to "
            f"{kept.replace('parley_old_', 'parley_')} on the server, then try again",
            FAILED,
        )
    _go_over(home, made)
    return "it is a file now: an earlier copy was finished"


def _go_over(home: Path, made: Key) -> None:
    """Put the copy in its place, then say that it is the home's bus. Either may have been done before."""
    folder = home / FOLDER
    for end in _ENDS[1:]:
        (home / f"{FILE}{end}").unlink(missing_ok=True)  # of a file that is no bus: the home's is on a server
    if os.path.lexists(folder / FILE):
        (folder / FILE).rename(home / FILE)
        key_files.sync(home)
    _say_whose(home, made)
    shutil.rmtree(folder, ignore_errors=True)


def _say_whose(home: Path, made: Key) -> None:
    safe_open.identify(home, made)


# ---- what has to hold ----------------------------------------------------------------------------


def _sound(store: Store, place: Workplace) -> Sequence[JobRow]:
    """Refuse a bus with a job that is owned, or whose record does not hold."""
    if attended(place.home):
        raise CommandError("`parley serve` runs the jobs of this home; end it, then try again", FAILED)
    rows = store.jobs()
    for row in rows:
        if store.owner_lives(row.job):
            raise CommandError(f"job {row.job} is at work; pause it and end that process, then try again", FAILED)
    for row in rows:
        report = audited(store, place, row.job)
        if report.findings:
            raise CommandError(
                f"the record of job {row.job} does not hold ({one_line(str(report.findings[0]), 200)}); "
                "nothing was changed",
                FAILED,
            )
    return rows


def _refuse_different(table: str) -> None:
    if table:
        raise BusError(f"the copy's table {table} is not the same; nothing was changed: try again")
