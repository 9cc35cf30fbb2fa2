"""Workers and coordinators that are told to end while something that they need does not answer."""

import signal
import time

import pytest

from parley.hosts.mirror.git_remote import QUICK_SECONDS
from parley.hosts.over_turns import LEAVE_SECONDS
from parley.hosts.placed_turns import KEEP_SECONDS
from tests.cli.home import turn_processes
from tests.hosts.counted_jobs import END_SECONDS, STAYS, Cluster, check, counted, faults, until
from tests.hosts.network_hosts import COORDINATOR, REMOTE, TEMPORAL

pytestmark = pytest.mark.timeout(900)  # on a machine with other work


def test_a_worker_that_is_cut_off_from_temporal_hands_its_turn_back(hosts: Cluster) -> None:
    with hosts.scene.running_job(counted("researcher", stays=STAYS)) as running:
        turn, host = running.at_work()
        hosts.scene.cut(host, TEMPORAL)
        worker = hosts.scene.workers[host]
        worker.signal(signal.SIGTERM)
        until(lambda: hosts.scene.host(host)["state"] == "draining")
        worker.signal(signal.SIGTERM)
        assert worker.process.wait(END_SECONDS) == 0, worker.said()
        assert hosts.scene.host(host)["state"] == "ended"
        assert not turn_processes(running.job, turn)
        hosts.scene.heal()
        hosts.asked(running)

    check(hosts.scene, hosts.scene.home, running.job, "researcher", lost=1)
    assert faults(hosts, running.job) == [f"its host {host} ended, and gave the turn back"]


def test_a_coordinator_that_is_cut_off_from_the_git_remote_waits_for_it_no_longer_than_it_says(hosts: Cluster) -> None:
    with hosts.scene.running_job(counted("researcher", stays=STAYS)) as running:
        running.at_work()
        hosts.scene.cut(COORDINATOR, REMOTE)
        begun = time.monotonic()
        running.process.send_signal(signal.SIGTERM)
        _, said = running.process.communicate(timeout=END_SECONDS)
        assert time.monotonic() - begun < QUICK_SECONDS + KEEP_SECONDS + LEAVE_SECONDS, "it has waited for deletions"
        assert "the git remote did not give it within 5 s" in said
        hosts.scene.heal()
        hosts.take_over(running.job)

    check(hosts.scene, hosts.second, running.job, "researcher", lost=1)
