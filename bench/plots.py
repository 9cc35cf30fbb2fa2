# mypy: disable-error-code="import-not-found"
"""Draws curves: ``python -m bench.plots RESULTS.json OUTDIR`` writes an SVG for each curve of the results.

The same results give the same bytes, so that a drawing under version control changes only when what it shows
does. It runs in the peers' environment, which has the library that draws.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, TypedDict

import matplotlib as mpl
from matplotlib.figure import Figure

_STYLE: Any = {
    "svg.hashsalt": "bench",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
}
"""Fixed ids instead of random ones, text as text, and nothing on the page that is not data."""

_METADATA = ("Creator", "Date", "Format", "Type")
"""What would be written about the file itself, and is left out."""

_MARKERS = "osD^vPX*"
"""A marker of its own for each series, so that the curves can be told apart without colours."""


class Series(TypedDict):
    """One line of a curve."""

    label: str
    x: list[float]
    y: list[float]


class Curve(TypedDict):
    """One drawing; `name` is the stem of its file."""

    name: str
    title: str
    xlabel: str
    ylabel: str
    logx: bool
    logy: bool
    series: list[Series]


def draw(curve: Curve, path: Path) -> None:
    """Write one curve as SVG."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        axes = figure.add_subplot()
        for number, series in enumerate(curve["series"]):
            marker = _MARKERS[number % len(_MARKERS)]
            axes.plot(series["x"], series["y"], marker=marker, markersize=5, label=series["label"])
        axes.set(title=curve["title"], xlabel=curve["xlabel"], ylabel=curve["ylabel"])
        axes.set_xscale("log" if curve["logx"] else "linear")
        axes.set_yscale("log" if curve["logy"] else "linear")
        if not curve["logy"]:
            axes.set_ylim(bottom=0)
        if len(curve["series"]) > 1:
            axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.savefig(path, format="svg", metadata=dict.fromkeys(_METADATA))


def main() -> None:
    """Read the results and draw each of their curves."""
    parser = argparse.ArgumentParser(description="Draw the curves of a file of results.")
    parser.add_argument("results", type=Path, help="a file of JSON with a list called curves")
    parser.add_argument("outdir", type=Path, help="where the drawings go")
    options = parser.parse_args()
    curves: list[Curve] = json.loads(options.results.read_text(encoding="utf-8"))["curves"]
    options.outdir.mkdir(parents=True, exist_ok=True)
    for curve in curves:
        draw(curve, options.outdir / f"{curve['name']}.svg")


if __name__ == "__main__":
    main()
