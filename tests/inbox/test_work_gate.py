"""The work gate: every face shows what was changed and how to see it; and a revise says what is to change."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from parley.workspaces import JobWorkspaces
from tests.cli.home import PARLEY, Home
from tests.cli.terminal import terminal

WORKS = r"""
human:
  - {match: "INTENT.md|PLAN.md", repeat: true, verdict: approve, text: "yes"}
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{write: {path: INTENT.md, text: "i"}}, {assert: {artifact: INTENT.md, text: "right?"}}]
    - {match: '\[ANSWER approve\]', do: [{outcome: {outcome: APPROVED_INTENT, reason: approved}}]}
  project-lead:
    - match: '\[PLAN\]'
      do: [{write: {path: PLAN.md, text: "p"}}, {assert: {artifact: PLAN.md, text: "sound?"}}]
    - {match: '\[ANSWER approve\]', state: PLAN, do: [{outcome: {outcome: APPROVED_PLAN, reason: approved}}]}
    - match: '\[EXECUTE\]'
      do:
        - {write: {path: a.py, text: "1\n2\n3\n"}}
        - {write: {path: "odd\x1b[2Jname.txt", text: "1\n"}}
        - {shell: 'for n in 1 2 3 4; do echo "$n" > more$n.txt; done; printf "\0" > raw.bin'}
        - {write: {path: WORK_SUMMARY.md, text: "done"}}
        - {assert: {artifact: WORK_SUMMARY.md, text: "good?"}}
    - {match: '\[ANSWER approve\]', state: EXECUTE, do: [{outcome: {outcome: APPROVED_WORK, reason: approved}}]}
"""
NUMBERS = "7 files changed, +8 -0"


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, str]:
    """A home whose one job waits at the work gate, and what the command that ran it has printed."""
    home = Home(tmp_path_factory.mktemp("gate"))
    done = home.run("run", "x", "--playbook", home.write("book.yaml", WORKS))
    assert done.code == 4, done.err
    return home, done.out


def job_of(home: Home) -> str:
    return str(home.jobs()[0]["id"])


def test_the_run_the_inbox_and_show_tell_the_numbers_and_how_to_see_the_change(gate: tuple[Home, str]) -> None:
    home, run = gate
    job = job_of(home)

    for said in (run, home.here("inbox").out, home.here("show", job).out, home.here("inbox", job).out):
        assert NUMBERS in said
        assert "a.py" in said
        assert f"parley diff {job}" in said
        assert "\x1b" not in said


def test_the_watch_without_a_terminal_tells_the_numbers(gate: tuple[Home, str]) -> None:
    assert NUMBERS in gate[0].run("watch").out


def test_json_has_the_numbers_and_the_files(gate: tuple[Home, str]) -> None:
    home, _ = gate
    job = job_of(home)
    shown = home.here("show", job, "--json").document["questions"][0]
    inbox = home.here("inbox", "--json").document

    for stat in (shown["stat"], inbox["needs"][0]["stat"], inbox["questions"][0]["stat"]):
        assert (stat["files"], stat["added"], stat["removed"]) == (7, 8, 0)
        assert {"path": "a.py", "added": 3, "removed": 0} in stat["changes"]
        assert {"path": "raw.bin", "added": None, "removed": None} in stat["changes"]
    assert shown["diff"] == f"parley diff {job}"


def looked_at(home: Home, job: str) -> tuple[str, str, str]:
    """All that is shown of the work, but for how long ago it was put forward."""
    asked = home.here("inbox", job).out.partition("(EXECUTE)")[2]
    return asked, home.here("diff", job).out, home.here("diff", job, "--json").out


def test_what_is_shown_is_what_was_put_forward_whatever_becomes_of_the_files(
    gate: tuple[Home, str], tmp_path: Path
) -> None:
    subprocess.run(["cp", "-a", gate[0].folder, tmp_path / "copy"], check=True)
    home = Home(tmp_path / "copy")
    assert home.here("bus", "adopt", "--yes").code == 0
    job = job_of(home)
    seen = looked_at(home, job)
    file = Path(home.here("inbox", "--json").document["questions"][0]["file"])
    trees = JobWorkspaces(home.folder / ".parley")
    work = home.job_file(job, "work")
    for name in ("a.py", "WORK_SUMMARY.md"):
        (work / name).write_text("changed behind your back\n")
    trees.snapshot(job, f"job:{job}", "a turn that ended meanwhile")

    assert file.read_text() == "done"
    assert looked_at(home, job) == seen
    assert "as question" in home.here("diff", job).err
    assert "behind your back" not in home.here("show", job).out


def test_the_live_view_shows_the_numbers_and_d_shows_the_change(gate: tuple[Home, str]) -> None:
    home, _ = gate
    with terminal([str(PARLEY), "resume", job_of(home)], home.folder, home.env()) as screen:
        assert NUMBERS in screen.wait_for("d diff")
        screen.type("d")
        screen.wait_for("+++ b/a.py")
        screen.type("\x1b")
        screen.wait_for("a approve")
        os.kill(screen.process, signal.SIGINT)
        assert screen.end() == 130


def test_the_watch_shows_the_numbers_and_d_shows_the_change(gate: tuple[Home, str]) -> None:
    home, _ = gate
    with terminal([str(PARLEY), "watch"], home.folder, home.env()) as screen:
        assert NUMBERS in screen.wait_for("approve WORK_SUMMARY.md?")
        screen.type("\r")
        assert NUMBERS in screen.wait_for("d diff")
        screen.type("d")
        screen.wait_for("a.py")
        screen.type("qqq")
        assert screen.end() == 0


@pytest.mark.parametrize("words", [[], [""], [" \t"]])
def test_an_empty_revise_is_refused(gate: tuple[Home, str], words: list[str]) -> None:
    home, _ = gate
    question = home.here("inbox", "--json").document["needs"][0]["id"]

    said = home.refuses("answer", question, *words, "--revise")

    assert said == f'parley: revise needs words; say what is to change: parley answer {question} "TEXT" --revise'
    assert home.here("inbox", "--json").document["needs"][0]["id"] == question
