"""What a result depends on of the machine it was measured on, and nothing that tells whose machine it is."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

_BLOCK = bytes(4096)
_SYNCS = 50
_GIB = 1 << 30


def home(where: Path) -> Path:
    """A new folder for one measurement, kept until all are done.

    A file system that has just deleted thousands of files makes new ones slowly: the next measurement would pay for it.
    """
    where.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(dir=where)).resolve()


def facts(where: Path) -> dict[str, str | int | float]:
    """Describe the machine, its disk as seen from `where`."""
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        "cpu": _cpu(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / _GIB, 1),
        "filesystem": _filesystem(where),
        "sync_ms": sync_ms(where),
        "kernel": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "sqlite": sqlite3.sqlite_version,
    }


def _cpu() -> str:
    """The model of the processor, or its architecture where the model is not told."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    models = (value.strip() for key, _, value in (line.partition(":") for line in lines) if key[:10] == "model name")
    return next(models, platform.machine())


def _filesystem(where: Path) -> str:
    """The type of the file system: that of the deepest mount point above the directory."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    found = where.resolve()
    above = {str(path) for path in (found, *found.parents)}
    best = ("", "unknown")
    for line in lines:
        fields = line.split()
        point, kind = fields[4], fields[fields.index("-") + 1]
        if point in above and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


def sync_ms(where: Path) -> float:
    """The median time of appending a block to a file and having it on the disk."""
    times = []
    with tempfile.TemporaryFile(dir=where) as file:
        for _ in range(_SYNCS):
            start = time.perf_counter()
            file.write(_BLOCK)
            file.flush()
            os.fsync(file.fileno())
            times.append(time.perf_counter() - start)
    return round(statistics.median(times) * 1000, 3)
