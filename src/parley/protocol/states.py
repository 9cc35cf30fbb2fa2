"""The state machine of a job: six states, seven actions, one table that says where an action leads."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class State(StrEnum):
    """Where a job is: three live states, in their order, then three terminals."""

    INTENT = "INTENT"
    PLAN = "PLAN"
    EXECUTE = "EXECUTE"
    DONE = "DONE"
    WITHDRAWN = "WITHDRAWN"
    FAILURE = "FAILURE"


class Action(StrEnum):
    """What moves a job. All but FAILURE are written by skills; FAILURE is the orchestrator's alone."""

    APPROVED_INTENT = "APPROVED_INTENT"
    APPROVED_PLAN = "APPROVED_PLAN"
    APPROVED_WORK = "APPROVED_WORK"
    REALIGN = "REALIGN"
    REPLAN = "REPLAN"
    WITHDRAW = "WITHDRAW"
    FAILURE = "FAILURE"


TRANSITIONS: Mapping[State, Mapping[Action, State]] = MappingProxyType(
    {
        State.INTENT: {
            Action.APPROVED_INTENT: State.PLAN,
            Action.WITHDRAW: State.WITHDRAWN,
            Action.FAILURE: State.FAILURE,
        },
        State.PLAN: {
            Action.APPROVED_PLAN: State.EXECUTE,
            Action.REALIGN: State.INTENT,
            Action.WITHDRAW: State.WITHDRAWN,
            Action.FAILURE: State.FAILURE,
        },
        State.EXECUTE: {
            Action.APPROVED_WORK: State.DONE,
            Action.REALIGN: State.INTENT,
            Action.REPLAN: State.PLAN,
            Action.WITHDRAW: State.WITHDRAWN,
            Action.FAILURE: State.FAILURE,
        },
        State.DONE: {},
        State.WITHDRAWN: {},
        State.FAILURE: {},
    }
)

ACTION_TO_STATE: Mapping[Action, State] = MappingProxyType(
    {action: target for edges in TRANSITIONS.values() for action, target in edges.items()}
)

LIVE = (State.INTENT, State.PLAN, State.EXECUTE)
TERMINAL = (State.DONE, State.WITHDRAWN, State.FAILURE)

APPROVAL: Mapping[State, Action] = MappingProxyType(
    {
        State.INTENT: Action.APPROVED_INTENT,
        State.PLAN: Action.APPROVED_PLAN,
        State.EXECUTE: Action.APPROVED_WORK,
    }
)

BACKTRACK: Mapping[State, Action] = MappingProxyType({State.INTENT: Action.REALIGN, State.PLAN: Action.REPLAN})


def available_actions(state: State) -> tuple[tuple[Action, str], ...]:
    """The actions that leave `state`, each with who may emit it."""
    return tuple((action, "orchestrator" if action is Action.FAILURE else "skill") for action in TRANSITIONS[state])


def skill_outcomes(state: State) -> tuple[Action, ...]:
    """The outcomes that a skill may write in `state`."""
    return tuple(action for action, who in available_actions(state) if who == "skill")


def is_backtrack(from_state: State, action: Action) -> bool:
    """Whether `action` leads from `from_state` to a live state before it."""
    target = ACTION_TO_STATE[action]
    return target in LIVE and from_state in LIVE and LIVE.index(target) < LIVE.index(from_state)
