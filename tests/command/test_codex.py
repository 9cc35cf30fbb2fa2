"""The real Codex CLI as an agent, behind the boundary, against a scripted Responses API on loopback."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from parley.ports.turns import Called, Ended, Waiting
from parley.runners.command import codex
from parley.settings.schema import BoundarySettings
from tests.apis.responses import Block, Fail, ResponsesAPI, Script, Turn, rate_limited, too_long
from tests.apis.script import Drop, Malformed, Say, Slow, Use
from tests.command.command_harness import CommandHarness

FOLDER = Path(__file__).resolve().parents[2] / ".codex" / "node_modules" / ".bin"
KEY = "sk-kept-outside"
LOOK_FOR_THE_KEY = """
found=$(cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c 'sk-kept-outsid[e]')
echo "found: $found $(grep -rl 'sk-kept-outsid[e]' "$HOME" . | grep -vc sessions)"
"""
Make = Callable[..., CommandHarness]
Serve = Callable[[Mapping[str, list[Turn]]], ResponsesAPI]


@pytest.fixture(autouse=True)
def _installed() -> None:
    if codex.find(str(FOLDER)) is None and os.environ.get("CI") != "true":
        pytest.skip("the Codex CLI is not here; `make .codex/installed` fetches it")


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Serve a script, for a key that only the outside knows."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    served: list[ResponsesAPI] = []

    def start(agents: Mapping[str, list[Turn]]) -> ResponsesAPI:
        served.append(ResponsesAPI(Script(agents), key=KEY).__enter__())
        return served[-1]

    yield start
    for api in served:
        api.__exit__(None, None, None)


def settings(api: ResponsesAPI, model: str = "gpt-5.5") -> dict[str, Any]:
    """Codex as it is known already, but with another upstream."""
    headers = {"Authorization": "Bearer $OPENAI_API_KEY"}
    return {
        "codex": {
            "folder": str(FOLDER),
            "model": model,
            "route": {"upstream": api.url, "headers": headers, "paths": ["/v1/responses"]},
        }
    }


# Models differ in how they call tools: one by one, or (the default one) from a program that they write.
@pytest.mark.parametrize("model", ["", "gpt-5.5"])
def test_codex_edits_a_file_sends_and_goes_on_with_its_session(stage: Make, serve: Serve, model: str) -> None:
    api = serve(
        {
            "coder": [
                Turn(
                    "write it",
                    [
                        Use("exec_command", {"cmd": "echo 'print(42)' > answer.py"}),
                        Use("exec_command", {"cmd": LOOK_FOR_THE_KEY}),
                        Use("Send", {"to": "tester", "text": "please run answer.py"}),
                        Use("exec_command", {"cmd": "parley tool Send --thread dispatcher 'from the shell'"}),
                        Say("It is written."),
                    ],
                ),
                Turn(
                    "what did you",
                    [Use("Send", lambda talk: {"text": "again", "thread": talk.last("dispatch:d[0-9]")})],
                ),
            ]
        }
    )
    here = stage(settings(api, model))

    first = here.play(here.order("codex", "Please write it: answer.py prints 42."))
    second = here.play(here.order("codex", "And what did you send?", handle=first.handle))

    assert (first.fault, second.fault) == ("", "")
    assert (here.workspace / "answer.py").read_text() == "print(42)\n"
    assert first.text == "It is written."
    assert [(call.turn, call.tool, dict(call.arguments)) for call in here.calls] == [
        ("t1", "Send", {"to": "tester", "text": "please run answer.py"}),
        ("t1", "Send", {"thread": "dispatcher", "text": "from the shell"}),
        ("t2", "Send", {"thread": "dispatch:d1", "text": "again"}),
    ]
    assert json.loads(first.handle)["session"] == json.loads(second.handle)["session"]
    # each request counts 1000 and 50: five in the first turn, two in the second
    assert (first.usage["input_tokens"], first.usage["output_tokens"]) == (5000, 250)
    assert (second.usage["input_tokens"], second.usage["output_tokens"]) == (2000, 100)
    assert first.boundary is not None
    assert first.boundary.ok
    assert "Send" in here.used
    assert api.refused == []
    assert "You are `coder`" in api.of("coder")[0].body.decode()
    assert b"found: 0 0" in api.requests[2].body
    assert not any(KEY.encode() in request.body for request in api.requests)


@pytest.mark.parametrize("model", ["", "gpt-5.5"])
def test_codex_is_offered_the_protocols_tools_and_none_that_leads_past_the_bus(
    stage: Make, serve: Serve, model: str
) -> None:
    api = serve({"coder": [Turn("go", [Say("done")])]})
    here = stage(settings(api, model))

    here.play(here.order("codex", "go", tools=("Send", "AskQuestion")))

    offered = api.requests[0].tools
    assert [name for namespace, name in offered if namespace == "mcp__parley"] == ["AskQuestion", "Send"]
    assert {"exec", "exec_command"} & {name for _, name in offered}
    assert not {"web_search", "spawn_agent", "image_generation", "create_goal", "tool_search"} & {
        name for _, name in offered
    }
    assert b"spawn_agent" not in api.requests[0].body


def test_codex_runs_without_a_boundary_too_where_the_user_gave_it_up(stage: Make, serve: Serve) -> None:
    api = serve({"coder": [Turn("go", [Use("Send", {"to": "x", "text": "y"}), Say("done")])]})
    here = stage(settings(api), boundary=BoundarySettings(accept="none"))

    ended = here.play(here.order("codex", "go"))

    assert (ended.fault, ended.text) == ("", "done")
    assert len(here.calls) == 1


def test_a_refused_call_reaches_the_model(stage: Make, serve: Serve) -> None:
    api = serve({"coder": [Turn("go", [Use("Send", {"to": "nobody", "text": "hello"}), Say("so be it")])]})
    here = stage(settings(api))

    def refuse(call: Called) -> tuple[bool, str, Mapping[str, Any]]:
        return False, "nobody is not in your team", {}

    ended = here.play(here.order("codex", "go"), refuse)

    assert ended.text == "so be it"
    assert "refused: nobody is not in your team" in api.requests[-1].body.decode()


@pytest.mark.parametrize(
    "trouble, fault",
    [
        (too_long(), "context window"),
        (Fail(401, "Incorrect API key provided.", code="invalid_api_key"), "Incorrect API key provided"),
    ],
    ids=["context too long", "no authentication"],
)
def test_what_the_api_will_not_do_is_a_fault_in_codex_own_words(
    stage: Make, serve: Serve, trouble: Block, fault: str
) -> None:
    api = serve({"coder": [Turn("go", [trouble, Say("never")])]})
    here = stage(settings(api))

    ended = here.play(here.order("codex", "go"))

    assert fault in ended.fault
    assert ended.parked_seconds == 0.0
    assert "\n" not in ended.fault


@pytest.mark.parametrize(
    "trouble",
    [Drop(times=1), Malformed(times=1), Fail(500, times=1), Slow(0.1), rate_limited(1, times=1)],
    ids=["dropped", "malformed", "server error", "slow", "rate limit"],
)
def test_codex_gets_over_what_passes(stage: Make, serve: Serve, trouble: Block) -> None:
    api = serve({"coder": [Turn("go", [trouble, Say("in the end")])]})
    here = stage(settings(api))

    ended = here.play(here.order("codex", "go"))

    assert (ended.fault, ended.text) == ("", "in the end")


def test_codex_waits_while_a_limit_lasts_and_is_ended_at_once(stage: Make, serve: Serve) -> None:
    api = serve({"coder": [Turn("go", [rate_limited(3600), Say("never")])]})
    here = stage(settings(api))
    order = here.order("codex", "go")
    here.start(order)
    while not isinstance(event := here.next(), Waiting):
        assert not isinstance(event, Ended)

    begun = time.monotonic()
    here.runner.cancel(order.job, order.turn)

    assert event.reason == "a rate limit is reached (429)"
    assert 3500 < event.until - time.time() < 3700
    assert time.monotonic() - begun < 5.0
    assert len(api.requests) == 1


def test_a_role_too_long_for_a_command_line_is_read_from_its_file(stage: Make, serve: Serve) -> None:
    api = serve({"coder": [Turn("says nothing", [Use("exec_command", {"cmd": "wc -c < $PARLEY_ROLE"}), Say("read")])]})
    here = stage(settings(api))

    ended = here.play(here.order("codex", "", role=json.dumps({"prompt": "x" * 300_000})))

    assert (ended.fault, ended.text) == ("", "read")
    assert b"300018" in api.requests[-1].body
    assert b"role.md: read it first" in api.requests[0].body


def test_a_session_that_is_gone_is_begun_anew(stage: Make, serve: Serve) -> None:
    api = serve({"coder": [Turn("go", [Say("done")], repeat=True)]})
    here = stage(settings(api))
    lost = json.dumps(
        {"agent": "codex", "session": "01a1e175-6c26-7aa0-9d37-3441d6db058f", "used": {"input_tokens": 9}}
    )

    ended = here.play(here.order("codex", "go", handle=lost))

    assert (ended.fault, ended.text) == ("", "done")
    assert json.loads(ended.handle)["session"] != json.loads(lost)["session"]
    assert ended.usage["input_tokens"] == 1000


def test_codex_that_was_cancelled_goes_on_from_where_its_last_turn_ended(stage: Make, serve: Serve) -> None:
    api = serve(
        {
            "coder": [
                Turn("first", [Say("one")]),
                Turn(
                    "second",
                    [Use("exec_command", {"cmd": "echo was-lost; sleep 1000", "yield_time_ms": 30000}), Say("never")],
                ),
                Turn("third", [Say("three")]),
            ]
        }
    )
    here = stage(settings(api))
    first = here.play(here.order("codex", "first"))
    second = here.order("codex", "second", handle=first.handle)
    here.start(second)
    while "sleep 1000" not in (here.progress or [""])[-1]:
        here.next()

    here.runner.cancel(second.job, second.turn)
    third = here.play(here.order("codex", "third", handle=first.handle))

    assert (third.fault, third.text) == ("", "three")
    assert [b"was-lost" in request.body for request in api.requests] == [False] * 3
    assert rb"\nfirst" in api.requests[-1].body


def test_codex_without_a_key_or_a_program_says_what_to_do(
    stage: Make, serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    api = serve({})
    here = stage(settings(api))
    monkeypatch.delenv("OPENAI_API_KEY")

    keyless = here.play(here.order("codex", "go"))

    assert keyless.hard
    assert keyless.fault == (
        "the agent codex: header Authorization: OPENAI_API_KEY is not set; set it where Parley is started"
    )
    assert codex.find(str(tmp_path)) is None
