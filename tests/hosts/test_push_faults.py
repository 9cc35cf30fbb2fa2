"""Pushes that lose their race: end to end, by real workers."""

import signal
from pathlib import Path

import pytest

from tests.cli.home import turn_processes
from tests.hosts.counted_jobs import STAYS, Cluster, check, counted, faults, remote_refs, until
from tests.workspaces.user_repository import git

FIRST = 1_000_001  # the name of the first shipment of a turn's first attempt

pytestmark = pytest.mark.timeout(900)  # each has several jobs, on a machine with other work


def back(hosts: Cluster, job: str, turn: str) -> str:
    """The ref that a turn's first attempt gives its files back by."""
    sent = until(lambda: next((ref for ref in remote_refs(hosts.scene) if f"/{job}/turns/{turn}/" in ref), ""))
    return f"{Path(sent).parent.parent!s}/back/{FIRST}"


def test_a_push_that_finds_anothers_result_is_void_and_its_turn_is_given_back(hosts: Cluster) -> None:
    with hosts.scene.running_job(counted("researcher", stays=STAYS)) as running:
        turn, host = running.at_work()
        ref = back(hosts, running.job, turn)
        other = next(iter(remote_refs(hosts.scene).values()))
        git(hosts.scene.remote, "update-ref", ref, other)
        hosts.asked(running)

    check(hosts.scene, hosts.scene.home, running.job, "researcher", lost=1)
    (fault,) = faults(hosts, running.job)
    assert fault.startswith(f"{host}: ")
    assert fault.endswith("this push came later and is void")


def test_a_frozen_host_that_pushes_late_changes_nothing(hosts: Cluster) -> None:
    with hosts.scene.running_job(counted("researcher", stays=STAYS)) as running:
        turn, host = running.at_work()
        hosts.scene.workers[host].signal(signal.SIGSTOP)
        try:
            hosts.let_go(running.job)  # it has all to push, and comes too late
            hosts.asked(running)
        finally:
            hosts.scene.workers[host].signal(signal.SIGCONT)
        until(lambda: not turn_processes(running.job, turn))
        until(lambda: hosts.scene.host(host)["used"] == 0)

    check(hosts.scene, hosts.scene.home, running.job, "researcher", lost=1)
