"""A home of its own for a test, and `parley` run in it as people run it: a process from a shell."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from parley.cli.main import main
from tests.cli.fork_server import run_parley, users_environment

PARLEY = Path(sys.executable).with_name("parley")
PATIENCE_SECONDS = 30.0

# Leads that need one approval for each phase and do nothing else.
LEADS = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      repeat: true
      do: [{write: {path: INTENT.md, text: "intent"}}, {assert: {artifact: INTENT.md, text: "right?"}}]
    - {match: '\[ANSWER approve\]', do: [{outcome: {outcome: APPROVED_INTENT, reason: "clear"}}]}
    - {match: '\[WITHDRAW\]', do: [{outcome: {outcome: WITHDRAW, reason: "the human gave it up"}}]}
  project-lead:
    - match: '\[PLAN\]'
      repeat: true
      do: [{write: {path: PLAN.md, text: "plan"}}, {assert: {artifact: PLAN.md, text: "sound?"}}]
    - {match: '\[ANSWER approve\]', state: PLAN, repeat: true, do: [{outcome: {outcome: APPROVED_PLAN, reason: ok}}]}
    - match: '\[EXECUTE\]'
      repeat: true
      do: [{write: {path: WORK_SUMMARY.md, text: "work"}}, {assert: {artifact: WORK_SUMMARY.md, text: "done?"}}]
    - {match: '\[ANSWER approve\]', state: EXECUTE, do: [{outcome: {outcome: APPROVED_WORK, reason: "all good"}}]}
    - {match: '\[ANSWER backtrack plan\]', do: [{outcome: {outcome: REPLAN, reason: "planned badly"}}]}
"""
APPROVES = "human:\n  - {match: '.', repeat: true, verdict: approve, text: 'yes'}\n"
# Somebody works until told otherwise: for all that happens to a job under way.
BUSY = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do:
        - {send: {to: researcher, as: one, text: "look one"}}
        - {send: {to: writer, as: two, text: "look two"}}
    - {match: '\[INTERVENE', do: [{write: {path: heard.txt, text: "heard"}}, {ask: {text: "what now?"}}]}
  researcher:
    - {match: 'look', do: [{write: {path: begun.txt, text: "1"}}, {sleep: 600}]}
  writer:
    - {match: 'look', do: [{write: {path: begun2.txt, text: "1"}}, {sleep: 600}]}
"""


@dataclass
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)


@dataclass
class Home:
    """A folder with a `.parley` in it."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)
    inside: tuple[str, ...] = ()  # what goes before a command that is to run on another machine's network

    def write(self, name: str, text: str) -> str:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    def settings(self, text: str) -> None:
        """Settings of the folder that the user has allowed, whatever they ask for."""
        self.write("parley.toml", text)
        self.allow()

    def allow(self) -> None:
        """Give the user's word for what the folder's files ask for."""
        done = self.run("trust", "--yes")
        assert done.code == 0, done

    def env(self) -> dict[str, str]:
        return {**users_environment(), "PARLEY_MEMORY": f"{self.folder}.memory.db", **self.environment}

    def run(self, *words: str, cwd: Path | str | None = None, **options: Any) -> Done:
        """A command in a process of its own: a fork of one with its modules, unless that would make a difference."""
        done = run_parley(words, self.folder if cwd is None else cwd, self.env(), inside=self.inside, **options)
        assert "Traceback" not in done.stderr + done.stdout, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    def fails(self, *words: str, code: int = 2, **options: Any) -> str:
        """The one line that a command fails with."""
        return _one_line(self.run(*words, **options), code)

    def here(self, *words: str) -> Done:
        """A command in this very process: for the many that end before anything is started."""
        out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
        os.chdir(self.folder)
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = main(list(words))
        finally:
            os.chdir(before)
        return Done(code, out.getvalue(), err.getvalue())

    def refuses(self, *words: str, code: int = 2) -> str:
        """As `fails`, in this very process."""
        return _one_line(self.here(*words), code)

    @contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A command that goes on while the test does; killed with all it left at the test's end."""
        process = subprocess.Popen(
            [*self.inside, str(PARLEY), *words],
            cwd=self.folder,
            env=self.env(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()

    def start(self, playbook: str = LEADS, *words: str) -> str:
        """A job that waits for the human, or ends: its id."""
        done = self.run("run", "a request", "--playbook", self.write("p.yaml", playbook), "--json", *words)
        assert done.code in (0, 4), done
        job: str = done.document["id"]
        return job

    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.here("ls", "--json").document["jobs"]
        return found

    def job(self) -> str:
        """The only job."""
        (found,) = self.jobs()
        return str(found["id"])

    def question(self) -> str:
        found: list[dict[str, Any]] = self.here("inbox", "--json").document["questions"]
        return str(found[0]["id"])

    def job_file(self, job: str, name: str) -> Path:
        return self.folder / ".parley" / "jobs" / job / name


def _one_line(done: Done, code: int) -> str:
    assert (done.code, done.out) == (code, ""), done
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("parley: ")
    return lines[0]


def wait_for(what: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
    """Wait until something is so, however slow the machine is; what it gave then."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError("it did not come about")


def owner_of(job: str) -> int:
    """The process that plays a job in the background."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"resume" in words and job.encode() in words:
            return int(entry.name)
    return 0


def turn_processes(job: str, turn: str = "") -> list[int]:
    """The processes of a job's turns, or of one of them, that are alive."""
    needle = f"PARLEY_TURN={job}/{turn}".encode() + (b"\0" if turn else b"")
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if needle in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found
