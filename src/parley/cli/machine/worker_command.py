"""`parley worker`: runs turns of jobs whose coordinator is elsewhere, until it is told to end."""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import signal
import socket
import sys
import threading
import time
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from types import FrameType

from parley.bus.patient_lock import holder
from parley.bus.postgres.postgres_schema import id_of
from parley.bus.sqlite import safe_open
from parley.cli import FAILED, OK, CommandError, home_bus
from parley.cli.common import HOME_VARIABLE, Workplace, one_line, own_settings, place_of, users_folder
from parley.cli.machine.boundary_trial import boundary_at, try_boundary
from parley.cli.machine.trust import settings_of
from parley.cli.running.job_runners import runners
from parley.cli.running.placed import remote_of, temporal_of
from parley.cli.running.setup_command import SetUpCommand
from parley.hosts.board_address import board_connect, chosen_board
from parley.hosts.host_board import HostRefused
from parley.hosts.mirror.place_mirror import PlaceMirror
from parley.hosts.worker import LAST_SECONDS, HostWorker, WorkerOptions, WorkerPlace
from parley.hosts.worker_health import HealthAddress, HealthServer, read_address
from parley.machine.process_tags import MARK, gits_mark
from parley.runners.local_turns import LocalTurns
from parley.settings import load

STUCK_SECONDS = 10.0  # after the limits of a drain, when the process is ended whatever it does
LOCK, LOCKED_SECONDS, LOCK_PAUSE_SECONDS = "worker.lock", 10.0, 0.1
MOST_SLOTS = 1000
MOST_DRAIN = 86_400
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


def run(words: argparse.Namespace) -> int:
    """Offer this machine's slots for turns."""
    here = place_of(words.repo)
    settings = settings_of(here)
    name = _name(words.name if words.name is not None else re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()))
    labels = tuple(dict.fromkeys(_name(label) for label in words.label or ()))
    slots = _whole(words.slots, "--slots", MOST_SLOTS)
    drain = _whole(words.drain, "--drain", MOST_DRAIN)
    health = _health(words.health)
    address, temporal, remote = (
        home_bus.address_of(_server(words.server)),
        temporal_of(settings.hosts),
        remote_of(settings.hosts),
    )
    schema = chosen_board(address, words.bus or "")
    place = Workplace(here.root, _home(name))
    _make_home(place.home)
    trial = try_boundary(settings.boundary, place)
    if not trial.ok:
        raise CommandError(f"no turn can run here: the boundary: {trial.found}: {trial.remedy}", FAILED)
    with ExitStack() as held:
        _hold(place.home, held)
        boundary = held.enter_context(closing(boundary_at(place, settings.boundary)))
        turns = LocalTurns(runners(place, settings, boundary), slots)
        mirror = PlaceMirror(
            place.home,
            remote,
            bus=id_of(schema),
            set_up=SetUpCommand(boundary, settings, place.home),
            copies=here.root,
            hand_over=boundary.hand_over,
            mark=lambda job: {MARK: gits_mark(job)},
            tell=_tell,
        )
        worker = HostWorker(
            place=WorkerPlace(schema, partial(board_connect, address, schema), temporal),
            options=WorkerOptions(
                name=name,
                slots=slots,
                labels=labels,
                boundary=one_line(trial.found, 300),
                drain_seconds=drain,
                alone_seconds=settings.hosts.alone_seconds,
            ),
            turns=turns,
            mirror=mirror,
            tell=_tell,
        )
        _end_on_signals(worker, drain)
        if health is not None:
            held.enter_context(closing(_answering(health, worker)))
        try:
            _tell(f"{name} offers {slots} slots; Ctrl-C or SIGTERM lets its turns end, a second one hands them back")
            worker.run()
        except HostRefused as refused:
            raise CommandError(str(refused), FAILED) from refused
    _tell(f"{name} has ended")
    return OK


def _end_on_signals(worker: HostWorker, drain: float) -> None:
    def stop(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=_end_in_time, args=(drain,), name="parley-end", daemon=True).start()
        worker.stop()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)


def _end_in_time(drain: float) -> None:
    time.sleep(drain + LAST_SECONDS + STUCK_SECONDS)
    _tell("it did not end in time, and was ended; its turns are given back by the coordinator")
    os._exit(FAILED)


def _home(name: str) -> Path:
    """A home of this worker's own: where it lays out what turns need. Never a repository's."""
    if named := os.environ.get(HOME_VARIABLE):
        return Path(os.path.realpath(named))
    state = users_folder("XDG_STATE_HOME", "~/.local/state")
    if state is None:
        raise CommandError(f"this account has no home folder; name a folder for the worker with {HOME_VARIABLE}")
    return state / "parley" / "workers" / name


def _make_home(home: Path) -> None:
    """Make the home. It has jobs' files and no bus: it is no home of jobs, and none of those may be used for it."""
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = home.lstat()
    except OSError as error:
        raise CommandError(f"{home}: {error.strerror}; name another folder with {HOME_VARIABLE}") from error
    if found.st_uid != os.geteuid() or found.st_mode & 0o022 or safe_open.exists(home):
        raise CommandError(f"{home} has a bus, or is not yours alone; name another folder with {HOME_VARIABLE}")


def _hold(home: Path, held: ExitStack) -> None:
    """Keep the home for this process: two workers would lay the same job's files out over each other."""
    handle = os.open(home / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    held.callback(os.close, handle)
    deadline = time.monotonic() + LOCKED_SECONDS  # one that was just killed may still be going
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                other = holder(os.fstat(handle))
                raise CommandError(
                    f"another worker{f' (process {other})' if other else ''} uses {home}; choose another name with "
                    f"--name, or name another folder with {HOME_VARIABLE}",
                    FAILED,
                ) from None
            time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return


def _server(named: str | None) -> str:
    """The server that has the board: the one that was named, else the only one of the user's settings."""
    if named:
        return named
    known = list(load.read_own_servers(own_settings()))
    if len(known) > 1:
        raise CommandError(f"your settings name several servers; choose one with --server: {', '.join(known)}")
    return known[0] if known else "postgres"


def _name(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise CommandError(f"{one_line(text, 63)!r} can't be a name; use letters, digits, dots, dashes, underscores")
    return text


def _whole(text: str, option: str, most: int) -> int:
    if not text.isdecimal() or not text.isascii() or not 1 <= int(text[:9]) <= most:
        raise CommandError(f"{option} takes a whole number from 1 to {most}, not {one_line(text, 20)!r}")
    return int(text)


def _health(text: str | None) -> HealthAddress | None:
    if text is None:
        return None
    try:
        return read_address(text)
    except ValueError:
        raise CommandError(
            f"--health takes an address of this machine and a port, such as 127.0.0.1:7328, not {one_line(text, 60)!r}"
        ) from None


def _answering(address: HealthAddress, worker: HostWorker) -> HealthServer:
    try:
        return HealthServer(address, worker.state)
    except OSError as error:
        raise CommandError(f"--health: {address.host} port {address.port}: {error.strerror}", FAILED) from error


def _tell(line: str) -> None:
    """A line for the log, with the time."""
    print(f"{time.strftime('%H:%M:%S')} {one_line(line, 600)}", file=sys.stderr, flush=True)
