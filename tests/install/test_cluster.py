"""`make cluster`: what it plays, with a smaller play, on real servers and three workers; and that it leaves nothing."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.home import wait_for
from tests.docs.test_docs import ROOT
from tests.postgres_server import CI
from tools.postgres_server import programs
from tools.temporal_server import PROGRAM

# One agent below the lead, at work for longer than it takes to kill its host.
PLAY = r"""
human:
  - {match: '.', repeat: true, verdict: approve, text: "Yes."}
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{write: {path: INTENT.md, text: "intent"}}, {assert: {artifact: INTENT.md, text: "right?"}}]
    - {match: '\[ANSWER approve\]', do: [{outcome: {outcome: APPROVED_INTENT, reason: "clear"}}]}
  project-lead:
    - match: '\[PLAN\]'
      do: [{write: {path: PLAN.md, text: "plan"}}, {assert: {artifact: PLAN.md, text: "sound?"}}]
    - {match: '\[ANSWER approve\]', state: PLAN, do: [{outcome: {outcome: APPROVED_PLAN, reason: ok}}]}
    - {match: '\[EXECUTE\]', do: [{send: {to: coder, as: c, text: "code it"}}]}
    - match: 'coded'
      do:
        - {close: {thread: c}}
        - {write: {path: WORK_SUMMARY.md, text: "work"}}
        - {assert: {artifact: WORK_SUMMARY.md, text: "done?"}}
    - {match: '\[ANSWER approve\]', state: EXECUTE, do: [{outcome: {outcome: APPROVED_WORK, reason: "good"}}]}
  coder:
    - {match: 'code', do: [{write: {path: code.txt, text: "code"}}, {sleep: 20}, {say: "coded"}]}
"""


class Cluster(NamedTuple):
    """`make cluster`'s program, and what it was given."""

    process: subprocess.Popen[str]
    home: Path

    def line(self, pattern: str) -> re.Match[str]:
        """The next line of its output that a pattern matches."""
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if (found := re.search(pattern, line)) is not None:
                return found
        raise AssertionError(f"{pattern} was not said:\n{said}")


@contextmanager
def cluster() -> Iterator[Cluster]:
    if programs() is None or not PROGRAM.exists():
        assert not CI, "`make setup system` installs what is missing"
        pytest.skip("PostgreSQL or Temporal is missing: `make setup system` installs them")
    with tempfile.TemporaryDirectory(prefix="parley-try-", dir="/tmp") as folder:
        base = Path(folder)
        (base / "play.yaml").write_text(PLAY, encoding="utf-8")
        (base / "home").mkdir()
        own = {"PATH": os.environ["PATH"], "HOME": str(base / "home"), "TMPDIR": folder, "PYTHONUNBUFFERED": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", "tools.cluster", "--fast", "--playbook", str(base / "play.yaml")],
            cwd=ROOT, env=own, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            yield Cluster(process, base / "home")
        finally:
            process.terminate()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def processes(folder: str) -> list[str]:
    """The processes that have to do with a folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            told = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if folder.encode() in told:
            found.append(told.decode(errors="replace")[:200])
    return found


def test_a_job_goes_on_when_one_of_three_hosts_is_killed_and_nothing_is_left() -> None:
    with cluster() as run:
        folder = run.line(r"3 hosts start on this machine, in (\S+)")[1]
        said, _ = run.process.communicate()

        assert run.process.returncode == 0, said
        killed = re.search(r"(\w+) is killed while coder works on it\n", said)
        assert killed is not None, said
        assert re.search(rf"{killed[1]}  coder, lost\n", said), said
        assert re.search(r"EXECUTE -> DONE", said)
        told = " ".join(said.split())
        again = re.search(r"That turn was lost with it, and nothing else; (\w+) did it again", told)
        assert again is not None, said
        assert again[1] != killed[1]
        assert re.search(rf"{killed[1]}  lost: no sign of life", said), said
        assert "the record is sound" in said
        assert "no process is left" in said
        assert processes(folder) == []
        assert list(run.home.iterdir()) == []
        assert max(map(len, said.splitlines())) <= 100

        look = re.search(r"look at it: (.*)", said)
        assert look is not None
        shown = subprocess.run(look[1].split(), capture_output=True, text=True, check=False)
        assert "DONE" in shown.stdout, shown
        subprocess.run(["rm", "-r", folder], check=True)


def test_ctrl_c_ends_the_servers_and_the_hosts_and_deletes_what_they_wrote() -> None:
    with cluster() as run:
        folder = run.line(r"3 hosts start on this machine, in (\S+)")[1]
        run.line("is killed while coder works on it")
        run.process.send_signal(signal.SIGINT)
        said, _ = run.process.communicate()

        assert run.process.returncode == 130, said
        assert "no process is left" in said
        wait_for(lambda: not processes(folder))
        assert not Path(folder).exists()
