"""`parley doctor`: what this machine and this home are good for."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

from parley import __version__, config
from parley.adapters.boundary import Boundary
from parley.adapters.boundary.memory import KERNEL
from parley.adapters.claude import find_program, logins
from parley.adapters.decisions import SqliteDecisions
from parley.adapters.decisions import place as memory_of
from parley.adapters.playbook import Playbook
from parley.adapters.roles import RoleError, gather
from parley.adapters.sqlite import SqliteStore
from parley.decisions import MemoryTrouble
from parley.faces.cli import FAILED, OK, Trouble, form
from parley.faces.cli.desk import Place, own_settings, place_of, print_json, safe
from parley.faces.cli.in_force import Widening, of_roles, of_settings
from parley.faces.cli.notices import addresses, last_problems
from parley.faces.cli.ready import GIT_SECONDS, Check, needs
from parley.faces.cli.runners import CLAUDE, SCRIPTED, agent_words, announced, choose, claude_problem
from parley.faces.cli.runners import check as check_roles
from parley.faces.cli.start import snapshot_of
from parley.faces.cli.trial import hold
from parley.faces.cli.trust import layers_of, refuse_roles, settings_of, unallowed
from parley.faces.cli.workshop import on_terminal
from parley.output import NET
from parley.ports import BusError, WorkspaceError
from parley.wording import count
from parley_cfa import installation

NEWEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 35, 0)


def run(words: argparse.Namespace) -> int:
    """Look at everything."""
    place = place_of(words.repo)
    trial = hold(_read(place).boundary, place)
    fence = Check("boundary", trial.ok, trial.found, trial.remedy)
    checks = [
        of_agent(place, words.agent),
        of_claude(place, words.agent),
        *needs(place),
        _identity(place),
        _bus(place.home),
        _memory(),
        _settings(place),
        _python(),
        _parley(),
        *_sqlite(),
        _notices(place),
        _terminal(),
        *([Check("bubblewrap", ok=True, found=trial.program)] if trial.program else []),
        _bounds(place),
        fence,
    ]
    good = all(check.ok for check in checks)
    widened = _widened(place)
    NET.show(*map(str, widened))
    if words.json:
        told = [check._asdict() for check in checks]
        wider = [one._asdict() for one in widened]
        print_json({"ok": good, "checks": told, "widenings": wider, "boundary": trial.document()})
        return OK if good else FAILED
    for check in checks:
        print(line_of(check))
    for one in widened:
        print(f"note  {'in force':<12} {one}")
    for line in trial.lines():
        print(line)
    return OK if good else FAILED


def line_of(check: Check) -> str:
    """A check as people read it."""
    remedy = f"; {check.remedy}" if check.remedy and not check.ok else ""
    return safe(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<12} {check.found}{remedy}")


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


def _identity(place: Place) -> Check:
    """Who the user is to git. A job needs no name, and neither does a merge that only moves the branch on."""
    asked = ["git", "-C", str(place.root), "var", "GIT_AUTHOR_IDENT"]
    said = ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        strict = [*asked[:3], "-c", "user.useConfigOnly=true", *asked[3:]]
        said = subprocess.run(
            strict, capture_output=True, text=True, errors="replace", check=False, timeout=GIT_SECONDS
        ).stdout
    name = said.rpartition(">")[0]
    unknown = "git does not know you, and `parley merge` may ask: git config --global user.name, user.email"
    return Check("identity", ok=True, found=f"{name}>" if name else unknown)


def _bus(home: Path) -> Check:
    try:
        if not SqliteStore.exists(home):
            return Check("bus", ok=True, found="none yet")
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
        settings = config.read(place.root, own_settings())
        asked = unallowed(place)
    except (config.ConfigError, Trouble) as error:
        return Check("settings", ok=False, found=str(error), remedy="until then jobs can't be started")
    if asked:
        remedy = "see what it asks for, and allow it, with `parley trust`"
        NET.show(*asked)
        return Check("settings", ok=False, found=f"{config.FILE} asks for {', '.join(asked)}", remedy=remedy)
    durable = "each commit waits for the disk" if settings.durability == "full" else "the last commits may be lost"
    return Check("durability", ok=True, found=f"{settings.durability}: {durable}")


def _bounds(place: Place) -> Check:
    """What an agent and a job may take of the machine, and how that is kept while they run."""
    settings = _read(place)
    boundary = Boundary(settings.boundary)
    try:
        memory, how = boundary.memory_bytes >> 20, boundary.memory_kept_by()
    finally:
        boundary.close()
    kept = "kept by a cgroup" if how == KERNEL else "counted five times a second, no cgroup may be made here"
    job = f"{settings.workspace.quota_mb} MB of disk a job, {count(settings.workspace.files, 'file')} a workspace"
    return Check("bounds", ok=True, found=f"{memory} MB of memory an agent ({kept}); {job}")


def _widened(place: Place) -> list[Widening]:
    """What is wider here than the defaults. Where something has to be allowed first, that is told elsewhere."""
    try:
        layers = layers_of(place)
        roles = gather(place.root, layers.given)
        refuse_roles(place.root, roles, layers.given)
    except (config.ConfigError, RoleError, Trouble):
        return []
    return [*of_settings(place, layers), *of_roles(place.root, roles, layers.given)]


def of_boundary(place: Place) -> Check:
    """Whether agents can be confined here."""
    trial = hold(_read(place).boundary, place)
    return Check("boundary", trial.ok, trial.found, trial.remedy)


def _read(place: Place) -> config.Settings:
    """The settings, as far as they may be used: what is wrong with them is told elsewhere."""
    try:
        return settings_of(place)
    except (config.ConfigError, Trouble):
        return config.Settings()


def of_agent(place: Place, wanted: str | None = None) -> Check:
    """Which agent a job would use here, and whether it could start: asked as `parley run` asks it."""
    try:
        settings = settings_of(place)
        agent = choose(wanted, settings, place, playbook=wanted == SCRIPTED)
        snapshot = snapshot_of(place.root, settings, Playbook(), agent)
        check_roles(snapshot["roles"], settings, place)
    except (Trouble, config.ConfigError, RoleError, WorkspaceError) as error:
        return Check("agent", ok=False, found=f"no job can start: {error}")
    return Check("agent", ok=True, found=announced(agent, settings, snapshot).removeprefix("agent: "))


def of_claude(place: Place, wanted: str | None = None) -> Check:
    """Claude Code and every login that is there. Where another agent is asked for, it may be absent."""
    settings = _read(place)
    problem = claude_problem(settings)
    found = [problem] if problem else [f"{agent_words(CLAUDE, settings)} ({_origin(settings)})"]
    for one in logins(os.environ):
        allowed = settings.claude.subscription or not one.subscription
        told = one.problem or (f"{one.origin}: found" if allowed else f"{one.origin}: found, not allowed")
        if one.origin not in problem:  # or it is told already
            found.append(told)
    return Check("claude", not problem or wanted not in (None, CLAUDE), "; ".join(found))


def _origin(settings: config.Settings) -> str:
    return find_program(settings.claude, os.environ).origin


def _notices(place: Place) -> Check:
    """Whether notices go out, as far as the last ones tell. Nobody has to have any."""
    try:
        found, origin = addresses(place, _read(place))
    except config.ConfigError as error:
        return Check("notices", ok=False, found=str(error), remedy="until then none are sent")
    if not found.to:
        return Check("notices", ok=True, found="none are sent")
    where = f"to {len(found.to)} from {origin}"
    failed = last_problems(place.home) if _bus(place.home).ok else []
    if failed:
        said = f"{where}; the last one failed: {'; '.join(failed)}"
        return Check("notices", ok=False, found=said, remedy="try it with `parley notify --test`")
    return Check("notices", ok=True, found=where)


def _terminal() -> Check:
    size = shutil.get_terminal_size()
    found = f"{os.environ.get('TERM', 'none')}, {size.columns}x{size.lines}" if on_terminal() else "none: plain lines"
    return Check("terminal", ok=True, found=found)
