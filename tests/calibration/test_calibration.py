"""What the record of a human's decisions lets the proxy answer."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench import calibration as study
from parley.features.proxy.calibration import DAY, Case, PastDecision, Weights, decide

NOW = 2_000_000_000.0
CASE = Case(time=NOW, state="PLAN", kind="assert", predicted="approve", confidence=0.9, draw=1.0)
WEIGHTS = Weights()
STATES = ("INTENT", "PLAN", "EXECUTE", "")
KINDS = ("question", "assert")
SAYINGS = ("approve", "revise", "backtrack intent", "backtrack plan", "withdraw", "")


def decision(
    predicted: str, said: str = "", *, time: float = NOW - 3600, confidence: float = 0.9, state: str = "PLAN"
) -> PastDecision:
    """A decision in the case's state and kind, an hour ago; agreed unless something else was said."""
    said = said or predicted
    return PastDecision(
        time=time,
        state=state,
        kind="assert",
        predicted=predicted,
        confidence=confidence,
        said=said,
        agreed=predicted == said,
    )


def agreement(number: int = 60, *, time: float = NOW - 3600, confidence: float = 0.9) -> list[PastDecision]:
    """A long record of foreseen decisions, two thirds of them approvals."""
    verdicts = ["revise" if at % 3 == 2 else "approve" for at in range(number)]
    return [decision(verdict, time=time, confidence=confidence) for verdict in verdicts]


def willing(past: list[PastDecision], case: Case, weights: Weights = WEIGHTS) -> float:
    """The share of draws for which the case is answered."""
    return sum(decide(past, replace(case, draw=at / 10), weights).answer for at in range(11)) / 11


numbers = st.floats(allow_nan=True, allow_infinity=True)
shares = st.floats(0.0, 1.0)


def some(rng: random.Random) -> PastDecision:
    """A decision such as a record may hold: near in time, mostly in the case's state and kind, mostly foreseen."""
    predicted = rng.choice(SAYINGS + ("approve",) * 4 + ("revise",) * 2)
    said = rng.choice(SAYINGS) if rng.random() < 0.2 else predicted
    time = NOW - rng.uniform(0.0, 400.0) * DAY if rng.random() < 0.2 else NOW - 3600
    state, kind = rng.choice(STATES + ("PLAN",) * 4), rng.choice(("assert", *KINDS))
    confidence, likeness = rng.choice((0.5, 0.8, 0.9, 0.95, 1.0)), rng.choice((0.0, 0.0, 0.5, 1.0))
    return PastDecision(
        time=time,
        state=state,
        kind=kind,
        predicted=predicted,
        confidence=confidence,
        said=said,
        agreed=predicted == said,
        likeness=likeness,
    )


# Drawn once: what is tried is which of them come together, and in which order.
pasts = st.sampled_from([some(random.Random(at)) for at in range(400)])


def _joined(before: list[PastDecision], quiet: int, after: list[PastDecision]) -> list[PastDecision]:
    return [*before, *agreement(quiet), *after]


# Often with a long quiet stretch, so that something is answered at all.
records = st.builds(_joined, st.lists(pasts, max_size=12), st.integers(0, 80), st.lists(pasts, max_size=6))
cases = st.builds(
    Case,
    st.just(NOW),
    st.sampled_from(("PLAN", "EXECUTE")),
    st.just("assert"),
    st.sampled_from(("approve", "approve", "revise", "")),
    st.sampled_from((0.8, 0.9, 1.0)),
    st.just(1.0),
)


few = settings(max_examples=50)  # each tries many draws


# ---- whatever it is given ------------------------------------------------------------------------

anything = st.builds(PastDecision, numbers, st.text(), st.text(), st.text(), numbers, st.text(), st.booleans(), numbers)


@given(
    st.lists(st.one_of(anything, pasts), max_size=8),
    st.builds(Case, numbers, st.text(), st.text(), st.sampled_from((*SAYINGS, "?")), numbers, numbers),
    st.builds(Weights, numbers, numbers, numbers),
)
def test_nothing_breaks_it_and_what_it_says_can_be_shown(
    past: list[PastDecision], case: Case, weights: Weights
) -> None:
    found = decide(past, case, weights)
    assert 0.0 <= found.agreement <= 1.0
    assert 0.0 <= found.evidence < math.inf
    assert found.why
    assert "\n" not in found.why


@pytest.mark.parametrize(
    "case",
    [
        replace(CASE, confidence=math.nan),
        replace(CASE, confidence=1.5),
        replace(CASE, confidence=-0.1),
        replace(CASE, time=math.nan),
        replace(CASE, draw=math.nan),
        replace(CASE, predicted="fine"),
    ],
)
def test_a_case_that_makes_no_sense_is_asked(case: Case) -> None:
    assert decide(agreement(), CASE, WEIGHTS).answer
    assert not decide(agreement(), case, WEIGHTS).answer


@pytest.mark.parametrize(
    "weights", [Weights(math.nan), Weights(checked=math.nan), Weights(fresh_days=0.0), Weights(-1.0)]
)
def test_weights_that_make_no_sense_ask(weights: Weights) -> None:
    assert not decide(agreement(), CASE, weights).answer


@pytest.mark.parametrize("confidence", [math.nan, 7.0, math.inf])
def test_a_decision_with_a_broken_confidence_proves_nothing_but_casts_doubt(confidence: float) -> None:
    assert not decide(agreement(confidence=confidence), CASE, WEIGHTS).answer
    assert not decide([*agreement(), decision("approve", "revise", confidence=confidence)], CASE, WEIGHTS).answer


@pytest.mark.parametrize("time", [math.nan, math.inf, -math.inf])
def test_a_decision_at_no_time_proves_nothing_but_casts_doubt(time: float) -> None:
    assert not decide(agreement(time=time), CASE, WEIGHTS).answer
    assert not decide([*agreement(), decision("approve", "revise", time=time)], CASE, WEIGHTS).answer


# ---- evidence ------------------------------------------------------------------------------------


@given(cases)
def test_without_evidence_it_asks(case: Case) -> None:
    found = decide([], case, WEIGHTS)
    assert not found.answer
    assert found.why.startswith("too little evidence")


@few
@given(records, cases)
def test_old_evidence_alone_asks(past: list[PastDecision], case: Case) -> None:
    later = replace(case, time=NOW + 91 * DAY)
    assert not decide(past, later, WEIGHTS).answer


def test_stale_evidence_is_named() -> None:
    found = decide(agreement(), replace(CASE, time=NOW + 200 * DAY), WEIGHTS)
    assert found.why == "stale evidence: the last decision like it is 200 days old"


def test_a_long_record_of_agreement_answers() -> None:
    found = decide(agreement(), CASE, WEIGHTS)
    assert found.answer
    assert found.why == "agreed in 40 of 40 like it"
    assert decide(agreement(), replace(CASE, predicted="revise"), WEIGHTS).answer


def test_the_proxy_never_withdraws_by_itself() -> None:
    past = [*agreement(), *(decision("withdraw") for _ in range(50))]
    assert not decide(past, replace(CASE, predicted="withdraw"), WEIGHTS).answer


def test_other_states_and_kinds_are_no_evidence_by_themselves() -> None:
    past = agreement(300)
    assert not decide(past, replace(CASE, state="EXECUTE"), WEIGHTS).answer
    assert not decide(past, replace(CASE, kind="question"), WEIGHTS).answer


def test_agreement_at_higher_confidence_says_nothing_about_a_doubtful_case() -> None:
    assert not decide(agreement(300), replace(CASE, confidence=0.6), WEIGHTS).answer


def test_disagreement_at_low_confidence_leaves_the_confident_alone() -> None:
    assert decide([*agreement(), decision("approve", "revise", confidence=0.5)], CASE, WEIGHTS).answer


@pytest.mark.parametrize("days", [-1.0, 1.0])
def test_a_clock_that_is_a_day_off_changes_nothing(days: float) -> None:
    assert decide(agreement(), replace(CASE, time=NOW + days * DAY), WEIGHTS).answer


def test_a_clock_that_was_years_ahead_left_no_evidence() -> None:
    assert not decide(agreement(time=NOW + 3650 * DAY), CASE, WEIGHTS).answer


# ---- what is never the other way round -----------------------------------------------------------


@few
@given(records, cases, st.sampled_from((0.5, 0.8, 0.9)), st.sampled_from((0.0, 1.0)))
def test_an_agreement_more_never_makes_it_less_willing(
    past: list[PastDecision], case: Case, sure: float, like: float
) -> None:
    verdict = case.predicted
    more = PastDecision(
        time=NOW - 60,
        state=case.state,
        kind=case.kind,
        predicted=verdict,
        confidence=sure,
        said=verdict,
        agreed=True,
        likeness=like,
    )
    assert willing([*past, more], case) >= willing(past, case)


@few
@given(records, cases, st.sampled_from(SAYINGS), st.sampled_from((0.5, 0.8, 0.9, 1.0)))
def test_a_disagreement_more_never_makes_it_more_willing(
    past: list[PastDecision], case: Case, said: str, sure: float
) -> None:
    if said == case.predicted:
        return
    more = PastDecision(
        time=NOW - 60,
        state=case.state,
        kind=case.kind,
        predicted=case.predicted,
        confidence=sure,
        said=said,
        agreed=False,
    )
    assert willing([*past, more], case) <= willing(past, case)


@few
@given(records, cases, st.floats(0.1, 20.0), st.floats(1.0, 10.0))
def test_a_false_approval_that_weighs_more_never_answers_more(
    past: list[PastDecision], case: Case, weight: float, times: float
) -> None:
    assert willing(past, case, Weights(weight * times)) <= willing(past, case, Weights(weight))


@few
@given(records, cases, shares)
def test_no_less_than_the_set_share_is_checked(past: list[PastDecision], case: Case, checked: float) -> None:
    below = replace(case, draw=math.nextafter(checked, 0.0)) if checked else case
    assert not (checked and decide(past, below, Weights(checked=checked)).answer)


# ---- a change of mind ----------------------------------------------------------------------------


def test_one_fresh_refusal_of_what_was_approved_brings_asking_back_at_once() -> None:
    past = agreement(300)
    assert decide(past, CASE, WEIGHTS).answer
    found = decide([*past, decision("approve", "revise")], CASE, WEIGHTS)
    assert not found.answer
    assert found.why == "surprised lately: 0 agreements since"


def test_a_surprise_in_one_state_makes_the_others_ask() -> None:
    past = agreement(300)
    assert not decide([*past, decision("revise", "approve")], CASE, WEIGHTS).answer
    elsewhere = [replace(one, state="EXECUTE") for one in past]
    surprise = decision("approve", "revise", state="EXECUTE")
    assert not decide([*past, *elsewhere, surprise], CASE, WEIGHTS).answer


def test_trust_comes_back_by_new_agreement_only() -> None:
    past = [*agreement(300), decision("approve", "revise")]
    assert willing(past, replace(CASE, time=NOW + 30 * DAY)) == 0.0
    assert willing([*past, *agreement(8)], CASE) == 0.0
    assert 0.0 < willing([*past, *agreement(90)], CASE) < willing(agreement(300), CASE)


def test_a_proxy_that_foresees_no_refusal_may_not_approve() -> None:
    past = [decision("approve", "revise" if at % 20 == 19 else "") for at in range(400)]
    assert sum(one.agreed for one in past) == 380
    assert not decide([*past, *(decision("approve") for _ in range(15))], replace(CASE, draw=0.9), WEIGHTS).answer


# ---- simulated humans ----------------------------------------------------------------------------


def test_a_small_study_keeps_its_bounds() -> None:
    """Thirty humans of two kinds; the whole study is `make bench`."""
    steady, changing = study.KINDS[0], study.KINDS[1]

    def lives(human: study.Human) -> study.Lives:
        days = [list(study.gates(human, random.Random(f"small {at}"), study.GATES)) for at in range(30)]
        return [study.live(human, study.calibrated, day) for day in days]

    calm, turned = lives(steady), lives(changing)
    assert study.questions(calm, 50, study.GATES).share < 0.45
    assert study.false_approvals(calm, 50, study.GATES).share < 0.02
    assert study.false_approvals(turned, study.CHANGE, study.CHANGE + 10).share > 0.1
    assert study.false_approvals(turned, study.CHANGE + 20, study.GATES).share < 0.05


@pytest.mark.soak
@pytest.mark.parametrize("proxy", study.PROXIES, ids=[proxy.name for proxy in study.PROXIES])
def test_no_proxy_buys_few_questions_with_false_approvals(proxy: study.Proxy) -> None:
    lives = [study.endure(proxy, random.Random(f"soak {proxy.name} {at}"), study.GATES) for at in range(400)]
    found = study.false_approvals(lives, study.WARM, study.CHANGE)
    assert found.share - found.half < 0.025
