"""The engine of a served repository, started as the server starts it: with a pipe as its standard input."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from parley.bus.attendant import attended
from tests.cli.home import PARLEY, Home, wait_for


def state_folder(home: Home) -> Path:
    """Where the bus lies."""
    return home.folder / ".parley"


@contextmanager
def serving(home: Home) -> Iterator[subprocess.Popen[str]]:
    """An engine for all jobs of a home, that has begun to look for them; ended at the test's end."""
    log = home.folder.with_name("engine.log")
    with log.open("a", encoding="utf-8") as output:
        process = subprocess.Popen(
            [str(PARLEY), "serve-engine"],
            cwd=home.folder,
            env=home.env(),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            text=True,
        )
    try:
        wait_for(lambda: attended(state_folder(home)) or process.poll() is not None)
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)
        assert "Traceback" not in log.read_text(encoding="utf-8")


SERVER = """
import sys
from parley.cli.common import place_of
from parley.cli.running.spawn import engine_process
engine = engine_process(place_of(None))
engine.start()
sys.stdin.read()
engine.stop(15)
sys.exit(engine.alive)
"""


@contextmanager
def served(home: Home) -> Iterator[subprocess.Popen[str]]:
    """A server that keeps an engine alive, and stops it when its own standard input closes."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", SERVER], cwd=home.folder, env=home.env(), stdin=subprocess.PIPE, text=True
    )
    try:
        wait_for(lambda: attended(state_folder(home)))
        yield process
    finally:
        if process.stdin is not None and not process.stdin.closed:
            process.stdin.close()
        process.wait(timeout=30)


def log_of(home: Home) -> str:
    """What the engines of a home have said."""
    return home.folder.with_name("engine.log").read_text(encoding="utf-8")


def state_of(home: Home, job: str) -> str:
    """The state that a job is in."""
    return str(next(row["state"] for row in home.jobs() if row["id"] == job))


def owner_of(home: Home, job: str) -> int:
    """The process that owns a job, as its lock's file names it."""
    path = state_folder(home) / "locks" / f"{job}.lock"
    wait_for(lambda: len(path.read_text(encoding="utf-8").split()) > 1)  # it is written right after the lock is taken
    return int(path.read_text(encoding="utf-8").split()[1])


def is_busy(home: Home, job: str) -> bool:
    """Whether an agent of a job has begun its long work."""
    return bool(list(home.job_file(job, "trees").glob("*/begun.txt")))
