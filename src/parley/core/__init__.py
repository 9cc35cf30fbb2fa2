"""The protocol: states, molecules, rules, invariants. Pure: no I/O, no clock, no chance.

Everything that changes protocol state is in this package, and nothing else is. The engine, the
auditor, the simulator and the explorer all run the same `RULES`.
"""

from parley.core.invariants import check, lawful
from parley.core.rules import RULES, Firing, Reaction, Rule, apply, enabled
from parley.core.soup import Soup
from parley.core.states import ACTION_TO_STATE, TRANSITIONS, Action, Record, State, transition

__all__ = [
    "ACTION_TO_STATE",
    "RULES",
    "TRANSITIONS",
    "Action",
    "Firing",
    "Reaction",
    "Record",
    "Rule",
    "Soup",
    "State",
    "apply",
    "check",
    "enabled",
    "lawful",
    "transition",
]
