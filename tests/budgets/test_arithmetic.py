"""Budgets as sums: what counts, what is left, what was raised."""

import json
import math
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.bus.rows import Spent, sum_of
from parley.engine.turn import start
from parley.engine.turn.start import day_of
from parley.engine.values.hold_causes import read
from parley.features.budgets import arithmetic
from parley.features.budgets.arithmetic import NOTICE_SHARE, BudgetLine, BudgetPart, Purse, amount_of, plain
from parley.settings.schema import DAY_BUDGETS, JOB_BUDGETS, BudgetSettings

NAMES = [*((what, "job") for what in JOB_BUDGETS), *((what, "day") for what in DAY_BUDGETS)]
amounts = st.integers(1, 10**9)
days = st.sampled_from(["2026-01-01", "2026-01-02"])
tallies = st.builds(Spent, **dict.fromkeys(("turns", "tokens", "micros", "millis"), st.integers(0, 10**12)))
purses = st.dictionaries(st.sampled_from(NAMES), amounts.map(float)).map(Purse)
anything = st.one_of(st.floats(), st.integers(), st.none(), st.text(), st.booleans())


@pytest.fixture
def zones(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    start._day.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    time.tzset()
    start._day.cache_clear()


# ---- what counts


@given(st.dictionaries(st.sampled_from(["input_tokens", "output_tokens", "cost_usd", "x"]), st.floats()))
def test_nothing_that_an_agent_reports_makes_a_sum_shrink_or_fail(usage: dict[str, float]) -> None:
    sound = plain(usage)

    assert all(math.isfinite(value) and value >= 0 for value in sound.values())
    assert arithmetic.tokens_of(sound) >= 0
    assert arithmetic.micros_of(sound) >= 0
    assert json.loads(json.dumps(sound, allow_nan=False)) == sound


@given(st.dictionaries(st.text(), anything))
def test_whatever_a_row_holds_is_counted_or_left_out(usage: dict[str, object]) -> None:
    assert arithmetic.tokens_of(usage) >= 0
    assert arithmetic.micros_of(usage) >= 0


def test_tokens_are_what_goes_in_what_comes_out_and_what_a_cache_is_given() -> None:
    usage = {"input_tokens": 10.0, "output_tokens": 5.0, "cache_creation_tokens": 3.0, "cache_read_tokens": 1000.0}

    assert arithmetic.tokens_of({**usage, "turns": 1.0, "context_used": 0.5}) == 18


@given(st.lists(st.builds(Spent, **dict.fromkeys(Spent.__struct_fields__, st.integers(0, 10**15)))))
def test_sums_are_exact_in_any_order(spent: list[Spent]) -> None:
    total = sum_of(spent)

    assert total == sum_of(reversed(spent))
    assert total.tokens == sum(each.tokens for each in spent)


# ---- days


@given(st.one_of(st.floats(-1e18, 1e18), st.integers(-(10**18), 10**18)))
def test_every_clock_has_a_day(now: float) -> None:
    assert day_of(now)


def test_a_day_is_the_users_own(zones: pytest.MonkeyPatch) -> None:
    moment = 1_800_000_000.0  # 08:00 in Greenwich
    seen = {}
    for zone in ("UTC", "Pacific/Kiritimati", "Pacific/Niue", "Asia/Kathmandu"):
        zones.setenv("TZ", zone)
        time.tzset()
        start._day.cache_clear()
        seen[zone] = day_of(moment)
        begins = next(second for second in range(0, 86400, 60) if day_of(moment + second) != seen[zone])
        assert time.localtime(moment + begins)[3:5] == (0, 0)

    assert len(set(seen.values())) > 1


# ---- what is left


@given(purses, tallies, tallies, days)
def test_a_budget_is_spent_exactly_when_as_much_is_used(purse: Purse, own: Spent, today: Spent, day: str) -> None:
    for line in purse.lines(own, today, day):
        used = amount_of(own if line.scope == "job" else today, line.what) if line.what != "parallel" else 0
        assert line.limit == purse.given[line.what, line.scope]
        assert line.used == used
        assert line.spent == (line.what != "parallel" and used >= line.limit)
        assert read(line.cause.text) == line.cause
        assert line.words()


@given(purses, st.lists(tallies, max_size=8), days)
def test_each_budget_is_told_of_once(purse: Purse, growth: list[Spent], day: str) -> None:
    own, told = Spent(), list[tuple[str, str]]()
    for more in growth:
        own = own.plus(more)
        lines = purse.lines(own, own, day)
        fresh = purse.news(lines, day)
        assert all(line.used >= NOTICE_SHARE * line.limit for line in fresh)
        told += [(line.what, line.scope) for line in fresh]
        near = [line for line in lines if line.used >= NOTICE_SHARE * line.limit and line.what != "parallel"]
        assert {(line.what, line.scope) for line in near} <= set(told)

    assert len(told) == len(set(told))


@given(purses, tallies, days, st.data())
def test_what_is_kept_of_a_purse_makes_the_same_one(purse: Purse, own: Spent, day: str, data: st.DataObject) -> None:
    snapshot: dict[str, dict[str, float]] = {"job": {}, "day": {}}
    for (what, scope), amount in purse.given.items():
        snapshot[scope][what] = amount
    for what, scope in purse.given:
        if data.draw(st.booleans()):
            option = what if scope == "job" else f"day.{what}"
            purse.lift({option: data.draw(st.sampled_from(["+5", "9", "+3"]))}, day)
    purse.news(purse.lines(own, own, day), day)

    again = Purse.of(BudgetPart(BudgetSettings(**snapshot)), purse.text())

    assert again == purse
    assert again.lines(own, own, day, 3) == purse.lines(own, own, day, 3)


# ---- raising


@given(st.sampled_from(NAMES), amounts, amounts)
def test_raising_adds_or_sets(name: tuple[str, str], before: int, more: int) -> None:
    what, scope = name
    option = what if scope == "job" else f"day.{what}"
    purse = Purse({name: float(before)})

    purse.lift({option: f"+{more}"}, "2026-01-01")
    assert purse.limit(what, scope, "2026-01-01") == before + more
    purse.lift({option: str(more)}, "2026-01-01")
    assert purse.limit(what, scope, "2026-01-01") == more
    tomorrow = before if scope == "day" else more
    assert purse.limit(what, scope, "2026-01-02") == tomorrow


def test_what_was_raised_is_told_of_again() -> None:
    purse, own = Purse({("turns", "job"): 10.0}), Spent(turns=9)
    assert [line.limit for line in purse.news(purse.lines(own, own, ""), "")] == [10.0]
    purse.lift({"turns": "+1"}, "")

    assert [line.limit for line in purse.news(purse.lines(own, own, ""), "")] == [11.0]
    assert purse.news(purse.lines(own, own, ""), "") == []


@pytest.mark.parametrize("words", [{"turns": "-1"}, {"turns": "+0"}, {"x": "1"}, {"turns": ""}, {"tokens": "+5"}])
def test_what_can_not_be_raised_changes_nothing(words: dict[str, str]) -> None:
    purse = Purse({("turns", "job"): 10.0})

    with pytest.raises(ValueError, match=r"budget|number"):
        purse.lift({"turns": "20", **words} if "turns" not in words else words, "")
    assert purse.limit("turns", "job", "") == 10.0


def test_lines_read_like_words() -> None:
    assert BudgetLine("turns", "job", 12, 40.0).words() == "12 of 40 turns"
    assert BudgetLine("tokens", "day", 1_234_567, 2e6).words() == "1,234,567 of 2,000,000 tokens today, in all jobs"
    assert BudgetLine("money", "job", 0.4, 5.0).words() == "0.40 of 5.00 USD"
    assert BudgetLine("minutes", "job", 1.26, 90.0).words() == "1.3 of 90 minutes"
    assert BudgetLine("parallel", "job", 2, 4.0).words() == "2 of 4 agents at once"
