"""Partitions: in mid-turn a machine is cut off from another, silently, and comes back sooner or later.

Afterwards every effect has come about once, at most the turn of the cut-off host was lost, no process is left on any
host, and the record is sound.
"""

import signal
import time
from collections.abc import Iterator

import pytest

from tests.cli.home import turn_processes, wait_for
from tests.hosts.many_hosts import LOST_SECONDS
from tests.hosts.network_hosts import COORDINATOR, POSTGRESQL, REMOTE, SERVICES, TEMPORAL, NetworkHosts
from tests.hosts.test_turns_elsewhere import AT_WORK, FOR_LONG, check_effects

LONG = LOST_SECONDS + 2
PATIENCE = 90


@pytest.fixture
def scene(networked: NetworkHosts) -> Iterator[NetworkHosts]:
    networked.restore()
    yield networked
    networked.heal()


def test_no_short_partition_between_any_two_costs_a_turn(scene: NetworkHosts) -> None:
    with scene.running_job(AT_WORK.replace("sleep: 4", "sleep: 12")) as running:
        _, host = running.at_work()
        for one in (host, COORDINATOR):
            for other in SERVICES:
                scene.cut(one, other)
                time.sleep(LOST_SECONDS / 4)
                scene.heal()
        running.wait_for_question()

    check_effects(scene, running.job, lost=0)


@pytest.mark.parametrize("other", [TEMPORAL, REMOTE])
@pytest.mark.parametrize("who", ["host", pytest.param(COORDINATOR, marks=pytest.mark.soak)])
def test_a_long_partition_from_temporal_or_the_git_remote_costs_no_turn(
    scene: NetworkHosts, who: str, other: str
) -> None:
    with scene.running_job(AT_WORK) as running:
        _, host = running.at_work()
        scene.cut(host if who == "host" else COORDINATOR, other)
        time.sleep(LONG)
        scene.heal()
        running.wait_for_question()

    check_effects(scene, running.job, lost=0)


def test_a_host_that_is_cut_off_for_long_is_taken_over_and_ends_its_agents_by_itself(scene: NetworkHosts) -> None:
    with scene.running_job(AT_WORK.replace("sleep: 4", "sleep: 15")) as running:
        turn, host = running.at_work()
        scene.cut(host)
        wait_for(lambda: not turn_processes(running.job, turn), PATIENCE)
        wait_for(lambda: running.at_work_now()[1] not in ("", host), PATIENCE)
        scene.heal()
        running.wait_for_question()
        wait_for(lambda: scene.host(host)["state"] == "alive", PATIENCE)

    check_effects(scene, running.job, lost=1)


def test_a_host_that_comes_back_ends_the_turn_that_was_taken_over(scene: NetworkHosts) -> None:
    with scene.running_job(AT_WORK) as running:
        turn, host = running.at_work()
        scene.cut(host, POSTGRESQL)
        wait_for(lambda: running.at_work_now()[1] not in ("", host), PATIENCE)
        scene.heal()
        wait_for(lambda: not turn_processes(running.job, turn), PATIENCE)
        running.wait_for_question()

    check_effects(scene, running.job, lost=1)


def test_a_coordinator_that_is_cut_off_from_postgresql_for_long_ends_in_one_line_and_another_goes_on(
    scene: NetworkHosts,
) -> None:
    with scene.running_job(AT_WORK) as running:
        running.at_work()
        scene.cut(COORDINATOR, POSTGRESQL)
        _, said = running.process.communicate(timeout=PATIENCE)
        assert running.process.returncode == 1
        assert "the PostgreSQL server can't be reached" in said.splitlines()[-1]
        scene.heal()
        done = scene.home.run("resume", running.job)
        assert done.code == 4, done

    check_effects(scene, running.job, lost=1)


def test_a_withdrawal_ends_though_the_turns_host_is_cut_off_from_the_git_remote(scene: NetworkHosts) -> None:
    with scene.running_job(FOR_LONG) as running:
        turn, host = running.at_work()
        scene.cut(host, REMOTE)
        scene.home.run("withdraw", running.job, "--yes")  # a slow machine's owner may be told to answer late
        assert not turn_processes(running.job, turn), "its owner may still publish the job's end"
        wait_for(lambda: scene.home.run("show", running.job, "--json").document["state"] == "WITHDRAWN", PATIENCE)
        scene.heal()

    assert scene.home.run("audit", running.job).code == 0


@pytest.mark.soak
def test_a_worker_that_is_cut_off_from_everything_ends_when_it_is_told_to(scene: NetworkHosts) -> None:
    with scene.running_job(FOR_LONG) as running:
        turn, host = running.at_work()
        scene.cut(host)
        worker = scene.workers[host]
        worker.signal(signal.SIGTERM)
        worker.signal(signal.SIGTERM)
        worker.process.wait(PATIENCE)
        assert not turn_processes(running.job, turn)
        scene.heal()
        scene.home.run("withdraw", running.job, "--yes")
        wait_for(lambda: scene.home.run("show", running.job, "--json").document["state"] == "WITHDRAWN", PATIENCE)
