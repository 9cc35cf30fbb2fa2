"""What is on the screen, at every size, and what becomes of the terminal."""

import os
import re
import signal
import subprocess
import termios

from tests.cli.home import APPROVES, BUSY, LEADS, PARLEY, Home, wait_for
from tests.tui.watch_harness import IDLE, detach, resize, watching

COLOUR = re.compile(r"\x1b\[[0-9;]*[34][0-7]m")


def test_problems_come_first_then_work_then_what_is_done(home: Home) -> None:
    home.start(LEADS + APPROVES)
    assert home.run("run", "a dead end", "--playbook", home.write("i.yaml", IDLE), "--policy", "never").code == 1
    detach(home, BUSY, "Busy " * 30)
    home.start(LEADS)

    for columns, rows, environment in ((80, 24, {}), (60, 20, {"NO_COLOR": "1"})):
        with watching(home, columns, rows, **environment) as screen:
            screen.wait_for("researcher: write begun.txt")
            seen = screen.wait_for("(and 1 more at")
            heads = re.findall(r"^── (\w+(?: you)?) \(1\)", seen, re.MULTILINE)
            assert heads == ["needs you", "failed", "working", "done"]
            assert "1 needs you, 1 failed, 1 working, 1 done" in seen.splitlines()[0]
            assert re.search(r"^▸ \w{8}  a request .*INTENT +\d+s$", seen, re.MULTILINE)
            assert re.search(r"^  \w{8}  Busy Busy.*… INTENT +\d+s$", seen, re.MULTILINE)
            assert "its lead ended" in seen

            for key, text in (("?", "the keys"), ("q", "q quit"), ("jj\r", "* researcher")):
                screen.type(key)
                seen = screen.wait_for(text)
                assert max(len(line) for line in seen.splitlines()) <= columns
            assert bool(COLOUR.search(screen.everything)) is not bool(environment)
            screen.type("qq")
            assert screen.end() == 0


def test_the_terminal_is_left_as_it_was_found(waiting: Home) -> None:
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)):
        with watching(waiting) as screen:
            assert not termios.tcgetattr(screen.master)[3] & termios.ECHO
            os.kill(screen.process, number)
            assert screen.end() == code
            assert termios.tcgetattr(screen.master)[3] & termios.ECHO
            assert "\x1b[?1049l" in screen.everything
            assert "Traceback" not in screen.everything


def test_it_stops_and_comes_back_and_follows_the_window(waiting: Home) -> None:
    with watching(waiting) as screen:
        os.kill(screen.process, signal.SIGTSTP)
        os.waitid(os.P_PID, screen.process, os.WSTOPPED | os.WNOWAIT)
        while "\x1b[?1049l" not in screen.everything:
            assert screen.read(5.0)
        assert termios.tcgetattr(screen.master)[3] & termios.ECHO
        os.kill(screen.process, signal.SIGCONT)
        screen.everything = ""
        screen.wait_for("q quit")
        while "\x1b[?1049h" not in screen.everything:
            assert screen.read(5.0)
        assert not termios.tcgetattr(screen.master)[3] & termios.ECHO

        resize(screen, 100, 30)
        wait_for(lambda: screen.read(0.05) and len(screen.screen().splitlines()[0]) > 90)
        resize(screen, 38, 9)
        screen.wait_for("this terminal has 38x9")
        resize(screen, 80, 24)
        screen.wait_for("q quit")


def test_a_bus_that_vanishes_is_said_in_one_line(home: Home) -> None:
    home.start(LEADS)
    with watching(home) as screen:
        (home.folder / ".parley").rename(home.folder / "gone")
        assert screen.end() == 1
    last = screen.everything.partition("\x1b[?1049l")[2].replace("\r", "").splitlines()
    assert len(last) == 1
    assert last[0].startswith("parley: ")
    assert "bus.db is gone" in last[0]


def test_nothing_that_agents_write_drives_the_terminal(home: Home) -> None:
    nasty = "\\e]0;owned\\a\\e[31mred\\e[2J [bold]x[/bold] \\u202Etxt"
    playbook = rf"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{{write: {{path: INTENT.md, text: "{nasty}"}}}}, {{assert: {{artifact: INTENT.md, text: "{nasty}"}}}}]
"""
    home.start(playbook)
    with watching(home, NO_COLOR="1") as screen:
        screen.wait_for(r"approve INTENT.md? \x1b]0;owned\x07\x1b[31mred\x1b[2J [bol")
        screen.type("\r")
        screen.wait_for("INTENT.md)")
        screen.type("v")
        screen.wait_for("[bold]x[/bold]")
        screen.type("qc")
        screen.wait_for("work of")
        screen.type("q")
        screen.wait_for("q back")
    assert "\x1b]0" not in screen.everything
    assert "\x1b[31m" not in screen.everything
    assert "\u202e" not in screen.everything
    assert screen.everything.count("\x1b[2J") == 1  # our own


def test_without_a_terminal_it_tells_how_things_stand(waiting: Home) -> None:
    job = waiting.jobs()[0]["id"]
    done = subprocess.run(
        [str(PARLEY), "watch"],
        cwd=waiting.folder,
        env={**waiting.env(), "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[1].startswith("── needs you (1)")
    assert lines[2].split()[:3] == [job, "a", "request"]
    assert "approve INTENT.md? right?" in lines[3]
    assert "no terminal to draw on" in lines[-1]
    assert "\x1b" not in done.stdout


def test_without_a_job_it_opens_and_starts_the_first_one(home: Home) -> None:
    with watching(home) as screen:
        screen.wait_for("no jobs yet")
        screen.wait_for("n  say in a line what is to be done")
        screen.type("n")
        screen.wait_for("what is to be done>")
        screen.type("count the words\r")
        screen.wait_for("parley setup")  # no agent is set up here, and the line says what to do
        screen.type("q")
        assert screen.end() == 0
