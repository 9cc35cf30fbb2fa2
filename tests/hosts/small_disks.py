"""Hosts with small disks of their own, which a test can fill."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.counted_jobs import Cluster

MEGABYTES = 24


@contextlib.contextmanager
def small_disk(hosts: Cluster, name: str) -> Iterator[Path]:
    """The home of a host that was not started yet, on a disk of its own; only root can make one."""
    folder = hosts.scene.base / "hosts" / name
    folder.mkdir(parents=True, exist_ok=True)
    words = ("mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m,mode=0700", "none", folder)
    if subprocess.run(words, check=False).returncode:
        pytest.skip("this user can't mount a small disk")
    try:
        yield folder
    finally:
        if name in hosts.scene.workers:
            hosts.kill(name)
        subprocess.run(("umount", "-l", folder), check=True)


def fill(folder: Path) -> Path:
    """Leave no byte free; returns the file that takes all the room."""
    filler = folder / "filler"
    with filler.open("ab", buffering=0) as file:
        for chunk in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(chunk)):
                    pass
    assert os.statvfs(folder).f_bavail == 0
    return filler
