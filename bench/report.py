"""Turns results into tables: aligned text for a terminal, and a page of Markdown.

Everything here is a pure function of its arguments. A result is a flat dictionary, as a measurement prints
it; a `Section` is a table with a title; the two `render` functions write sections out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Cell = str | int | float | None
"""What a table holds; `None` is a place without a measurement."""

Result = Mapping[str, object]
"""One measurement."""

_WHOLE = 100
"""From here on a number is shown without decimals; below, with three significant digits."""


@dataclass(frozen=True)
class Section:
    """A table, with a title above and, if there is any, a text between the two."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    text: str = ""


def listing(title: str, results: Iterable[Result], columns: Mapping[str, str], text: str = "") -> Section:
    """A row for each result, with the named fields under the given headings."""
    rows = [[_cell(result.get(field)) for field in columns] for result in results]
    return Section(title, list(columns.values()), rows, text)


def pivot(
    title: str,
    results: Sequence[Result],
    *,
    row: str,
    column: str,
    value: str,
    base: str | None = None,
    text: str = "",
) -> Section:
    """A row for each value of one field and a column for each value of another, in order of appearance.

    With a `base`, each column is followed by another: how many times the base row's value the row's value is.
    """
    names = list(dict.fromkeys(str(result[row]) for result in results))
    heads = list(dict.fromkeys(_cell(result[column]) for result in results))
    values = {(str(result[row]), _cell(result[column])): _cell(result.get(value)) for result in results}
    columns = [row]
    table: list[list[Cell]] = [[name] for name in names]
    for head in heads:
        columns.append(_shown(head))
        if base is not None:
            columns.append(f"/ {base}")
        for name, cells in zip(names, table, strict=True):
            cell = values.get((name, head))
            cells.append(cell)
            if base is not None:
                cells.append(ratio(cell, values.get((base, head))))
    return Section(title, columns, table, text)


def ratio(cell: Cell, base: Cell) -> str | None:
    """How many times the base a value is, where both were measured."""
    if not isinstance(cell, int | float) or not isinstance(base, int | float) or not base:
        return None
    return f"{cell / base:.2f}x"


def render_text(sections: Iterable[Section]) -> str:
    """Sections as aligned text, without any markup."""
    return "\n".join(_text(section) for section in sections)


def render_markdown(title: str, intro: str, machine: Mapping[str, Cell], sections: Iterable[Section]) -> str:
    """A whole page: the title, the introduction, the machine, and the sections."""
    about = Section("Machine", ["fact", "value"], [[name.replace("_", " "), machine[name]] for name in machine])
    return "\n".join([f"# {title}\n", f"{intro.strip()}\n", render_sections((about, *sections))])


def render_sections(sections: Iterable[Section], level: int = 2) -> str:
    """Sections as a part of a page, with headings of a level."""
    return "\n".join(_markdown(section, level) for section in sections)


def put_sections(page: str, sections: Sequence[Section]) -> str:
    """A page of Markdown with these sections anew, in the place of those with the same titles, or at its end."""
    parts = re.split(r"(?m)^(?=## )", page.rstrip("\n") + "\n\n")
    titles = {f"## {section.title}" for section in sections}
    places = [number for number, part in enumerate(parts) if part.partition("\n")[0] in titles]
    at = places[0] if places else len(parts)
    kept = [part for number, part in enumerate(parts) if number not in places]
    new = [f"{_markdown(section, 2)}\n" for section in sections]
    return "".join([*kept[:at], *new, *kept[at:]]).rstrip("\n") + "\n"


def _text(section: Section) -> str:
    head, *body = (line.rstrip() for line in _lines(section, _grid(section), "  "))
    return "\n".join([section.title, "", *_above(section), head, "-" * len(head), *body, ""])


def _markdown(section: Section, level: int) -> str:
    grid = [[cell.replace("|", "\\|") for cell in cells] for cells in _grid(section)]
    rule = [
        "-" * (width - 1) + (":" if right else "-")
        for width, right in zip(_widths(grid), _numeric(section), strict=True)
    ]
    lines = (f"| {line} |" for line in _lines(section, [grid[0], rule, *grid[1:]], " | "))
    return "\n".join([f"{'#' * level} {section.title}", "", *_above(section), *lines, ""])


def _above(section: Section) -> list[str]:
    """The lines between a title and its table."""
    return [section.text.strip(), ""] if section.text else []


def _grid(section: Section) -> list[list[str]]:
    """The headings and the cells as they are shown."""
    return [list(section.columns), *([_shown(cell) for cell in cells] for cells in section.rows)]


def _lines(section: Section, grid: Sequence[Sequence[str]], between: str) -> list[str]:
    """The rows, aligned: numbers to the right, words to the left."""
    places = list(zip(_widths(grid), _numeric(section), strict=True))
    return [
        between.join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, (width, right) in zip(cells, places, strict=True)
        )
        for cells in grid
    ]


def _widths(grid: Sequence[Sequence[str]]) -> list[int]:
    """The width of each column; a rule below a heading needs three characters."""
    return [max(3, *map(len, column)) for column in zip(*grid, strict=True)]


def _numeric(section: Section) -> list[bool]:
    """Which columns hold measurements: all but the first, and but those with a word in them."""
    return [
        place > 0 and all(_is_measure(cells[place]) for cells in section.rows) for place in range(len(section.columns))
    ]


def _is_measure(cell: Cell) -> bool:
    if isinstance(cell, str):
        return cell.rstrip("x").replace(".", "", 1).isdigit()
    return not isinstance(cell, bool)


def _cell(found: object) -> Cell:
    """A result's field as a cell."""
    if found is None or isinstance(found, str | int | float):
        return found
    return str(found)


def _shown(cell: Cell) -> str:
    """A cell as it is read."""
    match cell:
        case None:
            return "-"
        case bool():
            return "yes" if cell else "no"
        case float() if abs(cell) < _WHOLE:
            return f"{cell:.3g}"
        case int() | float():
            return f"{cell:,.0f}"
        case _:
            return cell
