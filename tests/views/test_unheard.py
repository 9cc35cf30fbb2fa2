"""Words that reached no agent: those who look again and again are told the same as those who read the whole job."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from parley.views.history import interventions, unheard
from tests.engine.job_harness import (
    INTENT,
    JOB,
    PLAN,
    JobHarness,
    always,
    asserts,
    book,
    on,
    outcome,
    say,
    sleep,
    write,
)

LEAD, HERE = "intent-lead", "state:j1/1"
SEEN = always("INTERVENE", say("seen"))
LINGERS = [INTENT[0], on(r"^\[ANSWER approve\]", outcome("APPROVED_INTENT"), sleep(9))]
LONG = [on(r"^\[INTENT\]", sleep(9), write("INTENT.md", "x"), asserts("INTENT.md"))]


def _left_by_a_transition(stage: JobHarness) -> JobHarness:
    stage.run().answer("approve").until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    return stage.intervene("only you", HERE, authoritative=False)


def _spoken_again(stage: JobHarness) -> JobHarness:
    return _left_by_a_transition(stage).run().intervene("again, then")


def _withdrawn(stage: JobHarness) -> JobHarness:
    stage.sleeping(LEAD).intervene("late words", HERE).crank()
    return stage.withdraw()


def _passed_on(stage: JobHarness) -> JobHarness:
    stage.run().answer("approve").until(lambda s: s.started(LEAD) == 2 and s.slept(LEAD))
    return stage.intervene("in German")


@pytest.mark.parametrize(
    "intent, play, left",
    [
        (LINGERS, _left_by_a_transition, 1),
        (LINGERS, _spoken_again, 0),
        (LINGERS, _passed_on, 0),
        (LONG, _withdrawn, 1),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_looking_again_after_each_commit_says_what_reading_the_whole_job_says(
    intent: list[dict[str, object]], play: Callable[[JobHarness], JobHarness], left: int
) -> None:
    stage = play(JobHarness(book(intent=intent, plan=[SEEN, *PLAN])))
    for _ in range(60):
        assert unheard.undelivered(stage.outside, JOB) == interventions.undelivered(stage.outside, JOB)
        stage.crank()
    assert len(unheard.undelivered(stage.outside, JOB)) == left
