"""How fast it starts, beside Python itself, and how it is documented."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from parley.faces.cli import MODULES, parser
from tests.cli.home import PARLEY, Home

ROOT = Path(__file__).resolve().parents[2]
TIMES = 5


def fastest(words: list[str], home: Home, rounds: int = 12) -> float:
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        subprocess.run(words, cwd=home.folder, env=home.env(), capture_output=True, check=True)
        best = min(best, time.perf_counter() - start)
    return best


@pytest.mark.parametrize("words", [["--help"], ["ls"]])
def test_it_starts_within_five_times_a_bare_python(waiting: Home, words: list[str]) -> None:
    bare = fastest([sys.executable, "-c", "pass"], waiting)

    assert fastest([str(PARLEY), *words], waiting) < TIMES * bare


def documented(command: str | None) -> str:
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    start = f"$ parley {command} --help\n" if command else "$ parley --help\n"
    return text.partition(start)[2].partition("```")[0]


@pytest.mark.parametrize("command", [None, *MODULES])
def test_the_documentation_has_the_help_as_it_is(waiting: Home, command: str | None) -> None:
    said = waiting.here(*([command] if command else []), "--help").out

    assert documented(command) == said


def test_every_command_has_its_module() -> None:
    for command in MODULES:
        assert parser(command).parse_known_args([command, "a", "b"][: 3 if command == "intervene" else 2])


def test_python_m_parley_is_the_same(waiting: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "parley", "ls"], cwd=waiting.folder, env=waiting.env(), capture_output=True, text=True,
        check=True,
    )  # fmt: skip

    assert done.stdout == waiting.here("ls").out
    assert waiting.here("--version").out.startswith("parley ")
    assert waiting.here().code == 2
