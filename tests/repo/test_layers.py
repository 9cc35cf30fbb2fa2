"""The protocol is pure: it imports only what computes, and calls nothing that reaches outside.

The layers themselves are import-linter's contracts, in pyproject.toml. They forbid the protocol what is known to
be impure; here is the other side: what it may import at all. What runs inside a cage is here too: it imports the
standard library and Parley itself, for no other package is in a cage.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from parley.roles.phases import PHASES
from parley.sandbox import boundary, inside_bundle
from parley.workflow.model.terms import EXECUTOR, GROUP

PROTOCOL = Path(__file__).resolve().parents[2] / "src/parley/protocol"

PURE = {
    "__future__", "abc", "base64", "bisect", "collections", "copy", "dataclasses", "enum",
    "fractions", "functools", "graphlib", "hashlib", "heapq", "itertools", "json", "math",
    "operator", "re", "string", "textwrap", "types", "typing",
    "msgspec",  # the protocol's only third-party import: its values, and how they are written
}  # fmt: skip
IMPURE_CALLS = {"__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"}


def impurities(source: str) -> Iterator[str]:
    """Name each impure thing in a module of the protocol, with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(level=0, module=str(module)):
                imported = [module]
            case ast.ImportFrom(level=1):  # a sibling, since the protocol is one flat package
                imported = []
            case ast.ImportFrom():
                imported = [ast.unparse(node)]
            case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                imported = [f"{name}()"]
            case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncFor() | ast.AsyncWith():
                imported = ["async"]
            case _:
                continue
        for name in imported:
            own = name == "parley.protocol" or name.startswith("parley.protocol.")
            if not own and name.partition(".")[0] not in PURE:
                yield f"line {node.lineno}: {name}"


def test_the_protocol_is_pure() -> None:
    modules = sorted(PROTOCOL.rglob("*.py"))

    assert modules
    assert {path.name: found for path in modules if (found := list(impurities(path.read_text("utf-8"))))} == {}


NAMES = re.compile(r"workflow|architect|executor|\.md\b|\.jsonl|(?<!up)stream|(intent|project)-lead", re.IGNORECASE)


def test_the_protocol_knows_no_name_of_a_file_a_stream_a_lead_or_a_workflow() -> None:
    """They are given to it: by the charter that a job is opened with."""
    given = [name for phase in PHASES.values() for name in (phase.lead, phase.artifact, phase.stream)]
    assert all(NAMES.search(name) for name in (*given, EXECUTOR, GROUP))
    lines = (line for path in PROTOCOL.rglob("*.py") for line in path.read_text("utf-8").splitlines())
    assert [line for line in lines if NAMES.search(line)] == []


@pytest.mark.parametrize(
    "source, found",
    [
        ("import time", ["line 1: time"]),
        ("import os.path as p", ["line 1: os.path"]),
        ("from datetime import datetime", ["line 1: datetime"]),
        ("from parley.ports import Store", ["line 1: parley.ports"]),
        ("from parley import ports", ["line 1: parley"]),
        ("from .. import ports", ["line 1: from .. import ports"]),
        ("def f():\n    import random", ["line 2: random"]),
        ("open('x')", ["line 1: open()"]),
        ("async def f(): ...", ["line 1: async"]),
        (
            "import re\nfrom collections.abc import Set\nfrom parley.protocol import terms\nfrom . import rules",
            [],
        ),
    ],
)
def test_what_counts_as_impure(source: str, found: list[str]) -> None:
    assert list(impurities(source)) == found


# ---- inside a cage -------------------------------------------------------------------------------

SOURCES = PROTOCOL.parents[1]
LOADED = "print(*sorted({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names - {'__main__'}))"
CAGED_MODULES = (
    "parley.cli.tool",
    "parley.runners.command.mcp_bridge",
    "parley.runners.command.tool_caller",
    "parley.runners.command.tool_schemas",
    "parley.runners.scripted.agent_process",
    "parley.runners.scripted.scripted_agent",
)


def bare(program: str, *words: str, stdin: bytes = b"") -> list[str]:
    """Run a program as a cage runs Python: without site-packages. The packages that it loaded."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, *words], input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().splitlines()[-1].split()


@pytest.mark.parametrize("module", CAGED_MODULES)
def test_what_runs_inside_a_cage_imports_the_standard_library_and_parley_alone(module: str) -> None:
    program = f"import sys; sys.path.insert(0, sys.argv[1]); import {module}; {LOADED}"

    assert bare(program, str(SOURCES)) == ["parley"]


def test_the_command_tool_needs_nothing_else_either() -> None:
    """A command's module is found by its name: only a run shows all that it imports."""
    program = f"""
import contextlib, runpy, sys
sys.path.insert(0, sys.argv.pop(1))
with contextlib.suppress(SystemExit):
    runpy.run_module("parley", None, "__main__", True)
assert "parley.cli.tool" in sys.modules
{LOADED}
"""
    assert bare(program, str(SOURCES), "tool", "Send", "words") == ["parley"]


def test_the_launcher_and_its_attempts_need_nothing_else_either() -> None:
    """They are sent in compiled, and find no file of Parley's."""
    here = {path.stem for path in (SOURCES / "parley/sandbox/inside").glob("*.py")} - {"__init__"}
    program = inside_bundle.BOOT.replace("sys.exit(module.main(place, words))", LOADED)

    assert set(boundary.INSIDE) == here
    assert program != inside_bundle.BOOT
    assert bare(program, "0", stdin=inside_bundle.pack(boundary.INSIDE, {})) == ["parley"]


def test_a_package_of_another_project_would_be_seen() -> None:
    with pytest.raises(AssertionError, match=r"No module named '(h11|msgspec)'"):
        bare(f"import sys; sys.path.insert(0, sys.argv[1]); import parley.sandbox; {LOADED}", str(SOURCES))
