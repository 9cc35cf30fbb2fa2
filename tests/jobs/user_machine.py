"""A user's machine: a repository, `parley` as they start it, and scripted APIs in place of the models."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

from parley.bus.rows import StepRow
from parley.bus.sqlite.sqlite_store import SqliteStore
from parley.engine.values import step_extra
from tests.apis.messages import MessagesAPI
from tests.cli.fork_server import run_parley
from tests.cli.home import PARLEY, Done, Home
from tests.workspaces.user_repository import fingerprint, git, write

KEY = "sk-ant-api03-planted-whole-job-0123456789"
SECONDS = 240.0  # a busy machine is slow, not wrong
TILL = '"""A till."""\n\n\ndef total(prices):\n    return sum(prices)\n'
CHECK = """import unittest

from till import total


class Total(unittest.TestCase):
    def test_it_adds_up(self):
        self.assertEqual(total([1, 2]), 3)
"""
FILES = {"till.py": TILL, "test_till.py": CHECK, "README.md": "# A till\n", ".gitignore": "__pycache__/\n"}


class UserMachine(Home):
    """A repository with one commit, hooks and an identity, and whoever works there."""

    def __init__(self, folder: Path, files: dict[str, str] | None = None) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True)
        git(folder, "init", "-q")
        write(folder, {**(FILES if files is None else files)})
        git(folder, "config", "user.name", "Someone")
        git(folder, "config", "user.email", "someone@example.org")
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "A till")
        self.plant_hooks()

    def plant_hooks(self) -> None:
        """Hooks that tell when anybody's git runs them."""
        for name in ("pre-commit", "post-commit", "post-checkout", "post-merge", "reference-transaction"):
            hook = self.folder / ".git" / "hooks" / name
            hook.parent.mkdir(exist_ok=True)
            hook.write_text(f"#!/bin/sh\necho {name} >> '{self.folder}.hooks'\n", encoding="utf-8")
            hook.chmod(0o755)

    @property
    def hooked(self) -> str:
        """Which hooks have run."""
        path = Path(f"{self.folder}.hooks")
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def users(self) -> dict[str, str]:
        """All that is the user's, file by file; `info/exclude` is where Parley keeps its home out of git's sight."""
        found = fingerprint(self.folder)
        found.pop(".git/info/exclude", None)
        return found

    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in super().env().items() if not name.startswith(("ANTHROPIC", "CLAUDE"))}
        return {**kept, **self.environment}

    def log_in(self, api: MessagesAPI) -> None:
        """Point Claude Code to a scripted API, with a key that is to stay outside."""
        self.environment |= {"ANTHROPIC_BASE_URL": api.url, "ANTHROPIC_API_KEY": KEY}

    # ---- the program -----------------------------------------------------------------------------

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """A command that goes on while the test does."""
        return subprocess.Popen(
            [str(PARLEY), *words],
            cwd=self.folder,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process: subprocess.Popen[str]) -> Done:
        """Wait for a command."""
        try:
            out, err = process.communicate(timeout=SECONDS)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.communicate()
        assert "Traceback" not in out + err, err
        return Done(process.returncode, out, err)

    def parley(self, *words: str) -> Done:
        """A command, to its end."""
        done = run_parley(words, self.folder, self.env(), SECONDS)
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    # ---- what is left of it ----------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """All that is told of the job."""
        document: dict[str, Any] = self.parley("show", self.job(), "--json").document
        return document

    def steps(self) -> list[StepRow]:
        """The job's steps, as the bus has them."""
        job, store = self.job(), SqliteStore(self.folder / ".parley")
        try:
            return list(store.steps(job))
        finally:
            store.close()

    def left(self, name: str) -> list[Any]:
        """What the steps have kept of the job's turns under a name, in order."""
        found = (getattr(step_extra.read(step.extra), name) for step in self.steps())
        return [left for left in found if left]

    def streams(self) -> str:
        """All that the streams say."""
        folder = self.folder / ".parley" / "jobs" / self.job()
        paths = sorted((*folder.glob(".*-stream.jsonl"), *(folder / "streams").glob("*.jsonl")))
        return "\n".join(path.read_text(encoding="utf-8") for path in paths)

    def holding(self, secret: str) -> list[str]:
        """The files under the home that hold a text."""
        found = []
        for here, _, names in os.walk(self.folder / ".parley"):
            for name in names:
                path = Path(here) / name
                if path.is_file() and secret.encode() in path.read_bytes():
                    found.append(str(path))
        return found
