"""What the boundary costs: a verified spawn beside a plain spawn of the same command, and the launcher's size."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from parley.ports.turns import Site
from parley.sandbox import Boundary, Cage, Caged

TIMES = 25
COMMAND = ("true",)


def _plain() -> float:
    """Until the process is there: what subprocess.Popen takes, pipes and all."""
    begun = time.perf_counter()
    pipe = subprocess.PIPE
    process = subprocess.Popen(COMMAND, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    taken = time.perf_counter() - begun
    process.communicate()
    return taken


def _caged(boundary: Boundary, cage: Cage) -> tuple[float, Caged]:
    """Until the cage has been tried and the agent let go."""
    begun = time.perf_counter()
    caged = boundary.launch(cage)
    taken = time.perf_counter() - begun
    caged.process.communicate()
    caged.kill()
    return taken, caged


def measure() -> dict[str, Any]:
    """Medians, taken in turns so that both see the same machine; the first launch, which makes the canaries, apart."""
    boundary = Boundary()
    plain, verified = [], []
    resident = 0
    attempts = 0
    try:
        with tempfile.TemporaryDirectory() as folder:
            places = [Path(folder) / name for name in ("workspace", "home")]
            for place in places:
                place.mkdir()
                boundary.hand_over(place)
            cage = Cage(Site(str(places[0])), places[1], COMMAND, {"PATH": os.defpath})
            first, _ = _caged(boundary, cage)
            for _ in range(TIMES):
                plain.append(_plain())
                taken, caged = _caged(boundary, cage)
                verified.append(taken)
                resident = max(resident, caged.verdict.resident_kb)
                attempts = len(caged.verdict.attempts)
    finally:
        boundary.close()
    return {
        "command": " ".join(COMMAND),
        "times": TIMES,
        "attempts": attempts,
        "plain_ms": statistics.median(plain) * 1e3,
        "verified_ms": statistics.median(verified) * 1e3,
        "added_ms": (statistics.median(verified) - statistics.median(plain)) * 1e3,
        "first_ms": first * 1e3,
        "launcher_kb": resident,
        "uid": boundary.uid,
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
