"""The budgets of tests/conftest.py, tried on small projects of their own."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

PROJECT = """
[tool.parley.budgets]
quick = 60
slow = 0.03
slower = 0.4

[tool.pytest.ini_options]
markers = ["soak: long"]
"""

QUICK = "def test_quick(): pass\n"
# All phases count: their sum is far beyond the budget of 0.03 s, and somewhat beyond that of 0.4 s.
SLOW = """
import time
import pytest

@pytest.fixture
def costly():
    time.sleep(0.08)
    yield
    time.sleep(0.08)

@pytest.mark.parametrize("turn", range(2))
def test_slow(costly, turn):
    time.sleep(0.08)
"""
LONG = """
import pytest

def test_short(): pass

@pytest.mark.soak
def test_long(): pass
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run pytest in a project with this conftest, these suites and these options."""

    def run(suites: dict[str, str], *options: str, soak: bool = False) -> subprocess.CompletedProcess[str]:
        (tmp_path / "pyproject.toml").write_text(PROJECT)
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests/conftest.py").write_bytes((ROOT / "tests/conftest.py").read_bytes())
        for suite, text in suites.items():
            (tmp_path / "tests" / suite).mkdir()
            (tmp_path / "tests" / suite / f"test_{suite}.py").write_text(text)
        # Nothing of the session that runs this test may reach the one that it starts.
        env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PARLEY_"))}
        if soak:
            env["PARLEY_SOAK"] = "1"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("workers", ["0", "1"])
def test_a_suite_far_over_its_budget_fails_the_session(run: Run, workers: str) -> None:
    done = run({"quick": QUICK, "slow": SLOW}, "-n", workers)

    assert "3 passed" in done.stdout
    assert "BUDGET: suite slow took" in done.stdout
    assert "over its budget of 0.03 s" in done.stdout
    assert "suite quick" not in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_a_suite_somewhat_over_its_budget_is_named_and_fails_nothing(run: Run) -> None:
    done = run({"slower": SLOW})

    assert "BUDGET: suite slower took" in done.stdout
    assert done.returncode == pytest.ExitCode.OK


def test_suites_within_their_budgets_pass_and_are_shown(run: Run) -> None:
    done = run({"quick": QUICK})

    assert [line.split() for line in done.stdout.splitlines() if line.startswith(("suite", "quick"))] == [
        ["suite", "seconds", "budget"],
        ["quick", "0.0", "60.0"],
    ]
    assert "BUDGET" not in done.stdout
    assert done.returncode == pytest.ExitCode.OK


def test_a_suite_without_a_budget_fails_the_session(run: Run) -> None:
    done = run({"other": QUICK})

    assert "BUDGET: suite other has no budget" in done.stdout
    assert done.returncode == pytest.ExitCode.TESTS_FAILED


def test_long_tests_run_only_when_asked_for(run: Run) -> None:
    done = run({"quick": LONG})

    assert "1 passed, 1 deselected" in done.stdout


def test_long_tests_have_no_budget(run: Run) -> None:
    done = run({"slow": LONG.replace("test_long(): pass", "test_long(): __import__('time').sleep(0.2)")}, soak=True)

    assert "2 passed" in done.stdout
    assert done.returncode == pytest.ExitCode.OK


def test_three_workers_do_all_suites_in_twenty_minutes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    assert sum(project["tool"]["parley"]["budgets"].values()) < 3 * 20 * 60
