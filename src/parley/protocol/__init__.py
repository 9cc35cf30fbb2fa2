"""The protocol: a job's states, the soup of its agents, and the rules that change both.

It is pure: no I/O, no clock, no chance. All that changes protocol state is in this package, and nothing else is. The
engine, the audit, the simulator and the explorer run the same `RULES`. What people call a state's lead, its files and
its skills, and what an agent does in its turn, is not known here. To read it whole, in this order:

1. `states`: the state machine of a job; `transitions`: how its record goes on.
2. `molecules`: what the soup is made of; `term`: what a value of the protocol is; `soup`: the multiset of them.
3. `rule`: what a rule is, and what its firing leaves to be chosen.
4. `conversation`: agent dynamics and dispatch: who may address whom, and the rules of a turn.
5. `escalation`: questions, the proxy and the human; `intervention`: redirecting; `withdrawal`: ending.
6. `lifecycle`: what the orchestrator does to a job: open, transition, recover, hold.
7. `gates`: on whose word an outcome counts; `bounds`: what ends every loop.
8. `rules`: all of them in one table; `codec`: how they are written down; `errors`: what is refused.

What the protocol promises is not said here but in `parley.verify`, which shares no code with the rules.
"""

from parley.protocol.molecules import Record
from parley.protocol.rules import RULES, Firing, Reaction, Rule, apply, enabled
from parley.protocol.soup import Soup
from parley.protocol.states import ACTION_TO_STATE, TRANSITIONS, Action, State
from parley.protocol.transitions import transition

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
    "enabled",
    "transition",
]
