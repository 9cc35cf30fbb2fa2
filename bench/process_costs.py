"""What the parts of a cluster cost: processor time and memory of process trees, from /proc."""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

_TICKS = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
LOOK_SECONDS = 0.5
MEMORY_LOOKS = 4  # memory is looked at once in so many: that takes the kernel long


class _Process(NamedTuple):
    parent: int
    name: str
    threads: int
    seconds: float  # of a processor, with those of its children that have ended


class Sample(NamedTuple):
    """The parts at one moment."""

    at: float  # by the clock of the system
    seconds: Mapping[str, float]  # of a processor, by part
    memory_mb: Mapping[str, float]  # by part; empty where it was not looked at
    threads: Mapping[str, int]  # of a part's first process
    gits: Mapping[str, int]  # git processes below it, at this moment
    machine: float  # seconds of processors that the whole machine was busy


def sample(parts: Mapping[str, int], *, memory: bool = False) -> Sample:
    """Look at the trees of processes that begin with these."""
    everyone = _everyone()
    below: dict[int, list[int]] = defaultdict(list)
    for pid, process in everyone.items():
        below[process.parent].append(pid)
    trees = {name: _tree(root, below) for name, root in parts.items() if root in everyone}
    return Sample(
        at=time.time(),
        seconds={name: sum(everyone[pid].seconds for pid in tree) for name, tree in trees.items()},
        memory_mb={name: sum(map(_pss_mb, tree)) for name, tree in trees.items()} if memory else {},
        threads={name: everyone[parts[name]].threads for name in trees},
        gits={name: sum(everyone[pid].name.startswith("git") for pid in tree) for name, tree in trees.items()},
        machine=_busy_seconds(),
    )


class Watch:
    """Looks at the parts again and again, from a thread of its own. `parts` may change meanwhile."""

    def __init__(self, parts: Callable[[], Mapping[str, int]]) -> None:
        self.samples: list[Sample] = []
        self._parts = parts
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            self.samples.append(sample(self._parts(), memory=len(self.samples) % MEMORY_LOOKS == 0))
            if self._stopped.wait(LOOK_SECONDS):
                return

    def most_memory_mb(self) -> dict[str, float]:
        """By part, the most that was seen."""
        return _most([one.memory_mb for one in self.samples])

    def most_threads(self) -> dict[str, int]:
        """By part, the most that was seen."""
        return {name: int(most) for name, most in _most([one.threads for one in self.samples]).items()}

    def most_gits(self) -> dict[str, int]:
        """By part, the most git processes at once that were seen."""
        return {name: int(most) for name, most in _most([one.gits for one in self.samples]).items()}


def _most(seen: list[Mapping[str, float]] | list[Mapping[str, int]]) -> dict[str, float]:
    most: dict[str, float] = {}
    for each in seen:
        for name, value in each.items():
            most[name] = max(most.get(name, 0.0), value)
    return most


def _everyone() -> dict[int, _Process]:
    found = {}
    for folder in _PROC.iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                head, _, tail = (folder / "stat").read_bytes().rpartition(b")")
                words = tail.split()
                seconds = sum(map(int, words[11:15])) / _TICKS
                name = head.partition(b"(")[2].decode("utf-8", "replace")
                found[int(folder.name)] = _Process(int(words[1]), name, int(words[17]), seconds)
    return found


def _tree(root: int, below: Mapping[int, list[int]]) -> list[int]:
    found = [root]
    for pid in found:
        found += below.get(pid, [])
    return found


def _pss_mb(pid: int) -> float:
    """A process's share of the memory: what several share is divided among them."""
    with suppress(OSError):
        for line in (_PROC / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def _busy_seconds() -> float:
    words = (_PROC / "stat").read_text(encoding="ascii").partition("\n")[0].split()[1:]
    user, nice, system, _idle, _waiting, *interrupts = map(int, words)
    return (user + nice + system + sum(interrupts[:2])) / _TICKS
