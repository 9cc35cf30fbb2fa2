"""`parley demo`: worth watching, in a folder of its own, and real."""

import re
import subprocess
import sys
from pathlib import Path

from tests.cli.home import PARLEY, Home
from tests.cli.terminal import terminal

WORKERS = ("coder", "tester", "writer")


def test_the_demo_shows_what_it_promises(home: Home, tmp_path: Path) -> None:
    home.environment["TMPDIR"] = str(tmp_path)  # its folder stays, but not on this machine
    with terminal([str(PARLEY), "demo", "--fast"], home.folder, home.env()) as screen:
        seen = screen.wait_for("waits for 3 threads")
        while "PLAN 2x > [EXECUTE 2x]" in seen and not all(f"* {name}" in seen for name in WORKERS):
            screen.read(0.02)
            seen = screen.screen()
        assert all(f"* {name}" in seen for name in WORKERS)  # three at once
        assert screen.end() == 0

    said = screen.everything.replace("\r", "")
    assert "the record is sound" in said
    place = re.search(r"cd (\S+) && parley show (\w+)", said)
    assert place is not None
    log = Home(Path(place[1])).here("log", place[2]).out
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
