"""A job's state machine as a small drawing: where it stands, how often it was in each state, and every way back."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from markupsafe import Markup

from parley.base.wording import count
from parley.protocol.states import LIVE, State
from parley.views.history.state_machine import StateEdge, StateMachine, StateNode

WIDE, HIGH, GAP = 106, 40, 24  # of a state, and between two
LETTERS = 8  # of a name; a longer one is written smaller where letters are large, on phones
NEAR, FAR = 42, 74  # room for the ways back by one state, and by two
_SVG = Markup(
    '<svg class="machine" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
    'aria-label="{label}"><defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" class="tip"/></marker></defs>{shapes}</svg>'
)
_STATE = Markup(
    '<g class="state-node{marks}"><title>{title}</title><rect x="{x}" y="{y}" width="{w}" height="{h}" rx="9"/>'
    '<text x="{cx}" y="{cy}" text-anchor="middle"{long}>{name}</text>'
    '<text x="{cx}" y="{under}" text-anchor="middle" class="under">{below}</text></g>'
)
_WAY = Markup('<path class="way{marks}" d="M{x1} {y} L{x2} {y}" marker-end="url(#tip)"/>')
_BACK = Markup(
    '<g class="back"><title>{title}</title><path d="M{x1} {y} C{x1} {peak} {x2} {peak} {x2} {y}" '
    'marker-end="url(#tip)"/><text x="{cx}" y="{ty}" text-anchor="middle">{label}</text></g>'
)


def draw(machine: StateMachine) -> Markup:
    """The drawing. An end that was not reached is left out, but for DONE."""
    shown = _shown(machine)
    far = max((_far(edge) for edge in machine.edges if edge.backtrack and edge.taken), default=0)
    top = (6, NEAR, FAR)[far]
    places = {node.name: GAP // 2 + number * (WIDE + GAP) for number, node in enumerate(shown)}
    shapes = [*_ways(machine, places, top), *_backs(machine, places, top)]
    shapes += [_state(node, places[node.name], top) for node in shown]
    return _SVG.format(
        width=len(shown) * (WIDE + GAP), height=top + HIGH + 22, label=_label(machine), shapes=Markup("").join(shapes)
    )


def _shown(machine: StateMachine) -> list[StateNode]:
    ended = next((node for node in machine.nodes if node.terminal and node.here), None)
    end = ended or next(node for node in machine.nodes if node.name == "DONE")
    return [*(node for node in machine.nodes if not node.terminal), end]


def _state(node: StateNode, x: int, top: int) -> Markup:
    marks = " here" if node.here else " past" if node.visits else ""
    marks += {"WITHDRAWN": " over", "FAILURE": " failed", "DONE": " done"}.get(node.name, "") if node.here else ""
    visits = f"{count(node.visits, 'visit')}" if node.visits > 1 else ""
    spent = _short(node.spent) if node.spent >= 1 else ""
    return _STATE.format(
        marks=marks,
        title=f"{node.name}: entered {count(node.visits, 'time')}",
        x=x, y=top, w=WIDE, h=HIGH, cx=x + WIDE // 2, cy=top + HIGH // 2 + 5, under=top + HIGH + 16,
        name=node.name,
        long=Markup(' class="long"') if len(node.name) > LETTERS else "",
        below=", ".join(filter(None, (visits, spent))),
    )  # fmt: skip


def _ways(machine: StateMachine, places: dict[str, int], top: int) -> Iterator[Markup]:
    """The ways forward: one arrow between neighbours; how the job ended, from where it did."""
    names = list(places)
    taken = {(edge.before, edge.after) for edge in machine.edges if edge.taken}
    for before, after in pairwise(names):
        marks = " taken" if (before, after) in taken or (after == names[-1] and machine.here == after) else ""
        yield _WAY.format(marks=marks, x1=places[before] + WIDE + 3, x2=places[after] - 4, y=top + HIGH // 2)


def _backs(machine: StateMachine, places: dict[str, int], top: int) -> Iterator[Markup]:
    for edge in machine.edges:
        if edge.backtrack and edge.taken:
            yield _back(edge, places[edge.before], places[edge.after], top)


def _far(edge: StateEdge) -> int:
    """How many states a way leads back."""
    return LIVE.index(State(edge.before)) - LIVE.index(State(edge.after))


def _back(edge: StateEdge, start: int, end: int, top: int) -> Markup:
    far = _far(edge)
    x1, x2, y = start + WIDE // 2 + 14 * (far - 1) - 7, end + WIDE // 2 + 7, top - 3
    peak = y - 28 - 38 * (far - 1)
    return _BACK.format(
        title=f"{edge.action}: back from {edge.before} to {edge.after}, {count(edge.taken, 'time')}",
        x1=x1, x2=x2, y=y, peak=peak, cx=(x1 + x2) // 2, ty=(y + 3 * peak) // 4 - 4,
        label=f"{edge.taken}x",
    )  # fmt: skip


def _label(machine: StateMachine) -> str:
    backs = len(machine.backtracks)
    return f"The job stands in {machine.here}; " + (f"{count(backs, 'backtrack')} so far" if backs else "no backtrack")


def _short(seconds: float) -> str:
    if seconds < 90:  # noqa: PLR2004 - seconds
        return f"{seconds:.0f}s"
    return f"{seconds / 60:.0f}m" if seconds < 5400 else f"{seconds / 3600:.1f}h"  # noqa: PLR2004 - seconds
