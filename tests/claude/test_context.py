"""What a turn costs, how full the context is, and what is done about it."""

import json

import pytest

from parley.adapters.roles import shipped, system_prompt, to_json
from tests.apis.messages import Turn, Usage
from tests.apis.script import Say, Use
from tests.claude.conftest import Perform
from tests.claude.stage import TOOLS

NO_DOERS = ("proxy", "workflow-architect")
LIMIT = 12_000  # bytes of a doer's first request, beyond the user's own content
WINDOW = 1_000_000
MODEL = "claude-opus-5-5"


def filled(share: float) -> Usage:
    return Usage(input_tokens=1000, cache_read_input_tokens=int(WINDOW * share) - 1010, output_tokens=10)


def test_usage_is_the_turn_s_own(perform: Perform) -> None:
    usage = Usage(input_tokens=1000, output_tokens=100, cache_read_input_tokens=5000, cache_creation_input_tokens=200)
    stage = perform(
        Turn("first", [Use("Bash", {"command": "true"}), Say("one")], usage=usage),
        Turn("second", [Say("two")], usage=usage),
        model=MODEL,
    )

    first, second = stage.play("first").usage, stage.play("second").usage
    stage.runner.rest(stage.job)
    third = stage.play("nothing is scripted for this").usage

    assert first == {
        "turns": 1,
        "input_tokens": 2000,
        "output_tokens": 200,
        "cache_read_tokens": 10_000,
        "cache_creation_tokens": 400,
        "cost_usd": pytest.approx(2 * second["cost_usd"]),
        "context_used": pytest.approx(6300 / WINDOW, abs=1e-4),
    }
    assert second["input_tokens"] == 1000
    assert 0 < second["cost_usd"] < 0.1
    assert third["cost_usd"] < first["cost_usd"] + second["cost_usd"] + 0.05
    assert third["output_tokens"] == 10


def test_a_context_that_fills_up_is_warned_of_then_summed_up_at_the_turn_boundary(perform: Perform) -> None:
    stage = perform(
        Turn("first", [Use("Bash", {"command": "echo keep this > ~/scratch.md"}), Say("one")], usage=filled(0.69)),
        Turn("second", [Say("two")], usage=filled(0.71)),
        Turn("third", [Say("three")], usage=filled(0.79)),
        Turn("fourth", [Say("four")], usage=filled(0.1)),
        Turn("fifth", [Say("five")]),
        model=MODEL,
    )

    used = [stage.play(message).usage["context_used"] for message in ("first", "second", "third")]

    assert used == pytest.approx([0.69, 0.71, 0.79])
    assert stage.api.asides == []
    first, second, third = stage.api.prompts()
    assert (first, second) == ("first", "second")
    assert third.startswith("third\n\n(Your context is 71% full")
    assert "/home/agent/scratch.md" in third

    stage.runner.rest(stage.job)
    ended = stage.play("fourth")

    assert (ended.fault, ended.text) == ("", "four")
    assert [aside.compacts for aside in stage.api.asides] == [True]
    messages = json.dumps(stage.api.requests[-1].document["messages"])
    assert "SUMMARY OF THE CONVERSATION" in messages
    assert "echo keep this" not in messages
    assert "keep this" in stage.api.prompts()[-1]
    assert ended.usage["input_tokens"] > 1000
    assert stage.play("fifth").text == "five"
    assert stage.api.prompts()[-1] == "fifth"


@pytest.mark.parametrize("model, name", [("", "coder"), ("sonnet", "reviewer")])
def test_a_doer_s_first_request_is_small(perform: Perform, model: str, name: str) -> None:
    stage = perform(Turn("hello", [Say("done")]), model=model, prompt=system_prompt)
    notes, message = "Tabs, never spaces.\n" * 100, "hello, please write a file\n" * 20
    role = to_json(shipped()[name]) | {"notes": notes}

    ended = stage.play(message, agent=name, role=json.dumps(role))

    assert ended.fault == ""
    (request,) = stage.api.requests
    assert request.system.count(role["prompt"]) == 1
    assert len(request.body) - len(json.dumps(notes)) - len(json.dumps(message)) <= LIMIT
    longest = max(
        len(system_prompt(to_json(one))) for one in shipped().values() if not one.team and one.name not in NO_DOERS
    )
    assert (
        len(request.body) - len(system_prompt(role)) + longest - len(json.dumps(notes)) - len(json.dumps(message))
        <= LIMIT
    )
    assert {tool.removeprefix("mcp__p__") for tool in request.tools} == {*role["tools"], *TOOLS}
    assert "run_in_background" not in request.body.decode()
    assert stage.api.asides == []
    assert stage.api.refused == []
