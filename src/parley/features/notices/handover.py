"""Where notices leave the engine: marked first, so that none goes out twice, then handed to a process of its own.

A service may fail, hang or be slow: that process has a time limit, and outlives this one, which does not
wait for it. What became of each notice is written to `notices.jsonl` of its job.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from parley.ports.notices import Notice

LOG, MARKS = "notices.jsonl", "notices"
SECONDS = 30.0  # that all services together may take
GRACE_SECONDS = 5.0
TAIL_BYTES = 1 << 16
# -P: the folder that it starts in is the user's, and no place to import from
_POST = ("-P", "-m", "parley.features.notices.post")


class SentNotice(NamedTuple):
    """What became of a notice at one service."""

    service: str  # its number in the settings and its kind; never its address, which holds secrets
    problem: str = ""  # empty: it was taken
    time: float = 0.0
    notice: str = ""


class AnswerAddress(NamedTuple):
    """Where a question can be answered in the browser; empty where no page is served."""

    page: str = ""  # for a browser that is let in already
    link: str = ""  # lets answer who has it: it is told to a person, and to no one else


class NoticeSender:
    """The notices of a home's jobs."""

    def __init__(
        self,
        home: Path,
        to: Iterable[str],
        occasions: Iterable[str],
        place: str = "",
        address: Callable[[Notice], AnswerAddress] = lambda notice: AnswerAddress(),
    ) -> None:
        """`address`: where a question can be answered; asked when the notice goes out."""
        self._jobs = home.resolve() / "jobs"
        self._to, self._occasions, self._place, self._address = tuple(to), frozenset(occasions), place, address

    def tell(self, notice: Notice) -> None:
        """Send a notice, once and for all. Nothing is waited for, and nothing raised: no job depends on it."""
        if not self._to or notice.occasion not in self._occasions:
            return
        folder = self._jobs / notice.job
        try:
            if self._marked(folder, notice.id):
                _start(
                    {**_letter(notice, self._place, self._address(notice)), "to": self._to, "seconds": SECONDS},
                    folder / LOG,
                )
        except OSError as error:
            _log(folder, notice, error)

    @staticmethod
    def _marked(folder: Path, name: str) -> bool:
        """Mark a notice as sent, before it is; False if it was."""
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:60]
        path = folder / MARKS / f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return False
        return True


def try_out(to: Iterable[str], title: str, text: str, seconds: float = SECONDS) -> list[SentNotice]:
    """Send something now, and wait for what becomes of it at each service."""
    given = {"to": tuple(to), "title": title, "text": text, "notice": "test", "seconds": seconds}
    try:
        done = subprocess.run(
            [sys.executable, *_POST],
            input=json.dumps(given).encode(),
            capture_output=True,
            check=False,
            timeout=seconds + 2 * GRACE_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return []
    return [_read(line) for line in done.stdout.decode("utf-8", "replace").splitlines() if line.startswith("{")]


def sent_before(folder: Path) -> list[SentNotice]:
    """What became of the last notices of a job, the oldest first."""
    try:
        with (folder / LOG).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        with suppress(ValueError, TypeError, AttributeError):  # one that a crash cut off
            found.append(_read(line))
    return found


def _letter(notice: Notice, place: str, address: AnswerAddress) -> dict[str, Any]:
    where = f" ({place})" if place else ""
    return {
        "title": f"Parley{where}: {notice.title}",
        "text": notice.text,
        "page": address.page,
        "link": address.link,
        "notice": notice.id,
    }


def _start(given: dict[str, Any], log: Path) -> None:
    """Start the process that sends. It is reaped when it ends; should this one end first, it goes on."""
    inward, outward = os.pipe()
    try:
        nothing = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            actions = [(os.POSIX_SPAWN_DUP2, inward, 0), *((os.POSIX_SPAWN_DUP2, nothing, out) for out in (1, 2))]
            words = [sys.executable, *_POST, str(log)]
            pid = os.posix_spawn(sys.executable, words, os.environ, file_actions=actions, setsid=True)
        finally:
            os.close(nothing)
        os.set_blocking(outward, False)  # an unusual list of addresses must not hold anything up
        os.write(outward, json.dumps(given).encode())
    finally:
        os.close(inward)
        os.close(outward)
    threading.Thread(target=_reap, args=(pid,), daemon=True).start()


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _log(folder: Path, notice: Notice, error: OSError) -> None:
    line = json.dumps({"time": time.time(), "notice": notice.id, "service": "all", "problem": str(error)})
    with suppress(OSError), (folder / LOG).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")


def _read(line: str) -> SentNotice:
    found = json.loads(line)
    return SentNotice(str(found["service"]), str(found["problem"]), float(found["time"]), str(found["notice"]))
