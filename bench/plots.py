# mypy: disable-error-code="import-not-found"
"""Draws curves: ``python -m bench.plots RESULTS.json OUTDIR`` writes an SVG for each drawing of the results.

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


class Interval(Series):
    """A line whose points have intervals: half of each."""

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
    ylabel: str
    panels: list[Panel]


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


def draw_panels(drawing: Panels, path: Path) -> None:
    """Write panels beside each other as one SVG: the same axes, each line with its interval."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(10.8, 3.4), layout="constrained")
        places = figure.subplots(1, len(drawing["panels"]), sharex=True, sharey=True)
        for axes, panel in zip(places, drawing["panels"], strict=True):
            for number, series in enumerate(panel["series"]):
                marker = _MARKERS[number % len(_MARKERS)]
                (line,) = axes.plot(series["x"], series["y"], marker=marker, markersize=3, label=series["label"])
                least = [middle - half for middle, half in zip(series["y"], series["half"], strict=True)]
                most = [middle + half for middle, half in zip(series["y"], series["half"], strict=True)]
                axes.fill_between(series["x"], least, most, color=line.get_color(), alpha=0.2, linewidth=0)
            axes.set(title=panel["title"], xlabel=drawing["xlabel"], ylim=(-0.02, 1.02))
        places[0].set_ylabel(drawing["ylabel"])
        figure.suptitle(drawing["title"])
        places[-1].legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.savefig(path, format="svg", metadata=dict.fromkeys(_METADATA))


def main() -> None:
    """Read the results and draw each of their curves."""
    parser = argparse.ArgumentParser(description="Draw the curves of a file of results.")
    parser.add_argument("results", type=Path, help="a file of JSON with lists called curves or panels")
    parser.add_argument("outdir", type=Path, help="where the drawings go")
    options = parser.parse_args()
    results = json.loads(options.results.read_text(encoding="utf-8"))
    curves: list[Curve] = results.get("curves", [])
    drawings: list[Panels] = results.get("panels", [])
    options.outdir.mkdir(parents=True, exist_ok=True)
    for curve in curves:
        draw(curve, options.outdir / f"{curve['name']}.svg")
    for drawing in drawings:
        draw_panels(drawing, options.outdir / f"{drawing['name']}.svg")


if __name__ == "__main__":
    main()
