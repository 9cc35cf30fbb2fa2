"""A PostgreSQL server of the tests' own: in a folder of its own, on a Unix socket, never the system's cluster."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from parley.bus import key_files
from parley.bus.postgres import postgres_schema
from parley.bus.postgres.postgres_schema import schema_of
from parley.bus.postgres.postgres_store import PostgresStore
from parley.bus.postgres.server_address import address_of
from parley.bus.postgres.server_connection import Session, connect
from parley.bus.rows import PROTOCOL

CI = os.environ.get("CI") == "true"
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
    """A server that is started, killed and started again."""

    def __init__(self, folder: Path, bin_folder: Path, settings: Sequence[str] = ("fsync=off",)) -> None:
        self.folder = folder
        self.url = f"postgresql://postgres@/postgres?host={folder}"
        self._bin = bin_folder
        self._settings = settings
        self._process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        subprocess.run(
            [*self._as_user(), bin_folder / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-N",
             "-E", "UTF8", "--locale=C"],
            check=True, stdout=subprocess.DEVNULL, cwd="/",
        )  # fmt: skip

    @staticmethod
    def _as_user() -> list[str]:
        """PostgreSQL does not run as root."""
        if os.geteuid() != 0:
            return []
        user = pwd.getpwnam("postgres")
        return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [
            "listen_addresses=", f"unix_socket_directories={self.folder}", "max_connections=60", "shared_buffers=32MB",
            "autovacuum=off", *self._settings,
        ]  # fmt: skip
        words = [*self._as_user(), str(self._bin / "postgres"), "-D", str(self.folder / "data")]
        for setting in settings:
            words += ["-c", setting]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd="/", start_new_session=True)
        deadline = time.monotonic() + SECONDS
        while not self._answers():
            assert self._process.poll() is None, (self.folder / "log").read_text()[-2000:]
            assert time.monotonic() < deadline, "PostgreSQL does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url).close()
        except psycopg.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """Kill it with all its backends, as a crash of its machine would."""
        assert self._process is not None
        everyone = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        backends = [pid for pid in everyone if _parent(pid) == self._process.pid]
        for pid in (self._process.pid, *backends):
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


def _parent(pid: int) -> int:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


@contextmanager
def running(settings: Sequence[str] = ("fsync=off",)) -> Iterator[Server]:
    """A server for as long as it is needed."""
    found = programs()
    if found is None:
        line = "PostgreSQL is missing, and its tests with it: `make system` installs it"
        if CI:
            pytest.fail(line)
        pytest.skip(line)
    with tempfile.TemporaryDirectory(prefix="parley-pg-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder), found, settings)
        server.start()
        try:
            yield server
        finally:
            server.kill()


class Bus:
    """An empty bus of its own on a server; each call of `open` is another process's store."""

    def __init__(self, server: Server, home: Path) -> None:
        self.home = home
        self.key = key_files.like(key_files.make(str(home), 0), server="tests")
        self.address = address_of("tests", {"tests": server.url}, {})
        with closing(connect(self.address, schema_of(self.key.id))) as session:
            postgres_schema.make(session, schema_of(self.key.id), self.key, PROTOCOL)

    def open(self, **options: Any) -> PostgresStore:
        """Open it once more."""
        return PostgresStore(self.home, self.key, self.address, **options)

    def session(self) -> Session:
        """A session past the store, as another program could have."""
        return connect(self.address, schema_of(self.key.id))
