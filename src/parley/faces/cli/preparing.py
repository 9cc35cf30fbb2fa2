"""The user's set-up command, run in a fresh workspace, behind the same boundary as the agents."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from parley.adapters.boundary import Boundary, Cage, Route
from parley.adapters.boundary.cage import GATEWAY, HOME
from parley.config import Settings
from parley.ports import BoundaryError, SetUpFailed, Site

PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")


class Preparing:
    """Runs the set-up command of a place."""

    def __init__(self, boundary: Boundary, settings: Settings, home: Path) -> None:
        self._boundary = boundary
        self._settings = settings
        self._home = home

    def __call__(self, site: Site, command: str) -> None:
        """Run it; a SetUpFailed with its last words if it fails."""
        folder = Path(tempfile.mkdtemp(prefix="set-up-", dir=self._home))
        try:
            self._run(site, command, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _run(self, site: Site, command: str, folder: Path) -> None:
        hosts = self._settings.boundary.hosts
        proxy = dict.fromkeys(PROXIES, f"http://{GATEWAY}") if hosts else {}
        for path in (folder, Path(site.workspace)):
            self._boundary.hand_over(path)
        cage = Cage(
            site,
            folder,
            ("/bin/sh", "-c", command),
            {"PATH": self._boundary.search_path(), "LANG": "C.UTF-8", "HOME": HOME, **proxy},
            route=Route(hosts=hosts) if hosts else None,
            mark=f"set-up/{Path(site.workspace).name}",
        )
        try:
            caged = self._boundary.launch(cage)
        except BoundaryError as error:
            raise SetUpFailed(f"the set-up command can't be run: {error}") from error
        try:
            said, told = caged.process.communicate(timeout=self._settings.time_limit_seconds)
        except subprocess.TimeoutExpired as error:
            raise SetUpFailed(f"the set-up command `{command}` took too long; see [limits] in parley.toml") from error
        finally:
            code = caged.kill()
        if code:
            lines = [line for line in (said + told).decode("utf-8", "replace").splitlines() if line.strip()]
            last = lines[-1].strip()[:300] if lines else f"it ended with {code}"
            raise SetUpFailed(f"the set-up command `{command}` failed: {last}; see [workspace] in parley.toml")
