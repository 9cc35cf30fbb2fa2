"""`parley demo`: worth watching, in a folder of its own, and real."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from parley.cli.starting import demo
from tests.cli.home import LEADS, PARLEY, Home
from tests.cli.terminal import terminal

ROOT = Path(__file__).parents[2]

WORKERS = ("coder", "tester", "writer")


def test_the_demo_shows_what_it_promises(home: Home, tmp_path: Path) -> None:
    home.environment["TMPDIR"] = str(tmp_path)  # its folder stays, but not on this machine
    with terminal([str(PARLEY), "demo", "--fast"], home.folder, home.env()) as screen:
        seen = screen.wait_for("waits for 3 agents")
        while "PLAN 2x > [EXECUTE 2x]" in seen and not all(f"* {name}" in seen for name in WORKERS):
            screen.read(0.02)
            seen = screen.screen()
        assert all(f"* {name}" in seen for name in WORKERS)  # three at once
        assert screen.end() == 0

    said = screen.everything.replace("\r", "")
    assert "the record is sound" in said
    place = re.search(r"look around: parley show (\w+) --repo (\S+)", said)
    assert place is not None
    log = Home(Path(place[2])).here("log", place[1]).out
    assert "which counts should it show?" in log
    assert "[HUMAN revise]" in log
    assert "(REPLAN)" in log
    assert "[INTERVENE advisory]" in log
    result = re.search(r"the result: (\S+)", said)
    assert result is not None
    tests = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"], cwd=result[1], capture_output=True, text=True, check=False
    )
    assert "Ran 5 tests" in tests.stderr
    assert tests.returncode == 0
    assert list(home.folder.iterdir()) == []  # nothing of it in the user's folder


def test_what_it_prints_at_its_end_can_be_typed_on_a_machine_with_python_git_and_make_alone(tmp_path: Path) -> None:
    """As `make demo` is run by a newcomer: nothing else on the PATH, an empty home, nobody at the keyboard."""
    programs, own, temporary, elsewhere = (tmp_path / name for name in ("bin", "own", "tmp", "some where"))
    for folder in (programs, own, temporary, elsewhere):
        folder.mkdir()
    for name, path in (("python3", sys.executable), ("git", shutil.which("git")), ("make", shutil.which("make"))):
        assert path is not None, name
        (programs / name).symlink_to(path)
    environment = {"PATH": str(programs), "HOME": str(own), "TMPDIR": str(temporary)}
    # the environment that the tests run in: a test fetches nothing
    make = ["make", "--no-print-directory", "--directory", str(ROOT), f"VENV={sys.prefix}"]
    if subprocess.run([*make, "--question", f"{sys.prefix}/runtime"], check=False, capture_output=True).returncode:
        assert os.environ.get("CI") != "true", "the tests' environment is not up to date: make setup"
        pytest.skip("the tests' environment is not up to date: make setup")
    done = subprocess.run(
        [*make, "demo", "FAST=1"],
        cwd=elsewhere, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")
    assert "the record is sound" in done.stdout
    commands = re.findall(r"^(?:look at it|merge it|look around): (.*)$", done.stdout, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:  # typed where the user is: make went to the checkout
        typed = subprocess.run(
            ["/bin/sh", "-c", command], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert (typed.returncode, typed.stderr) == (0, ""), command


def test_the_user_may_answer(home: Home, tmp_path: Path) -> None:
    """Other than the demo itself would: the agents go on, whatever the answer is."""
    home.environment["TMPDIR"] = str(tmp_path)
    with terminal([str(PARLEY), "demo", "--fast", "--play"], home.folder, home.env()) as screen:
        screen.wait_for("which counts should it show?")
        screen.type("tLines only.\r")
        screen.wait_for("intent-lead asks (INTENT, INTENT.md)")
        screen.type("rToo short.\r")
        screen.wait_for("This play knows one intent only")
        screen.type("a\r")
        screen.wait_for("project-lead asks (PLAN, PLAN.md)")
        screen.type("a\r")
        screen.wait_for("May I go back to the plan?")
        screen.type("tNo, go on.\r")
        screen.wait_for("project-lead asks (EXECUTE, WORK_SUMMARY.md)")
        screen.type("rMore.\r")
        screen.wait_for("This play can do no more")
        screen.type("a\r")
        assert screen.end() == 0

    assert "the record is sound" in screen.everything


def test_the_user_can_not_answer_without_a_terminal(home: Home) -> None:
    assert "there is no terminal to ask on" in home.refuses("demo", "--play")
    assert "--play goes with the plain demo only" in home.refuses("demo", "--play", "--workflow")


def test_a_question_that_the_playbook_does_not_answer_ends_the_demo(
    home: Home, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    book = home.write("p.yaml", LEADS + "human: [{match: 'PLAN.md', verdict: approve, text: 'yes'}]\n")
    monkeypatch.setattr(demo, "COUNTER", replace(demo.COUNTER, book=book))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    done = home.here("demo", "--fast")

    assert done.code == 1
    assert done.err.startswith(
        "parley: the demo can't go on: its playbook has no answer for intent-lead, who asks in INTENT"
    )
    place = re.search(r"look around: \S*parley show (\w+) --repo (\S+)", done.out)
    assert place is not None
    assert Home(Path(place[2])).here("show", place[1]).code == 0
