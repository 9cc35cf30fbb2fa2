"""How long the command line takes to start, against an interpreter that does nothing."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TIMES = 15


def _seconds(words: list[str], folder: str) -> float:
    environment = {**os.environ, "PARLEY_HOME": f"{folder}/.parley"}
    begun = time.perf_counter()
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True)
    return time.perf_counter() - begun


def measure() -> list[dict[str, Any]]:
    """Medians, taken in turns so that all see the same machine."""
    parley = str(Path(sys.executable).with_name("parley"))
    words = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "parley --help": [parley, "--help"],
        "parley ls": [parley, "ls"],
    }
    times: dict[str, list[float]] = {name: [] for name in words}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(TIMES):
            for name, line in words.items():
                times[name].append(_seconds(line, folder))
    bare = statistics.median(times["python -c pass"])
    return [
        {"what": name, "ms": statistics.median(taken) * 1e3, "ratio": statistics.median(taken) / bare}
        for name, taken in times.items()
    ]
