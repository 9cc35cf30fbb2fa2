"""The processes that a process has started."""

from __future__ import annotations

from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Those that run, or have ended and were not waited for."""
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _parent(entry) == pid]


def _parent(entry: Path) -> int:
    try:
        stat = (entry / "stat").read_bytes()
    except OSError:
        return 0
    return int(stat[stat.rindex(b")") + 2 :].split()[1])
