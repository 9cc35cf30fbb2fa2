"""The real program, killed by SIGKILL at random moments: it comes back to the same end each time."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.cli.fork_server import run_parley, users_environment
from tests.kills.jobs import JOBS

PARLEY = str(Path(sys.executable).with_name("parley"))
KILLS = 15 if os.environ.get("PARLEY_SOAK") == "1" else 5  # for each job; in the long run more than a hundred over all
LIMIT_SECONDS = 120.0
CODES = {"DONE": 0, "FAILURE": 1, "WITHDRAWN": 3}


@dataclass(frozen=True)
class End:
    """What a job came to."""

    code: int
    state: str
    history: tuple[tuple[str, str], ...]
    files: dict[str, str]


class Place:
    """A folder with a home and a playbook."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.policy = JOBS[name].get("policy", "always")
        book = {key: value for key, value in JOBS[name].items() if key != "policy"}
        (folder / "playbook.yaml").write_text(json.dumps(book), encoding="utf-8")
        self.environment = {**users_environment(), "PARLEY_HOME": str(folder / ".parley")}

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """The program, in a process of its own."""
        return subprocess.Popen(
            [PARLEY, *words],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def go_on(self) -> subprocess.Popen[bytes]:
        """Start the job, or take it up where it was left."""
        job = self.job()
        if job is None:
            return self.start("run", "make it", "--playbook", "playbook.yaml", "--policy", self.policy)
        return self.start("resume", job)

    def job(self) -> str | None:
        """The id of the job, once there is one. Read from the bus itself: this is asked for very often."""
        bus = self.folder / ".parley" / "bus.db"
        if not bus.exists():
            return None
        connection = sqlite3.connect(f"file:{bus}?mode=ro", uri=True, timeout=10)
        try:
            found = [str(job) for (job,) in connection.execute("SELECT job FROM jobs")]
        except sqlite3.OperationalError:
            return None  # killed before the bus had its tables
        finally:
            connection.close()
        assert len(found) <= 1, "a job that was known was started again"
        return found[0] if found else None

    def end(self, code: int) -> End:
        """What the job came to, and a clean audit of how."""
        job = self.job()
        assert job is not None
        home = self.folder / ".parley" / "jobs" / job
        audited = run_parley(["audit", job], self.folder, self.environment)
        assert audited.returncode == 0, audited.stdout + audited.stderr
        state = json.loads((home / "state.json").read_text(encoding="utf-8"))
        work = home / "work"
        files = {
            str(path.relative_to(work)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(work.rglob("*"))
            if path.is_file() and ".parley" not in path.relative_to(work).parts
        }
        history = tuple((entry["state"], entry["action"]) for entry in state["history"])
        return End(code, state["state"], history, files)


def finish(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end."""
    _, errors = process.communicate(timeout=LIMIT_SECONDS)
    assert b"Traceback" not in errors, errors.decode()
    return process.returncode


def left_running(job: str) -> list[str]:
    """The processes of a job's turns that are still there."""
    mark = f"\0PARLEY_TURN={job}/".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if mark in b"\0" + (entry / "environ").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("name", JOBS)
def test_a_job_that_is_killed_again_and_again_comes_to_the_same_end(name: str, tmp_path: Path) -> None:
    """The same terminal, the same history, the same artifacts, a clean audit, and nothing left running."""
    undisturbed = tmp_path / "undisturbed"
    undisturbed.mkdir()
    reference_place = Place(undisturbed, name)
    begun = time.monotonic()
    reference = reference_place.end(finish(reference_place.go_on()))
    whole = time.monotonic() - begun
    assert reference.code == CODES[reference.state]

    rng = Random(f"kills of {name}")
    kills, rounds = 0, 0
    while kills < KILLS:
        folder = tmp_path / f"killed-{rounds}"
        folder.mkdir()
        rounds += 1
        place = Place(folder, name)
        for _ in range(8):
            process = place.go_on()
            try:
                # it goes on from where it was killed, so that a third of the whole time reaches every moment of it
                process.wait(timeout=rng.uniform(0.05, whole / 3))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.communicate(timeout=LIMIT_SECONDS)
            if process.returncode != -signal.SIGKILL:
                break  # it was faster
        job = place.job()
        code = finish(place.go_on())
        assert place.end(code) == reference, f"after {kills} kills, in round {rounds}"
        assert not left_running(job or place.job() or "")
