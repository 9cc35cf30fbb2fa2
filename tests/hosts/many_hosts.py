"""A coordinator and hosts on one machine: real PostgreSQL and Temporal, and workers with homes of their own."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
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
from tools import temporal_server

ROLE = "parley_worker"
LOST_SECONDS = 4.0
BUSY_SECONDS = 120.0  # that anything is waited for: a scene has a dozen processes, on a machine with others
CI = os.environ.get("CI") == "true"


class TemporalServer(temporal_server.TemporalServer):
    """The real server, where it is installed."""

    def __init__(self, folder: Path, inside: Sequence[str] = ()) -> None:
        if not temporal_server.PROGRAM.exists():
            line = f"{temporal_server.PROGRAM} is missing, and its tests with it: `make setup` installs it"
            if CI:
                pytest.fail(line)
            pytest.skip(line)
        super().__init__(folder, inside)


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

    # ---- how the services are reached; a scene with a network of its own has other ways ------------

    def bus_url(self, who: str) -> str:
        """The address of PostgreSQL for the `coordinator`, or for a `worker`."""
        return self.server.url if who == "coordinator" else self.server.url.replace("postgres@", f"{ROLE}@")

    def hosts_settings(self) -> str:
        """Where the rest is."""
        return f'temporal = "{self.temporal.address}"\nremote = "{self.remote}"\n'

    def inside(self, who: str) -> tuple[str, ...]:
        """What goes before a command of the `coordinator`'s, or of a host's, to run on its network."""
        return ()

    # ---- the scene ---------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        self.remote = self.base / "remote.git"
        self.remote.mkdir()
        git(self.remote, "init", "-q", "--bare")
        with psycopg.connect(self.server.url, autocommit=True) as connection, contextlib.suppress(psycopg.Error):
            connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        folder = self.base / "work"
        folder.mkdir()
        self._settle("coordinator", f'roles = ["{ROLE}"]\nlabels = {{ tester = "big" }}\n')
        self._settle("worker", "")
        self.home = Home(folder, self._own("coordinator"), self.inside("coordinator"))
        done = self.home.run("bus", "copy", "office")
        assert done.code == 0, done

    def _settle(self, who: str, more: str) -> None:
        settings = self.base / who / "config" / "parley" / "parley.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(
            f'[proxy]\nbrief = false\n[servers]\noffice = "{self.bus_url(who)}"\n[hosts]\n{self.hosts_settings()}'
            f"lost_seconds = {self.lost_seconds}\n{more}",
            encoding="utf-8",
        )

    def _own(self, who: str) -> dict[str, str]:
        """The environment of a user of their own."""
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
                [*self.inside(name), str(PARLEY), "worker", "--name", name, "--bus", bus, *words],
                cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=told, stderr=told, text=True,
            )  # fmt: skip
        self.workers[name] = WorkerProcess(name, home, process, log)
        return self.workers[name]

    def wait_for_host(self, name: str) -> None:
        """Wait until the coordinator sees a host."""
        worker = self.workers[name]
        wait_for(lambda: worker.process.poll() is not None or self.host(name).get("state") == "alive", BUSY_SECONDS)
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
            wait_for(lambda: process.poll() is not None or self.jobs() - before, BUSY_SECONDS)
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
        found: tuple[str, str] = wait_for(lambda: (now := self.at_work_now())[0] and now, BUSY_SECONDS)
        return found

    def at_work_now(self) -> tuple[str, str]:
        """The same as it is now; empty where no agent is at work."""
        with psycopg.connect(self.scene.server.url) as connection:
            found = connection.execute(
                f"SELECT turn, host FROM {self.scene.schema}.board_orders "  # noqa: S608 - a name of our own
                "WHERE job = %s AND state = 'begun' AND thread LIKE 'dispatch:%%' ORDER BY turn",
                (self.job,),
            ).fetchone()
        if found is None or not turn_processes(self.job, str(found[0])):
            return "", ""
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
