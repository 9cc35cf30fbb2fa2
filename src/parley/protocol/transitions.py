"""How a state record begins, and where an action leads it.

A record never changes: `transition` makes a new one, whose history is the old history and one entry.
"""

from __future__ import annotations

from msgspec.structs import replace

from parley.protocol.errors import IllegalTransition
from parley.protocol.molecules import Entry, Record
from parley.protocol.states import LIVE, TRANSITIONS, Action, is_backtrack


def make_initial_state(job: str, lead: str = "", *, task_id: str = "", team_id: str = "") -> Record:
    """The record of a new job."""
    return Record(id=job, actor=lead, task_id=task_id, team_id=team_id)


def make_child_state(parent: Record, team_id: str, task_id: str, intent: str) -> Record:
    """The record of a subteam that `parent` dispatched.

    It enters at INTENT and acknowledges the intent it inherits (`intent`, the artifact), whose approval comes along:
    the subteam may not write another one.
    """
    return Record(
        id=task_id,
        actor=team_id,
        task_id=task_id,
        parent_id=parent.id,
        team_id=team_id,
        depth=parent.depth + 1,
        thread=task_id,
        approved=tuple(pair for pair in parent.approved if pair[0] == intent),
    )


def transition(
    record: Record, action: Action, *, lead: str = "", actor: str = "orchestrator", at: float = 0.0, reason: str = ""
) -> Record:
    """The record after `action`, which `actor` emitted; `lead` leads the state that it enters, if that is live."""
    if action not in TRANSITIONS[record.state]:
        allowed = ", ".join(TRANSITIONS[record.state]) or "none, it is terminal"
        message = f"{action} does not leave {record.state}; allowed: {allowed}"
        raise IllegalTransition(message)
    target = TRANSITIONS[record.state][action]
    return replace(
        record,
        state=target,
        actor=lead if target in LIVE else "",
        history=(*record.history, Entry(state=record.state, action=action, actor=actor, timestamp=at, reason=reason)),
        backtrack_count=record.backtrack_count + is_backtrack(record.state, action),
        visit=record.visit + 1,
        pendings=0,
        violations=0,
        dialogs=0,
    )
