"""Within two seconds of a withdrawal every process of the job is dead, whatever its agents and its owner are at."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from parley.cli import leave_input
from parley.cli.running import withdraw
from parley.machine.process_tags import MARK, end_marked, gits_mark
from tests.cli.home import PATIENCE_SECONDS, Home, turn_processes, wait_for

AIM_SECONDS = 2.0
SLOW = 5.0  # a loaded machine takes as much longer
LEAD = """
agents:
  intent-lead:
    - match: '\\[INTENT\\]'
      do: [{send: {to: writer, as: w, text: "go on"}}, {send: {to: researcher, as: r, text: "go on"}}]
"""
IDLE = "touch begun; exec sleep 600"
AGENTS = {
    "that minds no signal": "trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; while :; do sleep 0.1; done' & "
    "touch begun; while :; do sleep 0.1; done",
    "that stops itself": "touch begun; kill -STOP $$",
    "that forks without end": "touch begun; while :; do (sleep 0.05; sleep 0.05) & done",
    "that has cleared its environment": "touch begun; exec env -i /bin/sh -c 'while :; do sleep 1; done'",
    "that writes files without end": "touch begun; n=0; while :; do n=$((n+1)); echo $n > f$n; done",
}


class Timed:
    """When the last process of a job was seen, by looking all the time."""

    def __init__(self, job: str, which: Callable[[str], list[int]] | None = None) -> None:
        self._job = job
        self._which = which or _agents
        self._over = threading.Event()
        self.begun = self.last = time.monotonic()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._over.is_set():
            if self._which(self._job):
                self.last = time.monotonic()
            time.sleep(0.01)

    @contextmanager
    def looking(self) -> Iterator[None]:
        self.begun = self.last = time.monotonic()
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()
            print(f"dead {self.last - self.begun:.2f} s after the withdrawal was asked for")  # noqa: T201 - with `pytest -rP`


def _agents(job: str) -> list[int]:
    """What runs for the job, but for the orchestrator's git, which keeps its files."""
    own = f"{MARK}={gits_mark(job)}".encode()
    found = []
    for pid in turn_processes(job):
        with suppress(OSError):
            if own not in Path(f"/proc/{pid}/environ").read_bytes():
                found.append(pid)
    return found


@contextmanager
def working(home: Home, writer: str, researcher: str = IDLE) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A job with two agents at work."""
    agents = {"writer": writer, "researcher": researcher}
    playbook = home.write("p.yaml", LEAD + _yaml(agents))
    with home.started("run", "work", "--playbook", playbook) as process:
        job = str(wait_for(lambda: (home.folder / ".parley" / "bus.db").exists() and home.jobs())[0]["id"])
        jobs = home.folder / ".parley" / "jobs" / job
        wait_for(lambda: len(list(jobs.glob("trees/*/begun"))) == len(agents), PATIENCE_SECONDS * 4)
        yield process, job
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)


def _begun(home: Home) -> list[str]:
    """The jobs that have not ended."""
    known = home.jobs() if (home.folder / ".parley" / "bus.db").exists() else []
    return [str(row["id"]) for row in known if row["state"] == "INTENT"]


def _yaml(agents: dict[str, str]) -> str:
    lines = []
    for name, shell in agents.items():
        quoted = shell.replace("'", "''")
        lines.append(f"  {name}:\n    - {{match: 'go on', do: [{{shell: '{quoted}'}}]}}\n")
    return "".join(lines)


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_is_dead_at_once(home: Home, agent: str) -> None:
    with working(home, AGENTS[agent]) as (process, job):
        timed = Timed(job)
        with timed.looking():
            assert home.here("withdraw", job).code == 0
        assert timed.last - timed.begun < AIM_SECONDS * SLOW
        assert turn_processes(job) == []
        process.communicate(timeout=PATIENCE_SECONDS * 4)
        assert process.returncode == 3


def test_an_owner_that_is_stopped_keeps_no_agent_alive(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leave_input, "WAIT_SECONDS", AIM_SECONDS)
    monkeypatch.setattr(withdraw, "WAIT_SECONDS", AIM_SECONDS)
    with working(home, AGENTS["that minds no signal"]) as (process, job):
        os.kill(process.pid, signal.SIGSTOP)
        timed = Timed(job)
        with timed.looking():
            told = home.refuses("withdraw", job, code=1)
        assert "its agents are ended" in told
        assert timed.last - timed.begun < AIM_SECONDS * SLOW
        os.kill(process.pid, signal.SIGCONT)
        process.communicate(timeout=PATIENCE_SECONDS * 4)
        assert process.returncode == 3


def test_an_answer_that_gives_up_ends_agents_too_where_the_owner_is_stopped(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leave_input, "WAIT_SECONDS", AIM_SECONDS)
    agents = _yaml(dict.fromkeys(("writer", "researcher"), IDLE))
    asking = LEAD.rstrip().removesuffix("]") + ', {ask: {text: "what?"}}]\n'
    playbook = home.write("p.yaml", asking + agents)
    with home.started("run", "work", "--playbook", playbook) as process:
        wait_for(lambda: len(list(home.folder.glob(".parley/jobs/*/trees/*/begun"))) == 2, PATIENCE_SECONDS * 4)
        asked = wait_for(lambda: home.here("inbox", "--json").document["questions"])[0]
        job, question = asked["job"], asked["id"]
        os.kill(process.pid, signal.SIGSTOP)
        assert home.here("answer", question, "stop", "--withdraw").code == 0
        assert _agents(job) == []
        os.kill(process.pid, signal.SIGCONT)
        process.communicate(timeout=PATIENCE_SECONDS * 4)
        assert process.returncode == 3


def test_an_owner_that_keeps_thousands_of_files_keeps_no_other_agent_alive(home: Home) -> None:
    """While a turn's end is at work, nothing else is; the others' processes end all the same."""
    many = "touch begun; i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo $i > f$i; done"
    with working(home, AGENTS["that minds no signal"], many) as (process, job):
        tree = wait_for(lambda: list((home.folder / ".parley/jobs" / job).glob("trees/*/f5000")), PATIENCE_SECONDS * 4)
        assert tree
        timed = Timed(job)
        with timed.looking():
            home.here("withdraw", job)
        assert timed.last - timed.begun < AIM_SECONDS * SLOW
        wait_for(lambda: process.poll() is not None, PATIENCE_SECONDS * 4)
        assert turn_processes(job) == []


MANY_LINES = "awk 'BEGIN{srand(%d); for (i = 0; i < 400000; i++) print int(rand() * 10)}' > f"
MERGING = f"""
agents:
  intent-lead:
    - match: '\\[INTENT\\]'
      do: [{{send: {{to: writer, as: w, text: "go on"}}}}, {{send: {{to: researcher, as: r, text: "go on"}}}}]
    - match: 'written'
      do: [{{shell: "{MANY_LINES % 1}; for n in 2 3 4; do cp f f$n; done"}}, {{close: {{thread: w}}}}]
  writer:
    - match: 'go on'
      do: [{{shell: "{MANY_LINES % 2}; for n in 2 3 4; do cp f f$n; done"}}, {{say: written}}]
  researcher:
    - {{match: 'go on', do: [{{shell: "trap '' TERM; touch begun; while :; do sleep 0.1; done"}}]}}
"""


def _merges(job: str) -> list[int]:
    """The git processes that merge for a job."""
    return [pid for pid in turn_processes(job) if b"merge-tree" in _words(pid)]


def _words(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_merge_that_takes_long_ends_with_its_job(home: Home) -> None:
    playbook = home.write("p.yaml", MERGING)
    with home.started("run", "work", "--playbook", playbook) as process:
        job = str(wait_for(lambda: (home.folder / ".parley" / "bus.db").exists() and home.jobs())[0]["id"])
        wait_for(lambda: _merges(job), PATIENCE_SECONDS * 4)
        timed = Timed(job, turn_processes)
        with timed.looking():
            assert home.here("withdraw", job).code == 0
        assert timed.last - timed.begun < AIM_SECONDS * SLOW
        process.communicate(timeout=PATIENCE_SECONDS * 4)
        assert process.returncode == 3
        assert turn_processes(job) == []


def test_a_set_up_command_ends_with_its_job(home: Home) -> None:
    home.write("parley.toml", "[workspace]\nsetup = 'touch begun; exec sleep 600'\n")
    playbook = home.write("p.yaml", LEAD)
    with home.started("run", "work", "--playbook", playbook) as process:
        job = str(wait_for(lambda: (home.folder / ".parley" / "bus.db").exists() and home.jobs())[0]["id"])
        wait_for(lambda: turn_processes(job, "set-up"), PATIENCE_SECONDS * 4)
        timed = Timed(job)
        with timed.looking():
            home.here("withdraw", job)
        assert timed.last - timed.begun < AIM_SECONDS * SLOW
        process.communicate(timeout=PATIENCE_SECONDS * 4)
        assert process.returncode == 3
        assert turn_processes(job) == []


def test_a_turn_that_is_just_beginning_does_not_outlive_its_job(home: Home) -> None:
    for number in range(6):
        playbook = home.write("p.yaml", LEAD + _yaml(dict.fromkeys(("writer", "researcher"), IDLE)))
        with home.started("run", "work", "--playbook", playbook) as process:
            job = str(wait_for(lambda: _begun(home))[0])
            deadline = time.monotonic() + number * 0.05
            while time.monotonic() < deadline and not turn_processes(job):
                pass
            assert home.here("withdraw", job).code == 0
            assert turn_processes(job) == []
            process.communicate(timeout=PATIENCE_SECONDS * 4)
            assert turn_processes(job) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_however_a_run_ends_nothing_of_it_is_left(home: Home, number: int) -> None:
    with working(home, AGENTS["that minds no signal"], AGENTS["that stops itself"]) as (process, job):
        process.send_signal(number)
        process.communicate(timeout=PATIENCE_SECONDS * 2)
        begun = time.monotonic()
        wait_for(lambda: not turn_processes(job))
        print(f"gone {time.monotonic() - begun:.2f} s after the run")  # noqa: T201 - as above


def test_a_process_is_known_by_its_own_mark_alone() -> None:
    """A mark that begins with another's name, and one that another variable's value holds, are not it."""
    job = f"j{uuid4().hex[:8]}"
    each = ({MARK: f"{job}x/t1"}, {"OTHER": f"{MARK}={job}/t1"}, {MARK: gits_mark(job)}, {MARK: f"{job}/t1"})
    made = [subprocess.Popen(["sleep", "600"], env=environment) for environment in each]
    try:
        assert end_marked(f"{job}/", spared=gits_mark(job))
        assert made[3].wait(PATIENCE_SECONDS) == -signal.SIGKILL
        assert [process.poll() for process in made[:3]] == [None, None, None]
        assert end_marked(f"{job}/")
        assert made[2].wait(PATIENCE_SECONDS) == -signal.SIGKILL
        assert [process.poll() for process in made[:2]] == [None, None]
    finally:
        for process in made:
            process.kill()
            process.wait()
