"""The attendant of a home: the one process that runs all its jobs while `parley serve` is up, and how others meet it.

It holds a lock of the kernel for as long as it lives. A command that has put a job on the bus asks it to begin that job
by a file in the job's folder. It writes why it can't go on with a job into a file that the page reads.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from parley.base.json_codec import Unreadable, decode, encode
from parley.bus.owner_locks import Locks
from parley.bus.patient_lock import is_stopped
from parley.bus.rows import JOB_ID, BusError, Owned

LOCK = "serve"  # the lock's file is serve.lock
PROBLEMS = "serve-problems.json"
REQUEST = "start"  # in a job's folder
LARGEST = 1 << 20  # bytes of the problems that are read
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MADE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Attended(BusError):
    """Another process is the home's attendant."""


@contextmanager
def attend(home: Path) -> Iterator[None]:
    """Be the home's attendant. Attended where another process is."""
    locks = Locks(home)
    try:
        locks.take(LOCK)
    except Owned as error:
        pid = locks.holder(LOCK)
        who = f"process {pid}" if pid else "another process"
        raise Attended(f"{who} runs the jobs of {home} already; this one is not needed") from error
    try:
        write_problems(home, {})
        yield
    finally:
        locks.forget()


def attended(home: Path) -> bool:
    """Whether a living process, this one included, is the home's attendant."""
    try:
        return Locks(home).is_taken(LOCK)
    except OSError:  # a link, or a folder that can't be read: no lock of ours
        return False


def attendant_stopped(home: Path) -> bool:
    """Whether a signal has stopped the home's attendant: it begins nothing until another lets it go on."""
    pid = Locks(home).holder(LOCK)
    return pid != 0 and is_stopped(pid)


# ---- what it is asked ------------------------------------------------------------------------------


def ask_to_start(home: Path, job: str) -> None:
    """Ask the attendant to go on with a job now: a new one, or one that it has put off."""
    path = _request(home, job)
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, _MADE, 0o600))


def is_asked(home: Path, job: str) -> bool:
    """Whether the attendant is asked to go on with a job."""
    return os.path.lexists(_request(home, job))


def forget_request(home: Path, job: str) -> None:
    """The request is carried out, or taken back."""
    with suppress(OSError):
        _request(home, job).unlink()


def _request(home: Path, job: str) -> Path:
    if JOB_ID.fullmatch(job) is None:
        raise BusError(f"{job!r:.120} is no job's id")
    return home / "jobs" / job / REQUEST


# ---- what it tells ---------------------------------------------------------------------------------


def write_problems(home: Path, problems: Mapping[str, str]) -> None:
    """Write why the attendant can't go on with jobs, in place of what was written before."""
    draft = home / f".{PROBLEMS}.{os.getpid()}"
    with suppress(OSError):
        draft.unlink()
    handle = os.open(draft, _MADE | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(encode(dict(problems)))
    draft.replace(home / PROBLEMS)


def read_problems(home: Path) -> dict[str, str]:
    """Why the living attendant can't go on with jobs, by job; empty where there is no attendant."""
    if not attended(home):
        return {}
    try:
        handle = os.open(home / PROBLEMS, _READ)
    except OSError:
        return {}
    if not stat.S_ISREG(os.fstat(handle).st_mode):  # before a file is made of it: of a folder that would fail
        os.close(handle)
        return {}
    with os.fdopen(handle, "rb") as file:
        text = file.read(LARGEST).decode("utf-8", "replace")
    try:
        return decode(text, dict[str, str])
    except Unreadable:
        return {}
