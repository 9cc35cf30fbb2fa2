"""`parley doctor`: checks whether a job can start here: machine, home, agent, boundary."""

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

from parley import __version__
from parley.base.documents.node import DocumentError
from parley.base.output import OUTPUT_SECRETS
from parley.base.wording import count
from parley.bus.rows import BusError
from parley.cli import FAILED, OK, CommandError, home_bus
from parley.cli.common import Workplace, on_terminal, own_settings, place_of, print_json, safe
from parley.cli.machine.boundary_trial import BoundaryTrial, try_boundary
from parley.cli.machine.notify import addresses, last_problems
from parley.cli.machine.readiness import GIT_SECONDS, ReadinessCheck, needs
from parley.cli.machine.trust import layers_of, refuse_roles, settings_of, unallowed
from parley.cli.machine.wider_settings import Widening, of_roles, of_settings
from parley.cli.running.job_runners import agent_words, announced, choose, claude_problem
from parley.cli.running.job_runners import check as check_roles
from parley.cli.shared_home import configured_remote, decisions, moving_words
from parley.cli.starting.run import snapshot_of
from parley.features.telemetry.collector import refuse_missing, where_to
from parley.features.telemetry.destination import NotSendable, destination
from parley.ports.decisions import MemoryTrouble
from parley.ports.turns import CLAUDE, SCRIPTED
from parley.ports.workspaces import WorkspaceError
from parley.roles import gather
from parley.runners.claude import find_program, logins
from parley.runners.scripted.playbook import Playbook
from parley.sandbox import Boundary
from parley.sandbox.limits.memory_limit import KERNEL
from parley.settings import load
from parley.settings.schema import FILE, Settings
from parley_cfa import installation

OLDEST_PYTHON = (3, 11)
OLDEST_SQLITE = (3, 35, 0)


def run(words: argparse.Namespace) -> int:
    """Run all checks."""
    place = place_of(words.repo)
    trial = try_boundary(_read(place).boundary, place)
    checks = [
        of_agent(place, words.agent),
        of_claude(place, words.agent),
        *needs(place),
        _identity(place),
        _bus(place.home),
        _memory(place),
        _settings(place),
        _python(),
        _parley(),
        *_sqlite(),
        _notices(place),
        *_telemetry(place),
        _terminal(),
        *([ReadinessCheck("bubblewrap", ok=True, found=trial.program)] if trial.program else []),
        _bounds(place),
        _trial_check(trial),
    ]
    good = all(check.ok for check in checks)
    widened = _widened(place)
    OUTPUT_SECRETS.show(*map(str, widened))
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


def line_of(check: ReadinessCheck) -> str:
    """A check as one line for people."""
    remedy = f"; {check.remedy}" if check.remedy and not check.ok else ""
    return safe(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<12} {check.found}{remedy}")


def _python() -> ReadinessCheck:
    return ReadinessCheck(
        "python",
        sys.version_info >= OLDEST_PYTHON,
        f"{platform.python_version()} ({sys.executable})",
        "install Python 3.11 or newer",
    )


def _parley() -> ReadinessCheck:
    found = installation.read()
    told = f"{__version__}, {found}"
    if stranger := installation.find_stranger():
        return ReadinessCheck("parley", ok=False, found=f"{told}; {stranger}", remedy=found.without_stranger())
    return ReadinessCheck("parley", ok=True, found=told)


def _sqlite() -> list[ReadinessCheck]:
    threads = {0: "single-threaded", 1: "multi-threaded", 3: "serialized"}.get(sqlite3.threadsafety, "not known")
    return [
        ReadinessCheck(
            "sqlite",
            sqlite3.sqlite_version_info >= OLDEST_SQLITE,
            sqlite3.sqlite_version,
            f"use a Python with SQLite {'.'.join(map(str, OLDEST_SQLITE))} or newer",
        ),
        ReadinessCheck("threads", sqlite3.threadsafety > 0, threads, "use a Python whose SQLite is thread-safe"),
    ]


def _memory(place: Workplace) -> ReadinessCheck:
    with contextlib.closing(decisions(place.home)) as memory:
        try:
            found = count(memory.count(), "decision") if memory.exists else "none yet"
        except MemoryTrouble as trouble:
            return ReadinessCheck("memory", ok=False, found=str(trouble), remedy="until then jobs ask you instead")
        return ReadinessCheck("memory", ok=True, found=f"{found} ({memory.where})")


def _identity(place: Workplace) -> ReadinessCheck:
    """The user's git identity. Jobs need none, and neither does a fast-forward merge."""
    asked = ["git", "-C", str(place.root), "var", "GIT_AUTHOR_IDENT"]
    said = ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        strict = [*asked[:3], "-c", "user.useConfigOnly=true", *asked[3:]]
        said = subprocess.run(
            strict, capture_output=True, text=True, errors="replace", check=False, timeout=GIT_SECONDS
        ).stdout
    name = said.rpartition(">")[0]
    unknown = "git does not know you, and `parley merge` may ask: git config --global user.name, user.email"
    return ReadinessCheck("identity", ok=True, found=f"{name}>" if name else unknown)


def _bus(home: Path) -> ReadinessCheck:
    try:
        if not home_bus.exists(home):
            return ReadinessCheck("bus", ok=True, found="none yet")
        store = home_bus.open_store(home)
    except BusError as error:
        return ReadinessCheck("bus", ok=False, found=str(error), remedy="see above")
    try:
        return ReadinessCheck("bus", ok=True, found=f"{count(len(store.jobs()), 'job')}{_moving(home)}")
    except BusError as error:
        return ReadinessCheck("bus", ok=False, found=str(error), remedy="see above")
    finally:
        store.close()


def _moving(home: Path) -> str:
    """Whether another host can go on with the jobs of a home on a server."""
    if home_bus.on_server(home) is None:
        return ""
    try:
        remote = configured_remote()
    except DocumentError:
        return ""  # the check of the settings tells it
    return f"; {moving_words(remote.shown if remote is not None else None)}"


def _settings(place: Workplace) -> ReadinessCheck:
    try:
        settings = load.read(place.root, own_settings())
        asked = unallowed(place)
    except (DocumentError, CommandError) as error:
        return ReadinessCheck("settings", ok=False, found=str(error), remedy="until then jobs can't be started")
    if asked:
        remedy = "see what it asks for, and allow it, with `parley trust`"
        OUTPUT_SECRETS.show(*asked)
        return ReadinessCheck("settings", ok=False, found=f"{FILE} asks for {', '.join(asked)}", remedy=remedy)
    durable = "each commit waits for the disk" if settings.durability == "full" else "the last commits may be lost"
    return ReadinessCheck("durability", ok=True, found=f"{settings.durability}: {durable}")


def _bounds(place: Workplace) -> ReadinessCheck:
    """How much of the machine an agent and a job may use, and how that is enforced."""
    settings = _read(place)
    boundary = Boundary(settings.boundary)
    try:
        memory, how = boundary.memory_bytes >> 20, boundary.memory_kept_by()
    finally:
        boundary.close()
    kept = "kept by a cgroup" if how == KERNEL else "measured five times a second, since no cgroup can be made here"
    job = f"{settings.workspace.quota_mb} MB of disk a job, {count(settings.workspace.files, 'file')} a workspace"
    return ReadinessCheck("bounds", ok=True, found=f"{memory} MB of memory an agent ({kept}); {job}")


def _widened(place: Workplace) -> list[Widening]:
    """What is wider here than the defaults. What the user has to allow first is reported elsewhere."""
    try:
        layers = layers_of(place)
        roles = gather(place.root, layers.given)
        refuse_roles(place.root, roles, layers.given)
    except (DocumentError, CommandError):
        return []
    return [*of_settings(place, layers), *of_roles(place.root, roles, layers.given)]


def of_boundary(place: Workplace) -> ReadinessCheck:
    """Whether agents can be confined here."""
    return _trial_check(try_boundary(_read(place).boundary, place))


def _trial_check(trial: BoundaryTrial) -> ReadinessCheck:
    return ReadinessCheck("boundary", trial.ok, trial.found, trial.remedy)


def _read(place: Workplace) -> Settings:
    """The settings, as far as they can be used: what is wrong with them is reported elsewhere."""
    try:
        return settings_of(place)
    except (DocumentError, CommandError):
        return Settings()


def of_agent(place: Workplace, wanted: str | None = None) -> ReadinessCheck:
    """The agent that `parley run` would use here, and whether it could start."""
    try:
        settings = settings_of(place)
        agent = choose(wanted, settings, place, playbook=wanted == SCRIPTED)
        snapshot = snapshot_of(place.root, settings, Playbook(), agent)
        check_roles(snapshot.roles, settings, place)
    except (CommandError, DocumentError, WorkspaceError) as error:
        return ReadinessCheck("agent", ok=False, found=f"no job can start: {error}")
    return ReadinessCheck("agent", ok=True, found=announced(agent, settings, snapshot, place))


def of_claude(place: Workplace, wanted: str | None = None) -> ReadinessCheck:
    """Claude Code and every login found. Where another agent is used, it may be absent."""
    settings = _read(place)
    problem = claude_problem(settings)
    found = [problem] if problem else [f"{agent_words(CLAUDE, settings)} ({_origin(settings)})"]
    for one in logins(os.environ):
        allowed = settings.claude.subscription or not one.subscription
        told = one.problem or (f"{one.origin}: found" if allowed else f"{one.origin}: found, not allowed")
        if one.origin not in problem:  # else it is reported already
            found.append(told)
    return ReadinessCheck("claude", not problem or wanted not in (None, CLAUDE), "; ".join(found))


def _origin(settings: Settings) -> str:
    return find_program(settings.claude, os.environ).origin


def _notices(place: Workplace) -> ReadinessCheck:
    """Whether notices are sent, by the results of the last ones. They are optional."""
    try:
        found, origin = addresses(place, _read(place))
    except DocumentError as error:
        return ReadinessCheck("notices", ok=False, found=str(error), remedy="until then none are sent")
    if not found.to:
        return ReadinessCheck("notices", ok=True, found="none are sent")
    where = f"to {len(found.to)} from {origin}"
    failed = last_problems(place.home) if _bus(place.home).ok else []
    if failed:
        said = f"{where}; the last one failed: {'; '.join(failed)}"
        return ReadinessCheck("notices", ok=False, found=said, remedy="try it with `parley notify --test`")
    return ReadinessCheck("notices", ok=True, found=where)


def _telemetry(place: Workplace) -> list[ReadinessCheck]:
    """Where telemetry goes; nothing where the user asks for none."""
    try:
        to = destination(_read(place).telemetry, os.environ)
        if to is None:
            return []
        refuse_missing()
    except NotSendable as error:
        return [ReadinessCheck("telemetry", ok=False, found=str(error), remedy="until then none is sent")]
    return [ReadinessCheck("telemetry", ok=True, found=where_to(to))]


def _terminal() -> ReadinessCheck:
    size = shutil.get_terminal_size()
    found = f"{os.environ.get('TERM', 'none')}, {size.columns}x{size.lines}" if on_terminal() else "none: plain lines"
    return ReadinessCheck("terminal", ok=True, found=found)
