"""The log of Parley's own faults with tracebacks, for engineers: `jobs/<id>/faults.log`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from parley.base.text import mended

LARGEST = 1 << 20  # bytes; the first faults matter most


class FaultLog:
    """A file beside a job's records."""

    def __init__(self, jobs: Path) -> None:
        self._jobs = jobs

    def tell(self, job: str, text: str) -> str:
        """Write a fault; returns where."""
        path = self._jobs / job / "faults.log"
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
        data = f"{moment} UTC\n{mended(text)}\n".encode()
        try:
            path.parent.mkdir(exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                if os.fstat(handle).st_size < LARGEST:
                    os.write(handle, data)
            finally:
                os.close(handle)
        except OSError as error:
            return f"{path}, which can't be written ({error.strerror})"
        return str(path)
