"""The state machine of a job. The table below is the only place that says where an action leads.

A record never changes: `transition` makes a new one, whose history is the old history and one entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from parley.core.errors import IllegalTransition


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


PENDING = "PENDING"  # a signal, not an action: the turn ended without an outcome record

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


@dataclass(frozen=True, slots=True)
class Phase:
    """What a live state works on: its lead, its artifact, the file its turns are streamed to, and its skill."""

    name: str
    lead: str
    artifact: str
    stream: str
    skill: str


PHASES: Mapping[State, Phase] = MappingProxyType(
    {
        State.INTENT: Phase("intent", "intent-lead", "INTENT.md", ".intent-stream.jsonl", "intent-alignment"),
        State.PLAN: Phase("planning", "project-lead", "PLAN.md", ".plan-stream.jsonl", "planning"),
        State.EXECUTE: Phase("execution", "project-lead", "WORK_SUMMARY.md", ".exec-stream.jsonl", "execute"),
    }
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One transition as it is remembered: the state it left, by which action, whose, when, and why."""

    state: State
    action: Action
    actor: str
    timestamp: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """The state record of a job, or of a dispatched subteam (`depth` 1 and more)."""

    id: str
    state: State = State.INTENT
    actor: str = PHASES[State.INTENT].lead
    history: tuple[Entry, ...] = ()
    backtrack_count: int = 0
    task_id: str = ""
    parent_id: str = ""
    team_id: str = ""
    depth: int = 0
    thread: str = ""  # where its lead works now
    visit: int = 1  # how many states were entered, this one included
    pendings: int = 0  # how often its lead came to rest in this visit without an outcome record
    violations: int = 0  # how many outcome records of this visit did not count
    dialogs: int = 0  # how often the human was asked in this visit what is to become of it
    circled: int = 0  # the backtracks that went by no verdict of the human's own
    lifted: int = 0  # how often the human let it go on at the bound of these
    approved: tuple[tuple[str, str], ...] = ()  # (artifact, digest) as approved, upstream first

    @property
    def live(self) -> bool:
        """Whether the job still has somewhere to go."""
        return self.state in LIVE

    def brief(self) -> str:
        """The record as a step's row names it."""
        return (
            f"Record {self.id} {self.state} {self.visit} {self.backtrack_count} {self.circled} {self.lifted}"
            f" {self.pendings} {self.violations} {self.dialogs} {self.thread}"
        )

    @property
    def phase(self) -> str:
        """The phase of the state, or of the last live state once it has ended."""
        return phase_for_state(self.state if self.live else self.history[-1].state)

    def visits(self, state: State) -> int:
        """How many times `state` was entered: once for the start, once for each arrival."""
        arrivals = sum(ACTION_TO_STATE[entry.action] is state for entry in self.history)
        return arrivals + (state is State.INTENT)


def phase_for_state(state: State) -> str:
    """The name of a live state's phase."""
    return PHASES[state].name


def make_initial_state(job: str, *, task_id: str = "", team_id: str = "") -> Record:
    """The record of a new job."""
    return Record(id=job, task_id=task_id, team_id=team_id)


def make_child_state(parent: Record, team_id: str, task_id: str) -> Record:
    """The record of a subteam that `parent` dispatched.

    It enters at INTENT and acknowledges the intent it inherits, whose approval comes along: the
    subteam may not write another one.
    """
    intent = PHASES[State.INTENT].artifact
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


def transition(
    record: Record, action: Action, *, actor: str = "orchestrator", at: float = 0.0, reason: str = ""
) -> Record:
    """The record after `action`. What was approved at or after a backtrack's target is void."""
    if action not in TRANSITIONS[record.state]:
        allowed = ", ".join(TRANSITIONS[record.state]) or "none, it is terminal"
        message = f"{action} does not leave {record.state}; allowed: {allowed}"
        raise IllegalTransition(message)
    target = TRANSITIONS[record.state][action]
    approved = record.approved
    if is_backtrack(record.state, action):
        void = {PHASES[state].artifact for state in LIVE[LIVE.index(target) :]}
        if record.depth:  # the intent that a subteam inherited is not its own to void
            void.discard(PHASES[State.INTENT].artifact)
        approved = tuple(pair for pair in approved if pair[0] not in void)
    lead = PHASES[target].lead if target in LIVE else ""
    return replace(
        record,
        state=target,
        actor=record.team_id if record.depth and lead else lead,
        history=(*record.history, Entry(record.state, action, actor, at, reason)),
        backtrack_count=record.backtrack_count + is_backtrack(record.state, action),
        visit=record.visit + 1,
        pendings=0,
        violations=0,
        dialogs=0,
        approved=approved,
    )
