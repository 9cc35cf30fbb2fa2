"""Processes of Parley that a command starts: one that works on a job in the background, and other commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from parley.actions.engine_process import EngineProcess
from parley.bus.attendant import attended
from parley.cli import SERVE_ENGINE
from parley.cli.common import Workplace, make_home

ENGINE_LOG = "serve.log"


def program_words(place: Workplace, words: Sequence[str]) -> list[str]:
    """The command line of `parley` with some words, in a repository."""
    # -P: never import from the user's folder, in which it starts
    return [sys.executable, "-P", "-m", "parley", words[0], "--repo", str(place.root), *words[1:]]


def spawn(place: Workplace, job: str, log: Path, *more: str) -> subprocess.Popen[bytes]:
    """Start a process that works on a job, and outlives this one, its terminal and its session."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "parley", "resume", job, "--background", *more],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            cwd=place.root,
            env={**os.environ, "PARLEY_HOME": str(place.home)},
        )


def engine_process(place: Workplace) -> EngineProcess:
    """The process that runs all jobs of a repository for `parley serve`, not started yet. Makes the home."""
    make_home(place)
    return EngineProcess(
        program_words(place, [SERVE_ENGINE]),
        env={**os.environ, "PARLEY_HOME": str(place.home)},
        cwd=place.root,
        log=place.home / ENGINE_LOG,
        may_start=lambda: not attended(place.home),
    )
