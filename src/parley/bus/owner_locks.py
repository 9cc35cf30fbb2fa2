"""Which process owns a job on this machine: a lock of the kernel, one file a job.

The kernel ends a lock with the process that holds it, however that ends, and never before: a process that is
merely stopped keeps it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from parley.bus import patient_lock
from parley.bus.rows import BusError, Owned

# A probe of `is_taken` holds a lock for microseconds, more on a busy machine: `take` tries again where it meets one.
_TRIES = 20
_PAUSE_SECONDS = 0.005
# Never through a link, nor waiting for the other end of a pipe: a folder of locks may have come with a clone.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MADE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

_LIVING: weakref.WeakSet[Locks] = weakref.WeakSet()


class Locks:
    """The locks in a folder, and those of them that this holds."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.held: dict[str, int] = {}
        _LIVING.add(self)

    def take(self, job: str) -> None:
        """Lock the job, or say which process has."""
        for _ in range(0 if job in self.held else _TRIES):
            descriptor = os.open(self._path(job), _MADE, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(descriptor, job):
                    self._sign(descriptor)
                    self.held[job] = descriptor
                    return
            except BlockingIOError:
                time.sleep(_PAUSE_SECONDS)
            finally:
                if self.held.get(job) != descriptor:
                    os.close(descriptor)
        raise Owned(f"job {job} has a living owner ({self._owner(job)}); end it, or ask it through the bus")

    def give_up(self, job: str) -> None:
        """Unlock the job, if it is locked here."""
        descriptor = self.held.pop(job, None)
        if descriptor is not None:
            with suppress(OSError):
                os.utime(descriptor)  # when its owner left the job, for people
            os.close(descriptor)

    def is_taken(self, job: str) -> bool:
        """Whether a process has locked the job. It tries a shared lock, so that two that only ask don't meet."""
        if job in self.held:
            return True
        try:
            descriptor = os.open(self._path(job), _READ)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return False
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)

    def holder(self, job: str) -> int:
        """The process that holds the job's lock, by the kernel's own word; 0 if none does, or it can't be told."""
        try:
            return patient_lock.holder(self._path(job).stat())
        except OSError:
            return 0

    def forget(self) -> None:
        """Unlock all that are locked here."""
        for job in list(self.held):
            self.give_up(job)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder itself, and wait for another process that has, for a while. No job's lock has this name."""
        descriptor = os.open(self.folder / ".alone", _MADE, 0o600)
        try:
            try:
                patient_lock.lock(descriptor)
            except patient_lock.StillLocked as error:
                raise BusError(f"{self.folder}: {error.strerror}") from error
            yield
        finally:
            os.close(descriptor)

    def _path(self, job: str) -> Path:
        return self.folder / f"{job}.lock"

    def _is_current(self, descriptor: int, job: str) -> bool:
        """Whether the file that was locked is still the one that others open: a program may have replaced it."""
        try:
            there = self._path(job).stat()
        except FileNotFoundError:
            return False
        here = os.fstat(descriptor)
        return (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)

    @staticmethod
    def _sign(descriptor: int) -> None:
        """Write which process holds it, for people: no program reads it."""
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())

    def _owner(self, job: str) -> str:
        try:
            return self._path(job).read_text(encoding="utf-8", errors="replace").strip() or "not known"
        except OSError:
            return "not known"


def _forget_all() -> None:
    """Keep a forked child, which shares its parent's open files, from keeping its parent's locks."""
    for locks in list(_LIVING):
        locks.forget()


os.register_at_fork(after_in_child=_forget_all)
