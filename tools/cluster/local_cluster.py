"""PostgreSQL, Temporal, a git remote and workers on this machine, in one folder, for as long as they are needed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from functools import cached_property
from pathlib import Path

import psycopg

from parley.cli import home_bus
from parley.cli.common import Workplace
from parley.hosts.board import Board, HostRow
from parley.hosts.board_address import board_connect, chosen_board
from parley.hosts.board_link import BoardLink
from parley.machine import stop_signals
from tools.postgres_server import Server
from tools.temporal_server import TemporalServer

PARLEY = Path(sys.executable).with_name("parley")
ROLE = "parley_worker"
SERVER = "cluster"  # what the settings call the PostgreSQL server
HOSTS = ("oak", "elm", "ash")
SLOTS = 2
LOST_SECONDS = 4.0
PATIENCE_SECONDS = 60.0  # for what starts; a slow machine needs some of it
END_SECONDS = 30.0
LOOK_SECONDS = 0.05
# What the user has for other programs, or for Parley, is not for this cluster.
FOREIGN = ("PARLEY_", "PG", "OTEL_", "XDG_", "TEMPORAL_", "GIT_")


class ClusterTrouble(Exception):
    """The cluster can't be started, or does not do what it is for: one line."""


class LocalCluster:
    """The servers, and the hosts that were started. All that any of them writes is in the folder."""

    def __init__(self, folder: Path, postgres_programs: Path) -> None:
        self.folder = folder
        self.place = Workplace(folder / "project", folder / "project" / ".parley")
        self.remote = folder / "remote.git"
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self._programs = postgres_programs
        self._postgres: Server | None = None
        self._temporal: TemporalServer | None = None
        (folder / "logs").mkdir()
        (folder / "tmp").mkdir(mode=0o700)
        self.place.root.mkdir()
        os.environ |= self._own("coordinator")  # this process is the coordinator

    # ---- to start ----------------------------------------------------------------------------------

    def start_servers(self) -> None:
        """Start PostgreSQL and Temporal, make the git remote, and put the home's bus on PostgreSQL."""
        server = self.folder / "postgresql"
        server.mkdir(mode=0o700)
        self._postgres = Server(server, self._programs)
        self._postgres.start()
        with psycopg.connect(self._postgres.url, autocommit=True) as connection:
            connection.execute(f"CREATE ROLE {ROLE} LOGIN")
        self._temporal = TemporalServer(self.folder / "logs")
        self._temporal.start()
        subprocess.run(["git", "init", "--quiet", "--bare", str(self.remote)], check=True)
        self._write_settings("coordinator", self._postgres.url, f'roles = ["{ROLE}"]\n')
        self._write_settings("worker", self._postgres.url.replace("postgres@", f"{ROLE}@"), "")
        self.parley("bus", "copy", SERVER)
        self.parley("hosts")  # makes the board: until then no host can come

    @property
    def url(self) -> str:
        """The database, for the coordinator."""
        assert self._postgres is not None  # noqa: S101 - it was started
        return self._postgres.url

    def start_workers(self) -> None:
        """Start a worker for each host, and wait until all have come."""
        home = self.folder / "hosts"
        home.mkdir()
        for name in HOSTS:
            own = os.environ | self._own("worker") | {"PARLEY_HOME": str(home / name)}
            with (self.folder / "logs" / f"{name}.log").open("ab") as log:
                self.workers[name] = subprocess.Popen(
                    [str(PARLEY), "worker", "--name", name, "--slots", str(SLOTS), "--drain", str(int(END_SECONDS))],
                    cwd=home, env=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
        self.wait_for("the workers to come", lambda: len(self.hosts()) == len(HOSTS))

    def _write_settings(self, who: str, url: str, more: str) -> None:
        path = Path(self._own(who)["XDG_CONFIG_HOME"]) / "parley" / "parley.toml"
        path.parent.mkdir(parents=True)
        assert self._temporal is not None  # noqa: S101 - it was started
        path.write_text(
            f'[servers]\n{SERVER} = "{url}"\n[hosts]\ntemporal = "{self._temporal.address}"\n'
            f'remote = "{self.remote}"\nlost_seconds = {LOST_SECONDS}\n{more}',
            encoding="utf-8",
        )

    def _own(self, who: str) -> dict[str, str]:
        folder = self.folder / who
        return {
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_STATE_HOME": str(folder / "state"),
            "TMPDIR": str(self.folder / "tmp"),
        }

    def parley(self, *words: str) -> str:
        """A command of Parley's in the cluster's project; what it printed."""
        done = subprocess.run([str(PARLEY), *words], cwd=self.place.root, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterTrouble(f"parley {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
        return done.stdout

    def wait_for(self, what: str, so: Callable[[], bool]) -> None:
        """Wait until something is so; not where a worker has ended meanwhile."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not so():
            stop_signals.raise_if_asked()
            for name, process in self.workers.items():
                if process.poll() is not None:
                    said = (self.folder / "logs" / f"{name}.log").read_text(encoding="utf-8", errors="replace")
                    raise ClusterTrouble(f"the worker {name} has ended: {(said.strip().splitlines() or ['?'])[-1]}")
            if time.monotonic() > deadline:
                raise ClusterTrouble(f"waited {PATIENCE_SECONDS:g} s for {what}; see {self.folder / 'logs'}")
            time.sleep(LOOK_SECONDS)

    # ---- to look at ---------------------------------------------------------------------------------

    @cached_property
    def schema(self) -> str:
        """The board's."""
        return chosen_board(home_bus.address_of(SERVER))

    def hosts(self) -> list[HostRow]:
        """Every host that has come."""
        with closing(BoardLink(board_connect(home_bus.address_of(SERVER), self.schema))) as link:
            return Board(link, self.schema).hosts()

    # ---- to end ------------------------------------------------------------------------------------

    def stop_workers(self, *, at_once: bool = False) -> None:
        """Let the workers end: they finish their turns, or hand them back at once."""
        running = [process for process in self.workers.values() if process.poll() is None]
        for process in running:
            for _ in range(2 if at_once else 1):
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        for process in running:
            try:
                process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def stop_servers(self) -> None:
        """Stop the servers."""
        for server in (self._temporal, self._postgres):
            if server is not None:
                server.stop()
        self._temporal = self._postgres = None

    def write_program(self) -> Path:
        """A program in the folder that is `parley` for the job: its key and its settings are in the folder, too."""
        own = " ".join(f"{name}={shlex.quote(value)}" for name, value in self._own("coordinator").items())
        program = self.folder / "parley"
        text = f'#!/bin/sh\ncd {shlex.quote(str(self.place.root))} && exec env {own} {shlex.quote(str(PARLEY))} "$@"\n'
        program.write_text(text, encoding="utf-8")
        program.chmod(0o755)
        return program
