"""`parley demo`: worth watching, in a folder of its own, and real."""

import re
import subprocess
import sys
from pathlib import Path

from tests.cli.home import PARLEY, Home
from tests.cli.terminal import terminal


def test_the_demo_shows_what_it_promises(home: Home) -> None:
    done = home.run("demo", "--fast")

    assert done.code == 0, done
    assert "intent-lead asks you" in done.out
    assert "human (demo): revise." in done.out
    assert "(REPLAN)" in done.out
    assert "human (demo) intervenes:" in done.out
    assert "the record is sound" in done.out
    work = Path(re.search(r"the result: (\S+)", done.out)[1])  # type: ignore[index]
    tests = subprocess.run(
        [sys.executable, "-m", "unittest", "-q"], cwd=work, capture_output=True, text=True, check=False
    )
    assert "Ran 5 tests" in tests.stderr
    assert tests.returncode == 0
    assert list(home.folder.iterdir()) == []  # nothing of it in the user's folder


def test_three_work_at_once(home: Home) -> None:
    with terminal([str(PARLEY), "demo", "--fast"], home.folder, home.env()) as screen:
        seen = screen.wait_for("waits for 3 threads")
        for _ in range(200):
            if all(f"* {name}" in seen for name in ("coder", "tester", "writer")):
                break
            screen.read(0.02)
            seen = screen.screen()
        assert all(f"* {name}" in seen for name in ("coder", "tester", "writer"))
        assert screen.end() == 0
    assert "the record is sound" in screen.everything
