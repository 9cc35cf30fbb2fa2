"""A worker's task begins with its contract, and nothing that is quoted in it passes for a part of it."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.workflow.files.contract import HEADING, render_contract
from parley.workflow.files.reading.markdown_codec import sections
from parley.workflow.model.terms import Acceptance, Plan, Remedy, Task, Worker
from tests.workflow.value_strategies import lists, texts

WORKER = Worker(
    "api_agent",
    Task.DOER,
    "coder",
    "user_api_1727539284",
    verifier="api_verifier",
    owns=("api/**",),
    forbids=("db/**",),
    objective="serve users",
    boundaries="no new packages",
    deliverable="the service",
    acceptance=Acceptance("answers in JSON", ("make api",)),
    stall_seconds=90.0,
    on_stall=Remedy.RESCOPE,
)
PLAN = Plan("user_management", "users can sign up", {"api_agent": WORKER}, (("api_agent",),))
PARTS = [
    "Goal of the whole",
    "Objective",
    "Boundaries",
    "Owned paths",
    "Forbidden paths",
    "Inputs",
    "Deliverable",
    "Outputs",
    "Acceptance",
    "Acceptance commands",
    "Checkpoints",
    "Verification",
    "Liveness",
]


def test_the_contract_says_all_that_was_agreed() -> None:
    text = render_contract(PLAN, WORKER, "Write the service.\n")
    assert text.startswith(f"{HEADING}\n")
    for said in (
        "> serve users",
        "> no new packages",
        "- `api/**`",
        "- `orchestration/agents/api_agent/task_output/**`",
        "- `db/**`",
        "> the service",
        "> answers in JSON",
        "- `make api`",
        "`api_verifier` verifies your work",
        "no sign of life for 90 seconds: you have stalled, and the answer is `re-scope`",
    ):
        assert f"\n{said}" in text or f"- {said}" in text
    assert text.endswith("\n## Task\n\nWrite the service.\n")


@settings(max_examples=50)
@given(texts, texts, texts, texts, lists, st.just("Do it."))
def test_no_text_of_the_plan_passes_for_a_part_of_the_contract(
    objective: str, boundaries: str, deliverable: str, bar: str, patterns: tuple[str, ...], instructions: str
) -> None:
    worker = replace(
        WORKER,
        objective=objective,
        boundaries=boundaries,
        deliverable=deliverable,
        owns=patterns,
        forbids=patterns,
        acceptance=Acceptance(bar, patterns),
    )
    found = sections(render_contract(PLAN, worker, instructions))[1:]
    assert [section.title for section in found] == ["Parent contract", *PARTS, "Task"]
