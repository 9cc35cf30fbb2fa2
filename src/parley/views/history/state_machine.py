"""A job's state machine as it was walked: how often it was in each state, and which ways it took, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass

from parley.protocol.molecules import Entry, Record
from parley.protocol.states import ACTION_TO_STATE, LIVE, TERMINAL, TRANSITIONS, State, is_backtrack
from parley.roles.phases import PHASES


@dataclass(frozen=True, slots=True, kw_only=True)
class StateNode:
    """A state, and how often the job has entered it."""

    name: str
    phase: str  # what people call it: intent, planning, execution; empty for an end
    visits: int
    here: bool
    terminal: bool
    since: float = 0.0  # when it was last entered; 0: never, or the job began in it
    spent: float = 0.0  # seconds in it, all visits together


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """One transition."""

    before: str
    after: str
    action: str
    actor: str
    time: float
    reason: str
    backtrack: bool
    visit: int  # how many states were entered with it


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEdge:
    """A way from one state to another, and how often it was taken."""

    before: str
    after: str
    action: str
    taken: int
    backtrack: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StateMachine:
    """The whole machine: every state, every way that there is, and what was walked, oldest first."""

    nodes: tuple[StateNode, ...]
    edges: tuple[StateEdge, ...]
    walked: tuple[Passing, ...]
    here: str

    @property
    def backtracks(self) -> tuple[Passing, ...]:
        """The ways back."""
        return tuple(one for one in self.walked if one.backtrack)


def state_machine(record: Record | None, begun: float = 0.0, now: float = 0.0) -> StateMachine:
    """The machine of a record; None: its job has not begun. `begun` and `now` bound the times spent."""
    here = record.state if record is not None else State.INTENT
    history = record.history if record is not None else ()
    walked = tuple(_passing(entry, place + 2) for place, entry in enumerate(history))
    nodes = tuple(_node(state, record, here, walked, begun, now) for state in (*LIVE, *TERMINAL))
    edges = tuple(
        StateEdge(
            before=str(before),
            after=str(after),
            action=str(action),
            taken=sum((one.before, one.action) == (before, action) for one in walked),
            backtrack=is_backtrack(before, action),
        )
        for before, ways in TRANSITIONS.items()
        for action, after in ways.items()
    )
    return StateMachine(nodes=nodes, edges=edges, walked=walked, here=str(here))


def _passing(entry: Entry, visit: int) -> Passing:
    return Passing(
        before=str(entry.state),
        after=str(ACTION_TO_STATE[entry.action]),
        action=str(entry.action),
        actor=entry.actor,
        time=entry.timestamp,
        reason=entry.reason,
        backtrack=is_backtrack(entry.state, entry.action),
        visit=visit,
    )


def _node(
    state: State, record: Record | None, here: State, walked: tuple[Passing, ...], begun: float, now: float
) -> StateNode:
    entered = [one.time for one in walked if one.after == state]
    return StateNode(
        name=str(state),
        phase=PHASES[state].name if state in PHASES else "",
        visits=record.visits(state) if record is not None else int(state is State.INTENT),
        here=state is here,
        terminal=state in TERMINAL,
        since=entered[-1] if entered else 0.0,
        spent=_spent(state, here, walked, begun, now) if state in LIVE else 0.0,
    )


def _spent(state: State, here: State, walked: tuple[Passing, ...], begun: float, now: float) -> float:
    """The seconds in a state, up to now where it stands there. A clock that went back adds nothing."""
    arrivals = [(begun, str(State.INTENT)), *((one.time, one.after) for one in walked)]
    leaves = [*(one.time for one in walked), now if state is here else arrivals[-1][0]]
    return sum(
        max(0.0, left - came) for (came, where), left in zip(arrivals, leaves, strict=True) if where == state and came
    )
