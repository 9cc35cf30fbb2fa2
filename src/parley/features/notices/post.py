"""The process that takes one notice to all services: `python -m parley.features.notices.post [LOG]`, the rest on stdin.

It is told addresses on its standard input and nowhere else, since they hold secrets; what it says of a service never
holds any of them. Each service has a thread of its own, and all have one time limit.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from parley_cfa import installation

GRACE_SECONDS = 5
DESKTOP = "desktop"
# Kinds of services to which another user of this machine can listen: programs that are started with the words, which
# the list of processes shows, and the system's log. A link that answers by itself is not told there.
OVERHEARD = (DESKTOP, "macosx", "syslog")
LATE = "it did not answer within "
_SHORT = 4  # characters of an address's part that are no secret by themselves
_PROBLEM = 200  # characters


def main(words: list[str]) -> int:
    """Send, and say what became of it: on standard output, or at the end of a log."""
    given = json.load(sys.stdin)
    seconds = float(given["seconds"])
    signal.alarm(int(seconds) + GRACE_SECONDS)  # this process ends, also if a service hangs
    found: dict[int, str] = {}
    threads = [
        threading.Thread(target=_deliver, args=(found, number, address, given), daemon=True)
        for number, address in enumerate(given["to"])
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = f"{LATE}{seconds:g} seconds"
    lines = [
        json.dumps(
            {
                "time": time.time(),
                "notice": given["notice"],
                "service": f"{number + 1}. {kind_of(address)}",
                "problem": found.get(number, late),
            }
        )
        for number, address in enumerate(given["to"])
    ]
    text = "".join(f"{line}\n" for line in lines).encode()
    out = os.open(words[0], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600) if words else 1
    os.write(out, text)
    return 0


def kind_of(address: str) -> str:
    """What kind of service an address names, and nothing else of it."""
    kind = re.match(r"[A-Za-z0-9+.-]+(?=://)", address)
    return kind[0].lower() if kind else DESKTOP if address == DESKTOP else "address"


def _deliver(found: dict[int, str], number: int, address: str, given: Mapping[str, Any]) -> None:
    try:
        title, text = given["title"], _text(kind_of(address), given)
        if address == DESKTOP:
            problem = _to_desktop(title, text, 0.9 * given["seconds"])
        else:
            problem = _to_service(address, title, text)
    except _NotInstalled as error:
        found[number] = str(error)  # our own words, with a command that has to stay whole
        return
    except Exception as error:  # noqa: BLE001 - a service's code may raise anything, and the others are told
        problem = f"{type(error).__name__}: {error}"
    found[number] = covered(problem, address)


def _text(kind: str, given: Mapping[str, Any]) -> str:
    """What is told, with the address at which the question can be answered."""
    where = given.get("page" if kind in OVERHEARD else "link", "")
    return f"{given['text']}\nanswer it on the page: {where}" if where else str(given["text"])


def covered(problem: str, address: str) -> str:
    """A problem in one line, without any part of the address that may be secret."""
    line = " ".join("".join(char if char.isprintable() else " " for char in problem).split())
    _, _, secret = address.partition("://")
    parts = {part for part in re.split(r"[^A-Za-z0-9_.-]+", secret) if len(part) > _SHORT}
    for part in sorted({secret, *parts} - {""}, key=len, reverse=True):
        line = line.replace(part, "***")
    return line if len(line) <= _PROBLEM else f"{line[: _PROBLEM - 1]}…"


class _NotInstalled(Exception):
    """The library that knows the services is missing; the message says how to get it."""


class _Heard(logging.Handler):
    """What the library says on this thread of why it could not send."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.thread = threading.get_ident()
        self.said = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the last word."""
        if record.thread == self.thread:
            self.said = record.getMessage()


def _to_service(address: str, title: str, text: str) -> str:
    try:
        apprise = import_module("apprise")  # here, in this process alone: it takes most of a second
    except ModuleNotFoundError as error:
        command = installation.read().command("notify")
        raise _NotInstalled(f"apprise is not installed; install it: {command}") from error
    heard = _Heard()
    logger = logging.getLogger("apprise")
    logger.addHandler(heard)
    logger.propagate = False
    service = apprise.Apprise.instantiate(address, asset=apprise.AppriseAsset(app_id="Parley", async_mode=False))
    if service is None:
        return "this is no address of a service that apprise knows, or it is not complete; see docs/notifications.md"
    if service.notify(body=text, title=title, body_format=apprise.NotifyFormat.TEXT):
        return ""
    return heard.said or "the service did not take it"


def _to_desktop(title: str, text: str, seconds: float) -> str:
    """The desktop that this is started from, by the program that desktops have for it."""
    program = shutil.which("notify-send")
    if program is None:
        if sys.platform == "darwin":
            return _to_service("macosx://", title, text)
        return "notify-send is not installed; install libnotify-bin"
    words = [program, "--app-name=Parley", "--", title, text]
    try:
        done = subprocess.run(words, cwd="/", capture_output=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"{LATE}{seconds:g} seconds"
    said = done.stderr.decode("utf-8", "replace").strip()
    return (said or f"notify-send ended with {done.returncode}") if done.returncode else ""


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # not waiting for a thread that hangs
