"""The job's readable records, as files below the home."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

TAIL_BYTES = 1 << 18


class JobFiles:
    """`jobs/<id>/`: state.json, records/, outcomes/, streams."""

    def __init__(self, home: Path) -> None:
        self._jobs = home.resolve() / "jobs"

    def home(self, job: str) -> Path:
        """Where the job's files lie."""
        return self._jobs / job

    def recorded(self) -> set[str]:
        """The jobs that have a state record."""
        return {path.parent.name for path in self._jobs.glob("*/state.json")}

    def write_state(self, job: str, name: str, text: str) -> None:
        """Replace a state record, whole or not at all."""
        path = self.home(job) / name
        self._make(path.parent)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)

    def append(self, job: str, stream: str, lines: Sequence[str]) -> None:
        """Add lines to a stream, in one write."""
        path = f"{self._jobs}/{job}/{stream}"  # not a Path: this is done for every turn
        data = "".join([f"{line}\n" for line in lines]).encode("utf-8", "surrogatepass")
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        try:
            handle = os.open(path, flags, 0o600)
        except FileNotFoundError:
            self._make(Path(path).parent)
            handle = os.open(path, flags, 0o600)
        try:
            os.write(handle, data)
        finally:
            os.close(handle)

    def _make(self, folder: Path) -> None:
        """Make a folder of a job's. The home itself is never made anew: a job whose home was deleted has to stop."""
        self._jobs.mkdir(exist_ok=True)
        folder.mkdir(parents=True, exist_ok=True)

    def tail(self, job: str, stream: str) -> list[str]:
        """The last lines of a stream."""
        path = self.home(job) / stream
        if not path.is_file():
            return []
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace").splitlines()

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
