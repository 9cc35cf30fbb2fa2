"""Faults drawn at random, one after another, on three hosts with several jobs going on; each is checked.

PARLEY_SOAK_FAULTS says how many, PARLEY_SOAK_SEED which; the seed is printed, and each fault with what was drawn.
"""

import contextlib
import os
import random
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from parley.cli import WAITING
from tests.cli.home import turn_processes
from tests.hosts.clocks import AHEAD, BEHIND, clock
from tests.hosts.counted_jobs import END_SECONDS, Cluster, check, counted, killed, remote_refs, until
from tests.hosts.many_hosts import RunningJob
from tests.hosts.network_hosts import COORDINATOR, HOSTS, SERVICES
from tests.hosts.small_disks import fill, small_disk
from tests.workspaces.user_repository import git

FAULTS = int(os.environ.get("PARLEY_SOAK_FAULTS", "200"))
SEED = int(os.environ.get("PARLEY_SOAK_SEED", "0")) or secrets.randbelow(1 << 32)
JOBS = 2
AGENTS = ("researcher", "writer")
LATEST_SECONDS = 8.0  # after which a fault comes, from the moment when the jobs were begun
LONGEST_SECONDS = 8.0  # that a fault lasts
SMALL = "small"  # a host with a disk of its own, which may be full


class Round:
    """The jobs that go on while a fault comes, and what is drawn for it."""

    def __init__(self, hosts: Cluster, draw: random.Random, jobs: list[RunningJob]) -> None:
        self.hosts, self.scene, self.draw, self.jobs = hosts, hosts.scene, draw, jobs
        self.seconds = draw.uniform(0.0, LONGEST_SECONDS)
        self.host = draw.choice(HOSTS)
        self.owner = draw.choice(jobs).process
        self.service = draw.choice(SERVICES)
        self.off = draw.choice((AHEAD, BEHIND))
        self.frozen: list[subprocess.Popen[str]] = []


Kind = Callable[[Round], contextlib.AbstractContextManager[None]]


# ---- the kinds; each has a moment of its own, and is over when it is left ----------------------------


@contextlib.contextmanager
def host_is_killed(now: Round) -> Iterator[None]:
    now.hosts.kill(now.host)
    yield


@contextlib.contextmanager
def all_hosts_are_killed(now: Round) -> Iterator[None]:
    now.hosts.kill(*HOSTS)
    yield


@contextlib.contextmanager
def coordinator_is_killed(now: Round) -> Iterator[None]:
    killed(now.owner)
    yield


@contextlib.contextmanager
def coordinator_and_host_are_killed(now: Round) -> Iterator[None]:
    killed(now.owner)
    now.hosts.kill(now.host)
    yield


@contextlib.contextmanager
def coordinator_is_suspended(now: Round) -> Iterator[None]:
    now.owner.send_signal(signal.SIGSTOP)
    now.frozen.append(now.owner)
    yield


@contextlib.contextmanager
def host_is_frozen(now: Round) -> Iterator[None]:
    worker = now.scene.workers[now.host]
    worker.signal(signal.SIGSTOP)
    try:
        until(lambda: now.scene.host(now.host)["state"] == "lost")
        yield
    finally:
        worker.signal(signal.SIGCONT)


@contextlib.contextmanager
def temporal_is_killed(now: Round) -> Iterator[None]:
    now.scene.temporal.kill()
    try:
        yield
    finally:
        now.scene.temporal.start()


@contextlib.contextmanager
def temporal_loses_its_memory(now: Round) -> Iterator[None]:
    now.scene.temporal.kill()
    now.scene.temporal.forget()
    now.scene.temporal.start()
    yield


@contextlib.contextmanager
def postgresql_is_killed(now: Round) -> Iterator[None]:
    now.scene.server.kill()
    now.scene.server.start()
    yield


@contextlib.contextmanager
def host_is_cut_off(now: Round) -> Iterator[None]:
    now.scene.cut(now.host, now.service)
    try:
        yield
    finally:
        now.scene.heal()


@contextlib.contextmanager
def coordinator_is_cut_off(now: Round) -> Iterator[None]:
    now.scene.cut(COORDINATOR, now.service)
    try:
        yield
    finally:
        now.scene.heal()


@contextlib.contextmanager
def clock_of_a_host_is_off(now: Round) -> Iterator[None]:
    now.hosts.kill(now.host)
    now.hosts.start_with(now.host, **clock(now.off))
    try:
        yield
    finally:
        now.hosts.kill(now.host)


@contextlib.contextmanager
def disk_is_full(now: Round) -> Iterator[None]:
    filler = fill(now.scene.base / "hosts" / SMALL)
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def pushes_lose_their_race(now: Round) -> Iterator[None]:
    """What turns under way are about to push to is taken, and what they build upon moves all the time."""
    deadline = time.monotonic() + now.seconds
    while time.monotonic() < deadline:
        refs = remote_refs(now.scene)
        commits = list(refs.values())
        for ref in refs:
            if "/last-back/" in ref or "/last-sent/" in ref:
                git(now.scene.remote, "update-ref", ref, now.draw.choice(commits), fine=False)
            elif "/sent/" in ref:
                taken = f"{Path(ref).parent.parent}/back/1000001"
                if taken not in refs:
                    commit, nothing = now.draw.choice(commits), "0" * 40
                    git(now.scene.remote, "update-ref", taken, commit, nothing, fine=False)  # its host may be first
    yield


KINDS: tuple[Kind, ...] = (
    host_is_killed, all_hosts_are_killed, coordinator_is_killed, coordinator_and_host_are_killed,
    coordinator_is_suspended, host_is_frozen, temporal_is_killed, temporal_loses_its_memory, postgresql_is_killed,
    host_is_cut_off, coordinator_is_cut_off, clock_of_a_host_is_off, disk_is_full, pushes_lose_their_race,
)  # fmt: skip


AGAIN = (host_is_cut_off, coordinator_is_cut_off, clock_of_a_host_is_off, pushes_lose_their_race)
MOST_AGAIN = 8  # turns of one instance that these may cost: they come again while they last


# ---- one after another -----------------------------------------------------------------------------


@pytest.mark.soak
def test_faults_at_random_lose_no_effect_and_double_none(hosts: Cluster, capfd: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(SEED)
    waiting: list[Kind] = []

    def say(line: str) -> None:
        with capfd.disabled():
            print(line, flush=True)  # noqa: T201 - so that it can be repeated

    say(f"\nPARLEY_SOAK_SEED={SEED} PARLEY_SOAK_FAULTS={FAULTS}")
    with small_disk(hosts, SMALL):
        for number in range(1, FAULTS + 1):
            waiting = waiting or draw.sample(KINDS, len(KINDS))
            one_fault(hosts, draw, waiting.pop(), f"{number}: ", say)


def one_fault(hosts: Cluster, draw: random.Random, kind: Kind, number: str, say: Callable[[str], None]) -> None:
    """Let a fault come while jobs go on, bring them to their questions, and check them."""
    alive(hosts)
    with contextlib.ExitStack() as held:
        playbook = counted(*AGENTS, pause=f"{{sleep: {draw.uniform(0.0, 3.0):.1f}}}")
        now = Round(hosts, draw, [held.enter_context(hosts.scene.running_job(playbook)) for _ in range(JOBS)])
        moment = draw.uniform(0.0, LATEST_SECONDS)
        drawn = f"{now.host}, {now.service}, clock {now.off}"
        say(f"{number}{kind.__name__} after {moment:.1f} s for {now.seconds:.1f} s ({drawn})")
        time.sleep(moment)
        with kind(now):
            time.sleep(now.seconds)
        alive(hosts)
        taken = settle(now)
    for job in (one.job for one in now.jobs):
        home = hosts.second if job in taken else hosts.scene.home
        check(hosts.scene, home, job, *AGENTS, most=MOST_AGAIN if kind in AGAIN else 1)
        assert home.run("withdraw", job, "--yes").code == 0
        assert not turn_processes(job)


def alive(hosts: Cluster) -> None:
    """Every host lives, that with the small disk too."""
    hosts.scene.restore()
    if SMALL not in hosts.scene.workers or hosts.scene.workers[SMALL].process.poll() is not None:
        hosts.start(SMALL)


def settle(now: Round) -> list[str]:
    """Bring every job to its question: by its owner, or by another where that has ended; returns those jobs."""
    left = []
    for one in now.jobs:
        if one.process in now.frozen:
            left.append(one.job)
            continue
        out, err = one.process.communicate(timeout=END_SECONDS)
        assert "Traceback" not in out + err, err
        if one.process.returncode != WAITING:
            assert one.process.returncode == -signal.SIGKILL or err.splitlines()[-1].startswith("parley: "), err
            left.append(one.job)
    if left:
        now.hosts.take_over(*left)
    for process in now.frozen:
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=END_SECONDS)
        assert "Traceback" not in out + err, err
        assert process.returncode in (1, WAITING), err
    return left
