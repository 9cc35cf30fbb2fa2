"""Finds the Claude Code to run: the user's own where its version fits, else the one that comes with the SDK."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from parley.ports.turns import Bind
from parley.runners.claude.login import no_extra
from parley.settings.schema import ClaudeSettings

# Parley was tested with this version; a later one of the same line should work too.
OLDEST = (2, 1, 325)
LINE = OLDEST[:2]
INSIDE = "/opt/claude"  # where the program lies behind the boundary
VERSION_SECONDS = 20.0
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


class ClaudeError(Exception):
    """Claude Code can't be used: the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class ClaudeProgram:
    """A Claude Code program: its command behind the boundary, and the paths that it needs there."""

    command: tuple[str, ...]
    binds: tuple[Bind, ...]
    version: tuple[int, int, int]
    origin: str

    def outside(self) -> tuple[str, ...]:
        """Its command where there is no boundary."""
        sources = {bind.target: bind.source for bind in self.binds}
        return tuple(sources.get(word, word) for word in self.command)


def find_program(settings: ClaudeSettings, environment: Mapping[str, str]) -> ClaudeProgram:
    """The program to run. One that the user named must fit; one on the PATH that does not is skipped."""
    if settings.path:
        path = Path(settings.path).expanduser()
        found = _own(path, environment) if path.is_file() else None
        if found is None:
            raise ClaudeError(
                f"[claude] path: {settings.path} is not a usable Claude Code; "
                f"give one of {_text(LINE)} from {_text(OLDEST)} on, or leave it out"
            )
        return found
    on_path = shutil.which("claude", path=environment.get("PATH", os.defpath))
    return (_own(Path(on_path), environment) if on_path else None) or _bundled()


def _bundled() -> ClaudeProgram:
    spec = find_spec("claude_agent_sdk")
    if spec is None or not spec.submodule_search_locations:
        raise ClaudeError(no_extra())
    path = Path(spec.submodule_search_locations[0]) / "_bundled/claude"
    if not os.access(path, os.X_OK):
        raise ClaudeError(
            "the SDK came without Claude Code for this machine: install Claude Code, and name it "
            'in parley.toml: [claude] path = "…"'
        )
    try:
        said = (path.parent / "claude.version").read_text(encoding="utf-8")
    except OSError:
        said = ""
    return _native(path, _parsed(said) or OLDEST, "the SDK's own")


def _own(path: Path, environment: Mapping[str, str]) -> ClaudeProgram | None:
    """The user's own program, if it fits."""
    real = path.resolve()
    try:
        with real.open("rb") as file:
            head = file.readline(200)
    except OSError:
        return None
    if not head.startswith((b"\x7fELF", b"#!")):
        return None
    version = _version(str(real), environment.get("PATH", os.defpath))
    if version is None or version < OLDEST or version[:2] != LINE:
        return None
    if head.startswith(b"\x7fELF"):
        return _native(real, version, str(path))
    node = shutil.which("node", path="/usr/bin:/usr/local/bin")
    if head.startswith(b"#!") and b"node" in head and node is not None:
        seen = str(real.parent if (real.parent / "package.json").is_file() else real)
        return ClaudeProgram((node, str(real)), (Bind(seen, seen),), version, str(path))
    return None


def _native(path: Path, version: tuple[int, int, int], origin: str) -> ClaudeProgram:
    inside = f"{INSIDE}/claude"
    return ClaudeProgram((inside,), (Bind(str(path), inside),), version, origin)


@cache
def _version(path: str, search: str) -> tuple[int, int, int] | None:
    try:
        said = subprocess.run(
            [path, "--version"],
            cwd="/",  # not the user's folder: some programs obey settings of the folder that they start in
            capture_output=True,
            text=True,
            check=False,
            timeout=VERSION_SECONDS,
            env={"PATH": search, "HOME": "/nonexistent", "DISABLE_AUTOUPDATER": "1"},
        ).stdout
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return _parsed(said)


def _parsed(text: str) -> tuple[int, int, int] | None:
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
