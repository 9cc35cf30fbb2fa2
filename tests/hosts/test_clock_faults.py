"""Clocks that are ten minutes off: leases, signs of life, limits, stalls, the record and its audit do not care."""

import signal

import pytest

from tests.hosts.clocks import AHEAD, BEHIND, clock, set_off
from tests.hosts.counted_jobs import AGENTS, STAYS, Cluster, check, counted, killed, until

pytestmark = pytest.mark.timeout(900)  # each has several jobs, on a machine with other work


def test_hosts_and_coordinators_with_clocks_that_are_off_do_as_any(hosts: Cluster) -> None:
    for name, off in (("one", AHEAD), ("two", BEHIND)):
        hosts.kill(name)
        hosts.start_with(name, **clock(off))
    hosts.scene.workers["three"].signal(signal.SIGSTOP)  # the turns are for the others
    try:
        with set_off(hosts.scene.home, AHEAD), hosts.scene.running_job(counted(*AGENTS, stays=STAYS)) as running:
            until(lambda: len(hosts.at_work(running.job)) == len(AGENTS))
            killed(running.process)
            with set_off(hosts.second, BEHIND):
                hosts.take_over(running.job)
    finally:
        hosts.scene.workers["three"].signal(signal.SIGCONT)

    check(hosts.scene, hosts.second, running.job, *AGENTS, lost=len(AGENTS))
    assert set(hosts.scene.ran_on(running.job).values()) <= {"one", "two"}
    assert not [row for row in hosts.scene.rows(running.job, "steps") if row[2] in ("stall", "hold", "strike")]
    hosts.kill("one", "two")
