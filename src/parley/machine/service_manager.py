"""Tells systemd, where it has started this process, that it is ready, that it ends, and that it still lives."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

READY, STOPPING, ALIVE = "READY=1", "STOPPING=1", "WATCHDOG=1"
_SOCKET, _WATCHDOG = "NOTIFY_SOCKET", "WATCHDOG_USEC"


def notify(state: str) -> None:
    """Tell it; nothing happens where no service manager listens."""
    address = os.environ.get(_SOCKET, "")
    if not address.startswith(("/", "@")):
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
        to.sendto(state.encode(), name)


def watchdog_seconds() -> float:
    """After how much silence systemd ends this process; 0: it does not watch."""
    given = os.environ.get(_WATCHDOG, "")
    mine = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(given) / 1_000_000 if mine and given.isdecimal() and given.isascii() else 0.0
