"""A cluster on one machine: PostgreSQL, Temporal, a git remote, a coordinator and workers, each a process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tools.postgres_server import Server
from tools.temporal_server import TemporalServer

ROOT = Path(__file__).resolve().parent.parent
PARLEY = Path(sys.executable).with_name("parley")
ROLE = "parley_worker"
PATIENCE_SECONDS = 120.0  # until something counts as broken
LOST_SECONDS = 4.0
END_SECONDS = 30.0
# The server waits for its disk, and keeps the time of each commit, by which dispatch is timed.
SETTINGS = ("autovacuum=on", "shared_buffers=128MB", "max_connections=100", "track_commit_timestamp=on")
WATCH = """
CREATE SCHEMA watched;
CREATE TABLE watched.moments (job text, turn bigint, epoch bigint, what text);
GRANT USAGE ON SCHEMA watched TO PUBLIC;
CREATE FUNCTION watched.order_moved() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    INSERT INTO watched.moments VALUES (NEW.job, substr(NEW.turn, 2)::bigint, NEW.epoch, NEW.state || '/' || NEW.how);
    RETURN NULL;
END $$;
CREATE TRIGGER watched AFTER INSERT ON {bus}_board.board_orders FOR EACH ROW EXECUTE FUNCTION watched.order_moved();
CREATE TRIGGER watched_state AFTER UPDATE OF state ON {bus}_board.board_orders FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION watched.order_moved();
"""


def wait_until(what: Callable[[], Any], seconds: float = PATIENCE_SECONDS, *, fine: bool = False) -> Any:
    """Wait until something is so; what it gave then. `fine`: that it did not come about is no fault."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := what():
            return found
        time.sleep(0.05)
    if fine:
        return None
    raise RuntimeError("what was waited for did not come about")


@dataclass
class Cluster:
    """The servers, the coordinator's home, and the processes that were started in it."""

    base: Path
    server: Server
    temporal: TemporalServer
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.remote, self.folder = self.base / "remote.git", self.base / "work"
        self.remote.mkdir()
        self.folder.mkdir()
        (self.base / "elsewhere").mkdir()
        subprocess.run(["git", "init", "-q", "--bare", str(self.remote)], check=True)
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        self._settle("coordinator", self.server.url, f'roles = ["{ROLE}"]\n')
        self._settle("worker", self.server.url.replace("postgres@", f"{ROLE}@"), "")
        self.parley("bus", "copy", "office")
        self.bus = f"parley_{json.loads(self.parley('hosts', '--json'))['bus']}"
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(WATCH.replace("{bus}", self.bus))

    def _settle(self, who: str, url: str, more: str) -> None:
        settings = self.base / who / "config" / "parley" / "parley.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(
            f'[proxy]\nbrief = false\n[servers]\noffice = "{url}"\n[hosts]\ntemporal = "{self.temporal.address}"\n'
            f'remote = "{self.remote}"\nlost_seconds = {LOST_SECONDS}\n{more}',
            encoding="utf-8",
        )

    def environment(self, who: str, **more: str) -> dict[str, str]:
        """What the processes of the coordinator's user, or of the workers', are given."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PARLEY_", "PY"))}
        own = {f"XDG_{kind.upper()}_HOME": str(self.base / who / kind) for kind in ("config", "state", "data")}
        return {**kept, **own, "PARLEY_MEMORY": str(self.base / who / "memory.db"), **more}

    # ---- the coordinator -----------------------------------------------------------------------

    def parley(self, *words: str) -> str:
        """A command of the coordinator's user, run to its end."""
        done = subprocess.run(
            [PARLEY, *words], cwd=self.folder, env=self.environment("coordinator"), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"parley {words[0]} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def add_jobs(self, jobs: int, turns: int, sleep: float) -> None:
        """Jobs that no process owns yet."""
        words = ["--jobs", str(jobs), "--turns", str(turns), "--sleep", str(sleep)]
        subprocess.run(
            [sys.executable, "-m", "bench.cluster_jobs", *words], cwd=self.folder, check=True,
            env=self.environment("coordinator", PYTHONPATH=str(ROOT)), stdout=subprocess.DEVNULL,
        )  # fmt: skip

    @contextmanager
    def coordinator(self) -> Iterator[subprocess.Popen[bytes]]:
        """`parley resume`: it owns all jobs that no process owns, and ends with them; killed where it has not ended."""
        with (self.base / "coordinator.log").open("ab") as log:
            process = subprocess.Popen(
                [PARLEY, "resume", "--json"], cwd=self.folder, env=self.environment("coordinator"),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log,
            )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    # ---- workers -------------------------------------------------------------------------------

    def start_worker(self, name: str, slots: int) -> None:
        """`parley worker`, in a home of its own."""
        given = self.environment("worker", PARLEY_HOME=str(self.base / "hosts" / name))
        with (self.base / f"{name}.log").open("ab") as log:
            self.workers[name] = subprocess.Popen(
                [PARLEY, "worker", "--name", name, "--slots", str(slots)], cwd=self.base / "elsewhere", env=given,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    def wait_for_workers(self) -> None:
        """Wait until the board knows each."""
        names = set(self.workers)
        wait_until(
            lambda: names <= {str(name) for (name,) in self.rows("SELECT name FROM {board}.board_hosts WHERE NOT gone")}
        )

    def rows(self, statement: str, *given: Any) -> list[tuple[Any, ...]]:
        """What the server answers; `{bus}` and `{board}` are the schemas."""
        text = statement.replace("{bus}", self.bus).replace("{board}", f"{self.bus}_board")
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            return connection.execute(text, given).fetchall()

    def ended(self) -> bool:
        """Whether a turn has ended."""
        return bool(self.rows("SELECT 1 FROM watched.moments WHERE what = 'over/ended' LIMIT 1"))

    def pushed_bytes(self) -> int:
        """What the remote has taken: it collects nothing meanwhile."""
        return sum(path.stat().st_size for path in (self.remote / "objects").rglob("*") if path.is_file())

    def parts(self, coordinator: int) -> dict[str, int]:
        """The first process of each part."""
        servers = {"postgresql": self.server.pid, "temporal": self.temporal.pid}
        return {"coordinator": coordinator, **{name: one.pid for name, one in self.workers.items()}, **servers}

    def end_workers(self) -> None:
        """End them: their turns are handed back."""
        for process in self.workers.values():
            for _ in range(2):
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
        for process in self.workers.values():
            _end(process)
        self.workers.clear()

    def close(self) -> None:
        """End all of it but the servers."""
        self.end_workers()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def cluster(where: Path, bin_folder: Path) -> Iterator[Cluster]:
    """A new one, with servers of its own."""
    for name in ("postgres", "temporal", "cluster"):
        (where / name).mkdir()
    server = Server(where / "postgres", bin_folder, settings=SETTINGS)
    temporal = TemporalServer(where / "temporal")
    try:
        server.start()
        temporal.start()
        with closing(Cluster(where / "cluster", server, temporal)) as made:
            yield made
    finally:
        temporal.kill()
        server.kill()
