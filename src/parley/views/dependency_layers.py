"""A dependency graph in layers, for drawing: each node one layer after all that it depends on, with few crossings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SWEEPS = 4  # down and up over the layers, after which the order seldom gets better


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphNode:
    """A node, and where it stands: `rank` is its layer, `order` its place there; both count from 0."""

    name: str
    rank: int
    order: int
    status: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphEdge:
    """Who comes before whom. `back`: it closes a cycle, and leads to an earlier layer."""

    before: str
    after: str
    back: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredGraph:
    """The whole drawing."""

    nodes: tuple[GraphNode, ...] = ()
    edges: tuple[GraphEdge, ...] = ()
    ranks: int = 0
    widest: int = 0  # how many nodes the fullest layer has


def layered(depends_on: Mapping[str, Sequence[str]], statuses: Mapping[str, str]) -> LayeredGraph:
    """The layers of a graph: of each name, the names that it depends on. Unknown names and repetitions are left out."""
    above = {name: [one for one in dict.fromkeys(wanted) if one in depends_on] for name, wanted in depends_on.items()}
    back = _closing(above)
    forward = {name: [one for one in wanted if (one, name) not in back] for name, wanted in above.items()}
    ranks = _ranks(forward)
    layers = _ordered(forward, ranks)
    nodes = tuple(
        GraphNode(name=name, rank=rank, order=order, status=statuses.get(name, ""))
        for rank, layer in enumerate(layers)
        for order, name in enumerate(layer)
    )
    edges = tuple(
        GraphEdge(before=one, after=name, back=(one, name) in back) for name, wanted in above.items() for one in wanted
    )
    return LayeredGraph(nodes=nodes, edges=edges, ranks=len(layers), widest=max(map(len, layers), default=0))


def _closing(above: Mapping[str, Sequence[str]]) -> set[tuple[str, str]]:
    """The edges that close a cycle: those that lead to a node on the way that is being walked."""
    found: set[tuple[str, str]] = set()
    on_way: set[str] = set()
    done: set[str] = set()
    for start in above:
        waiting = [(start, False)]
        while waiting:
            name, leaving = waiting.pop()
            if leaving:
                on_way.discard(name)
                done.add(name)
                continue
            if name in done or name in on_way:
                continue
            on_way.add(name)
            waiting.append((name, True))
            for one in above[name]:
                if one in on_way:
                    found.add((one, name))
                elif one not in done:
                    waiting.append((one, False))
    return found


def _ranks(above: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The layer of each node of a graph without cycles: one after the last of those before it."""
    ranks: dict[str, int] = {}
    for start in above:
        waiting = [start]
        while waiting:
            name = waiting[-1]
            left = [one for one in above[name] if one not in ranks]
            if left:
                waiting += left
                continue
            waiting.pop()
            ranks[name] = max((ranks[one] + 1 for one in above[name]), default=0)
    return ranks


def _ordered(above: Mapping[str, Sequence[str]], ranks: Mapping[str, int]) -> list[list[str]]:
    """The layers, each ordered by the middle of its neighbours, down and up, so that few edges cross."""
    layers: list[list[str]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for name in above:
        layers[ranks[name]].append(name)
    below: dict[str, list[str]] = {name: [] for name in above}
    for name, wanted in above.items():
        for one in wanted:
            below[one].append(name)
    places = {name: place for layer in layers for place, name in enumerate(layer)}
    for sweep in range(SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            _sort(layer, places, neighbours)
    return layers


def _sort(layer: list[str], places: dict[str, int], neighbours: Mapping[str, Sequence[str]]) -> None:
    """Order a layer by the middle of its neighbours, and note where each node stands now."""
    middles = {
        name: sum(places[one] for one in neighbours[name]) / len(neighbours[name]) if neighbours[name] else places[name]
        for name in layer
    }
    layer.sort(key=middles.__getitem__)
    places.update((name, place) for place, name in enumerate(layer))
