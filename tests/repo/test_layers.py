"""The core is pure: it imports only what computes, and calls nothing that reaches outside.

The layers themselves are import-linter's contracts, in pyproject.toml. They forbid the core what is known to
be impure; here is the other side: what it may import at all.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CORE = Path(__file__).resolve().parents[2] / "src/parley/core"

PURE = {
    "__future__", "abc", "base64", "bisect", "collections", "copy", "dataclasses", "enum",
    "fractions", "functools", "graphlib", "hashlib", "heapq", "itertools", "json", "math",
    "operator", "re", "string", "textwrap", "types", "typing",
}  # fmt: skip
IMPURE_CALLS = {"__import__", "breakpoint", "compile", "eval", "exec", "input", "open", "print"}


def impurities(source: str) -> Iterator[str]:
    """Name each impure thing in a module of the core, with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                imported = [alias.name for alias in names]
            case ast.ImportFrom(level=0, module=str(module)):
                imported = [module]
            case ast.ImportFrom(level=1):  # a sibling, since the core is one flat package
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
            own = name == "parley.core" or name.startswith("parley.core.")
            if not own and name.partition(".")[0] not in PURE:
                yield f"line {node.lineno}: {name}"


def test_core_is_pure() -> None:
    modules = sorted(CORE.rglob("*.py"))

    assert modules
    assert {path.name: found for path in modules if (found := list(impurities(path.read_text("utf-8"))))} == {}


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
            "import re\nfrom collections.abc import Set\nfrom parley.core import terms\nfrom . import rules",
            [],
        ),
    ],
)
def test_what_counts_as_impure(source: str, found: list[str]) -> None:
    assert list(impurities(source)) == found
