"""How fast it starts, beside Python itself, and how it is documented."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from parley import __version__
from parley.cli import MODULES
from parley.cli.commands import parser
from tests.cli.home import PARLEY, Home

ROOT = Path(__file__).resolve().parents[2]
TIMES = 5
ROUNDS = 45


def work(words: list[str], home: Home) -> float:
    """The processor time that a command takes: on a busy machine the clock tells more of the others."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(words, cwd=home.folder, env=home.env(), capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("words", [["--help"], ["ls"]])
def test_it_starts_within_five_times_a_bare_python(waiting: Home, words: list[str]) -> None:
    # in turn, and the least of many: what else the machine does in a moment is the same for both
    pairs = [
        (work([sys.executable, "-c", "pass"], waiting), work([str(PARLEY), *words], waiting)) for _ in range(ROUNDS)
    ]

    assert min(took for _, took in pairs) < TIMES * min(bare for bare, _ in pairs)


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
        assert parser(command).parse_known_args([command, "a", "b"][: 3 if command in ("allow", "intervene") else 2])


def test_each_commands_module_needs_no_other_to_be_imported_before(waiting: Home) -> None:
    """The other tests run commands in processes that have imported all of them: `tests/cli/fork_server.py`."""
    script = """
import os, sys
from importlib import import_module
import parley.assembly, parley.web.app  # what is below the commands never imports one of them
for name in sys.argv[1:]:
    if os.fork() == 0:
        import_module(name)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(name)
"""
    names = sorted({f"parley.cli.{module}" for module in (*MODULES.values(), "running.serve_engine")})

    done = subprocess.run([sys.executable, "-c", script, *names], env=waiting.env(), capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")


def test_python_m_parley_is_the_same(waiting: Home) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "parley", "ls", "--json"], cwd=waiting.folder, env=waiting.env(), capture_output=True,
        text=True, check=True,
    )  # fmt: skip

    assert json.loads(done.stdout) == json.loads(waiting.here("ls", "--json").out)  # the text tells ages
    assert waiting.here("--version").out == f"parley {__version__}\n"
    assert waiting.here().code == 2
