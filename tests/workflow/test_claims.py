"""Ownership as data: whoever asks, with the plan or with what a turn is given of it, gets the same answer."""

import json
from dataclasses import asdict

from hypothesis import given
from hypothesis import strategies as st

from parley.ports.turns import Claim, Site, unjudged
from parley.workflow.model.terms import Plan, Task, Worker
from parley.workflow.paths.claims import claims_of, refuse_at, scope_of
from parley.workflow.paths.ownership import refuse_write
from tests.workflow.reference_globs import paths, patterns

PATHS = st.sampled_from(paths(3))
NAMES = ("db", "api", "judge")
OWNED = st.lists(patterns, max_size=2).map(tuple)
DOERS = {
    name: st.builds(Worker, st.just(name), st.just(Task.DOER), owns=OWNED, forbids=OWNED, role=st.just("r"))
    for name in NAMES[:2]
}
JUDGE = st.builds(Worker, st.just("judge"), st.just(Task.VERIFIER), forbids=OWNED, role=st.just("r"))
PLANS = st.fixed_dictionaries({**DOERS, "judge": JUDGE}).map(lambda workers: Plan("t", "g", workers, ()))
PLACES = st.sampled_from(
    ["orchestration/agents/db/task_output/x", "orchestration/shared_status.json", "PLAN.md", ".GIT/x"]
)


@given(plan=PLANS, agent=st.sampled_from([*NAMES, "newcomer", ""]), path=PATHS | PLACES | st.text(max_size=8))
def test_the_tool_the_turns_end_and_the_merge_give_one_answer(plan: Plan, agent: str, path: str) -> None:
    site = Site("/w", worker=agent, claims=claims_of(plan))
    refusal = refuse_write(plan, agent, path)
    assert refuse_at(site, path) == (str(refusal) if refusal else "")
    assert scope_of(plan, agent).allowed(path) == (refusal.reason if refusal else "")


@given(plan=PLANS)
def test_what_a_turn_is_given_is_plain_data(plan: Plan) -> None:
    told = json.loads(json.dumps([asdict(claim) for claim in claims_of(plan)]))
    again = tuple(Claim(it["worker"], tuple(it["owns"]), tuple(it["forbids"])) for it in told)
    assert again == claims_of(plan)


def test_where_nobody_owns_anything_everything_may_be_written_and_where_nobody_can_judge_nothing() -> None:
    assert refuse_at(Site("/w"), "db/x") == unjudged(Site("/w"), "db/x") == ""
    assert "the answer is no" in unjudged(Site("/w", worker="db"), "db/x")
    assert "has no owner" in refuse_at(Site("/w", worker="db"), "db/x")
