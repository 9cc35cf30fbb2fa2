"""What is told of a workflow before somebody says yes to it."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.roles.role_snapshot import RoleSnapshot
from parley.workflow.design.outline import LISTED, is_complex, levels, outline
from parley.workflow.model.terms import Plan, Task, Worker


def plan(*names: str, after: dict[str, list[str]] | None = None) -> Plan:
    """A plan of doers in one stage each."""
    above = after or {}
    doers = {
        name: Worker(name, Task.DOER, "coder", depends_on=tuple(above.get(name, ())), verifier="v") for name in names
    }
    return Plan("t", "g", {**doers, "v": Worker("v", Task.VERIFIER, "reviewer")}, tuple((name,) for name in names))


def test_a_chain_has_as_many_levels_as_agents() -> None:
    names = [f"a{number}" for number in range(5000)]
    assert levels(plan(*names, after={below: [above] for above, below in pairwise(names)})) == len(names)
    assert levels(plan(*names)) == 1


@given(st.dictionaries(st.sampled_from("abcd"), st.lists(st.sampled_from("abcd?"))))
def test_whatever_depends_on_whatever_the_levels_are_counted(after: dict[str, list[str]]) -> None:
    assert 1 <= levels(plan("a", "b", "c", "d", after=after)) <= 4


@pytest.mark.parametrize("most_agents, most_levels, said", [(2, 2, False), (1, 2, True), (2, 1, True)])
def test_more_doers_or_levels_than_the_settings_name_is_complex(most_agents: int, most_levels: int, said: bool) -> None:
    assert is_complex(plan("a", "b", after={"b": ["a"]}), most_agents, most_levels) is said


def test_the_outline_names_who_does_what_and_which_roles_are_new() -> None:
    new = {"data_engineer": RoleSnapshot(name="data_engineer", description="makes\ntables", tools=("Read", "Send"))}
    lines = outline(plan("a", "b"), new)
    assert lines[0].startswith("A workflow of 2 doers and 1 verifier in 2 stages, 1 level of dependency; 6 turns")
    assert lines[1:3] == ["1. a (coder, verified by v)", "2. b (coder, verified by v)"]
    assert "orchestration/roles/data_engineer.md: data_engineer: makes tables (tools: Read)" in lines[3]
    assert all("\n" not in line for line in lines)


def test_an_outline_of_many_agents_is_no_longer_than_people_read() -> None:
    lines = outline(plan(*(f"a{number}" for number in range(300))), {})
    assert len(lines) == LISTED + 2
    assert lines[-1] == f"and {300 - LISTED} more"
