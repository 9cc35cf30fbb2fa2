"""Rows made into spans, where a whole job would take long: waits for a provider, pauses, stalls, a clock set back."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from parley.base.json_codec import Unreadable
from parley.bus.rows import JobRow, StepRow
from parley.engine.values.hold_causes import PAUSE, Budget, Cause, Stall, Wait
from parley.features.telemetry.job_trace import JobTrace
from parley.features.telemetry.span_values import SpanValue, span_of, trace_of
from parley.features.telemetry.vocabulary import Names
from parley.ports.telemetry import TOOL, MidTurn
from parley.protocol.codec import encode_term

ROW = JobRow(job="j1", request="x", decider="me", created=100.0, updated=100.0, agent="claude", settings="{}")
THREAD = "state:j1/1"
SENTENCE = "quota of Jane Doe is spent"


def step(number: int, rule: str, at: str, *, choice: str = "", consumed: str = "", produced: str = "", extra: str = "",
         time: float = 0.0) -> StepRow:  # fmt: skip
    return StepRow(
        number=number, transaction=number, rule=rule, who="orchestrator", time=time or 100.0 + number, at=at,
        choice=encode_term(choice), consumed=consumed, produced=produced, extra=extra,
    )  # fmt: skip


OPENED = step(1, "open", "j1", produced=f"Record j1 INTENT 1 0 0 0 0 0 0 {THREAD}")
WOKEN = step(2, "wake", f"lead {THREAD}", choice="t2", consumed=f"Idle lead {THREAD}",
             produced=f"Run lead {THREAD} m1 t2", extra='{"host":"local","day":"2026-01-01"}')  # fmt: skip


def read(*steps: StepRow, row: JobRow = ROW) -> JobTrace:
    trace = JobTrace(row, Names())
    for one in steps:
        trace.read(one, 1)
    return trace


def held(cause: str, thread: str = THREAD) -> tuple[StepRow, StepRow]:
    return step(3, "hold", thread, choice=cause), step(7, "release", thread, choice=cause)


def only(trace: JobTrace) -> SpanValue:
    (found,) = trace.spans
    return found


def test_a_wait_for_the_provider_within_a_turn_is_below_it_without_its_reason() -> None:
    found = only(read(OPENED, WOKEN, *held(Wait(200.0, "lead", "t2", SENTENCE).text)))

    assert (found.name, found.parent, found.ended - found.began) == (
        "wait provider",
        span_of(found.trace, "turn", "t2"),
        4,
    )
    assert found.attributes == {
        "parley.job.id": "j1", "parley.wait.cause": "provider", "parley.thread": THREAD, "parley.turn.id": "t2",
    }  # fmt: skip
    assert SENTENCE not in repr(found)


def test_a_parked_instance_waits_below_its_state() -> None:
    found = only(read(OPENED, *held(Wait(200.0, "lead", "", SENTENCE).text)))

    assert (found.name, found.parent) == ("wait provider", span_of(found.trace, "visit", "j1", "1"))


@pytest.mark.parametrize("cause, name", [(PAUSE, "wait pause"), (Budget("money", "job"), "wait budget")])
def test_what_holds_the_whole_job_is_below_the_job(cause: Cause, name: str) -> None:
    trace = read(OPENED, *held(cause.text, "job:j1"))

    assert (only(trace).name, only(trace).parent) == (name, trace.root)


def test_a_stall_is_below_the_turn_that_is_silent() -> None:
    assert only(read(OPENED, WOKEN, *held(Stall("t2", 90.0).text))).name == "wait stall"


def test_a_wait_ends_with_its_thread() -> None:
    hold, _ = held(Wait(200.0, "lead", "", "").text)

    assert only(read(OPENED, hold, step(9, "term-final", THREAD))).ended == 109.0


def test_a_clock_that_was_set_back_makes_no_span_end_before_it_began() -> None:
    hold, _ = held(PAUSE.text, "job:j1")
    early = step(4, "release", "job:j1", choice=PAUSE.text, time=50.0)

    assert only(read(OPENED, hold, early)).ended == only(read(OPENED, hold, early)).began


def test_the_model_that_a_role_asks_for_and_the_one_that_answered_are_told() -> None:
    settings = '{"roles": [{"name": "lead", "model": "opus"}], "model": "haiku"}'
    ended = step(3, "nosend-step", f"lead {THREAD}", consumed=f"Run lead {THREAD} m1 t2",
                 extra='{"turn":"t2","model":"claude-opus-4-5","fault":""}')  # fmt: skip
    found = only(read(OPENED, WOKEN, ended, row=replace(ROW, settings=settings))).attributes

    assert (found["gen_ai.request.model"], found["gen_ai.response.model"]) == ("opus", "claude-opus-4-5")
    assert found["gen_ai.provider.name"] == "anthropic"


def test_turns_of_our_own_code_have_no_span() -> None:
    begun = step(2, "wake", "orchestrator job:j1", choice="t2", produced="Run orchestrator job:j1 m1 t2")
    ended = step(3, "nosend-step", "orchestrator job:j1", consumed="Run orchestrator job:j1 m1 t2")

    assert read(OPENED, begun, ended).spans == []


def test_a_fault_and_a_name_that_is_a_sentence_are_not_told() -> None:
    lost = step(3, "recover", f"lead {THREAD}", choice="agent", consumed=f"Run lead {THREAD} m1 t2",
                extra=f'{{"turn":"t2","fault":"{SENTENCE}","model":"{SENTENCE}"}}')  # fmt: skip
    trace = read(OPENED, WOKEN, lost)
    trace.take(
        MidTurn(
            job="j1",
            epoch=1,
            turn="t2",
            agent="lead",
            number=1,
            kind=TOOL,
            name=SENTENCE,
            outcome="ok",
            began=1,
            ended=2,
        )
    )

    assert SENTENCE not in repr(trace.spans)
    assert SENTENCE not in repr(trace.measured)
    assert [one.attributes.get("gen_ai.tool.name") for one in trace.spans] == [None, "other"]


def test_jobs_of_one_name_have_traces_of_their_own() -> None:
    assert trace_of(ROW) == trace_of(replace(ROW, updated=200.0)) != trace_of(replace(ROW, created=100.5))


def test_rows_that_another_program_changed_are_refused() -> None:
    with pytest.raises(Unreadable):
        read(OPENED, step(3, "hold", THREAD, choice="[]"))
    with pytest.raises(Unreadable):
        read(step(1, "open", "j1", produced="Record j1 NOWHERE 1"))
    with pytest.raises(Unreadable):
        read(step(1, "open", "j1", produced="Record j1 INTENT first"))
