"""Signs of life of real processes: who is stalled, who only waits for a tool, and who is dead."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.cli.home import Home, turn_processes, wait_for

SETTINGS = "[limits]\nstall_seconds = 1\n"
TEAM = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{send: {to: writer, as: w, text: "go on"}}, {send: {to: researcher, as: r, text: "go on"}}]
    - {match: '\[STALLED\]', repeat: true, do: [{say: "I wait"}]}
  writer: [{match: '.', repeat: true, do: [{write: {path: a.txt, text: a}}, {sleep: 600}]}]
  researcher: [{match: '.', repeat: true, do: [{shell: "sleep 600"}]}]
"""
LEAD = r"""
agents:
  intent-lead: [{match: '.', repeat: true, do: [{write: {path: a.txt, text: a}}, {sleep: 600}]}]
"""


@contextmanager
def working(home: Home, play: str) -> Iterator[tuple[str, Any]]:
    home.write("parley.toml", SETTINGS)
    with home.started("run", "work", "--playbook", home.write("p.yaml", play)) as process:
        wait_for(lambda: (home.folder / ".parley" / "bus.db").exists() and home.jobs())
        yield str(home.jobs()[0]["id"]), process


def states(home: Home, job: str) -> dict[str, str]:
    return {thread["agent"]: thread["state"] for thread in home.here("tree", job, "--json").document["threads"]}


def test_a_silent_worker_is_stalled_wherever_one_looks_and_one_in_a_tool_is_not(home: Home) -> None:
    with working(home, TEAM) as (job, process):
        wait_for(lambda: [*home.job_file(job, "trees").glob("*/a.txt")])
        wait_for(lambda: states(home, job).get("writer") == "stalled")
        wait_for(lambda: "[STALLED] writer on" in home.here("log", job).out)
        # on a busy machine its cage takes longer to make than the limit is here; with its tool it shows life
        wait_for(lambda: states(home, job)["researcher"] == "running")
        assert "1 stalled: work" in home.here("ls").out
        (row,) = home.jobs()
        assert (row["stalled"], row["needs_human"], row["status"]) == (1, 0, "working")
        shown = home.here("show", job)
        assert "stalled since " in shown.out
        assert "the last thing it did: write a.txt" in shown.out
        writer = next(thread for thread in row["threads"] if thread["agent"] == "writer")
        assert writer["last_progress"] is not None
        assert f'parley intervene {job} "TEXT" --thread {writer["id"]} --now' in shown.out
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert home.here("ls").out.startswith("interrupted (parley resume)")
        shown = home.here("show", job)
        assert "no process works on it" in shown.out
        assert "stalled" not in shown.out
        assert home.jobs()[0]["stalled"] == 0
    assert home.here("audit", job).code == 0


def test_a_silent_lead_needs_the_human_until_somebody_acts(home: Home) -> None:
    with working(home, LEAD) as (job, process):
        wait_for(home.job_file(job, "work/a.txt").exists)  # a busy machine may call it stalled before it has begun
        wait_for(lambda: home.jobs()[0]["needs_human"] == 1)
        assert home.here("ls").out.startswith("needs you")
        assert home.here("intervene", job, "go", "--now").code == 0
        wait_for(lambda: any(cut["refs"] for cut in home.here("show", job, "--json").document["abandoned"]))
        shown = home.here("show", job)
        assert "abandoned\n" in shown.out
        assert f"refs/parley/lost/{job}/job/t" in shown.out
        assert "is abandoned, which was about: [INTENT] work; its files: refs/parley/lost/" in home.here("log", job).out
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert home.jobs()[0]["needs_human"] == 0
    assert home.here("audit", job).code == 0


def test_the_death_of_any_process_of_a_turn_is_known_at_once(home: Home) -> None:
    """The agent's own process, the cage's init, the launcher outside: each in its turn."""
    with working(home, LEAD.replace("sleep: 600", 'shell: "sleep 600"')) as (job, _):
        for number in range(3):
            wait_for(lambda: _is_at_work(job))  # before, the cage is tried: a death there is another matter
            inside = sorted(turn_processes(job), key=_depth)
            os.kill(inside[number % len(inside)], signal.SIGKILL)
            wait_for(lambda number=number: _lost(home, job) > number, seconds=10)  # type: ignore[misc] # mypy infers no lambda with a default
            wait_for(lambda number=number: number == 2 or _started(home, job) > number + 1)  # type: ignore[misc] # the same


def _is_at_work(job: str) -> bool:
    """Whether the agent has come to its command."""
    for pid in turn_processes(job):
        with suppress(OSError):
            if b"sleep\x00600" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return True
    return False


def _depth(pid: int) -> int:
    """How far below the first process one is."""
    depth = 0
    while pid > 1:
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return depth
        pid, depth = int(stat[stat.rindex(b")") + 2 :].split()[1]), depth + 1
    return depth


def _lost(home: Home, job: str) -> int:
    return int(home.here("show", job, "--json").document["turns_lost"])


def _started(home: Home, job: str) -> int:
    log = home.here("show", job, "--json").document
    return int(log["turns_lost"]) + sum(thread["state"] in ("running", "stalled") for thread in log["threads"])
