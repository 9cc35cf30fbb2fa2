"""What there is: every folder of src/parley with its modules, what each says of itself, and who imports whom."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import grimp

PACKAGE = "parley"
SOURCE = Path(__file__).parents[2] / "src"
Graph = Mapping[str, Collection[str]]


class Module(NamedTuple):
    """One file."""

    name: str  # without its folder
    summary: str


class Folder(NamedTuple):
    """One package, without the packages inside it."""

    name: str  # as imports have it
    summary: str
    modules: tuple[Module, ...]

    @property
    def path(self) -> str:
        """As people name it, from the source's root."""
        return path_of(self.name)


def path_of(package: str) -> str:
    """A package's name as a folder below src/."""
    return f"{package.replace('.', '/')}/"


@cache
def tree_of(file: Path) -> ast.Module:
    """A file's syntax."""
    return ast.parse(file.read_text(encoding="utf-8"))


def first_line(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The first line of a docstring, without the full stop that ends it; empty where there is none."""
    return (ast.get_docstring(node) or "").partition("\n")[0].strip().removesuffix(".")


def module_of(file: Path) -> Module:
    """One file."""
    return Module(file.stem, first_line(tree_of(file)))


def folders(source: Path = SOURCE) -> list[Folder]:
    """Every package, in the order of the names. A package's own file is one of its modules where it holds code."""
    found = []
    for own in sorted(source.glob(f"{PACKAGE}/**/__init__.py"), key=lambda file: file.parent.parts):
        name = ".".join(own.parent.relative_to(source).parts)
        files = [file for file in sorted(own.parent.glob("*.py")) if file != own or holds_code(file)]
        found.append(Folder(name, first_line(tree_of(own)), tuple(map(module_of, files))))
    return found


def holds_code(file: Path) -> bool:
    """Whether there is more in a file than its docstring."""
    return len(tree_of(file).body) > 1


def imports(names: Collection[str]) -> dict[str, set[str]]:
    """Which of these packages each of them imports, in any of its modules; a module belongs to the innermost."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    found: dict[str, set[str]] = {name: set() for name in names}
    for module in graph.modules:
        own = home_of(module, names)
        theirs = {home_of(other, names) for other in graph.find_modules_directly_imported_by(module)}
        if own:
            found[own] |= theirs - {own, ""}
    return found


def home_of(module: str, names: Collection[str]) -> str:
    """The innermost of these packages that a module is in; empty: none."""
    return max((name for name in names if f"{module}.".startswith(f"{name}.")), key=len, default="")


def reachable(graph: Graph, start: str) -> set[str]:
    """All that follows from a node by one edge or more."""
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += graph[node]
    return found


def without_shortcuts(graph: Graph) -> list[tuple[str, str]]:
    """The edges that do not follow from others. Of nodes that reach each other all edges stay: each is to be seen."""
    below = {node: reachable(graph, node) for node in graph}

    def follows(start: str, end: str) -> bool:
        if start in below[end]:
            return False
        return any(end in below[middle] and start not in below[middle] for middle in graph[start] if middle != end)

    return [(start, end) for start in graph for end in sorted(graph[start]) if not follows(start, end)]


def from_the_top(graph: Graph) -> list[str]:
    """The nodes, those that import most of the others first."""
    return sorted(graph, key=lambda node: (-len(reachable(graph, node)), node))


def circles(graph: Graph) -> list[list[str]]:
    """The nodes that reach each other, in groups."""
    below = {node: reachable(graph, node) for node in graph}
    groups = {frozenset(other for other in graph if other in below[node] and node in below[other]) for node in graph}
    return sorted(sorted(group) for group in groups if group)


def functions(nodes: Iterable[ast.stmt], prefix: str = "") -> dict[str, str]:
    """What each function of a file says of itself, by its qualified name."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found[f"{prefix}{node.name}"] = first_line(node)
            found |= functions(node.body, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.ClassDef):
            found |= functions(node.body, f"{prefix}{node.name}.")
    return found
