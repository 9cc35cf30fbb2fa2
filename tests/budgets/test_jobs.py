"""Budgets in a job that is played by the whole engine, in the simulated world."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from parley.bus.rows import Spent
from parley.engine.values.hold_causes import budgets
from parley.features.budgets.arithmetic import SLOT, Purse
from parley.features.budgets.spending import Counter
from parley.views.history.chronicle import Follower
from parley.views.job_view import Present
from tests.engine.job_harness import (
    CRASH,
    JOB,
    ROOT,
    YES,
    Action,
    JobHarness,
    Rule,
    always,
    asserts,
    book,
    on,
    outcome,
    say,
    send,
    sleep,
    write,
)

DONE: list[Rule] = [
    always("done", write("WORK_SUMMARY.md", "the work"), asserts("WORK_SUMMARY.md"), state="EXECUTE"),
    always(r"^\[ANSWER approve\]", outcome("APPROVED_WORK"), state="EXECUTE"),
]
TO_EXECUTION = 6  # turns: each gate takes two of its lead and one of the proxy


def use(tokens: int = 0, cost: float = 0.0) -> Action:
    return {"usage": {"input_tokens": tokens, "cost": cost}}


def fan(count: int, *work: Action, human: list[Rule] | None = None) -> dict[str, Any]:
    """A job whose execution dispatches many at once."""
    start = on(r"^\[EXECUTE\]", *[send("coder", f"task {number}") for number in range(count)], state="EXECUTE")
    coder = [always(".", *work, say("done"))]
    return deepcopy(book(execute=[start, *DONE], coder=coder, human=YES if human is None else human))


def budget(scope: str = "job", /, **limits: float) -> dict[str, Any]:
    return {"budget": {"job": {}, "day": {}, scope: limits}}


def turns(stage: JobHarness) -> int:
    return len(list(stage.outside.turns(JOB)))


def spent(stage: JobHarness) -> Spent:
    (found,) = (stage.outside.load(JOB).spent or {}).values()
    return found


def held(stage: JobHarness) -> list[str]:
    return sorted(cause.document() for _, cause in budgets(stage.soup, ROOT))


def purse(stage: JobHarness) -> Purse:
    counter = stage.live.guests.find(Counter)
    assert counter is not None
    return counter.purse


def raise_to(stage: JobHarness, day: str = "", **words: str) -> JobHarness:
    return stage.put("resume", raised={name.replace("_", "."): word for name, word in words.items()}, day=day)


# ---- turns


@pytest.mark.parametrize("cap", range(1, 14))
def test_no_more_turns_start_than_the_cap_allows(cap: int) -> None:
    stage = JobHarness(fan(3), **budget(turns=cap)).run()

    assert turns(stage) == min(cap, len(stage.orders)) == cap
    assert held(stage) == ["budget turns job"]
    assert stage.outside.load(JOB).row.needs_human == 1
    raise_to(stage, turns="+40").run()
    assert stage.state == "DONE"
    assert stage.outside.load(JOB).row.needs_human == 0


def test_a_job_that_needs_exactly_its_budget_ends() -> None:
    free = JobHarness(fan(2)).run()
    exact = JobHarness(fan(2), **budget(turns=turns(free))).run()

    assert (free.state, exact.state) == ("DONE", "DONE")
    assert exact.fired("hold") == 0


def test_a_hundred_sparks_in_a_row_do_not_exceed_a_cap_by_one() -> None:
    cap = 30
    stage = JobHarness(fan(100), fan_out=200, time_limit_seconds=600, **budget(turns=cap)).run()

    sparked = stage.fired("spark")
    assert turns(stage) == cap
    assert len([text for text in stage.refusals if "no turn is left for it" in text]) == 100 - (cap - TO_EXECUTION - 1)
    assert sparked < 100
    assert held(stage) == ["budget turns job"]
    # and with room for all of them: no cap is met on the way; this lead asserts after every report
    room = budget(turns=500, parallel=7)
    wide = JobHarness(fan(100), fan_out=200, time_limit_seconds=600, exchanges=200, **room).run()
    assert wide.state == "DONE"
    assert not wide.refusals


def test_an_agent_is_told_why_it_may_not_dispatch() -> None:
    stage = JobHarness(fan(3), **budget(turns=TO_EXECUTION + 2)).run()

    assert [ok for ok, text in stage.replies if "will be sent to coder" in text] == [True]
    assert stage.refusals[0] == (
        "no turn is left for it: 7 of 8 turns are used, 1 more are planned; "
        "do it yourself, close what is open, or say what is missing"
    )


def test_lost_turns_count() -> None:
    play = book(execute=[on(r"^\[EXECUTE\]", send("coder", "go")), *DONE], coder=[always(".", CRASH)], human=YES)
    stage = JobHarness(play, **budget(turns=TO_EXECUTION + 3)).run()

    assert turns(stage) == TO_EXECUTION + 3
    assert held(stage) == ["budget turns job"]


def test_interrupted_turns_count_and_an_interrupt_waits_where_none_is_left() -> None:
    play = book(intent=[on(r"^\[INTENT\]", sleep(20), say("so")), always(".", say("heard"))])
    stage = JobHarness(play, **budget(turns=1)).sleeping("intent-lead")
    stage.intervene("stop that", stage.thread("intent-lead"), now=True).crank(0.0)

    assert turns(stage) == 1  # the interrupt would have been the second
    assert held(stage) == ["budget turns job"]
    raise_to(stage, turns="2").run()
    assert [message.partition("\n")[0] for message in stage.told("intent-lead")][1].startswith("[INTERVENE advisory]")
    assert turns(stage) == 2


def test_pending_is_nobodys_fault_where_no_turn_is_left() -> None:
    play = book(intent=[on(r"^\[INTENT\]", say("nothing"))])
    stage = JobHarness(play, **budget(turns=1)).run()

    assert held(stage) == ["budget turns job"]
    assert stage.fired("pending") == stage.fired("strike") == 0


# ---- tokens, money, time


@pytest.mark.parametrize(
    "limits, what", [({"tokens": 100}, "tokens"), ({"money": 0.1}, "money"), ({"minutes": 0.5}, "minutes")]
)
def test_what_is_used_up_holds_before_the_next_turn(limits: dict[str, float], what: str) -> None:
    play = fan(1)
    play["agents"]["intent-lead"][0]["do"].insert(0, use(60, 0.06))
    play["agents"]["intent-lead"][0]["do"].insert(0, sleep(25))
    play["agents"]["project-lead"][0]["do"].insert(0, use(60, 0.06))
    play["agents"]["project-lead"][0]["do"].insert(0, sleep(25))
    stage = JobHarness(play, **budget(**limits)).run()

    assert held(stage) == [f"budget {what} job"]
    assert stage.state == "PLAN"
    raise_to(stage, **{what: "+1000"}).run()
    assert stage.state == "DONE"
    assert (spent(stage).tokens, spent(stage).micros) == (120, 120_000)


def test_a_subscription_without_costs_is_bounded_by_tokens() -> None:
    play = fan(1)
    play["agents"]["intent-lead"][0]["do"].insert(0, use(1000, 0.0))
    stage = JobHarness(play, **budget(money=0.01, tokens=1000)).run()

    assert held(stage) == ["budget tokens job"]


def test_what_a_lost_turn_used_is_paid_for() -> None:
    stage = JobHarness(fan(1), **budget(tokens=100)).running("intent-lead")
    order = stage.order("intent-lead")
    stage.turns.running.pop((JOB, order.turn)).alive = False
    from_runner = {"turns": 1.0, "input_tokens": 70.0, "output_tokens": 30.0, "cost_usd": float("nan")}
    stage.lost(order, from_runner).run()

    assert (spent(stage).tokens, spent(stage).micros) == (100, 0)
    assert held(stage) == ["budget tokens job"]


def test_only_time_at_work_counts_and_no_time_twice() -> None:
    stage = JobHarness(fan(3, sleep(60), human=[]), **budget(minutes=1000, parallel=3), time_limit_seconds=600)
    stage.until(lambda s: s.live.standing.asking).wait(3600)
    assert stage.live.used.millis < 10_000  # the human has slept for an hour, and nobody else worked
    for _ in range(2):
        stage.approve()
    stage.until(lambda s: s.live.standing.asking)
    worked = stage.live.used.millis / 1000
    assert 60 <= worked < 75  # three slept for a minute, side by side
    stage.withdraw().run()
    assert spent(stage).millis == stage.live.used.millis


# ---- side by side


@pytest.mark.parametrize("parallel", [1, 2, 3])
def test_no_more_agents_are_at_work_at_once_than_allowed(parallel: int) -> None:
    stage = JobHarness(fan(6, sleep(3)), fan_out=6, **budget(parallel=parallel))
    most = 0
    stage.start()
    while stage.live.record.live:
        stage.crank()
        most = max(most, len(stage.turns.running))

    assert most == parallel
    assert stage.state == "DONE"
    assert stage.fired("hold") == 0


def test_who_waited_longest_goes_first_and_the_proxy_before_all() -> None:
    asks = always("task 1", {"ask": {"text": "which?"}})
    start = on(r"^\[EXECUTE\]", *[send("coder", f"task {number}") for number in range(1, 6)], state="EXECUTE")
    play = book(execute=[start, *DONE], coder=[asks, always(".", sleep(2), say("done"))], human=YES)
    stage = JobHarness(play, fan_out=9, **budget(parallel=1)).run()

    assert stage.state == "DONE"
    execution = [order for order in stage.orders if order.state == "EXECUTE"][1:]
    tasks = [order.message for order in execution if order.message.startswith("task")]
    assert tasks == [f"task {number}" for number in range(1, 6)]
    assert [order.agent for order in execution][:2] == ["coder", "proxy"]


# ---- notices


def test_at_four_fifths_it_is_told_once() -> None:
    stage = JobHarness(fan(2), **budget(turns=10)).run()

    events = [event for event in Follower(stage.outside, JOB).read() if event.kind == "budget"]
    assert [event.text for event in events] == ["the budget is nearly spent: 8 of 10 turns, with this turn"]
    (hold,) = [event.text for event in Follower(stage.outside, JOB).read() if event.kind == "hold"]
    assert hold == "the budget of turns is spent: it waits for you"
    raise_to(stage, turns="+1").run()
    events = [event for event in Follower(stage.outside, JOB).read() if event.kind == "budget"]
    assert [event.text for event in events][1:] == ["the budget is nearly spent: 11 of 11 turns, with this turn"]


# ---- crashes


@pytest.mark.parametrize("number", range(1, 60, 4))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_anywhere_loses_no_spending(number: int, when: str) -> None:
    stage = JobHarness(fan(3), **budget(turns=10)).die_at("", number, when).run()

    assert turns(stage) == spent(stage).turns == stage.live.used.turns == 10
    assert held(stage) == ["budget turns job"]
    stage.kill()
    raise_to(stage, turns="+40").run()
    assert stage.state == "DONE"
    assert spent(stage).turns == turns(stage)


def test_what_was_raised_and_told_of_survives_a_crash() -> None:
    stage = JobHarness(fan(3), **budget(turns=10)).run()
    raise_to(stage, turns="+2").run()
    before = purse(stage)
    stage.kill()
    stage.adopt()

    assert purse(stage) == before
    assert json.loads(stage.live.kept[SLOT])["raised"] == [["turns", "job", 12.0, ""]]
    assert held(stage) == ["budget turns job"]
    stage.check()


# ---- while it is held


def hold_it() -> JobHarness:
    return JobHarness(fan(1), **budget(turns=TO_EXECUTION)).run()


def test_raising_too_little_says_what_is_still_spent() -> None:
    stage = JobHarness(fan(1), **budget(turns=3)).run()
    raise_to(stage, turns="2").run()

    assert stage.notes()[-1] == "raised; still spent: 3 of 2 turns"
    assert held(stage) == ["budget turns job"]


def test_resuming_without_raising_does_nothing() -> None:
    stage = hold_it()
    stage.resume().run()

    assert stage.notes()[-1] == "too late: a budget is spent, and it was not raised"
    assert held(stage) == ["budget turns job"]


@pytest.mark.parametrize(
    "body",
    [{"raised": {"turns": "-3"}}, {"raised": {"turns": "nan"}}, {"raised": {"x": "1"}}, {"raised": "turns"},
     {"raised": {"tokens": "+3"}}, {"raised": ["turns"]}],
)  # fmt: skip
def test_nonsense_raises_nothing(body: dict[str, Any]) -> None:
    stage = hold_it()
    stage.put("resume", **body).run()

    assert stage.notes()[-1].startswith("too late: ")
    assert held(stage) == ["budget turns job"]


def test_what_stands_in_for_the_human_never_raises_a_budget() -> None:
    stage = JobHarness(fan(1, human=[]), yes=True, **budget(turns=3)).run()

    assert held(stage) == ["budget turns job"]
    assert turns(stage) == 3


def test_it_can_be_withdrawn() -> None:
    stage = hold_it().withdraw().run()

    assert stage.state == "WITHDRAWN"
    assert stage.outside.load(JOB).row.needs_human == 0


def test_it_can_be_paused_besides() -> None:
    stage = hold_it().pause().run()
    assert Present(stage.outside, JOB).paused
    raise_to(stage, turns="+40").run()

    assert stage.state == "DONE"


def test_a_question_can_be_answered() -> None:
    stage = JobHarness(fan(1, human=[]), **budget(turns=2)).until(lambda s: s.live.standing.asking).approve()

    assert held(stage) == ["budget turns job"]
    assert Present(stage.outside, JOB).questions() == []
    raise_to(stage, turns="+1").run()
    assert stage.orders[-1].agent == "intent-lead"  # the verdict went back without a turn of the proxy


# ---- the day


def today(stage: JobHarness) -> str:
    return next(iter(stage.outside.load(JOB).spent or {}))


def test_a_days_budget_is_released_by_the_next_day() -> None:
    stage = JobHarness(fan(1), **budget("day", turns=5)).run()
    assert held(stage) == ["budget turns day"]
    assert turns(stage) == 5
    stage.clock.time += 86400
    stage.run()

    assert turns(stage) == 10
    assert held(stage) == ["budget turns day"]
    assert [each.turns for each in (stage.outside.load(JOB).spent or {}).values()] == [5, 5]
    stage.kill()
    stage.clock.time += 86400
    stage.run()
    assert stage.state == "DONE"


def test_a_days_budget_can_be_raised_for_that_day() -> None:
    stage = JobHarness(fan(1), **budget("day", turns=5)).run()
    raise_to(stage, today(stage), day_turns="+1").run()
    assert turns(stage) == 6
    stage.clock.time += 86400
    stage.run()

    assert turns(stage) == 11


@pytest.mark.parametrize("jump", [-86400.0 * 400, -3600.0, 3600.0, 86400.0 * 400, -1_800_000_000.0, 1e15, -1e15])
def test_a_clock_that_jumps_loses_no_spending(jump: float, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = JobHarness(fan(2), budget={"job": {"turns": 12, "minutes": 1000}, "day": {"turns": 100}})
    stage.until(lambda s: len(s.orders) >= 4)
    told: Callable[[], float] = stage.clock.now
    monkeypatch.setattr(stage.clock, "now", lambda: told() + jump)
    stage.run()

    days = stage.outside.load(JOB).spent or {}
    assert sum(each.turns for each in days.values()) == turns(stage) == 12
    assert sum(each.millis for each in days.values()) == stage.live.used.millis < 3600_000
    assert held(stage) == ["budget turns job"]
