"""A host whose disk is full: its turns go on elsewhere, one line says where and why, and it takes turns again."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.hosts.host_disk import SHARE
from tests.hosts.counted_jobs import Cluster, check, counted, faults, until
from tests.hosts.small_disks import MEGABYTES, fill, small_disk

SMALL = "small"  # the host with a disk of its own
ROOM_BYTES = MEGABYTES * (1 << 20) // SHARE + (64 << 10)  # with so many it just takes a turn

pytestmark = pytest.mark.timeout(900)  # each has several jobs, on a machine with other work


@pytest.fixture
def disk(hosts: Cluster) -> Iterator[Path]:
    """The home of that host."""
    with small_disk(hosts, SMALL) as folder:
        yield folder


def test_a_disk_that_fills_in_mid_turn_gives_its_turns_back_to_other_hosts(hosts: Cluster, disk: Path) -> None:
    grows = "{shell: 'until [ -e go ] || ! head -c 8192 /dev/zero >> grown; do sleep 0.1; done'}"
    hosts.start(SMALL)
    hosts.kill("one", "two", "three")
    with hosts.scene.running_job(counted("researcher", stays=grows)) as running:
        until(lambda: hosts.at_work(running.job))
        fill(disk)
        until(lambda: faults(hosts, running.job))
        hosts.scene.restore()
        hosts.asked(running)

    check(hosts.scene, hosts.scene.home, running.job, "researcher", lost=1)
    (fault,) = faults(hosts, running.job)
    assert fault.startswith(f"{SMALL}: the disk of {disk}")
    assert " is full" in fault


@pytest.mark.soak
def test_a_turn_that_finds_no_room_is_not_begun_and_the_host_takes_it_when_there_is_some(
    hosts: Cluster, disk: Path
) -> None:
    large = "{shell: 'head -c 4000000 /dev/urandom > large; until [ -e go ]; do sleep 0.05; done'}, "
    hosts.kill("two", "three")
    with hosts.scene.running_job(counted("researcher", first=large)) as running:
        place = hosts.scene.workers["one"].home / "jobs" / running.job / "work"
        until((place / "large").exists)
        hosts.start(SMALL)
        filler = fill(disk)
        os.truncate(filler, filler.stat().st_size - ROOM_BYTES)
        hosts.scene.workers["one"].signal(signal.SIGTERM)  # it lets the lead's turn end, and takes no other
        until(lambda: hosts.scene.host("one")["state"] == "draining")
        (place / "go").touch()
        until(lambda: "is full" in hosts.scene.workers[SMALL].said())
        filler.unlink()
        hosts.asked(running)

    check(hosts.scene, hosts.scene.home, running.job, "researcher")  # after three tries it is parked, once
    assert "there is room on its disk again" in hosts.scene.workers[SMALL].said()
    assert set(hosts.scene.ran_on(running.job, agent="researcher").values()) == {SMALL}
