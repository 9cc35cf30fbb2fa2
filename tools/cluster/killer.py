"""Kills one host while it works, at a moment that is sure to cost it a turn."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import psycopg
from psycopg import sql

from tools.cluster.local_cluster import LOOK_SECONDS, LocalCluster
from tools.cluster.story import say

SURE_SECONDS = 0.2  # after which all has arrived that a worker had sent before it was stopped


class Killed(NamedTuple):
    """The host that was killed, and whose turn it ran."""

    host: str
    agent: str
    time: float


class Killer:
    """A thread that waits until one of the victims is at work, and kills the worker there."""

    def __init__(self, cluster: LocalCluster, victims: Sequence[str]) -> None:
        """`victims`: whose host is killed; empty: that of any agent below a lead."""
        self._cluster, self._victims = cluster, list(victims)
        self._begun = sql.SQL(
            "SELECT job, turn, epoch, host, agent FROM {}.board_orders WHERE state = 'begun' "
            "AND (agent = ANY(%s) OR %s AND thread LIKE 'dispatch:%%')"
        ).format(sql.Identifier(cluster.schema))
        self.killed: Killed | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="killer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with psycopg.connect(self._cluster.url, autocommit=True) as connection:
            while self.killed is None and not self._over.wait(LOOK_SECONDS):
                for turn in self._turns(connection):
                    if self._kill(connection, turn):
                        break

    def _turns(self, connection: psycopg.Connection[Any]) -> list[tuple[Any, ...]]:
        return connection.execute(self._begun, (self._victims, not self._victims)).fetchall()

    def _kill(self, connection: psycopg.Connection[Any], turn: tuple[Any, ...]) -> bool:
        """Stop the worker, so that it can't end the turn; if the turn still runs then, kill the worker."""
        host, agent = turn[-2:]
        worker = self._cluster.workers[host]
        worker.send_signal(signal.SIGSTOP)
        self._over.wait(SURE_SECONDS)
        if turn not in self._turns(connection):
            worker.send_signal(signal.SIGCONT)
            return False
        worker.kill()
        worker.wait()
        self.killed = Killed(host, agent, time.time())
        say(f"{host} is killed while {agent} works on it")
        return True
