"""Figures in Prometheus' text format, and those of this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from resource import RUSAGE_SELF, getpagesize, getrusage
from typing import NamedTuple

TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Family(NamedTuple):
    """Series of one name."""

    kind: str
    help: str
    labels: tuple[str, ...] = ()


PROCESS: Mapping[str, Family] = {
    "process_resident_memory_bytes": Family("gauge", "Memory of the process"),
    "process_cpu_seconds_total": Family("counter", "Processor time of the process"),
}

Figure = tuple[str, float, *tuple[str, ...]]  # a series' name, its value, and the values of its labels


def exposition(families: Mapping[str, Family], figures: Iterable[Figure]) -> str:
    """All figures as a scraper reads them, and those of the process: `families` has PROCESS among its own."""
    own: list[Figure] = [
        ("process_resident_memory_bytes", _memory()),
        ("process_cpu_seconds_total", time.process_time()),
    ]
    series: dict[str, list[str]] = {name: [] for name in families}
    for name, value, *labels in (*figures, *own):
        said = ",".join(f'{key}="{each}"' for key, each in zip(families[name].labels, labels, strict=True))
        series[name].append(f"{name}{{{said}}} {_number(value)}" if said else f"{name} {_number(value)}")
    lines: list[str] = []
    for name, family in families.items():
        lines += [f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}", *series[name]]
    return "\n".join((*lines, ""))


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))


def _memory() -> int:
    """What the process has in memory; where the system does not tell, the most that it has had."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * getpagesize()
    except (OSError, ValueError, IndexError):
        most = getrusage(RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
