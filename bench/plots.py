# mypy: disable-error-code="import-not-found"
"""Draws curves: ``python -m bench.plots RESULTS.json OUTDIR`` writes an SVG for each drawing of the results.

Parley is drawn in colour and all that it is compared with in grey, each curve with its name at its end. The same
results give the same bytes, so that a drawing under version control changes only when what it shows does. It runs in
the peers' environment, which has the library that draws.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from bench.label_heights import spread

_STYLE: Any = {
    "svg.hashsalt": "bench",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "figure.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "axes.edgecolor": "#999999",
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.labelcolor": "#444444",
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "xtick.color": "#444444",
    "ytick.color": "#444444",
    "ytick.left": False,
    "ytick.minor.left": False,
}
"""Fixed ids instead of random ones, text as text, a light page wherever it is shown, nothing that is not data."""

_METADATA = ("Creator", "Date", "Format", "Type")
"""What would be written about the file itself, and is left out."""

_OURS = ("#0b5cad", "#c8453b", "#1f8a70", "#7a4fb5")
_PEER, _FLOOR = "#8a8a8a", "#b4b4b4"
_DASHES = (0, (4, 2))
_WIDTH = 8.0  # inches: 768 pixels on a page
_LINE = 1.35  # between two names, in heights of their letters
_AWAY = 22.0  # of a name from its curve's end, in points


class Series(TypedDict):
    """One curve. Of what it is compared with, a floor is dashed: it is no system that people use."""

    label: str
    x: list[float]
    y: list[float]
    ours: NotRequired[bool]
    floor: NotRequired[bool]


class Curve(TypedDict):
    """One drawing; `name` is the stem of its file."""

    name: str
    title: str
    xlabel: str
    logx: bool
    logy: bool
    series: list[Series]


class Interval(Series):
    """A curve whose points have intervals: half of each."""

    half: list[float]


class Panel(TypedDict):
    """One of the panels of a drawing."""

    title: str
    series: list[Interval]


class Panels(TypedDict):
    """A drawing of panels beside each other; `name` is the stem of its file."""

    name: str
    title: str
    xlabel: str
    panels: list[Panel]


def draw(curve: Curve) -> Figure:
    """One drawing of curves."""
    figure = Figure(figsize=(_WIDTH, 4.8))
    axes = figure.add_axes((0.085, 0.115, 0.58, 0.80))
    plot(axes, curve["series"])
    axes.set_title(curve["title"], x=-0.11, pad=10)
    axes.set_xlabel(curve["xlabel"])
    axes.set_xscale("log" if curve["logx"] else "linear")
    axes.set_yscale("log" if curve["logy"] else "linear")
    if not curve["logy"]:
        axes.set_ylim(bottom=0)
    axes.set_xticks(sorted({x for series in curve["series"] for x in series["x"]}))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
        axis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="minor", length=0)
    name_curves(figure, axes, curve["series"])
    return figure


def draw_panels(drawing: Panels) -> Figure:
    """One drawing of panels, two in a row: the same axes, each curve with its interval."""
    rows = -(-len(drawing["panels"]) // 2)
    figure = Figure(figsize=(_WIDTH, 0.5 + 2.9 * rows))
    height = figure.get_figheight()
    figure.text(0.02, 1 - 0.3 / height, drawing["title"], size=11, weight="bold")
    for number, panel in enumerate(drawing["panels"]):
        row, column = divmod(number, 2)
        bottom = 1 - (0.85 + 2.9 * row + 2.05) / height
        axes = figure.add_axes((0.055 + 0.5 * column, bottom, 0.275, 2.0 / height))
        plot(axes, panel["series"])
        for series, line in zip(panel["series"], axes.lines, strict=True):
            least = [middle - half for middle, half in zip(series["y"], series["half"], strict=True)]
            most = [middle + half for middle, half in zip(series["y"], series["half"], strict=True)]
            axes.fill_between(series["x"], least, most, color=line.get_color(), alpha=0.2, linewidth=0)
        axes.set_title(panel["title"], size=10, weight="normal")
        axes.set(ylim=(-0.02, 1.02))
        if row == rows - 1:
            axes.set_xlabel(drawing["xlabel"])
        name_curves(figure, axes, panel["series"])
    return figure


def plot(axes: Any, curves: Sequence[Series]) -> None:
    """Draw curves, ours over the others."""
    colours = iter(_OURS)
    for series in curves:
        if series.get("ours"):
            style: dict[str, Any] = {"color": next(colours), "linewidth": 2.2, "zorder": 3, "marker": "o"}
        elif series.get("floor"):
            style = {"color": _FLOOR, "linewidth": 1.2, "linestyle": _DASHES}
        else:
            style = {"color": _PEER, "linewidth": 1.2}
        axes.plot(series["x"], series["y"], markersize=4 if len(series["x"]) < 5 else 0, **style)  # noqa: PLR2004


def name_curves(figure: Figure, axes: Any, curves: Sequence[Series]) -> None:
    """Write each curve's name at its end, those that end together one below the other, with a thin line to each."""
    figure.draw_without_rendering()
    to_points = 72.0 / figure.dpi
    ends = defaultdict(list)
    for series, line in zip(curves, axes.lines, strict=True):
        across, up = axes.transData.transform((series["x"][-1], series["y"][-1]))
        ends[round(across)].append((up * to_points, series, line.get_color()))
    size = _STYLE["font.size"] - 1
    for together in ends.values():
        together.sort(key=lambda end: end[0])
        heights = spread([height for height, _, _ in together], size * _LINE)
        for (height, series, colour), at in zip(together, heights, strict=True):
            ours = bool(series.get("ours"))
            axes.annotate(
                series["label"],
                (series["x"][-1], series["y"][-1]),
                (_AWAY, at - height),
                textcoords="offset points",
                va="center",
                size=size,
                color=colour if ours else "#6e6e6e",
                weight="bold" if ours else "normal",
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
                arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 4},
                annotation_clip=False,
            )


def main() -> None:
    """Read the results and draw each of their curves."""
    parser = argparse.ArgumentParser(description="Draw the curves of a file of results.")
    parser.add_argument("results", type=Path, help="a file of JSON with lists called curves or panels")
    parser.add_argument("outdir", type=Path, help="where the drawings go")
    parser.add_argument("--format", choices=("svg", "png"), default="svg", help="png: to look at one")
    options = parser.parse_args()
    results = json.loads(options.results.read_text(encoding="utf-8"))
    options.outdir.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(_STYLE):
        drawn = {curve["name"]: draw(curve) for curve in results.get("curves", [])}
        drawn |= {drawing["name"]: draw_panels(drawing) for drawing in results.get("panels", [])}
        for name, figure in drawn.items():
            metadata = dict.fromkeys(_METADATA) if options.format == "svg" else {}
            figure.savefig(options.outdir / f"{name}.{options.format}", metadata=metadata)


if __name__ == "__main__":
    main()
