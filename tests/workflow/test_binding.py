"""An approval of PLAN.md covers the whole design, and nothing that is derived from it."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from parley.workflow.design.binding import bound, digest_of, has_workflow, is_covered
from parley.workflow.model.terms import PLAN, SHARED_STATUS, TASK_ORCHESTRATION, instructions_of, session_of

COVERED = (PLAN, instructions_of("a"), "orchestration/conversation_summary_x.md", "orchestration/roles/new.md")
files = st.dictionaries(st.sampled_from(COVERED), st.none() | st.text(max_size=8))


def test_the_plan_its_instructions_summaries_and_drafts_are_covered() -> None:
    assert all(is_covered(path) for path in COVERED)
    derived = (
        SHARED_STATUS,
        TASK_ORCHESTRATION,
        session_of("a"),
        "orchestration/agents/a/task_output/agent_instructions.md",
    )
    assert not any(is_covered(path) for path in (*derived, "PLAN.md", "orchestration/roles/x/new.md"))


def test_only_what_agents_of_the_plan_are_told_is_covered() -> None:
    assert is_covered(instructions_of("a"), {"a"})
    assert not is_covered(instructions_of("solution_architect"), {"a"})


@given(files, files)
def test_two_blueprints_have_one_digest_only_if_they_are_the_same(
    one: dict[str, str | None], other: dict[str, str | None]
) -> None:
    assert (digest_of(one) == digest_of(other)) == (one == other)


@given(files, st.sampled_from(COVERED), st.text(max_size=4), st.text(max_size=4))
def test_where_a_text_ends_is_part_of_it(base: dict[str, str | None], path: str, head: str, tail: str) -> None:
    assume(tail)
    whole = {**base, path: head + tail}
    assert digest_of(whole) != digest_of({**base, path: head})


def test_a_bound_digest_tells_the_file_and_that_there_is_a_workflow() -> None:
    whole = bound("ab12", digest_of({PLAN: "x"}))
    assert (whole.startswith("ab12"), has_workflow(whole)) == (True, True)
    assert not has_workflow("ab12")
