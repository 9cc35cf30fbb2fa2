"""The dependency graph of a workflow as a drawing: one column a layer, an arrow from each agent to who waits for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from markupsafe import Markup

from parley.base.wording import count
from parley.views.dependency_layers import GraphEdge, GraphNode, LayeredGraph
from parley.web.templating import one_line

WIDE, HIGH, ACROSS, DOWN = 168, 44, 64, 18  # of a node, and between two
LETTERS = 20  # of a name
_SVG = Markup(
    '<svg class="graph" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="group" '
    'aria-label="{label}"><defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
    'markerHeight="7" orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" class="tip"/></marker></defs>'
    "{shapes}</svg>"
)
_NODE = Markup(
    '<a href="#agent-{id}" aria-label="{name} {status}"><g class="graph-node {level}"><title>{title}</title>'
    '<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="8"/>'
    '<text x="{tx}" y="{y1}">{name} </text><text x="{tx}" y="{y2}" class="under">{status}</text></g></a>'
)
_EDGE = Markup('<path class="graph-edge{marks}" d="{path}" marker-end="url(#arrow)"/>')


def draw(graph: LayeredGraph, levels: Mapping[str, str]) -> Markup:
    """The drawing. `levels`: which colour each status has."""
    filled = Counter(node.rank for node in graph.nodes)
    places = {node.name: _place(node, graph.widest - filled[node.rank]) for node in graph.nodes}
    shapes = [*_edges(graph, places), *(_node(node, places[node.name], levels) for node in graph.nodes)]
    return _SVG.format(
        width=graph.ranks * (WIDE + ACROSS) - ACROSS + 8 if graph.ranks else 8,
        height=graph.widest * (HIGH + DOWN) - DOWN + 8 if graph.widest else 8,
        label=f"{count(len(graph.nodes), 'agent')} and {count(len(graph.edges), 'dependency', 'dependencies')}",
        shapes=Markup("").join(shapes),
    )


def _place(node: GraphNode, missing: int) -> tuple[int, int]:
    """Where a node's corner is; a layer that has so many nodes less than the fullest stands in the middle."""
    margin = missing * (HIGH + DOWN) // 2
    return 4 + node.rank * (WIDE + ACROSS), 4 + margin + node.order * (HIGH + DOWN)


def _node(node: GraphNode, place: tuple[int, int], levels: Mapping[str, str]) -> Markup:
    x, y = place
    name, status = one_line(node.name), one_line(node.status).replace("_", " ")
    return _NODE.format(
        id=name, level=levels.get(node.status, ""), title=f"{name}: {status}",
        x=x, y=y, w=WIDE, h=HIGH, tx=x + 12, y1=y + 18, y2=y + 35,
        name=name if len(name) <= LETTERS else f"{name[: LETTERS - 1]}…", status=status[:26],
    )  # fmt: skip


def _edges(graph: LayeredGraph, places: Mapping[str, tuple[int, int]]) -> Iterator[Markup]:
    for edge in graph.edges:
        if edge.before in places and edge.after in places:
            yield _edge(edge, places[edge.before], places[edge.after])


def _edge(edge: GraphEdge, start: tuple[int, int], end: tuple[int, int]) -> Markup:
    x1, y1, x2, y2 = start[0] + WIDE, start[1] + HIGH // 2, end[0] - 2, end[1] + HIGH // 2
    bend = max(24, abs(x2 - x1) // 2)
    path = f"M{x1} {y1} C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
    return _EDGE.format(marks=" closes" if edge.back else "", path=path)
