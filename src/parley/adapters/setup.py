"""The user's set-up command, run in a fresh worktree behind the boundary: it is a repository's code like any other."""

from __future__ import annotations

import contextlib
import os
import select
import time
from pathlib import Path
from typing import IO, cast

from parley.adapters.boundary import Boundary, Cage, Caged, Route
from parley.ports import BoundaryError, Site, WorkspaceError

LIMIT_SECONDS = 1800.0
TAIL = 4000
GATEWAY = "http://127.0.0.1:3128"


class SetUp:
    """Runs a command in a site, with the network that the settings allow, and a home that all set-ups share."""

    def __init__(self, boundary: Boundary, home: Path, limit_seconds: float = LIMIT_SECONDS) -> None:
        self._boundary = boundary
        self._home = home
        self._limit_seconds = limit_seconds

    def __call__(self, site: Site, command: str) -> None:
        """Run it to its end; a WorkspaceError with its last words if it fails."""
        self._home.mkdir(parents=True, exist_ok=True)
        self._boundary.hand_over(self._home)
        proxies = dict.fromkeys(("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"), GATEWAY)
        environment = {"PATH": self._boundary.search_path(), "LANG": "C.UTF-8", **proxies}
        cage = Cage(site, self._home, ("/bin/sh", "-c", command), environment, route=Route(), mark="set-up/")
        try:
            caged = self._boundary.launch(cage)
        except BoundaryError as error:
            raise WorkspaceError(f"the set-up command can't be run: {error}") from error
        said, ended = _watch(caged, time.monotonic() + self._limit_seconds)
        status = caged.kill()
        for stream in (caged.process.stdin, caged.process.stdout, caged.process.stderr):
            with contextlib.suppress(OSError):
                cast("IO[bytes]", stream).close()
        if not ended:
            raise WorkspaceError(f"the set-up command `{command}` took longer than {self._limit_seconds:g} s")
        if status:
            last = said.decode("utf-8", "replace").strip().splitlines()
            raise WorkspaceError(
                f"the set-up command `{command}` failed ({status}): {last[-1] if last else 'silently'}"
            )


def _watch(caged: Caged, deadline: float) -> tuple[bytes, bool]:
    """Read what the command says until it ends, or its time is over; the end of it, and whether it ended."""
    said = bytearray()
    streams = [cast("IO[bytes]", stream).fileno() for stream in (caged.process.stdout, caged.process.stderr)]
    while streams:
        left = deadline - time.monotonic()
        if left <= 0:
            return bytes(said), False
        for ready in select.select(streams, [], [], left)[0]:
            chunk = os.read(ready, 1 << 16)
            if not chunk:
                streams.remove(ready)
            said = (said + chunk)[-TAIL:]
    caged.process.wait()
    return bytes(said), True
