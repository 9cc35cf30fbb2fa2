"""SIGKILL in the middle of each operation: done again, it comes to the same end."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("operation", ["send", "lay_out", "give_back", "take_back"])
def test_an_operation_that_was_killed_is_done_again(operation: str) -> None:
    words = [sys.executable, "-m", "tests.hosts.killed_mirror", operation]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("killed ")
