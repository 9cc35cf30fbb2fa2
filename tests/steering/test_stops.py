"""After a stop nothing of a job runs: counted among real processes that do not want to end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from parley.cli import leave_input
from parley.cli.running import withdraw
from tests.cli.home import Home, turn_processes, wait_for

# A daemon of a daemon that minds no signal it may mind, in a session of its own, and writes for ever.
STUBBORN = (
    "trap '' TERM HUP INT; (setsid sh -c 'trap \"\" TERM HUP INT; while :; do echo TOKEN >> loop.txt; sleep 0.01;"
    " done' &) ; while :; do sleep 0.05; done"
)
PLAY = """
agents:
  intent-lead:
    - match: '\\[INTENT\\]'
      do: [{send: {to: writer, as: w, text: "go on"}}, {send: {to: researcher, as: r, text: "go on"}}]
  writer:
    - {match: 'go on', do: [{write: {path: kept.txt, text: "kept"}}, {shell: SHELL}]}
  researcher:
    - {match: 'go on', do: [{shell: SHELL}]}
"""


class Stubborn:
    """A job whose agents run what does not want to end."""

    def __init__(self, home: Home, process: subprocess.Popen[str], token: str) -> None:
        self.home, self.process, self.token = home, process, token
        self.job = str(wait_for(lambda: (home.folder / ".parley" / "bus.db").exists() and home.jobs())[0]["id"])
        wait_for(lambda: len(self.loops()) == 2 and len(self.alive()) >= 2)

    def loops(self) -> list[Path]:
        """The files that are written to, wherever they lie by now."""
        found = []
        for here, folders, names in os.walk(self.home.folder / ".parley"):  # which passes over what vanishes meanwhile
            folders[:] = [name for name in folders if not name.startswith("snapshots.git")]
            found += [Path(here) / name for name in names if name == "loop.txt"]
        return found

    def alive(self) -> list[int]:
        """The processes that say the token, of whatever parent and session."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if self.token.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
        return [pid for pid in found if pid != self.process.pid]

    def thread(self, agent: str) -> str:
        threads: list[dict[str, Any]] = self.home.here("tree", self.job, "--json").document["threads"]
        return str(next(thread["id"] for thread in threads if thread["agent"] == agent))

    def sizes(self) -> dict[str, int]:
        return {str(path): path.stat().st_size for path in self.loops() if path.exists()}

    def stands_still(self) -> bool:
        """Whether no file has grown over many looks."""
        before = self.sizes()
        for _ in range(20):
            time.sleep(0.01)
            if any(before.get(path, size) != size for path, size in self.sizes().items()):
                return False
        return True

    def refs(self) -> str:
        folder = self.home.job_file(self.job, "snapshots.git")
        return subprocess.run(
            ["git", "-C", str(folder), "for-each-ref", "--format=%(refname)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout


@contextmanager
def stubborn(home: Home) -> Iterator[Stubborn]:
    token = f"token{uuid4().hex}"
    shell = STUBBORN.replace("TOKEN", token).replace("'", "''")
    playbook = home.write("p.yaml", PLAY.replace("SHELL", f"'{shell}'"))
    with home.started("run", "work", "--playbook", playbook) as process:
        yield Stubborn(home, process, token)


def test_nothing_of_what_was_withdrawn_lives_or_writes(home: Home) -> None:
    """First a part of the job, beside which another goes on; then all of it; and then once more."""
    with stubborn(home) as play:
        thread, lives = play.thread("writer"), len(play.alive())
        assert home.run("withdraw", play.job, "--thread", thread).code == 0
        assert 0 < len(play.alive()) < lives
        assert f"refs/parley/retired/{play.job}/{thread.partition(':')[2]}" in play.refs()
        assert home.here("withdraw", play.job, "--thread", thread).out == f"{thread} has ended\n"

        done = home.run("withdraw", play.job, "enough")
        assert (done.code, done.out) == (0, f"{play.job} is withdrawn\n")
        assert (play.alive(), turn_processes(play.job)) == ([], [])
        assert play.stands_still()
        assert play.refs().count(f"refs/parley/retired/{play.job}/") == 3  # the job's own, and both dispatches'
        again = home.here("withdraw", play.job)
        assert (again.code, again.out) == (0, f"{play.job} has ended: WITHDRAWN\n")
        play.process.communicate(timeout=30)
        assert play.process.returncode == 3
    assert home.here("audit", play.job).code == 0


def test_a_job_without_an_owner_is_withdrawn_in_part_and_as_a_whole_and_nobody_is_woken_for_it(home: Home) -> None:
    with stubborn(home) as play:
        play.process.send_signal(signal.SIGKILL)
        play.process.wait()
        thread = play.thread("writer")
        turns = home.here("show", play.job, "--json").document["steps"]
        assert home.here("withdraw", play.job, "--thread", thread).code == 0
        assert (play.alive(), turn_processes(play.job)) == ([], [])
        document = home.here("show", play.job, "--json").document
        assert document["steps"] > turns
        assert {one["agent"]: one["doing"] for one in document["threads"]}["writer"] == "withdrawn"
        assert not home.job_file(play.job, f"trees/{thread.partition(':')[2]}").exists()
        assert home.run("withdraw", play.job).code == 0
        assert play.stands_still()
        assert play.refs().count(f"refs/parley/retired/{play.job}/") == 3
    assert home.here("audit", play.job).code == 0


def test_an_owner_that_is_stopped_is_named_and_obeys_when_it_goes_on(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leave_input, "WAIT_SECONDS", 1.0)
    monkeypatch.setattr(withdraw, "WAIT_SECONDS", 1.0)
    with stubborn(home) as play:
        os.kill(play.process.pid, signal.SIGSTOP)
        (need,) = wait_for(lambda: home.here("inbox", "--json").document["needs"])  # the signal may take a moment
        assert (need["kind"], need["exits"][0]["command"]) == ("stopped", f"kill -CONT {play.process.pid}")
        assert f"process {play.process.pid}, which has it in hand, is stopped" in home.here("show", play.job).out
        told = home.refuses("withdraw", play.job, "enough", code=1)
        assert f"process {play.process.pid}, which works on {play.job}, is stopped; its agents are ended" in told
        assert f"kill -CONT {play.process.pid}" in told
        assert (play.alive(), play.stands_still()) == ([], True)
        assert "is stopped; it pauses as soon as that goes on" in home.refuses("pause", play.job, code=1)
        assert "your words are kept" in home.refuses("intervene", play.job, "hello", code=1)
        os.kill(play.process.pid, signal.SIGCONT)
        play.process.communicate(timeout=30)
        assert play.process.returncode == 3
        assert home.here("withdraw", play.job).out == f"{play.job} has ended: WITHDRAWN\n"
        assert (play.alive(), turn_processes(play.job)) == ([], [])
    assert home.here("audit", play.job).code == 0
