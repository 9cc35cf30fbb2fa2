"""The page (`parley serve`) of a job with thousands of instances: in a real browser, and open many times at once.

Each figure stands beside what the machine can do in the same run: the same bytes from a bare server (`bare_page`).
`python -m bench.page` measures this alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import page_browser, report
from bench.big_job import INSTANCES, STEPS
from bench.page_clients import Client, Connection, Part, parts_of
from bench.page_servers import (
    ROOT,
    SLOW_SECONDS,
    Running,
    bare,
    cpu_seconds,
    environment,
    fetch,
    memory_mb,
    owned,
    served,
)
from bench.report import Section

DOCS = ROOT / "docs" / "benchmarks.md"
PAGES = 200
RATE = 1.0  # turns that end in a second while all pages are open
SECONDS = 20.0
STARTS = 3
WARM_SECONDS = 5.0
LAST_SECONDS = 3.0  # in which what was committed last is fetched too
LOOK_SECONDS = 0.002
START_MS, PAINT_MS, UPDATE_MS = 2000.0, 1000.0, 1000.0  # what is aimed at

ABOUT = f"""
`parley serve` on a job of {INSTANCES:,} instances and {STEPS:,} steps that another process owns. *Bare* is what the
machine can do: Starlette and uvicorn with the same bytes, made and compressed before. A start is from the command to
the first page answered. A paint is a real browser's first contentful one, at the size of a desktop, with nothing
cached; the first is that of the first visit after the server began. An update is on the screen when the browser draws
it, counted from the commit on the bus, by which the job's owner took what another process asked for.

The pages that are open at once are {PAGES} event streams, each of which fetches the parts of the job's page anew, in
one request and as seldom as the page itself says, while turns of the job end, {RATE:g} a second. Their times are those
from a commit to its event, and to each part that follows from it. The bare server sends the largest of the parts each
time; Parley's sends the parts that have changed. Memory is that of the server's process, without the engine that it
runs beside it.
"""


# ---- many pages --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Crowd:
    """What many open pages came to."""

    event_ms: list[float]
    parts_ms: list[float]
    cpu: float  # share of one core
    bytes_an_update: float
    failures: int


async def _crowd(server: Running, parts: Sequence[Part], drive: Callable[[], Awaitable[list[float]]]) -> Crowd:
    """Open all pages, let the job change, and see when each has what."""
    clients = [Client(server.origin, server.cookie, parts) for _ in range(PAGES)]
    tasks = [asyncio.create_task(client.live()) for client in clients]
    try:
        await asyncio.wait_for(asyncio.gather(*(client.listening.wait() for client in clients)), SLOW_SECONDS)
        await asyncio.sleep(WARM_SECONDS)
        for client in clients:
            client.size = 0
        cpu, begun, first = cpu_seconds(server.pid), time.perf_counter(), time.time()
        changed = await drive()
        taken = time.perf_counter() - begun
        cpu = cpu_seconds(server.pid) - cpu
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    times = [found for client in clients for at in changed if (found := client.seen_after(at)) is not None]
    missed = len(clients) * len(changed) - len(times)
    events = sum(sum(at >= first for at in client.events) for client in clients)
    return Crowd(
        event_ms=[event * 1e3 for event, _ in times],
        parts_ms=[done * 1e3 for _, parts_done in times for done in parts_done],
        cpu=cpu / taken,
        bytes_an_update=sum(client.size for client in clients) / max(1, events),
        failures=missed + sum(client.failures for client in clients) + sum(isinstance(end, Exception) for end in ends),
    )


def crowd_of_page(server: Running, parts: Sequence[Part], folder: Path) -> Crowd:
    """All pages on Parley's server, while the job's owner commits."""

    async def drive() -> list[float]:
        begun = time.time()
        await asyncio.sleep(SECONDS)
        ended = time.time()
        await asyncio.sleep(LAST_SECONDS)
        return [at for at in commits(folder, begun) if at < ended]

    return asyncio.run(_crowd(server, parts, drive))


def crowd_of_bare(server: Running, parts: int) -> Crowd:
    """The same on the bare server: a tick is its commit."""

    async def drive() -> list[float]:
        wire, found = Connection(server.origin), []
        for _ in range(int(SECONDS * RATE)):
            found.append(time.time())
            await wire.post("/tick")
            await asyncio.sleep(1 / RATE)
        await asyncio.sleep(1.0)
        wire.close()
        return found

    return asyncio.run(_crowd(server, [Part(f"/part?{number}") for number in range(parts)], drive))


# ---- all of it ---------------------------------------------------------------------------------------


def measure(where: Path) -> dict[str, Any]:
    """Make the job, and measure its page."""
    given, folder = environment(where), where / "page-job"
    words = [sys.executable, "-m", "bench.big_job", str(folder)]
    made = subprocess.run(words, env=given, cwd=ROOT, check=True, capture_output=True, text=True)
    job: str = json.loads(made.stdout)["job"]
    found: dict[str, Any] = {"start_ms": statistics.median(_start_ms(folder, given) for _ in range(STARTS))}
    with owned(folder, 0.0, given), served(folder, given) as server:
        address = _address(server, job)
        found |= _in_browser(server, address, _speaker(folder, job, given))
        parts = _save(server, address, where)
    with owned(folder, RATE, given), served(folder, given) as server:
        fetch(server.origin, server.cookie, _address(server, job))
        found["memory_before"] = memory_mb(server.pid)
        found["crowd"] = crowd_of_page(server, parts, folder)
        found["memory_after"] = memory_mb(server.pid)
    with bare(where, given) as server:
        found["bare_start_ms"] = server.start_ms
        with page_browser.chromium() as browser:
            if browser is not None:
                found["bare_paint"] = page_browser.paints(browser, "", f"{server.origin}/")
        found["bare_memory_before"] = memory_mb(server.pid)
        found["bare_crowd"] = crowd_of_bare(server, len(parts))
        found["bare_memory_after"] = memory_mb(server.pid)
    return found


def _start_ms(folder: Path, given: Mapping[str, str]) -> float:
    with served(folder, given) as server:
        return server.start_ms


def _in_browser(server: Running, address: str, change: Callable[[], float]) -> dict[str, Any]:
    """What a browser sees, where the machine has one."""
    with page_browser.chromium() as browser:
        if browser is None:
            return {}
        there = f"{server.origin}{address}"
        return {
            "paint": page_browser.paints(browser, server.link, there),
            "updates_ms": page_browser.updates(browser, server.link, there, change),
        }


def _save(server: Running, address: str, where: Path) -> list[Part]:
    """Keep the page and the largest of its parts for the bare server; the parts that follow a job's record."""
    page = fetch(server.origin, server.cookie, address)
    parts = parts_of(page)
    texts = [fetch(server.origin, server.cookie, part.address) for part in parts]
    (where / "page.html").write_text(page, encoding="utf-8")
    (where / "part").write_text(max(texts, key=len), encoding="utf-8")
    return parts


def _address(server: Running, job: str) -> str:
    """Where the job's page is, as the first page links it."""
    found = re.search(rf'href="(/r/[^"/]+/{job})"', fetch(server.origin, server.cookie, "/"))
    if found is None:
        found = re.search(rf'href="(/r/[^"/]+/{job})"', fetch(server.origin, server.cookie, "/part/jobs"))
    if found is None:
        raise RuntimeError("the first page has no link to the job")
    return found.group(1)


def _speaker(folder: Path, job: str, given: Mapping[str, str]) -> Callable[[], float]:
    """Another process speaks to the lead, which wakes it: the time of the commit by which the job's owner did that."""
    words = [str(Path(sys.executable).with_name("parley")), "intervene", job, "How far are you?", "--repo", str(folder)]

    def change() -> float:
        before, quiet = commits(folder)[-1], subprocess.DEVNULL
        with subprocess.Popen(words, env=dict(given), stdin=quiet, stdout=quiet, stderr=quiet):
            until = time.monotonic() + SLOW_SECONDS
            while commits(folder, before) == [] and time.monotonic() < until:
                time.sleep(LOOK_SECONDS)
        return commits(folder, before)[0]

    return change


def commits(folder: Path, after: float = 0.0) -> list[float]:
    """The times of the commits on the folder's bus, which has one job, after a time."""
    with closing(sqlite3.connect(f"file:{folder}/.parley/bus.db?mode=ro", uri=True)) as bus:
        return [at for (at,) in bus.execute("SELECT time FROM commits WHERE time > ? ORDER BY id", (after,))]


# ---- the tables ----------------------------------------------------------------------------------------


def sections(found: Mapping[str, Any]) -> list[Section]:
    """What was measured."""
    crowd, plain = found["crowd"], found["bare_crowd"]
    rows = [_row("start to the first page, ms", found["start_ms"], found["bare_start_ms"], START_MS)]
    if "paint" in found:
        paint, other, updates = found["paint"], found["bare_paint"], found["updates_ms"]
        rows += [
            _row("first paint, the first visit, ms", paint.first, other.first, PAINT_MS),
            _row("first paint, median ms", paint.median, other.median, PAINT_MS),
            _row("first paint, slowest ms", paint.slowest, other.slowest, PAINT_MS),
            _row("an update on the screen, median ms", statistics.median(updates), None, UPDATE_MS),
            _row("an update on the screen, slowest ms", max(updates), None, UPDATE_MS),
        ]
    many = [
        _row("event, median ms", _share(crowd.event_ms, 50), _share(plain.event_ms, 50), None),
        _row("event, 95 of 100, ms", _share(crowd.event_ms, 95), _share(plain.event_ms, 95), None),
        _row("a part, median ms", _share(crowd.parts_ms, 50), _share(plain.parts_ms, 50), UPDATE_MS),
        _row("a part, 95 of 100, ms", _share(crowd.parts_ms, 95), _share(plain.parts_ms, 95), UPDATE_MS),
        _row("the server's share of a core, %", crowd.cpu * 100, plain.cpu * 100, None),
        _row("bytes that a page gets for an update", crowd.bytes_an_update, plain.bytes_an_update, None),
        _row("memory before, MB", found["memory_before"], found["bare_memory_before"], None),
        _row("memory after, MB", found["memory_after"], found["bare_memory_after"], None),
        _row("updates missed, and answers that failed", crowd.failures, plain.failures, None),
    ]
    heads = ["", "parley serve", "bare", "ratio", "at most", "reached"]
    return [
        Section("The page of a huge job", heads, rows, ABOUT),
        Section(f"The page of a huge job, open {PAGES} times", heads, many),
    ]


def _row(what: str, ours: float | None, bare_one: float | None, most: float | None) -> list[report.Cell]:
    """A figure beside the bare one; what was never seen has not reached its aim."""
    ratio = f"{ours / bare_one:.2f}" if ours is not None and bare_one else None
    reached = "yes" if ours is not None and most is not None and ours <= most else "no"
    return [what, ours, bare_one, ratio, most, None if most is None else reached]


def _share(times: Sequence[float], percent: int) -> float | None:
    """The time that so many of a hundred stay below; None where none was taken."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] if ordered else None


def main() -> int:
    """Measure, print the tables, and put them into the benchmarks' page if that is asked for."""
    parser = argparse.ArgumentParser(prog="bench.page", description=__doc__)
    parser.add_argument("--dir", type=Path, default=ROOT / ".bench", help="where the job is made, and deleted")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/benchmarks.md too")
    options = parser.parse_args()
    where: Path = options.dir.resolve()
    where.mkdir(parents=True, exist_ok=True)
    try:
        found = sections(measure(where))
    finally:
        shutil.rmtree(where, ignore_errors=True)
    print(report.render_text(found))
    if options.write:
        DOCS.write_text(report.put_sections(DOCS.read_text(encoding="utf-8"), found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
