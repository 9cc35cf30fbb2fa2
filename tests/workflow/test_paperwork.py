"""A worker's files follow from where it stands."""

from __future__ import annotations

from dataclasses import replace

from parley.workflow.contract import HEADING
from parley.workflow.paperwork import papers_of
from parley.workflow.record import read_record, record_of, render_record
from parley.workflow.rounds import read_round
from parley.workflow.session import read_session
from parley.workflow.terms import Plan, Round, Session, Standing, Status, Task, Worker

DOER = Worker("api_agent", Task.DOER, "coder", "user_api_1727539284", verifier="judge", owns=("api/**",))
JUDGE = Worker("judge", Task.VERIFIER, "reviewer")
PLAN = Plan("users", "sign up", {"api_agent": DOER, "judge": JUDGE}, (("api_agent",),))
SESSION = Session("user_api_1727539284", 1727539300)
ROUND = Round(1, "judge", "rejected", ("no tests",), (), 1727539400)
STANDING = Standing("api_agent", Status.WORKING, session=SESSION, rounds=(ROUND,))
HOME = "orchestration/agents/api_agent"


def test_a_worker_has_its_contract_its_notes_and_its_rounds() -> None:
    papers = papers_of(PLAN, DOER, STANDING, "Write it.")
    assert sorted(papers) == [
        f"{HOME}/completion_drive/session_current.json",
        f"{HOME}/task-base.md",
        f"{HOME}/verification/round_1.json",
    ]
    assert papers[f"{HOME}/task-base.md"].startswith(HEADING)
    assert read_session(papers[f"{HOME}/completion_drive/session_current.json"], "api_agent") == (SESSION, [])
    assert read_round(papers[f"{HOME}/verification/round_1.json"], "api_agent", 1) == (ROUND, [])


def test_a_complete_session_is_not_written_again() -> None:
    papers = papers_of(PLAN, DOER, replace(STANDING, status=Status.COMPLETE), "Write it.")
    assert not [path for path in papers if "session" in path]


def test_a_verifier_has_a_contract_and_no_session() -> None:
    assert list(papers_of(PLAN, JUDGE, Standing("judge"), "Judge it.")) == ["orchestration/agents/judge/task-base.md"]


def test_the_page_has_those_too_who_are_not_in_the_plan() -> None:
    more = Worker("solution_architect", Task.DOER, "solution-architect", "hash_choice_1727539500")
    record, _ = read_record(render_record(record_of(PLAN, {"api_agent": STANDING}, more=[more])))
    assert record is not None
    assert [one.agent for one in record.tracked] == ["api_agent", "solution_architect"]
    assert [one.agent for one in record.assigned] == ["api_agent", "judge", "solution_architect"]
