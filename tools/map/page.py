"""The page: docs/map.md, from what was found."""

from __future__ import annotations

from collections.abc import Sequence

from tools.map.modules import PACKAGE, Folder, circles, folders, from_the_top, imports, path_of, without_shortcuts
from tools.map.send_turn import MOST_MODULES, SendTurn, touched
from tools.map.walk import Stage, walk

BEGINNING = """# The map

Drawn by `make map` from the code itself; nothing in it is written by hand. [Architecture](architecture.md) says why
things are where they are.

- [Folders and modules](#folders-and-modules)
- [Imports](#imports)
- [The walk of one message](#the-walk-of-one-message)
- [What a Send turn touches](#what-a-send-turn-touches)
"""
WALK = """## The walk of one message

From `parley run` to the first transition, watched in a real job with scripted agents. Each step shows the functions
that were being called when it happened, the outermost first; those that it shares with the step before are left out,
but for the last.
"""
TOUCHED = """## What a Send turn touches

An agent has called Send once, and its turn has ended. Until the next turn is put out, the commit included, code of
{count} modules runs; {most} may. Agents and workspaces are left out: their stand-ins do nothing.
"""
BEFORE_END = "The call of Send, before that end, runs code of these besides:"
WITH_BUDGET = "A job has a budget by default. With one, these run too:"


def page() -> str:
    """The whole page."""
    return "\n".join([BEGINNING, *of_folders(folders()), *of_imports(folders()), *of_walk(walk()), *of_turn(touched())])


def short(package: str) -> str:
    """A package's name without ours before it."""
    return package.removeprefix(f"{PACKAGE}.")


def listed(names: Sequence[str]) -> str:
    """Names in code's letters, or a dash."""
    return ", ".join(f"`{name}`" for name in names) or "-"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table, and the empty line after it."""
    cells = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    lines = [heads, ["---"] * len(heads), *cells]
    return [*(f"| {' | '.join(line)} |" for line in lines), ""]


def linked(path: str, text: str) -> str:
    """A link to a file below src/."""
    return f"[`{text}`](../src/{path})"


def of_folders(found: Sequence[Folder]) -> list[str]:
    """Every folder with its modules. No sizes: each change would draw another page, and no two could be merged."""
    lines = ["## Folders and modules", ""]
    for folder in found:
        lines += [f"### `{folder.path.removeprefix(path_of(PACKAGE)) or folder.path}`", ""]
        lines += [f"{folder.summary}.", ""]
        rows = [
            (linked(f"{folder.path}{module.name}.py", module.name), module.summary)
            for module in folder.modules
            if module.name != "__init__"
        ]
        lines += table(["module", "what it is"], rows) if rows else []
    return lines


def of_imports(found: Sequence[Folder]) -> list[str]:
    """Who imports whom: the packages as a graph, every folder in a table."""
    inner = {folder.name for folder in found} - {PACKAGE}
    packages = {name for name in inner if name.count(".") == 1}
    graph = imports(packages)
    order = from_the_top(graph)
    edges = sorted(without_shortcuts(graph), key=lambda edge: (order.index(edge[0]), order.index(edge[1])))
    lines = [
        "## Imports",
        "",
        "An arrow goes from a package to one that it imports. What follows from other arrows is left out.",
        "",
    ]
    lines += ["```mermaid", "graph TD", *(f"    {short(start)} --> {short(end)}" for start, end in edges), "```", ""]
    for circle in circles(graph):
        lines += [f"These import each other: {listed([short(name) for name in circle])}.", ""]
    rows = []
    detailed = imports(inner)
    for package in order:
        for name in sorted(name for name in inner if f"{name}.".startswith(f"{package}.")):
            others = {other for other in packages if any(f"{one}.".startswith(f"{other}.") for one in detailed[name])}
            own = sorted(one for one in detailed[name] if f"{one}.".startswith(f"{package}."))
            rows.append(
                (
                    f"`{path_of(short(name))}`",
                    listed([short(one) for one in order if one in others - {package}]),
                    listed([path_of(short(one)) for one in own]),
                )
            )
    return [*lines, *table(["folder", "imports of other packages", "of its own"], rows)]


def of_walk(stages: Sequence[Stage]) -> list[str]:
    """Each step with the functions that led to it."""
    lines = [WALK]
    last: dict[bool, Stage] = {}
    for number, stage in enumerate(stages, 1):
        before = last.get(stage.apart, Stage("", stage.apart, ()))
        shared = 0
        while shared < min(len(before.places), len(stage.places)) and before.places[shared] == stage.places[shared]:
            shared += 1
        last[stage.apart] = stage
        rows = [
            (linked(place.file, place.file.removeprefix(path_of(PACKAGE))), f"`{place.function}`", place.summary)
            for place in stage.places[max(0, shared - 1) :]
        ]
        where = ", in another thread" if stage.apart else ""
        lines += [f"### {number}. {stage.happens}{where}", "", *table(["file", "function", "what it does"], rows)]
    return lines


def of_turn(turn: SendTurn) -> list[str]:
    """The modules of a turn's end, a line for each, then those that its call and a budget add."""
    return [
        TOUCHED.format(count=len(turn.end), most=MOST_MODULES),
        *(f"{number}. {line}" for number, line in enumerate(of_modules(turn.end), 1)),
        "",
        *(BEFORE_END, "", *(f"- {line}" for line in of_modules(turn.call)), ""),
        *(WITH_BUDGET, "", *(f"- {line}" for line in of_modules(turn.budget)), ""),
    ]


def of_modules(names: Sequence[str]) -> list[str]:
    """Modules as links to their files."""
    return [linked(f"{name.replace('.', '/')}.py", short(name)) for name in names]
