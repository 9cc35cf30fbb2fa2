"""Constructors of the project's own classes are given names: values in a row can be swapped without a type noticing."""

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src/parley", "simulator", "tools", "bench")
PACKAGES = ("parley", "simulator", "tools", "bench")
MANY = 5  # values by position from which on a reader has to look their order up


def _trees() -> dict[str, ast.Module]:
    paths = (path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")))
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def _classes(trees: Iterable[ast.Module]) -> set[str]:
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def _by_position(trees: dict[str, ast.Module]) -> Iterator[str]:
    """Tell each call of one of the trees' own classes that gives many values by position, or an unknown number."""
    own = _classes(trees.values())
    for file, tree in trees.items():
        known = own - _foreign(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and _name(node.func) in known:
                starred = any(isinstance(value, ast.Starred) for value in node.args)
                if len(node.args) >= MANY or starred:
                    yield f"{file}:{node.lineno}: {ast.unparse(node)[:100]}"


def _foreign(tree: ast.Module) -> set[str]:
    """Take the names that a module imports from other projects: a class of theirs may be called as one of ours is."""
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    others = (node for node in imports if str(node.module).partition(".")[0] not in PACKAGES)
    return {alias.asname or alias.name for node in others for alias in node.names}


def _name(called: ast.expr) -> str:
    """Take the name of what is called, whether it is imported itself or as part of its module."""
    return called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""


def test_constructors_of_many_values_are_given_names() -> None:
    assert list(_by_position(_trees())) == []


def test_a_constructor_that_is_given_many_values_by_position_is_found() -> None:
    made = "class Point:\n    ...\n"
    calls = ["Point(1, 2, 3, 4, 5)", "space.Point(1, 2, 3, 4, 5, z=6)", "Point(1, *rest)"]
    fine = ["Point(1, 2, 3, 4)", "Point(1, 2, x=3, y=4, z=5)", "print(1, 2, 3, 4, 5)"]
    theirs = "from elsewhere import Point\nPoint(1, 2, 3, 4, 5)"
    planted = {"made.py": made, "own.py": "\n".join(calls + fine), "theirs.py": theirs}

    found = list(_by_position({file: ast.parse(text) for file, text in planted.items()}))

    assert found == [f"own.py:{number}: {call}" for number, call in enumerate(calls, 1)]
