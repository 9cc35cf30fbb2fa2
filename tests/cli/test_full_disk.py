"""A disk without a byte, or without a file, left: jobs can still be looked at and given up."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.machine.disk_reserve import FILES, DiskReserve
from parley.machine.page_address import page_address, served
from tests.cli.home import BUSY, Home, turn_processes, wait_for


def mount(folder: Path, options: str) -> None:
    """Mount a small filesystem, or skip: only root can."""
    done = subprocess.run(("mount", "-t", "tmpfs", "-o", options, "none", folder), check=False, capture_output=True)
    if done.returncode:
        pytest.skip("this user can't mount a small filesystem")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Home]:
    """A home on a disk of its own, with room for a reserve."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount(folder, "size=120m,nr_inodes=4000,mode=0755")
    try:
        (folder / "work").mkdir()
        yield Home(folder / "work", {"PARLEY_MEMORY": str(tmp_path / "memory.db")})
    finally:
        subprocess.run(("umount", "-l", folder), check=True)


def fill_bytes(folder: Path) -> None:
    with (folder / "filler").open("ab", buffering=0) as file:
        for chunk in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(chunk)):
                    pass
    assert os.statvfs(folder).f_bavail == 0


def fill_files(folder: Path) -> None:
    with contextlib.suppress(OSError):
        for number in range(100_000):
            (folder / f"filler{number}").touch()
    assert os.statvfs(folder).f_favail == 0


FILLS = {"no byte left": fill_bytes, "no file left": fill_files}


@pytest.fixture(params=FILLS)
def waiting_on_a_full_disk(request: pytest.FixtureRequest, small: Home) -> tuple[Home, str]:
    job = small.start()
    FILLS[request.param](small.folder)
    return small, job


def test_a_full_disk_can_be_looked_at(waiting_on_a_full_disk: tuple[Home, str]) -> None:
    home, job = waiting_on_a_full_disk
    assert job in home.run("ls").out
    assert "INTENT" in home.run("show", job).out
    assert home.run("inbox", "--json").document["questions"]
    assert home.run("log", job).code == 0
    assert home.run("tree", job).code == 0


@pytest.mark.parametrize("fill", FILLS)
def test_the_page_is_served_where_its_address_can_not_be_written(small: Home, fill: str) -> None:
    (small.folder / "page-address").write_text("http://127.0.0.1:9")  # by a server that was killed
    FILLS[fill](small.folder)
    with served(small.folder, "http://127.0.0.1:7327"):
        assert page_address(small.folder) in ("", "http://127.0.0.1:7327")
    assert not list(small.folder.glob(".page-address*"))


def test_a_job_that_waits_is_withdrawn_on_a_full_disk(waiting_on_a_full_disk: tuple[Home, str]) -> None:
    home, job = waiting_on_a_full_disk
    done = home.run("withdraw", job)
    assert (done.code, done.out) == (0, f"{job} is withdrawn\n"), done
    assert [row["state"] for row in home.run("ls", "--json").document["jobs"]] == ["WITHDRAWN"]


@pytest.mark.parametrize("fill", FILLS)
def test_a_job_at_work_is_withdrawn_on_a_full_disk(small: Home, fill: str) -> None:
    with small.started("run", "x", "--playbook", small.write("p.yaml", BUSY)):
        (job,) = (path.name for path in wait_for(lambda: list((small.folder / ".parley/jobs").glob("*"))))
        wait_for(lambda: len(list((small.folder / ".parley/jobs" / job).glob("trees/*/begun*.txt"))) == 2)
        FILLS[fill](small.folder)
        done = small.run("withdraw", job)
        assert (done.code, done.out) == (0, f"{job} is withdrawn\n"), done
        assert not turn_processes(job)
    assert [row["state"] for row in small.run("ls", "--json").document["jobs"]] == ["WITHDRAWN"]


def test_a_job_goes_on_once_there_is_room_again(small: Home) -> None:
    job = small.start()
    fill_bytes(small.folder)
    assert small.run("answer", small.question(), "--approve").code == 0  # what the human says is kept
    fill_bytes(small.folder)
    stopped = small.run("resume", job)
    assert stopped.code == 1
    assert "space" in stopped.err or "full" in stopped.err
    (small.folder / "filler").unlink()
    assert small.run("resume", job).code == 4
    assert "PLAN.md" in small.run("inbox").out


FILLED = r"""
agents:
  intent-lead:
    - {match: '\[INTENT\]', do: [{send: {to: researcher, as: one, text: "fill it"}}]}
    - {match: '\[FAILED\]', do: [{ask: {text: "what now?"}}]}
  researcher:
    - match: 'fill'
      repeat: true
      do: [{shell: "while :; do cat /dev/zero >> big; done 2>/dev/null"}]
"""


def test_an_agent_that_fills_the_disk_loses_its_turns_and_the_job_goes_on(small: Home) -> None:
    done = small.run("run", "x", "--playbook", small.write("p.yaml", FILLED), "--json")
    assert done.code == 4, done  # the lead has heard of it, and asks
    (job,) = (path.name for path in (small.folder / ".parley/jobs").glob("*"))
    assert "it was ended: the disk has 0 MB left" in small.run("log", job).out


def test_a_disk_that_can_only_be_read_is_told_and_no_process_is_left(small: Home) -> None:
    with small.started("run", "x", "--playbook", small.write("p.yaml", BUSY)):
        (job,) = (path.name for path in wait_for(lambda: list((small.folder / ".parley/jobs").glob("*"))))
        wait_for(lambda: len(list((small.folder / ".parley/jobs" / job).glob("trees/*/begun*.txt"))) == 2)
        disk = small.folder.parent
        subprocess.run(("mount", "--bind", disk, disk), check=True)
        try:
            subprocess.run(("mount", "-o", "remount,bind,ro", disk), check=True)
            said = small.fails("withdraw", job, code=1)
            assert "its agents are ended" in said
            assert not turn_processes(job)
        finally:
            subprocess.run(("umount", "-l", disk), check=True)


def test_the_reserve_is_made_where_there_is_room_and_let_go_of_step_by_step(tmp_path: Path) -> None:
    reserve = DiskReserve(tmp_path)
    reserve.keep()
    assert len(list((tmp_path / "reserve").iterdir())) == FILES
    reserve.ease()
    assert len(list((tmp_path / "reserve").iterdir())) == FILES
    assert reserve.spend()
    assert not reserve.spend()
    reserve.keep()
    assert len(list((tmp_path / "reserve").iterdir())) == FILES
