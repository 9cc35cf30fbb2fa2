"""The live view, in a real pseudo-terminal of 80 by 24."""

import os
import re
import signal
import termios

from rich.text import Text

from parley.protocol.states import Action
from parley.protocol.transitions import make_initial_state, transition
from parley.tui.screen import ScreenContent, draw
from parley.tui.terminal.keys import parse
from parley.views.job_view import Thread
from tests.cli.home import BUSY, LEADS, PARLEY, Home, wait_for
from tests.cli.terminal import terminal


def test_the_human_answers_right_there(home: Home) -> None:
    playbook = home.write("p.yaml", LEADS)
    words = [str(PARLEY), "run", "a word counter", "--playbook", playbook]

    with terminal(words, home.folder, home.env()) as screen:
        seen = screen.wait_for("a approve")
        assert "[INTENT] > PLAN > EXECUTE" in seen
        assert "needs you" in seen
        assert "intent-lead asks (INTENT, INTENT.md)" in seen
        assert "Do you recognize this as your idea, completely and accurately put into" in seen
        assert "back to" not in seen

        screen.type("v")
        screen.wait_for("INTENT.md:")
        screen.type("q")
        screen.type("rnot quite\x7fe, really\r")
        screen.wait_for("root: revise. not quite, really" if os.getuid() == 0 else "revise. not quite, really")
        # the lead does nothing more: wait for where that ends, so that the screen stands still
        screen.wait_for("orchestrator asks (INTENT")
        job = home.jobs()[0]["id"]
        screen.type("x")
        screen.wait_for(f"withdraw {job}; why>")
        screen.type("\x1b")
        screen.wait_for("a try again")
        screen.type("xnot worth it\r")
        screen.wait_for(f"withdraw {job} for good? type yes or {job[:4]}>")
        screen.type("no\r")
        screen.wait_for("nothing was withdrawn")
        screen.type("xnot worth it\r")
        screen.wait_for("for good?")
        screen.type("yes\r")
        assert screen.end() == 3

    assert f"{job} WITHDRAWN: not worth it" in screen.everything.replace("\r", "")


def test_giving_up_asks_once_more_and_an_empty_revise_is_not_sent(home: Home) -> None:
    words = [str(PARLEY), "run", "a word counter", "--playbook", home.write("p.yaml", LEADS)]

    with terminal(words, home.folder, home.env()) as screen:
        screen.wait_for("a approve")
        screen.type("r \r")
        screen.wait_for("revise needs words; say what is to change")
        screen.type("\x1b")
        screen.wait_for("nothing was sent")
        screen.type("w\r")
        screen.wait_for("give up the whole job")
        screen.type("\x1b")
        screen.wait_for("nothing was sent")
        assert home.jobs()[0]["state"] == "INTENT"
        screen.type("w\r")
        screen.wait_for("give up the whole job")
        screen.type("y\r")
        assert screen.end() == 3


REVISES = r"""
agents:
  intent-lead:
    - match: '\[INTENT\]'
      do: [{write: {path: INTENT.md, text: "a counter\nof lines\n"}}, {assert: {artifact: INTENT.md, text: "right?"}}]
    - match: '\[ANSWER revise\]'
      do: [{write: {path: INTENT.md, text: "a counter\nof words\n"}}, {assert: {artifact: INTENT.md, text: "now?"}}]
"""


def test_an_artifact_is_read_with_what_has_changed_since_it_was_last_seen(home: Home) -> None:
    words = [str(PARLEY), "run", "count", "--playbook", home.write("p.yaml", REVISES)]

    with terminal(words, home.folder, home.env(), 100, 40) as screen:
        screen.wait_for("a approve")
        screen.type("v")
        assert "since you saw it" not in screen.wait_for("of lines")
        screen.type("q")
        screen.type("rcount words\r")
        screen.wait_for("now?")
        screen.type("v")
        seen = screen.wait_for("of words")
        assert "changed in INTENT.md since you saw it (revise, " in seen
        lines = [line.strip(" |\u2502") for line in seen.splitlines()]
        assert lines.index("-of lines") < lines.index("+of words") < lines.index("of words")
        screen.type("q")
        screen.type("x\ryes\r")
        assert screen.end() == 3


def test_a_whole_job_with_a_way_back(home: Home) -> None:
    words = [str(PARLEY), "run", "x", "--playbook", home.write("p.yaml", LEADS)]

    with terminal(words, home.folder, home.env()) as screen:
        screen.wait_for("a approve")
        screen.type("a\r")
        screen.wait_for("INTENT > [PLAN] > EXECUTE")
        screen.wait_for("i back to intent")
        screen.type("a\r")
        screen.wait_for("p back to plan")
        screen.type("pwrong\r")
        screen.wait_for("INTENT > [PLAN 2x] > EXECUTE")
        screen.wait_for("back 1x")
        for state in ("[PLAN 2x]", "[EXECUTE 2x]"):
            screen.wait_for(state)
            screen.wait_for("a approve")
            screen.type("a\r")
        assert screen.end() == 0

    assert "DONE: all good" in screen.everything
    ended = screen.everything.partition("DONE: all good")[2]  # after the screen is given back
    assert "the result: " in ended
    assert "parley diff " in ended


def test_the_team_at_work_and_an_interrupt(home: Home) -> None:
    words = [str(PARLEY), "run", "x", "--playbook", home.write("p.yaml", BUSY)]

    with terminal(words, home.folder, {**home.env(), "NO_COLOR": "1"}) as screen:
        seen = screen.wait_for("write begun2.txt")
        assert ". intent-lead       waits for 2 agents" in seen
        assert "* researcher      write begun.txt" in seen
        assert not [line for line in seen.splitlines() if len(line) > 80]
        assert not re.search(r"\x1b\[[0-9;]*[34][0-7]m", screen.everything)  # no colour

        screen.type("shurry up\r")
        screen.wait_for("intervenes: hurry up")
        screen.type("z")
        screen.wait_for("paused")
        screen.type("z")
        screen.wait_for("z pause")

        before = termios.tcgetattr(screen.master)
        os.kill(screen.process, signal.SIGINT)
        assert screen.end() == 130
        after = termios.tcgetattr(screen.master)

    job = home.jobs()[0]["id"]
    assert f"interrupted; go on with: parley resume {job}" in screen.everything
    assert not before[3] & termios.ECHO
    assert after[3] & termios.ECHO
    assert "\x1b[?1049l" in screen.everything  # the screen as it was before
    wait_for(lambda: not home.jobs()[0]["owned"])
    assert home.here("withdraw", job).code == 0


def test_it_fits_any_size() -> None:
    record = transition(make_initial_state("job"), Action.APPROVED_INTENT)
    crowd = [
        (depth % 4, Thread(id=f"dispatch:{depth}", agent="coder", parent="", state="running", doing="写" * 90))
        for depth in range(30)
    ]
    scene = ScreenContent(
        job="job",
        request="words " * 40,
        record=record,
        status="needs you",
        urgent=True,
        elapsed=3700,
        usage="5 turns, 1.20 USD",
        now=0.0,
        threads=crowd,
        messages=[Text("m" * 200)] * 50,
    )
    scene.question, scene.words = "who asks", "why\n" * 30
    for width, height in ((80, 24), (40, 10), (200, 60), (20, 5), (10, 1)):
        lines = draw(scene, width, height)
        assert len(lines) == height
        assert max(line.cell_len for line in lines) <= width


def test_keys() -> None:
    assert parse("aé\r\x7f\x1b") == ["a", "é", "enter", "backspace", "esc"]
    assert parse("\x1b[A\x1b[5~\x02\t") == ["up", "pageup", "tab"]
