"""A home that is deleted, moved or replaced while a job runs: the job stops, says why, and makes nothing anew."""

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.home import APPROVES, BUSY, LEADS, PARLEY, Home, wait_for
from tests.cli.terminal import terminal

AT_ONCE = 10.0  # seconds, on a busy machine


def delete(home: Path) -> None:
    shutil.rmtree(home, ignore_errors=True)
    while home.exists():  # the job may have written into a folder that was being deleted
        shutil.rmtree(home, ignore_errors=True)


def replace(home: Path) -> None:
    shutil.copy(home / "bus.db", home / "copy")
    (home / "copy").rename(home / "bus.db")


WAYS: dict[str, Callable[[Path], object]] = {
    "deleted": delete,
    "moved": lambda home: home.rename(home.with_name("elsewhere")),
    "without its bus": lambda home: (home / "bus.db").unlink(),
    "with another bus": replace,
}


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=AT_ONCE)
    return process.returncode, "".join(line for line in err.splitlines(keepends=True) if "not committed" not in line)


@pytest.mark.parametrize("way", WAYS)
def test_a_run_stops_and_says_why(home: Home, way: str) -> None:
    place = home.folder / ".parley"
    with home.started("run", "x", "--playbook", home.write("b.yaml", BUSY)) as process:
        wait_for(lambda: list(place.glob("jobs/*/trees/*/begun.txt")))
        WAYS[way](place)
        code, said = ended(process)

    assert code == 1
    assert said.count("\n") == 1
    assert "while it was in use; put it back and go on with `parley resume`, or start another job" in said
    assert ("was replaced" if way == "with another bus" else "is gone: it was deleted or moved") in said
    assert place.exists() == ("bus" in way)
    assert not running_in(home.folder)


def running_in(folder: Path) -> list[str]:
    """The processes whose command or working folder lies in a folder."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            where = str((process / "cwd").readlink()) if process.name.isdecimal() else ""
            if where.startswith(str(folder)):
                found.append((process / "cmdline").read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("delay", [0.0, 0.2, 0.5, 1.0])
def test_a_job_that_does_much_stops_too_and_makes_nothing_anew(home: Home, delay: float) -> None:
    book = LEADS.replace("project-lead:", "project-lead:\n    - {match: 'PLAN', repeat: true, do: [{say: again}]}", 1)
    place = home.folder / ".parley"
    with home.started("run", "x", "--playbook", home.write("b.yaml", APPROVES + book)) as process:
        wait_for(lambda: list(place.glob("jobs/*/state.json")))
        time.sleep(delay)
        delete(place)
        code, said = ended(process)

    assert (code, said.count("\n")) == (1, 1), said
    assert [str(path) for path in place.rglob("*")] == []
    assert not place.exists()
    assert f"{place}/bus.db is gone" in said


def test_a_job_that_waits_for_its_human_stops_too(home: Home) -> None:
    words = [str(PARLEY), "run", "x", "--playbook", home.write("b.yaml", LEADS)]
    with terminal(words, home.folder, home.env()) as screen:
        screen.wait_for("a approve")
        delete(home.folder / ".parley")
        assert screen.end() == 1

    assert "is gone: it was deleted or moved" in screen.everything.replace("\r\n", " ")


def test_who_follows_a_log_is_told(asked: Home) -> None:
    job = asked.job()
    with asked.started("log", job, "--follow") as process:
        assert process.stdout is not None
        process.stdout.readline()
        delete(asked.folder / ".parley")
        code, said = ended(process)

    assert code == 1
    assert "is gone: it was deleted or moved" in said
