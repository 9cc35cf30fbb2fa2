"""What a turn costs, how full the context is, and what is done about it."""

import json
from functools import partial
from typing import Any

import pytest

from parley.assembly import roles
from parley.base.json_codec import encode
from parley.cli.running.job_runners import role_prompt
from parley.engine.values.job_roles import offered
from parley.ports.turns import Ended
from parley.protocol.states import LIVE, State
from parley.roles import shipped, snapshot_of
from parley.roles.phases import PHASES
from parley.roles.role_snapshot import TOOLS
from parley.roles.skill_anatomy import SKILLS
from parley.sandbox import Boundary
from tests.apis.messages import Request, Turn, Usage
from tests.apis.script import Say, Use
from tests.claude.claude_harness import ClaudeHarness
from tests.claude.conftest import Perform

DOER, LEAD = 9_000, 14_000  # bytes of a first request, the message included
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
    first, second, third = stage.prompts()
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
    assert "keep this" in stage.prompts()[-1]
    assert ended.usage["input_tokens"] > 1000
    assert stage.play("fifth").text == "five"
    assert stage.prompts()[-1] == "fifth"


# ---- the first request -----------------------------------------------------------------------------

ROLES = {entry.name: entry for entry in roles({name: snapshot_of(role) for name, role in shipped().items()}, {})}
MESSAGE = "Give `greet` in hello.py a parameter for the name."


def instance(
    stage: ClaudeHarness, name: str, skills: tuple[str, ...] = (), message: str = MESSAGE, **more: Any
) -> Request:
    """The first request of another instance of a role, as a job starts it."""
    order = stage.order(
        message,
        agent=name,
        role=encode(ROLES[name]),
        tools=offered(TOOLS, ROLES[name].team),
        skills=skills,
        time_limit_seconds=1800.0,
        handle="",
        home=str(stage.another_home()),
        thread=f"dispatch:d{stage.count}",
        **more,
    )
    stage.runner.start(order, stage.events.put)
    while not isinstance(event := stage.next(), Ended):
        pass
    assert event.fault == ""
    return stage.api.requests[-1]


@pytest.fixture
def team(perform: Perform, boundary: Boundary) -> ClaudeHarness:
    """Instances that say nothing, each told what a job tells it."""
    return perform(Turn("never", []), prompt=partial(role_prompt, boundary))


@pytest.mark.parametrize("name", ["coder", "tester", "researcher", "reviewer", "writer"])
def test_a_doers_first_request_is_small(team: ClaudeHarness, name: str) -> None:
    request = instance(team, name)

    assert len(request.body) <= DOER
    assert request.system.count(ROLES[name].prompt) == 1
    assert {tool for tool in request.tools if tool.startswith("mcp")} == {"mcp__p__AskQuestion"}
    assert "run_in_background" not in request.body.decode()
    assert team.api.asides == []
    assert team.api.refused == []


@pytest.mark.parametrize("state", LIVE)
def test_a_leads_first_request_is_small(team: ClaudeHarness, state: State) -> None:
    request = instance(team, PHASES[state].lead, (SKILLS[state],), f"[{state}] {MESSAGE}", by_code=True)

    assert len(request.body) <= LEAD
    assert [tool for tool in request.tools if tool.startswith("mcp")] == [f"mcp__p__{tool}" for tool in sorted(TOOLS)]
    assert "# The lead engineer" not in request.system
    assert "[DESIGN" not in request.system
    assert "[WORKFLOW" not in request.system


def test_two_instances_of_a_role_share_all_that_stands_before_their_messages(team: ClaudeHarness) -> None:
    one, other = instance(team, "coder", message="Part one"), instance(team, "coder", message="Part two")

    for part in ("tools", "system"):  # in this order they are the prefix that the provider caches
        assert json.dumps(one.document[part]) == json.dumps(other.document[part])
    assert one.document["system"][0]["text"].startswith("You are a Claude agent")
