"""`python -m bench.cluster`: what many jobs on several hosts take, and what a page tells from that about more of them.

Every figure comes from one machine that runs all parts: PostgreSQL, Temporal, the git remote, the coordinator, and
workers with homes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import cluster_floors, cluster_page, machine
from bench.cluster_takeover import coordinator_killed, host_killed
from bench.one_machine import Cluster, cluster, wait_until
from bench.process_costs import Sample, Watch
from tools.postgres_server import programs

Say = Callable[[str], None]
JOBS, TURNS, WORKERS = 200, 10, (1, 2, 4)
SLOTS = 4  # of each worker
SLEEP = 12.0
SECONDS = 90.0  # that one size is watched at most: its rate is that of the middle of what was seen
BEGIN, END = 0.1, 0.9  # of the turns, between which costs and rates are taken
STARTS_SECONDS = 600.0  # that a coordinator may take until its first turn has ended


class Size(NamedTuple):
    """How much of what is run."""

    jobs: int
    turns: int
    workers: int
    slots: int
    sleep: float
    seconds: float  # that it is watched at most

    @property
    def name(self) -> str:
        """What a table calls it."""
        kind = f"turns that sleep {self.sleep:g} s" if self.sleep else "turns that take no time"
        return f"{self.jobs} jobs, {self.workers} worker{'s' if self.workers > 1 else ''}, {kind}"


class Moments(NamedTuple):
    """The times of a turn, by PostgreSQL's clock, each that of a commit."""

    row: float  # the turn's row, on the bus
    out: float  # its order, on the board: its files are pushed
    claimed: float  # by a host
    begun: float  # its files are laid out: the agent is started
    over: float  # its files are pushed, and its end told


def moments(made: Cluster) -> list[Moments]:
    """The times of every turn that went through at the first attempt, in the order of their ends."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    stamp = "extract(epoch FROM pg_xact_commit_timestamp({0}.xmin))::float8"
    rows = made.rows(
        f"SELECT j.job, substring(s.produced FROM 'Run [^\\n]* t([0-9]+)')::bigint, 'row', {stamp.format('c')} "  # noqa: S608 - no input
        "FROM {bus}.steps s JOIN {bus}.commits c ON c.job = s.job AND c.number = s.txn "
        "JOIN {bus}.jobs j ON j.serial = s.job WHERE s.rule = 'wake' AND s.extra <> '' "
        f"UNION ALL SELECT job, turn, what, {stamp.format('m')} FROM watched.moments m"
    )
    for job, turn, what, at in rows:
        if turn is not None:
            found.setdefault((job, turn), {}).setdefault(what, at)
    whole = ("row", "open/", "claimed/", "begun/", "over/ended")
    times = [
        Moments._make(each[name] for name in whole) for each in found.values() if all(name in each for name in whole)
    ]
    return sorted(times, key=lambda each: each.over)


# ---- one size ------------------------------------------------------------------------------------


def run(size: Size, where: Path, bin_folder: Path) -> dict[str, Any]:
    """One size on a cluster of its own."""
    with _folder(where) as folder, cluster(Path(folder), bin_folder) as made:
        for number in range(size.workers):
            made.start_worker(f"host{number + 1}", size.slots)
        made.wait_for_workers()
        made.add_jobs(size.jobs, size.turns, size.sleep)
        with made.coordinator() as coordinator, Watch(lambda: made.parts(coordinator.pid)) as watch:
            wait_until(lambda: coordinator.poll() is not None or made.ended(), STARTS_SECONDS)
            wait_until(lambda: coordinator.poll() is not None, size.seconds, fine=True)
            times = moments(made)
        return {**size._asdict(), "name": size.name, **_figures(times, watch, made)}


def _figures(times: Sequence[Moments], watch: Watch, made: Cluster) -> dict[str, Any]:
    first, last = int(len(times) * BEGIN), max(int(len(times) * END) - 1, 1)
    begin, end = times[first].over, times[last].over
    early, late = _nearest(watch.samples, begin), _nearest(watch.samples, end)
    between = sum(early.at < each.over <= late.at for each in times) or 1
    spent = {name: (late.seconds[name] - early.seconds.get(name, 0.0)) / between * 1e3 for name in late.seconds}
    turns = len(times)
    counted = {
        name: made.rows(f"SELECT count(*) FROM {name}")[0][0] / turns  # noqa: S608 - names of our own
        for name in ("{bus}.commits", "{bus}.steps", "{bus}.messages")
    }
    return {
        "ended": turns,
        "per_second": _rate([each.over for each in times[first : last + 1]]),
        "cpu_ms": _by_kind(spent),
        "machine_ms": (late.machine - early.machine) / between * 1e3,
        "busy_cores": (late.machine - early.machine) / (late.at - early.at) if late.at > early.at else 0.0,
        "waited_ms": _medians(times),
        "memory_mb": _mean_by_kind(watch.most_memory_mb()),
        "threads": _kinds(watch.most_threads()),
        "gits": _kinds(watch.most_gits()),
        "pushed_kb": made.pushed_bytes() / turns / 1024,
        "rows": {name.partition(".")[2]: value for name, value in counted.items()},
    }


def _rate(ends: Sequence[float]) -> float:
    """Turns a second, as the line through all ends: turns that sleep end many at a time."""
    if len(ends) < 2 or ends[-1] <= ends[0]:  # noqa: PLR2004 - a line has two points
        return 0.0
    return statistics.linear_regression(ends, range(len(ends))).slope


def _medians(times: Iterable[Moments]) -> dict[str, float]:
    """What passes between the moments of a turn, in ms."""
    every = list(times)
    return {
        "row to board": statistics.median(each.out - each.row for each in every) * 1e3,
        "board to host": statistics.median(each.claimed - each.out for each in every) * 1e3,
        "host to agent": statistics.median(each.begun - each.claimed for each in every) * 1e3,
        "dispatch": statistics.median(each.begun - each.row for each in every) * 1e3,
        "agent to end": statistics.median(each.over - each.begun for each in every) * 1e3,
    }


def _nearest(samples: Sequence[Sample], at: float) -> Sample:
    return min(samples, key=lambda one: abs(one.at - at))


def _kind(name: str) -> str:
    return "worker" if name.startswith("host") else name


def _by_kind(found: Mapping[str, float]) -> dict[str, float]:
    """All workers together."""
    summed: dict[str, float] = {}
    for name, value in found.items():
        summed[_kind(name)] = summed.get(_kind(name), 0.0) + value
    return summed


def _mean_by_kind(found: Mapping[str, float]) -> dict[str, float]:
    """One worker, as the workers are in the mean."""
    workers = [value for name, value in found.items() if _kind(name) == "worker"]
    summed = _by_kind(found)
    return summed | ({"worker": statistics.mean(workers)} if workers else {})


def _kinds(found: Mapping[str, int]) -> dict[str, int]:
    """The most that any of a kind has."""
    most: dict[str, int] = {}
    for name, value in found.items():
        most[_kind(name)] = max(most.get(_kind(name), 0), value)
    return most


def _folder(where: Path) -> tempfile.TemporaryDirectory[str]:
    found: tempfile.TemporaryDirectory[str] = tempfile.TemporaryDirectory(
        prefix="cluster-", dir=where, ignore_cleanup_errors=True
    )
    os.chmod(found.name, 0o755)  # noqa: PTH101, S103 - PostgreSQL runs as another user, in a folder of its own in it
    return found


# ---- an idle cluster -----------------------------------------------------------------------------


def idle(where: Path, bin_folder: Path, turns: int) -> dict[str, Any]:
    """One job on an idle cluster, take-over, and the bare round trips beside it."""
    with _folder(where) as folder, cluster(Path(folder), bin_folder) as made:
        for number in range(2):
            made.start_worker(f"host{number + 1}", SLOTS)
        made.wait_for_workers()
        made.add_jobs(1, turns, 0.0)
        with made.coordinator() as coordinator:
            wait_until(lambda: coordinator.poll() is not None)
        waited = _medians(moments(made))
        floors = cluster_floors.measure(made)
        killed = {"host": host_killed(made), "coordinator": coordinator_killed(made)}
    return {"waited_ms": waited, "floors_ms": floors, "takeover_seconds": killed}


# ---- all of it -----------------------------------------------------------------------------------


def sizes(given: argparse.Namespace) -> list[Size]:
    """What is measured, in order: first a tenth of the jobs, by which the growth of costs is seen."""
    few = max(1, given.jobs // 10)
    one = Size(
        jobs=few, turns=given.turns, workers=min(given.workers), slots=given.slots, sleep=0.0, seconds=given.seconds
    )
    awake = [one._replace(jobs=given.jobs, workers=workers) for workers in given.workers]
    return [one, *awake, *(each._replace(sleep=given.sleep) for each in awake)]


def measure(given: argparse.Namespace, say: Say) -> dict[str, Any] | None:
    """All sizes; nothing where PostgreSQL is missing."""
    found = programs()
    if found is None:
        say("PostgreSQL is missing: nothing is measured")
        return None
    given.dir.mkdir(parents=True, exist_ok=True)
    say("an idle cluster…")
    quiet = idle(given.dir, found, given.turns)
    say(f"  dispatch {quiet['waited_ms']['dispatch']:.0f} ms, take-over {quiet['takeover_seconds']}")
    loaded = []
    for size in sizes(given):
        loaded.append(run(size, given.dir, found))
        last = loaded[-1]
        say(f"  {size.name}: {last['ended']} turns, {last['per_second']:.2f}/s, {last['machine_ms']:.0f} ms of the "
            f"processors a turn, {last['busy_cores']:.2f} of them busy")  # fmt: skip
    return {"machine": machine.facts(given.dir), "idle": quiet, "sizes": loaded}


def _counts(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


def main() -> int:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(prog="bench.cluster", description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=JOBS, help=f"at once; {JOBS}")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"of each job, an even number from 8; {TURNS}")
    parser.add_argument("--workers", type=_counts, default=WORKERS, help="1,2,4")
    parser.add_argument("--slots", type=int, default=SLOTS, help=f"of each worker; {SLOTS}")
    parser.add_argument("--sleep", type=float, default=SLEEP, help=f"of the turns that sleep; {SLEEP:g} s")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"that a size is watched at most; {SECONDS:g}")
    parser.add_argument("--dir", type=Path, default=Path("/tmp"), help="where the clusters lie")  # noqa: S108 - its own
    parser.add_argument("--no-write", action="store_true", help="print only, leave the docs alone")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # no server of its own is left
    found = measure(given, lambda line: print(line, flush=True))
    if found is None:
        return 1
    print(cluster_page.text(found))
    if not given.no_write:
        cluster_page.RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        cluster_page.write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
