"""A job's readable files on every host of its home: written through to the server, and brought into a host's folder.

The folder is what the faces read. A note in it says how far it has come; a host that has all asks one short question.
Nothing that comes from the server is taken for a path without a look.
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from parley.bus.rows import JOB_ID, BusError
from parley.hosts.shared.file_table import FileTable, FileWrite
from parley.machine.job_files import STREAM_BYTES, JobFiles, fitting

NOTE, LOCK = ".brought.json", ".brought.lock"
LOCK_SECONDS = 5.0  # that a process that writes a file may take; one that was stopped in it is not waited for
_PAUSE_SECONDS = 0.005
LOOK_SECONDS = 0.3  # between two questions about a job that is looked at all the time
_PHASE = re.compile(r"\.[a-z]+-stream\.jsonl")
_FOLDERS = {"records": ".json", "outcomes": ".json", "streams": ".jsonl"}
_DEEPEST, _PART_BYTES = 8, 200
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class FolderBusy(BusError):
    """Another process of this host writes into a job's folder, and does not end."""


class _Brought(msgspec.Struct, frozen=True):
    """How far this host's folder of a job has come: the last write that is in it, and how long each stream is then."""

    bus: str = ""
    number: int = 0
    sizes: dict[str, int] = {}


class SharedFiles(JobFiles):
    """The files of the jobs of a home whose bus is on a server.

    The owner of a job calls `take` first; its writes go to the server before they go into the folder. For any other job
    the folder is brought up to date when it is asked where it lies.
    """

    def __init__(self, home: Path, table: FileTable, bus: str, relieve: Callable[[], None] = lambda: None) -> None:
        """`bus` tells apart the buses that a folder may have been brought from."""
        super().__init__(home, relieve)
        self._table = table
        self._bus = bus
        self._owned: dict[str, _Brought] = {}
        self._looked: dict[str, float] = {}

    def close(self) -> None:
        """Let go of the server."""
        self._table.close()

    # ---- the owner -----------------------------------------------------------------------------

    def take(self, job: str) -> None:
        """This process owns the job: bring its files, and write them from now on.

        Files of a job that began before its bus was on the server are put there first.
        """
        self._owned.pop(job, None)
        self._make(self._folder(job))
        with self._locked(job):
            if not self._table.last(job):
                self._owned[job] = _Brought(self._bus)
                self._hand_in(job)
                return
            self._owned[job] = self._bring(job)

    def leave(self, job: str) -> None:
        """This process does not own the job any more."""
        self._owned.pop(job, None)

    def write_state(self, job: str, name: str, text: str) -> None:
        """Replace a state record, on the server and here."""
        self._write(job, name, text.encode("utf-8", "replace"), appended=False)

    def append(self, job: str, stream: str, lines: Sequence[str]) -> None:
        """Add lines to a stream, on the server and here, in one write each."""
        data = fitting(self._known(job).sizes.get(stream, 0), lines)
        if data:
            self._write(job, stream, data, appended=True)

    def _known(self, job: str) -> _Brought:
        try:
            return self._owned[job]
        except KeyError:
            raise BusError(f"this process does not own job {job}, whose files it was to write") from None

    def _write(self, job: str, name: str, data: bytes, *, appended: bool) -> None:
        known = self._known(job)
        write = FileWrite(known.number + 1, name, appended, data)
        with self._locked(job):
            self._table.keep(job, write)
            self._owned[job] = self._applied(job, known, [write])

    def _hand_in(self, job: str) -> None:
        """Put the files that are here on the server: all or none, since the next owner goes by what is there."""
        folder, sizes = self._folder(job), dict[str, int]()
        paths = sorted(path for path in folder.rglob("*.json*") if path.is_file() and not path.is_symlink())
        names = [str(path.relative_to(folder)) for path in paths if path.stat().st_size <= STREAM_BYTES]
        names = [name for name in names if is_file_name(name)]

        def writes() -> Iterator[FileWrite]:
            for number, name in enumerate(names, 1):
                write = FileWrite(number, name, name.endswith(".jsonl"), (folder / name).read_bytes())
                if write.appended:
                    sizes[name] = len(write.body)
                yield write

        if names:
            self._table.keep_all(job, writes())
        self._owned[job] = _Brought(self._bus, len(names), sizes)
        self._note(job, self._owned[job])

    # ---- everyone ------------------------------------------------------------------------------

    def home(self, job: str) -> Path:
        """Where the job's files lie: those that were written on another host are brought first."""
        now = time.monotonic()
        if job not in self._owned and JOB_ID.fullmatch(job) and now - self._looked.get(job, -60.0) >= LOOK_SECONDS:
            self._looked[job] = now
            self.bring(job)
        return self._folder(job)

    def bring(self, job: str) -> None:
        """Bring what was written elsewhere. Where there is nothing new that is one short question to the server."""
        last = self._table.last(job)
        known = self._read_note(job)
        if last == 0 or (known.number == last and known.bus == self._bus):
            return
        self._make(self._folder(job))
        with suppress(FolderBusy), self._locked(job):  # then what is here is shown
            self._bring(job)

    def _folder(self, job: str) -> Path:
        return super().home(job)

    def _bring(self, job: str) -> _Brought:
        last, known = self._table.last(job), self._read_note(job)
        if known.bus != self._bus or any(_size(self._folder(job) / name) < size for name, size in known.sizes.items()):
            for name in known.sizes:
                (self._folder(job) / name).unlink(missing_ok=True)
            known = _Brought(self._bus)
        return self._applied(job, known, self._table.after(job, known.number), last)

    def _applied(self, job: str, known: _Brought, writes: Iterable[FileWrite], last: int = 0) -> _Brought:
        """Put writes into the folder. The note comes last: what a crash leaves between is done again.

        `last`: the number up to which there is nothing else, whatever was passed over.
        """
        sizes, number = dict(known.sizes), known.number
        for write in writes:
            number = write.number
            if not is_file_name(write.name):
                continue
            path = self._folder(job) / write.name
            self._make(path.parent)
            if not write.appended:
                self._replace(path, write.body)
            elif sizes.get(write.name, 0) + len(write.body) <= 2 * STREAM_BYTES:
                sizes[write.name] = self._extend(path, sizes.get(write.name, 0), write.body)
        now = _Brought(self._bus, max(number, last), sizes)
        if now != known:
            self._note(job, now)
        return now

    def _extend(self, path: Path, size: int, data: bytes) -> int:
        """Write data into a stream after its first bytes; how long it is then."""
        handle = os.open(path, _FLAGS, 0o600)
        try:
            if os.fstat(handle).st_size > size:  # a crash came before the note was written
                os.ftruncate(handle, size)
            self._with_room(lambda: os.pwrite(handle, data, size))
        finally:
            os.close(handle)
        return size + len(data)

    def _replace(self, path: Path, data: bytes) -> None:
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        self._with_room(lambda: draft.write_bytes(data))
        draft.replace(path)

    def _read_note(self, job: str) -> _Brought:
        try:
            return msgspec.json.decode((self._folder(job) / NOTE).read_bytes(), type=_Brought)
        except (OSError, msgspec.MsgspecError):
            return _Brought()

    def _note(self, job: str, known: _Brought) -> None:
        self._replace(self._folder(job) / NOTE, msgspec.json.encode(known))

    @contextmanager
    def _locked(self, job: str) -> Iterator[None]:
        """No other process of this host writes into the job's folder meanwhile; FolderBusy where one does for long."""
        path = self._folder(job) / LOCK
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + LOCK_SECONDS
            while not _is_locked(handle):
                if time.monotonic() > deadline:
                    raise FolderBusy(f"{path}: another process of this host holds it, and may be stopped; end that one")
                time.sleep(_PAUSE_SECONDS)
            yield
        finally:
            os.close(handle)


def _is_locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_file_name(name: str) -> bool:
    """Whether a name is one of a job's readable files: nothing else is ever written for the server."""
    if name == "state.json" or _PHASE.fullmatch(name):
        return True
    first, *parts = name.split("/")
    return (
        first in _FOLDERS
        and name.endswith(_FOLDERS[first])
        and 0 < len(parts) <= _DEEPEST
        and name.isprintable()
        and all(part and not part.startswith(".") and len(part.encode()) <= _PART_BYTES for part in parts)
    )


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
