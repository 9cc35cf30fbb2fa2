"""A turn is ended from outside within a second, and nothing of it is told afterwards."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, cast

import pytest

from parley.ports.turns import Called, Ended, Progress
from tests.apis.messages import Block, Turn
from tests.apis.script import Say, Slow, Use
from tests.claude.claude_harness import FROM, ClaudeHarness, until
from tests.claude.conftest import Perform

ROOT = Path(__file__).resolve().parents[2]
ENDLESS = "tail -f /dev/null -s 61.25"


def cancelled(stage: ClaudeHarness, turn: str) -> float:
    begun = time.monotonic()
    stage.runner.cancel(stage.job, turn)
    took = time.monotonic() - begun
    while not stage.events.empty():
        stage.next()
    assert not any(isinstance(event, Ended) and event.turn == turn for event in stage.told)
    told = len(stage.told)
    assert stage.events.empty()
    assert len(stage.told) == told
    return took


@pytest.mark.parametrize(
    "blocks",
    [[Use("Bash", {"command": f"{ENDLESS} & {ENDLESS}"}), Say("never")], [Slow(30), Say("never")]],
    ids=["in a tool", "in a response"],
)
def test_a_cancelled_turn_is_gone_within_a_second_and_is_remembered(perform: Perform, blocks: list[Block]) -> None:
    stage = perform(Turn("first", [Say("one")]), Turn("long", blocks), Turn("INTERVENE", [Say("I stopped")]))
    stage.play("first")
    order = stage.start("a long piece of work")
    if isinstance(blocks[0], Use):
        until(lambda: stage.processes(ENDLESS))
    else:
        until(lambda: len(stage.api.requests) == 2)

    took = cancelled(stage, order.turn)

    assert took < 1.0
    assert stage.processes(ENDLESS) == []
    ended = stage.play("[INTERVENE advisory] stop that")
    assert (ended.fault, ended.text) == ("", "I stopped")
    assert stage.prompts()[-2:] == ["a long piece of work", "[INTERVENE advisory] stop that"]


def test_a_turn_cancelled_while_it_waits_for_a_reply_goes_on_with_the_next(perform: Perform) -> None:
    stage = perform(Turn("call", [Use("Send", {"to": "x", "text": "y"}), Say("never")]), Turn("next", [Say("fine")]))
    order = stage.start("call")
    while not isinstance(stage.next(), Called):
        pass

    assert cancelled(stage, order.turn) < 1.0
    assert stage.play("next").text == "fine"


def test_a_turn_cancelled_at_once_leaves_no_process(perform: Perform) -> None:
    stage = perform(Turn("next", [Say("fine")]), Turn("go", [Slow(30), Say("never")]))

    order = stage.start("go")
    stage.runner.cancel(stage.job, order.turn)

    assert stage.processes() == []
    assert [event for event in stage.told if not isinstance(event, Progress)] == []
    ended = stage.play("next")
    assert ended.text == "fine"
    assert f"interrupted while you worked on this:)\n{FROM}go" in stage.prompts()[-1]
    assert stage.play("next again").fault == ""
    assert stage.prompts()[-1] == "next again"


def test_an_interrupted_turn_is_told_to_the_next_process_too(perform: Perform) -> None:
    stage = perform(
        Turn("first", [Say("one")]), Turn("stop", [Say("I stopped")]), Turn("long", [Slow(30), Say("never")])
    )
    stage.play("first")
    order = stage.start("a long piece of work")
    until(lambda: len(stage.api.requests) == 2)
    stage.runner.cancel(stage.job, order.turn)
    stage.runner.close()
    stage.runner = stage.new_runner()

    assert stage.play("[INTERVENE advisory] stop").text == "I stopped"
    assert stage.prompts()[0] == "first"
    assert stage.prompts()[1].startswith("[INTERVENE advisory] stop\n\n(You were interrupted")
    assert stage.prompts()[1].endswith("a long piece of work")


def test_a_message_that_is_given_again_finds_the_session_put_back(perform: Perform) -> None:
    stage = perform(
        Turn("first", [Say("one")]), Turn("again", [Say("two")]), Turn("work", [Say("begun"), Slow(30), Say("never")])
    )
    stage.play("first")
    order = stage.start("work")
    until(lambda: len(stage.api.requests) == 2)
    stage.runner.cancel(stage.job, order.turn)

    assert stage.play("work again", message_id=order.message_id).text == "two"
    assert stage.prompts() == ["first", "work again"]


def test_another_message_that_begins_the_same_goes_on_in_the_interrupted_session(perform: Perform) -> None:
    stage = perform(Turn("on", [Say("two")]), Turn("work", [Say("begun"), Slow(30), Say("never")]))
    order = stage.start("work")
    until(lambda: len(stage.api.requests) == 1)
    stage.runner.cancel(stage.job, order.turn)

    assert stage.play("work on").text == "two"
    assert stage.prompts() == ["work", "work on"]


def test_a_killed_engine_leaves_no_process_and_another_goes_on_from_its_handle(perform: Perform) -> None:
    stage = perform(
        Turn("first", [Say("one")]),
        Turn("endless", [Use("Bash", {"command": ENDLESS}), Say("never")]),
        Turn("second", [Say("two")]),
    )
    words = [stage.api.url, str(stage.workspace), str(stage.home), stage.job]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.claude.killed_engine", *words], cwd=ROOT, stdout=subprocess.PIPE
    ) as owner:
        handle = cast("IO[bytes]", owner.stdout).readline().decode()
        until(lambda: stage.processes(ENDLESS))
        owner.kill()
    until(lambda: not stage.processes())

    ended = stage.play("second", handle=handle)

    assert (ended.fault, ended.text) == ("", "two")
    assert stage.prompts() == ["first", "second"]
    assert json.loads(ended.handle)["turns"] == 2


def test_what_is_not_there_can_be_cancelled_and_closing_twice_is_fine(perform: Perform) -> None:
    stage = perform(Turn("go", [Say("hello")]))

    stage.runner.cancel(stage.job, "t99")
    stage.runner.reply(stage.job, "t99", 1, ok=True, text="late", data={})
    stage.runner.rest("j7")
    stage.runner.close()
    stage.runner.close()

    assert json.dumps(stage.told) == "[]"
