"""The state machine: total, deterministic, append-only, with a way out of every live state."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.protocol.errors import IllegalTransition
from parley.protocol.gates import moved
from parley.protocol.molecules import Record
from parley.protocol.rule import Passage
from parley.protocol.states import (
    ACTION_TO_STATE,
    LIVE,
    TERMINAL,
    TRANSITIONS,
    Action,
    State,
    available_actions,
    is_backtrack,
    skill_outcomes,
)
from parley.protocol.transitions import make_child_state, make_initial_state, transition
from tests.protocol.walks import opened

ORDER = {State.INTENT: 0, State.PLAN: 1, State.EXECUTE: 2}
actions = st.lists(st.sampled_from(Action), max_size=12)


def lived(record: Record, chosen: list[Action]) -> list[Record]:
    """The records of a life: those of the actions that the state of the moment has."""
    records = [record]
    for action in chosen:
        if action in TRANSITIONS[records[-1].state]:
            records.append(transition(records[-1], action, actor="someone", at=1.0, reason="because"))
    return records


def test_every_action_names_one_target_wherever_it_is_allowed() -> None:
    targets = {(action, to) for edges in TRANSITIONS.values() for action, to in edges.items()}

    assert len(targets) == len(Action)
    assert targets == set(ACTION_TO_STATE.items())


def test_every_state_is_in_the_table_and_every_live_state_has_a_way_to_every_kind_of_end() -> None:
    assert set(TRANSITIONS) == set(State)
    assert set(LIVE) | set(TERMINAL) == set(State)
    for state in LIVE:
        assert {Action.WITHDRAW, Action.FAILURE} <= set(TRANSITIONS[state])
        assert {State.WITHDRAWN, State.FAILURE} <= set(TRANSITIONS[state].values())


def test_done_can_be_reached_from_every_live_state() -> None:
    reached = {State.DONE}
    for _ in State:
        reached |= {state for state, edges in TRANSITIONS.items() if reached & set(edges.values())}

    assert set(LIVE) <= reached


def test_a_terminal_has_no_way_out() -> None:
    for state in TERMINAL:
        assert TRANSITIONS[state] == {}
        for action in Action:
            with pytest.raises(IllegalTransition, match="terminal"):
                transition(Record("j", state=state), action)


def test_the_edges_are_the_thirteen_of_the_protocol() -> None:
    edges = {(source, action, to) for source, found in TRANSITIONS.items() for action, to in found.items()}

    assert edges == {
        (State.INTENT, Action.APPROVED_INTENT, State.PLAN),
        (State.PLAN, Action.APPROVED_PLAN, State.EXECUTE),
        (State.EXECUTE, Action.APPROVED_WORK, State.DONE),
        (State.PLAN, Action.REALIGN, State.INTENT),
        (State.EXECUTE, Action.REALIGN, State.INTENT),
        (State.EXECUTE, Action.REPLAN, State.PLAN),
        *((state, Action.WITHDRAW, State.WITHDRAWN) for state in LIVE),
        *((state, Action.FAILURE, State.FAILURE) for state in LIVE),
    }


@given(actions)
def test_history_only_grows_by_one_entry_for_each_transition(chosen: list[Action]) -> None:
    records = lived(make_initial_state("j"), chosen)

    for before, after in pairwise(records):
        assert after.history[:-1] == before.history
        assert after.history[-1].state is before.state
        assert ACTION_TO_STATE[after.history[-1].action] is after.state
        assert after.visit == before.visit + 1


@given(actions)
def test_backtracks_are_counted_and_nothing_else_is(chosen: list[Action]) -> None:
    last = lived(make_initial_state("j"), chosen)[-1]
    path = [entry.state for entry in last.history] + [last.state]
    backward = sum(one in ORDER and other in ORDER and ORDER[other] < ORDER[one] for one, other in pairwise(path))

    assert last.backtrack_count == backward
    assert sum(last.visits(state) for state in State) == len(last.history) + 1


@given(st.sampled_from(State), st.sampled_from(Action))
def test_an_action_that_the_state_does_not_have_changes_nothing(state: State, action: Action) -> None:
    record = Record("j", state=state)
    if action in TRANSITIONS[state]:
        assert transition(record, action).state is ACTION_TO_STATE[action]
    else:
        with pytest.raises(IllegalTransition, match=f"{action} does not leave {state}"):
            transition(record, action)
    assert record == Record("j", state=state)


@given(actions)
def test_failures_and_dialogs_belong_to_one_visit(chosen: list[Action]) -> None:
    failed = Record("j", pendings=2, violations=1, dialogs=1)

    for record in lived(failed, chosen)[1:]:
        assert (record.pendings, record.violations, record.dialogs) == (0, 0, 0)


def test_a_backtrack_voids_what_was_approved_from_its_target_on() -> None:
    approved = (("intent", "i"), ("plan", "p"))
    executing = Record("j", state=State.EXECUTE, approved=approved)

    def approved_after(action: Action) -> tuple[tuple[str, str], ...]:
        return moved(opened(), executing, Passage(action, "someone")).approved

    assert approved_after(Action.REPLAN) == (("intent", "i"),)
    assert approved_after(Action.REALIGN) == ()
    assert approved_after(Action.APPROVED_WORK) == approved


def test_a_state_is_led_by_whom_the_charter_says() -> None:
    record = moved(opened(), make_initial_state("j", "intent-lead"), Passage(Action.APPROVED_INTENT, "intent-lead"))

    assert record.actor == "project-lead"
    assert moved(opened(), record, Passage(Action.REALIGN, "project-lead")).actor == "intent-lead"
    assert moved(opened(), record, Passage(Action.WITHDRAW, "human")).actor == ""


def test_a_skill_writes_every_action_of_its_state_but_failure() -> None:
    assert skill_outcomes(State.INTENT) == (Action.APPROVED_INTENT, Action.WITHDRAW)
    assert set(skill_outcomes(State.PLAN)) == {Action.APPROVED_PLAN, Action.REALIGN, Action.WITHDRAW}
    assert set(skill_outcomes(State.EXECUTE)) == {
        Action.APPROVED_WORK, Action.REALIGN, Action.REPLAN, Action.WITHDRAW,
    }  # fmt: skip
    for state in LIVE:
        assert dict(available_actions(state))[Action.FAILURE] == "orchestrator"


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("action", Action)
def test_a_backtrack_leads_to_an_earlier_live_state(state: State, action: Action) -> None:
    to = ACTION_TO_STATE[action]

    assert is_backtrack(state, action) == (state in ORDER and to in ORDER and ORDER[to] < ORDER[state])


def test_a_subteam_has_a_nested_record_with_the_intent_it_inherits() -> None:
    parent = Record("j", state=State.EXECUTE, approved=(("intent", "i"), ("plan", "p")))
    child = make_child_state(parent, team_id="squad", task_id="dispatch:a", intent="intent")

    assert (child.state, child.depth, child.parent_id) == (State.INTENT, 1, "j")
    assert (child.id, child.thread, child.actor) == ("dispatch:a", "dispatch:a", "squad")
    assert child.approved == (("intent", "i"),)
    assert make_child_state(child, "crew", "dispatch:b", "intent").depth == 2


@given(actions)
def test_a_subteam_never_voids_the_intent_it_inherited(chosen: list[Action]) -> None:
    parent = Record("j", state=State.EXECUTE, approved=(("intent", "i"), ("plan", "p")))
    record, soup = make_child_state(parent, "squad", "dispatch:a", "intent"), opened()

    for action in chosen:
        if action in TRANSITIONS[record.state]:
            record = moved(soup, record, Passage(action, "someone"))
        assert ("intent", "i") in record.approved
        assert record.actor == ("squad" if record.live else "")
