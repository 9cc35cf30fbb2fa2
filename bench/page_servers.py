"""The processes that the page's figures come from: `parley serve`, a bare server, and the job's owner."""

from __future__ import annotations

import gzip
import http.client
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent
SLOW_SECONDS = 30.0  # until something counts as broken
_LINK = re.compile(r"http://\S+")
_TICKS = os.sysconf("SC_CLK_TCK")


class Running(NamedTuple):
    """A server that answers."""

    pid: int
    origin: str
    cookie: str
    link: str
    start_ms: float


def environment(where: Path) -> dict[str, str]:
    """What the processes are given: a user of their own, whose folders are empty."""
    own = {f"XDG_{name}_HOME": str(where / "user" / name.lower()) for name in ("CONFIG", "STATE", "DATA", "CACHE")}
    left = {name: value for name, value in os.environ.items() if not name.startswith("PARLEY_")}
    return {**left, **own, "PYTHONPATH": f"{ROOT}/src{os.pathsep}{ROOT}"}


@contextmanager
def process(words: Sequence[str], given: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process with what it prints, ended at the end."""
    started = subprocess.Popen(words, env=dict(given), cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        try:
            started.wait(SLOW_SECONDS)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        if started.stdout is not None:
            started.stdout.close()


def told(running: subprocess.Popen[str], what: re.Pattern[str]) -> str:
    """What a process prints that fits."""
    for line in running.stdout or ():
        if found := what.search(line):
            return found.group()
    raise RuntimeError("the process ended before it said what was waited for")


@contextmanager
def served(folder: Path, given: Mapping[str, str]) -> Iterator[Running]:
    """`parley serve` for the folder, once its first page is answered."""
    parley = str(Path(sys.executable).with_name("parley"))
    begun = time.perf_counter()
    with process([parley, "serve", "--no-browser", "--port", "0", "--repo", str(folder)], given) as server:
        link = told(server, _LINK)
        split = urlsplit(link)
        wire = http.client.HTTPConnection(split.hostname or "", split.port, timeout=SLOW_SECONDS)
        with closing(wire):
            wire.request("GET", f"{split.path}?{split.query}")
            admitted = wire.getresponse()
            cookie = (admitted.getheader("set-cookie") or "").partition(";")[0]
            admitted.read()
            wire.request("GET", admitted.getheader("location") or "/", headers={"cookie": cookie})
            page = wire.getresponse()
            if page.status != http.HTTPStatus.OK or not page.read():
                raise RuntimeError(f"the first page was answered with {page.status}")
        yield Running(
            pid=server.pid,
            origin=f"{split.scheme}://{split.netloc}",
            cookie=cookie,
            link=link,
            start_ms=(time.perf_counter() - begun) * 1e3,
        )


@contextmanager
def bare(folder: Path, given: Mapping[str, str]) -> Iterator[Running]:
    """The bare server for what lies in a folder."""
    begun = time.perf_counter()
    with process([sys.executable, "-m", "bench.bare_page", str(folder)], given) as server:
        origin = told(server, _LINK).rstrip("/")
        fetch(origin, "", "/")
        taken = time.perf_counter() - begun
        yield Running(pid=server.pid, origin=origin, cookie="", link="", start_ms=taken * 1e3)


@contextmanager
def owned(folder: Path, rate: float, given: Mapping[str, str]) -> Iterator[None]:
    """Another process owns the job, and its turns end at a rate."""
    words = [sys.executable, "-m", "bench.big_job", str(folder), "--attend", "--rate", str(rate)]
    with process(words, given) as owner:
        told(owner, re.compile("has its owner"))
        yield


def fetch(origin: str, cookie: str, path: str) -> str:
    """A page as text."""
    with closing(http.client.HTTPConnection(urlsplit(origin).netloc, timeout=SLOW_SECONDS)) as wire:
        wire.request("GET", path, headers={"cookie": cookie} if cookie else {})
        got = wire.getresponse()
        body = got.read()
        if got.status != http.HTTPStatus.OK:
            raise RuntimeError(f"{path} was answered with {got.status}")
        return (gzip.decompress(body) if got.getheader("content-encoding") == "gzip" else body).decode()


def memory_mb(pid: int) -> float:
    """What a process has in memory now."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_seconds(pid: int) -> float:
    """What a process has used of the processors."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
