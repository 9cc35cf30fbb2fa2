"""`parley doctor`: what this machine and this home are good for."""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from parley import __version__, config
from parley.adapters.claude import ClaudeError, available, find_program, lacking
from parley.adapters.decisions import SqliteDecisions
from parley.adapters.decisions import place as memory_of
from parley.adapters.mounts import filesystem, network_filesystem
from parley.adapters.sqlite import SqliteStore
from parley.decisions import MemoryTrouble
from parley.faces.cli import FAILED, OK, form
from parley.faces.cli.desk import Place, place_of, print_json
from parley.faces.cli.notices import addresses, last_problems
from parley.faces.cli.trial import Trial, hold
from parley.faces.cli.trust import unallowed
from parley.faces.cli.workshop import on_terminal
from parley.ports import BusError
from parley.wording import count
from parley_cfa import installation

NEWEST_PYTHON = (3, 11)
OLDEST_GIT = (2, 38)  # it can merge without a work tree
OLDEST_SQLITE = (3, 35, 0)


class Check(NamedTuple):
    """One thing looked at."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


def run(words: argparse.Namespace) -> int:
    """Look at everything."""
    place = place_of(words.repo)
    trial = _boundary(place)
    fence = Check("boundary", trial.ok, trial.found, trial.remedy)
    checks = [
        _python(),
        _parley(),
        _git(),
        *_sqlite(),
        *_home(place),
        _settings(place),
        _claude(place),
        _notices(place),
        _terminal(),
        *([Check("bubblewrap", ok=True, found=trial.program)] if trial.program else []),
        fence,
    ]
    good = all(check.ok for check in checks)
    if words.json:
        told = [check._asdict() for check in checks]
        print_json({"ok": good, "checks": told, "boundary": trial.document()})
        return OK if good else FAILED
    for check in checks:
        mark, remedy = ("ok  ", "") if check.ok else ("FAIL", f"; {check.remedy}")
        print(f"{mark}  {check.name:<12} {check.found}{remedy}")
    for line in trial.lines():
        print(line)
    return OK if good else FAILED


def _python() -> Check:
    return Check(
        "python",
        sys.version_info >= NEWEST_PYTHON,
        f"{platform.python_version()} ({sys.executable})",
        "install Python 3.11 or newer",
    )


def _parley() -> Check:
    found = installation.read()
    told = f"{__version__}, {form()}, {found}"
    if stranger := installation.find_stranger():
        return Check("parley", ok=False, found=f"{told}; {stranger}", remedy=found.without_stranger())
    return Check("parley", ok=True, found=told)


def _git() -> Check:
    found = shutil.which("git")
    if found is None:
        return Check("git", ok=False, found="not found", remedy="install git")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    version = tuple(map(int, re.findall(r"\d+", said.stdout)[:2]))
    remedy = (
        f"install git {'.'.join(map(str, OLDEST_GIT))} or newer"
        if said.returncode == 0
        else "repair the git on the PATH"
    )
    return Check("git", said.returncode == 0 and version >= OLDEST_GIT, f"{said.stdout.strip()} ({found})", remedy)


def _sqlite() -> list[Check]:
    threads = {0: "single-threaded", 1: "multi-threaded", 3: "serialized"}.get(sqlite3.threadsafety, "not known")
    return [
        Check(
            "sqlite",
            sqlite3.sqlite_version_info >= OLDEST_SQLITE,
            sqlite3.sqlite_version,
            f"use a Python with SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer",
        ),
        Check("threads", sqlite3.threadsafety > 0, threads, "use a Python whose SQLite is thread-safe"),
    ]


def _home(place: Place) -> list[Check]:
    there = place.home if place.home.exists() else next(path for path in place.home.parents if path.exists())
    writable = os.access(there, os.W_OK | os.X_OK) and there.is_dir()
    words = "writable" if writable else "not writable"
    made = "" if place.home.exists() else ", not made yet"
    home = Check(
        "home",
        writable,
        f"{place.home} ({words}{made})",
        "make it writable, or name another with PARLEY_HOME",
    )
    network = network_filesystem(there)
    kind = Check(
        "filesystem",
        network is None,
        filesystem(there) or "not known",
        "name a home on a local disk with PARLEY_HOME",
    )
    return [home, kind, _bus(place.home), _memory()]


def _memory() -> Check:
    memory = SqliteDecisions(memory_of(os.environ))
    if not memory.exists:
        return Check("memory", ok=True, found=f"none yet ({memory.path})")
    try:
        return Check("memory", ok=True, found=f"{count(memory.count(), 'decision')} ({memory.path})")
    except MemoryTrouble as trouble:
        return Check("memory", ok=False, found=str(trouble), remedy="until then jobs ask you instead")
    finally:
        memory.close()


def _bus(home: Path) -> Check:
    if not SqliteStore.exists(home):
        return Check("bus", ok=True, found="none yet")
    try:
        store = SqliteStore(home)
    except BusError as error:
        return Check("bus", ok=False, found=str(error), remedy="see above")
    try:
        return Check("bus", ok=True, found=count(len(store.jobs()), "job"))
    except BusError as error:
        return Check("bus", ok=False, found=str(error), remedy="see above")
    finally:
        store.close()


def _settings(place: Place) -> Check:
    try:
        settings = config.read(place.root)
    except config.ConfigError as error:
        return Check("settings", ok=False, found=str(error), remedy="until then jobs can't be started")
    if asked := unallowed(place):
        remedy = "read it, then allow it with `parley trust`"
        return Check("settings", ok=False, found=f"{config.FILE} asks for {', '.join(asked)}", remedy=remedy)
    durable = "each commit waits for the disk" if settings.durability == "full" else "the last commits may be lost"
    return Check("durability", ok=True, found=f"{settings.durability}: {durable}")


def _boundary(place: Place) -> Trial:
    return hold(_read(place).boundary)


def _read(place: Place) -> config.Settings:
    """The settings, as far as they may be used: what is wrong with them is told elsewhere."""
    try:
        return config.Settings() if unallowed(place) else config.read(place.root)
    except config.ConfigError:
        return config.Settings()


def _claude(place: Place) -> Check:
    """Whether Claude Code can be used; nobody has to, so that it is no fault if it can't."""
    settings = _read(place).claude
    if problem := lacking(settings, os.environ):
        return Check("claude", ok=True, found=f"not used: {problem}")
    try:
        program = find_program(settings, os.environ)
    except ClaudeError as error:
        return Check("claude", ok=False, found=str(error), remedy="see above")
    login = available(settings, os.environ)
    version = ".".join(map(str, program.version))
    return Check("claude", ok=True, found=f"{version} ({program.origin}), logged in by {login.origin if login else ''}")


def _notices(place: Place) -> Check:
    """Whether notices go out, as far as the last ones tell. Nobody has to have any."""
    try:
        found, origin = addresses(place, _read(place))
    except config.ConfigError as error:
        return Check("notices", ok=False, found=str(error), remedy="until then none are sent")
    if not found.to:
        return Check("notices", ok=True, found="none are sent")
    where = f"to {len(found.to)} from {origin}"
    failed = last_problems(place.home)
    if failed:
        said = f"{where}; the last one failed: {'; '.join(failed)}"
        return Check("notices", ok=False, found=said, remedy="try it with `parley notify --test`")
    return Check("notices", ok=True, found=where)


def _terminal() -> Check:
    size = shutil.get_terminal_size()
    found = f"{os.environ.get('TERM', 'none')}, {size.columns}x{size.lines}" if on_terminal() else "none: plain lines"
    return Check("terminal", ok=True, found=found)
