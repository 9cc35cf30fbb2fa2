"""A PostgreSQL server of one's own, for tests and the bench: in a folder of its own, on a Unix socket.

The system's cluster is never used or started.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psycopg

from tools.child_processes import children_of

DEBIAN = Path("/usr/lib/postgresql")
SECONDS = 60.0


def programs() -> Path | None:
    """Where initdb and postgres are: on the PATH, or where Debian has them."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).parent
    versions = sorted(
        DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]) if path.parts[-3].isdecimal() else 0
    )
    return versions[-1].parent if versions else None


class Server:
    """A server that is started, killed and started again. `inside`: what goes before the words of its command."""

    def __init__(
        self, folder: Path, bin_folder: Path, settings: Sequence[str] = ("fsync=off",), inside: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        self._bin = bin_folder
        self._settings = settings
        self._inside = inside
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        subprocess.run(
            [*self._as_user(), bin_folder / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-N",
             "-E", "UTF8", "--locale=C"],
            check=True, stdout=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """Its first process; 0 while it does not run."""
        return self._process.pid if self._process is not None else 0

    @staticmethod
    def _as_user() -> list[str]:
        """PostgreSQL runs neither as root nor as a user without a name."""
        if os.geteuid() != 0:
            return [] if _has_name(os.geteuid()) else ["unshare", "--user", "--map-user=nobody", "--"]
        user = pwd.getpwnam("postgres")
        return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [
            "listen_addresses=", f"unix_socket_directories={self.folder}", "max_connections=60", "shared_buffers=32MB",
            "autovacuum=off", *self._settings,
        ]  # fmt: skip
        words = [*self._inside, *self._as_user(), str(self._bin / "postgres"), "-D", str(self.folder / "data")]
        for setting in settings:
            words += ["-c", setting]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd="/", start_new_session=True)
        deadline = time.monotonic() + SECONDS
        while not self._answers():
            self._refuse_dead()
            if time.monotonic() > deadline:
                raise RuntimeError("PostgreSQL does not answer")
            time.sleep(0.02)

    def _refuse_dead(self) -> None:
        if self._process is None or self._process.poll() is not None:
            said = (self.folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
            raise RuntimeError(f"PostgreSQL did not start: {said}")

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """Kill it with all its backends, as a crash of its machine would."""
        if self._process is None:
            return
        for pid in (self._process.pid, *children_of(self._process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def stop(self) -> None:
        """Stop it in order, whoever is connected."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()
            self._process = None


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True
