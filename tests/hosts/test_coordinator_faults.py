"""Coordinators that die or are suspended while hosts run their turns, and hosts that die with several turns.

All kills of coordinators are made first, each at another moment of a job of its own; then one coordinator on another
home takes all of these jobs over, so that their leases are waited for once.
"""

import contextlib
import signal

import pytest

from tests.hosts.counted_jobs import (
    AGENTS,
    END_SECONDS,
    STAYS,
    Cluster,
    check,
    counted,
    held_table,
    killed,
    remote_refs,
    until,
)
from tests.hosts.many_hosts import RunningJob
from tests.hosts.network_hosts import HOSTS

pytestmark = pytest.mark.timeout(900)  # each has several jobs, on a machine with other work


def test_a_host_that_is_killed_with_several_turns_loses_one_of_each_agent(hosts: Cluster) -> None:
    hosts.kill("two", "three")
    with hosts.scene.running_job(counted(*AGENTS, stays=STAYS)) as running:
        until(lambda: len(hosts.at_work(running.job)) == len(AGENTS))
        hosts.start("two", "three")
        hosts.kill("one")
        hosts.asked(running)

    check(hosts.scene, hosts.scene.home, running.job, *AGENTS, lost=len(AGENTS))
    hosts.start("one")


def test_coordinators_are_killed_at_any_moment_and_another_takes_their_jobs_over(hosts: Cluster) -> None:
    jobs = []
    with contextlib.ExitStack() as held:

        def begun(stays: str = "") -> RunningJob:
            running = held.enter_context(hosts.scene.running_job(counted("researcher", stays=stays)))
            jobs.append(running.job)
            return running

        # the files of a turn are on the remote, its order is not out
        running = begun()
        with held_table(hosts.scene, "board_orders"):
            until(lambda: [ref for ref in remote_refs(hosts.scene) if running.job in ref and "/sent/" in ref])
            killed(running.process)

        # a call waits for its reply
        running = begun()
        until(lambda: {"claimed", "begun"} & set(hosts.orders(running.job).values()))
        running.process.send_signal(signal.SIGSTOP)
        until(lambda: hosts.calls(running.job))
        killed(running.process)

        # a turn has ended, and its owner has not heard of it
        running = begun()
        until(lambda: set(hosts.orders(running.job, thread="dispatch:").values()) - {"open"})
        running.process.send_signal(signal.SIGSTOP)
        until(lambda: "over" in hosts.orders(running.job, thread="dispatch:").values())
        killed(running.process)

        # what a turn did is on the remote, its commit is not on the bus
        running = begun()
        until(lambda: hosts.orders(running.job))
        before = hosts.published(running.job)
        with held_table(hosts.scene, ".steps"):
            until(lambda: hosts.published(running.job) != before)
            killed(running.process)

        # turns run, and the coordinator is suspended; it thaws when another has carried its job on
        suspended = begun(STAYS)
        suspended.at_work()
        suspended.process.send_signal(signal.SIGSTOP)

        # turns run, and the coordinator is killed together with all hosts
        running = begun(STAYS)
        running.at_work()
        killed(running.process)
        hosts.kill(*HOSTS)
        hosts.start(*HOSTS)

        hosts.take_over(*jobs)
        before, steps = hosts.published(suspended.job), hosts.scene.rows(suspended.job, "steps")
        suspended.process.send_signal(signal.SIGCONT)
        _, said = suspended.process.communicate(timeout=END_SECONDS)
        assert suspended.process.returncode == 1
        assert "another owner has taken" in said.splitlines()[-1]
        assert (hosts.published(suspended.job), hosts.scene.rows(suspended.job, "steps")) == (before, steps)
    for job in jobs:
        check(hosts.scene, hosts.second, job, "researcher")
