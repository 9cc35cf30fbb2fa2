"""An API that fails in mid-turn: the turn waits where it is, tells so, and goes on. Nothing is done twice."""

import time

import pytest

from parley.ports.turns import Called, Ended, Order, Waiting
from parley.runners.local_turns import LocalTurns
from tests.apis.messages import Fail, Turn
from tests.apis.script import Cut, Drop, Say, Slow, Use
from tests.claude.claude_harness import ClaudeHarness, until
from tests.claude.conftest import Perform

STEP = Use("Bash", {"command": "echo step >> steps.txt"})
ENDLESS = "tail -f /dev/null -s 61.75"
DEAD_PORT = "http://127.0.0.1:9"


def waits(stage: ClaudeHarness) -> list[Waiting]:
    return [event for event in stage.told if isinstance(event, Waiting)]


def reasons(stage: ClaudeHarness) -> list[str]:
    return [event.reason for event in waits(stage)]


def await_trouble(stage: ClaudeHarness) -> Waiting:
    while not isinstance(event := stage.next(), Waiting):
        assert not isinstance(event, Ended)
    return event


@pytest.mark.parametrize(
    "trouble, reason",
    [
        (Fail(429, retry_after=0.2, times=2), "a rate limit is reached (429)"),
        (Fail(502, times=1), "the API is down (502)"),
        (Drop(times=1), "the API broke off its answer"),
        (Cut(times=1), "the API broke off its answer"),
    ],
    ids=["429", "502", "broken", "broken behind a tool call"],
)
def test_trouble_in_mid_turn_loses_nothing_and_repeats_nothing(
    perform: Perform, trouble: Fail | Drop | Cut, reason: str
) -> None:
    stage = perform(Turn("go", [STEP, trouble, STEP, Say("end")]))

    ended = stage.play("go")

    assert (ended.fault, ended.text) == ("", "end")
    assert (stage.workspace / "steps.txt").read_text() == "step\n" * 2
    assert len(stage.api.requests) == 3 + trouble.times
    assert stage.prompts() == ["go"]
    assert reasons(stage) == [reason] * trouble.times + [""]


def test_an_api_that_goes_away_is_waited_for_and_told_of_at_once(perform: Perform) -> None:
    stage = perform(Turn("go", [STEP, Use("Send", {"to": "x", "text": "y"}), STEP, Say("end")]))
    order = stage.start("go")
    while not isinstance(stage.next(), Called):
        pass
    stage.api.go()
    gone = time.monotonic()
    stage.runner.reply(order.job, order.turn, 1, ok=True, text="taken", data={})
    event = await_trouble(stage)
    told = time.monotonic() - gone
    stage.api.come_back()
    while not isinstance(ended := stage.next(), Ended):
        pass

    assert event.reason == f"the API can't be reached: connection refused at {stage.api.url}"
    assert told < 3.0
    assert (ended.fault, ended.text) == ("", "end")
    assert (stage.workspace / "steps.txt").read_text() == "step\n" * 2
    assert len(stage.api.requests) == 4


def test_a_base_url_that_has_never_answered_may_be_wrong(perform: Perform) -> None:
    stage = perform(Turn("go", [Say("never")]))
    stage.runner.close()
    stage.environment["ANTHROPIC_BASE_URL"] = DEAD_PORT
    stage.runner = stage.new_runner()

    order = stage.start("go")
    told = await_trouble(stage)
    begun = time.monotonic()
    stage.runner.cancel(order.job, order.turn)

    assert told.reason == f"ANTHROPIC_BASE_URL may be wrong: connection refused at {DEAD_PORT}"
    assert time.monotonic() - begun < 1.0


def test_a_turn_that_waits_is_ended_at_once_and_the_next_goes_on(perform: Perform) -> None:
    stage = perform(
        Turn("go", [STEP, Fail(429, retry_after=3600), Say("never")]), Turn("INTERVENE", [Say("I stopped")])
    )
    order = stage.start("go")
    told = await_trouble(stage)

    begun = time.monotonic()
    stage.runner.cancel(order.job, order.turn)
    took = time.monotonic() - begun

    assert 3500 < told.until - time.time() < 3700
    assert took < 1.0
    assert stage.play("[INTERVENE advisory] stop that").text == "I stopped"
    assert stage.prompts() == ["go", "[INTERVENE advisory] stop that"]


def test_what_is_refused_after_trouble_is_still_refused(perform: Perform) -> None:
    stage = perform(Turn("go", [Fail(529, retry_after=0.1, times=1), Fail(401), Say("never")]))

    ended = stage.play("go")

    assert ended.fault.startswith("the API refused the login (401)")
    assert ended.hard


# ---- the time limit ------------------------------------------------------------------------------


def played(stage: ClaudeHarness, order: Order) -> Ended:
    """Run a turn under a clock, as the engine does."""
    turns = LocalTurns({"claude": stage.runner}, shortest_grace=20.0)
    turns.submit(order)
    while True:
        for event in turns.events(0.5):
            stage.told.append(event)
            if isinstance(event, Ended):
                return event


def test_a_turn_over_its_time_is_asked_to_wrap_up_and_then_counts_like_any_other(perform: Perform) -> None:
    slow = Use("Bash", {"command": "sleep 3"})
    stage = perform(Turn("first", [Say("one")]), Turn("go", [slow, Say("wrapped up")]), Turn("next", [Say("two")]))
    stage.play("first")

    ended = played(stage, stage.order("go", time_limit_seconds=2.0))

    assert (ended.fault, ended.text, ended.overtime) == ("", "wrapped up", False)
    assert "has reached its time limit of 2 s" in stage.api.requests[-1].body.decode()
    stage.handle = ended.handle
    assert stage.play("next").text == "two"


@pytest.mark.parametrize("where", ["in a tool", "in a response"])
def test_a_turn_that_is_stopped_keeps_its_files_and_its_session_up_to_the_last_whole_message(
    perform: Perform, where: str
) -> None:
    last = Use("Bash", {"command": ENDLESS}) if where == "in a tool" else Slow(60)
    stage = perform(Turn("RECOVERED", [Say("went on")]), Turn("go", [STEP, last, Say("never")]))
    order = stage.start("go", time_limit_seconds=2.0)
    until(lambda: stage.processes(ENDLESS) if where == "in a tool" else len(stage.api.requests) == 2)

    assert stage.runner.stop(order.job, order.turn)
    while not isinstance(ended := stage.next(), Ended):
        pass

    assert (ended.fault, ended.overtime) == ("it took longer than 2 s", True)
    assert stage.processes() == []
    stage.handle = ended.handle
    assert stage.play("go [RECOVERED]").text == "went on"
    assert [prompt for prompt in stage.prompts() if "interrupted" not in prompt] == ["go", "go [RECOVERED]"]
    assert stage.results()[0] == "(Bash completed with no output)"
    assert (stage.workspace / "steps.txt").read_text() == "step\n"
