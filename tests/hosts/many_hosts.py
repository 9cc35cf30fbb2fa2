"""A coordinator and hosts on one machine: real PostgreSQL and Temporal, and workers with homes of their own."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import psycopg
import pytest

from parley.cli import WAITING
from tests.cli.home import PARLEY, Done, Home, turn_processes, wait_for
from tests.postgres_server import Server
from tests.workspaces.user_repository import git

TEMPORAL = Path(sys.executable).with_name("temporal")
ROLE = "parley_worker"
LOST_SECONDS = 4.0
CI = os.environ.get("CI") == "true"


class TemporalServer:
    """The real server, as a development server: its database is one file."""

    def __init__(self, folder: Path) -> None:
        if not TEMPORAL.exists():
            line = f"{TEMPORAL} is missing, and its tests with it: `make setup` installs it"
            if CI:
                pytest.fail(line)
            pytest.skip(line)
        self.database = folder / "temporal.db"
        self._log = folder / "temporal.log"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it answers."""
        port = self.address.rpartition(":")[2]
        words = ["server", "start-dev", "--headless", "--port", port, "--db-filename", str(self.database),
                 "--log-level", "error"]  # fmt: skip
        with self._log.open("ab") as log:
            self._process = subprocess.Popen([str(TEMPORAL), *words], stdout=log, stderr=log, start_new_session=True)
        wait_for(self._answers)

    def _answers(self) -> bool:
        with (
            contextlib.suppress(OSError),
            socket.create_connection(("127.0.0.1", int(self.address.rpartition(":")[2]))),
        ):
            return True
        return False

    def kill(self) -> None:
        """Kill it, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """Delete all that it knows. It must not run."""
        for path in self.database.parent.glob(f"{self.database.name}*"):
            path.unlink()


@dataclass
class WorkerProcess:
    """`parley worker`, in a home of its own."""

    name: str
    home: Path
    process: subprocess.Popen[str]
    log: Path

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class ManyHosts:
    """The coordinator's home, whose bus is on the server, and the workers that were started for it."""

    base: Path
    server: Server
    temporal: TemporalServer
    lost_seconds: float = LOST_SECONDS
    workers: dict[str, WorkerProcess] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.remote = self.base / "remote.git"
        self.remote.mkdir()
        git(self.remote, "init", "-q", "--bare")
        with psycopg.connect(self.server.url, autocommit=True) as connection, contextlib.suppress(psycopg.Error):
            connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        folder = self.base / "work"
        folder.mkdir()
        self._settle("coordinator", self.server.url, f'roles = ["{ROLE}"]\nlabels = {{ tester = "big" }}\n')
        self._settle("worker", self.server.url.replace("postgres@", f"{ROLE}@"), "")
        self.home = Home(folder, self._own("coordinator"))
        done = self.home.run("bus", "copy", "office")
        assert done.code == 0, done

    def _settle(self, who: str, url: str, more: str) -> None:
        settings = self.base / who / "config" / "parley" / "parley.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(
            f'[proxy]\nbrief = false\n[servers]\noffice = "{url}"\n[hosts]\ntemporal = "{self.temporal.address}"\n'
            f'remote = "{self.remote}"\nlost_seconds = {self.lost_seconds}\n{more}',
            encoding="utf-8",
        )

    def _own(self, who: str) -> dict[str, str]:
        return {"XDG_CONFIG_HOME": str(self.base / who / "config"), "XDG_STATE_HOME": str(self.base / who / "state")}

    # ---- hosts ---------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> str:
        """The board's."""
        return f"parley_{self.home.run('hosts', '--json').document['bus']}_board"

    def start_worker(self, name: str, *words: str, bus: str = "", **more: str) -> WorkerProcess:
        """Start a worker in a home of its own; `more` is put into its environment."""
        home, log = self.base / "hosts" / name, self.base / f"{name}.log"
        folder = self.base / "elsewhere"
        folder.mkdir(exist_ok=True)
        environment = {**self.home.env(), **self._own("worker"), "PARLEY_HOME": str(home), **more}
        bus = bus or self.schema.split("_")[1]
        with log.open("a", encoding="utf-8") as told:
            process = subprocess.Popen(
                [str(PARLEY), "worker", "--name", name, "--bus", bus, *words],
                cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=told, stderr=told, text=True,
            )  # fmt: skip
        self.workers[name] = WorkerProcess(name, home, process, log)
        return self.workers[name]

    def wait_for_host(self, name: str) -> None:
        """Wait until the coordinator sees a host."""
        worker = self.workers[name]
        wait_for(lambda: worker.process.poll() is not None or self.host(name).get("state") == "alive")
        assert worker.process.poll() is None, worker.said()

    def hosts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.home.run("hosts", "--json").document["hosts"]
        return found

    def host(self, name: str) -> dict[str, Any]:
        return next((host for host in self.hosts() if host["name"] == name), {})

    # ---- jobs ----------------------------------------------------------------------------------

    def run_job(self, playbook: str, request: str = "a request") -> Done:
        """Run a job until it ends or waits for the human."""
        return self.home.run("run", request, "--playbook", self.home.write("p.yaml", playbook), "--json")

    @contextlib.contextmanager
    def running_job(self, playbook: str) -> Iterator["RunningJob"]:
        """A job that goes on while the test does."""
        before = self.jobs()
        words = ("run", "a request", "--playbook", self.home.write("p.yaml", playbook), "--json")
        with self.home.started(*words) as process:
            wait_for(lambda: process.poll() is not None or self.jobs() - before)
            assert process.poll() is None, process.communicate()
            (job,) = self.jobs() - before
            yield RunningJob(self, job, process)

    def jobs(self) -> set[str]:
        return {str(job["id"]) for job in self.home.run("ls", "--json").document["jobs"]}

    def rows(self, job: str, table: str) -> list[list[Any]]:
        """The rows of a job's record."""
        done = self.home.run("export", job)
        assert done.code == 0, done
        lines = [json.loads(line) for line in done.out.splitlines()]
        return [line["row"] for line in lines if line.get("table") == table]

    def ran_on(self, job: str, agent: str = "") -> dict[str, str]:
        """The host of each turn that is over, of all agents or of one, as the steps that ended them say."""
        turns = {row[0] for row in self.rows(job, "turns") if agent in ("", row[1])}
        extras = [json.loads(row[-1]) for row in self.rows(job, "steps") if row[-1]]
        return {extra["turn"]: extra["host"] for extra in extras if "host" in extra and extra.get("turn") in turns}

    def rules(self, job: str) -> list[str]:
        """The rules that have fired, in order."""
        return [row[2] for row in self.rows(job, "steps")]

    def streamed(self, job: str) -> list[dict[str, Any]]:
        """Every line of a job's streams."""
        folder = self.home.folder / ".parley" / "jobs" / job
        return [
            json.loads(line) for path in folder.glob("**/.*stream*.jsonl") for line in path.read_text().splitlines()
        ]

    def close(self) -> None:
        for worker in self.workers.values():
            if worker.process.poll() is None:
                worker.signal(signal.SIGCONT)
                worker.signal(signal.SIGTERM)
                worker.signal(signal.SIGTERM)
        for worker in self.workers.values():
            try:
                worker.process.wait(15)
            except subprocess.TimeoutExpired:
                worker.kill()


@dataclass
class RunningJob:
    """A job whose owner is a process of the test's."""

    scene: ManyHosts
    job: str
    process: subprocess.Popen[str]

    def at_work(self) -> tuple[str, str]:
        """The turn below the lead, and its host, once its agent is at work."""
        return wait_for(self._at_work)  # type: ignore[no-any-return]

    def _at_work(self) -> tuple[str, str] | None:
        with psycopg.connect(self.scene.server.url) as connection:
            found = connection.execute(
                f"SELECT turn, host FROM {self.scene.schema}.board_orders "  # noqa: S608 - a name of our own
                "WHERE job = %s AND state = 'begun' AND thread LIKE 'dispatch:%%' ORDER BY turn",
                (self.job,),
            ).fetchone()
        if found is None or not turn_processes(self.job, str(found[0])):
            return None
        return str(found[0]), str(found[1])

    def thread(self, turn: str) -> str:
        """The thread of a turn that is out."""
        return next(str(row[2]) for row in self.scene.rows(self.job, "turns") if row[0] == turn)

    def wait_for_question(self) -> None:
        """Wait until the job asks the human: then its owner ends."""
        out, err = self.process.communicate(timeout=90)
        assert self.process.returncode == WAITING, (out, err)
        assert json.loads(out)["questions"], out

    def end(self) -> str:
        """Wait until its owner has ended; what that said to the user."""
        return self.process.communicate(timeout=90)[1]
