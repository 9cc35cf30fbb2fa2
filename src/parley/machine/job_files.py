"""Writes and reads a job's files below the home: state records, outcomes, streams."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from parley.base.text import lenient

TAIL_BYTES = 1 << 18
STREAM_BYTES = 64 << 20  # of one stream; the rest is dropped
CUT = b'{"time":0,"turn":"","event":"cut","text":"the stream is full: what came after this is not kept"}\n'


class JobFiles:
    """`jobs/<id>/`: state.json, records/, outcomes/, streams."""

    def __init__(self, home: Path, relieve: Callable[[], None] = lambda: None) -> None:
        """`relieve` frees space on a disk that an agent has filled."""
        self._jobs = home.resolve() / "jobs"
        self._relieve = relieve

    def home(self, job: str) -> Path:
        """Where the job's files lie."""
        return self._jobs / job

    def recorded(self) -> set[str]:
        """The jobs that have a state record."""
        return {path.parent.name for path in self._jobs.glob("*/state.json")}

    def write_state(self, job: str, name: str, text: str) -> None:
        """Replace a state record, atomically."""
        path = self.home(job) / name
        self._make(path.parent)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        self._with_room(lambda: draft.write_text(text, encoding="utf-8"))
        draft.replace(path)

    def append(self, job: str, stream: str, lines: Sequence[str]) -> None:
        """Add lines to a stream, in one write."""
        path = f"{self._jobs}/{job}/{stream}"  # a plain string is faster: this runs for every turn
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            handle = os.open(path, flags, 0o600)
        except FileNotFoundError:
            self._make(Path(path).parent)
            handle = os.open(path, flags, 0o600)
        try:
            data = fitting(os.fstat(handle).st_size, lines)
            if data:
                self._with_room(lambda: os.write(handle, data))
        finally:
            os.close(handle)

    def _with_room(self, write: Callable[[], object]) -> None:
        """Write something; where the disk is full, retry after freeing space."""
        try:
            write()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self._relieve()
            write()

    def _make(self, folder: Path) -> None:
        """Make a folder of a job. The home itself is never made again: a job whose home was deleted has to stop."""
        self._jobs.mkdir(exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)

    def tail(self, job: str, stream: str) -> list[str]:
        """The last lines of a stream."""
        path = self.home(job) / stream
        if not path.is_file():
            return []
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return (
                lenient(file.read()).removesuffix("\n").split("\n")
            )  # not splitlines: a line may contain other line separators

    def last_write(self, job: str) -> float:
        """When something of the job was last written, or its last owner left it; 0: never."""
        moments = [0.0]
        with suppress(OSError):
            moments.append((self._jobs.parent / "locks" / f"{job}.lock").stat().st_mtime)
        with suppress(OSError), os.scandir(self.home(job)) as entries:
            moments += [entry.stat(follow_symlinks=False).st_mtime for entry in entries if entry.is_file()]
        return max(moments)

    def write_outcome(self, job: str, name: str, text: str) -> None:
        """Keep an outcome record."""
        self.write_state(job, f"outcomes/{name}", text)


def fitting(size: int, lines: Sequence[str]) -> bytes:
    """Lines as a stream of this size takes them: those that it has room for, and a mark where that is not all."""
    room = STREAM_BYTES - size
    if room <= 0:
        return b""
    data = "".join([f"{line}\n" for line in lines]).encode("utf-8", "replace")
    return data if len(data) <= room else data[: data.find(b"\n", room - 1) + 1] + CUT  # with the line that fills it
