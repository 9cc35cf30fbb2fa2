"""Runs the user's set-up command in a fresh workspace, behind the same boundary as the agents."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from parley.base.text import cut, last_bytes
from parley.ports.turns import BoundaryError, Site
from parley.ports.workspaces import SetUpFailed, SetUpUnconfined, WorkspaceError
from parley.sandbox import UNCACHED, Boundary, Cage, Route
from parley.sandbox.cage import GATEWAY, HOME
from parley.settings.schema import Settings
from parley.workspaces.files.safe_delete import discard

PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
KEPT = 64 << 10  # bytes of a set-up command's output
END_SECONDS = 10.0
LOOK_SECONDS = 0.2  # between two looks whether it is still wanted


class Tail:
    """The end of a stream: all of it is read, little is kept."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._kept = b""
        self._thread = threading.Thread(target=self._drain, name="parley-set-up", daemon=True)
        self._thread.start()

    def _drain(self) -> None:
        with self._stream:
            while part := os.read(self._stream.fileno(), 1 << 16):
                self._kept = last_bytes(self._kept + part, KEPT)

    def end(self) -> bytes:
        """The kept end, once its writers have ended."""
        self._thread.join(END_SECONDS)
        return self._kept


class SetUpCommand:
    """Runs the set-up command of a place."""

    def __init__(self, boundary: Boundary, settings: Settings, home: Path) -> None:
        self._boundary = boundary
        self._settings = settings
        self._home = home

    def __call__(self, site: Site, command: str, stop: Callable[[], bool] = lambda: False) -> None:
        """Run it; a SetUpFailed with its last words if it fails. `stop`: whether it is not wanted any more."""
        folder = Path(tempfile.mkdtemp(prefix="set-up-", dir=self._home))
        try:
            self._run(site, command, folder, stop)
        finally:
            discard(folder)

    def _job(self, site: Site) -> str:
        """The job whose workspace it is: its processes end with that job."""
        place, jobs = Path(site.workspace), self._home.resolve() / "jobs"
        return place.relative_to(jobs).parts[0] if place.is_relative_to(jobs) else place.name

    def _run(self, site: Site, command: str, folder: Path, stop: Callable[[], bool]) -> None:
        hosts = self._settings.boundary.hosts
        proxy = dict.fromkeys(PROXIES, f"http://{GATEWAY}") if hosts else {}
        for path in (folder, Path(site.workspace)):
            self._boundary.hand_over(path)
        cage = Cage(
            site,
            folder,
            ("/bin/sh", "-c", command),
            {"PATH": self._boundary.search_path(), "LANG": "C.UTF-8", "HOME": HOME, **UNCACHED, **proxy},
            route=Route(hosts=hosts) if hosts else None,
            mark=f"{self._job(site)}/set-up",
        )
        try:
            caged = self._boundary.launch(cage)
        except BoundaryError as error:
            raise SetUpUnconfined(f"the set-up command can't be run: {error}") from error
        process = caged.process
        if process.stdin is not None:
            process.stdin.close()
        tails = [Tail(stream) for stream in (process.stdout, process.stderr) if stream is not None]
        try:
            self._wait(process, command, stop)
        finally:
            code = caged.kill()
            said = b"".join(tail.end() for tail in tails)
        if caged.exceeded:
            raise SetUpFailed(f"the set-up command `{command}` failed: {caged.exceeded}")
        if code:
            lines = [line for line in said.decode("utf-8", "replace").splitlines() if line.strip()]
            last = cut(lines[-1].strip(), 300) if lines else f"it ended with {code}"
            raise SetUpFailed(f"the set-up command `{command}` failed: {last}; see [workspace] in parley.toml")

    def _wait(self, process: subprocess.Popen[bytes], command: str, stop: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._settings.time_limit_seconds
        while True:
            try:
                process.wait(LOOK_SECONDS)
            except subprocess.TimeoutExpired as error:
                if stop():
                    raise WorkspaceError(f"the set-up command `{command}` was ended: its turn is over") from error
                if time.monotonic() > deadline:
                    said = f"the set-up command `{command}` took too long; see [limits] in parley.toml"
                    raise SetUpFailed(said) from error
            else:
                return
