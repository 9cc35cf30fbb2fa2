"""What the real runners hear: whatever a program in its cage writes, the engine can use it, or that turn is lost."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from claude_agent_sdk import ClaudeSDKError, Message
from claude_agent_sdk._internal.message_parser import parse_message
from hypothesis import given, settings
from hypothesis import strategies as st

from parley.adapters.claude.homes import Home
from parley.adapters.claude.results import Fault, Lost, fault_of, window_of
from parley.adapters.claude.turn import Turn
from parley.adapters.claude.wire import Wire
from parley.adapters.command import rollout
from parley.adapters.command.hatch import Hatch
from parley.adapters.command.output import TEXT_LIMIT, CodexJson, Text, parked
from parley.adapters.files import JobFiles
from parley.engine.intake import heard
from parley.engine.records import line, quote, read_line
from parley.ports import Called, Ended, Order, Progress, Site, TurnEvent, Waiting
from parley.text import printable
from tests.fuzz import hostile
from tests.fuzz.hostile import places, spoilt

SECONDS = 30.0
ORDER = Order(
    "t1", "j1", 1, "token", "coder", "dispatch:d", "m", "lead", "EXECUTE", 1, Site("/nowhere"), "/nowhere", "", True,
    60.0, (),
)  # fmt: skip
USED = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3}
SAID: tuple[dict[str, Any], ...] = (
    {"type": "assistant", "uuid": "u", "parent_tool_use_id": None, "session_id": "s", "message": {
        "role": "assistant", "model": "m", "usage": USED, "content": [
            {"type": "text", "text": "hello"},
            {"type": "tool_use", "id": "x", "name": "mcp__parley__Send", "input": {"command": "ls"}}]}},
    {"type": "user", "uuid": "u", "parent_tool_use_id": None, "session_id": "s", "message": {
        "role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "y", "is_error": False}]}},
    {"type": "system", "subtype": "init", "session_id": "s", "mcp_servers": [{"name": "parley", "status": "ok"}]},
    {"type": "system", "subtype": "api_retry", "session_id": "s", "retry_delay_ms": 5, "error_status": 429},
    {"type": "stream_event", "uuid": "u", "session_id": "s", "parent_tool_use_id": None,
     "event": {"type": "message_delta", "usage": {"output_tokens": 5}}},
    {"type": "rate_limit_event", "uuid": "u", "session_id": "s",
     "rate_limit_info": {"status": "rejected", "resetsAt": 1}},
    {"type": "result", "subtype": "success", "duration_ms": 1, "duration_api_ms": 1, "is_error": True, "num_turns": 1,
     "session_id": "s", "result": "done", "api_error_status": 500, "errors": ["e"], "usage": USED,
     "permission_denials": [{"tool_name": "Bash", "tool_use_id": "x", "tool_input": {"command": "ls"}}],
     "model_usage_since_last_result": {"m": {"inputTokens": 1, "costUSD": 0.5}},
     "modelUsage": {"m": {"contextWindow": 200000}}},
)  # fmt: skip
CODEX: tuple[dict[str, Any], ...] = (
    {"type": "thread.started", "thread_id": "t"},
    {"type": "item.started", "item": {"id": "i", "type": "command_execution", "command": "ls", "status": "begun"}},
    {"type": "item.completed", "item": {"id": "i", "type": "mcp_tool_call", "tool": "Send", "server": "parley"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "hello"}},
    {"type": "item.completed", "item": {"type": "file_change", "changes": [{"path": "a", "kind": "add"}]}},
    {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 2}},
    {"type": "turn.failed", "error": {"message": "try again in 5 s"}},
)  # fmt: skip


@st.composite
def lines(draw: st.DrawFn, events: tuple[dict[str, Any], ...]) -> bytes:
    """A line of a stream: an event in which something is not as it should be, or anything else."""
    if draw(st.integers(0, 3)) == 0:
        return draw(hostile.contents | hostile.outcomes).replace(b"\n", b" ")
    event = draw(st.sampled_from(events))
    changed = spoilt(event, draw(st.sampled_from(list(places(event)))), draw(hostile.values))
    return json.dumps(changed).encode()


def streams(events: tuple[dict[str, Any], ...]) -> st.SearchStrategy[bytes]:
    """What a program writes."""
    return st.lists(lines(events), max_size=8).map(b"\n".join)


def usable(events: list[TurnEvent]) -> None:
    """All that is told can be used by the engine."""
    for event in events:
        repr(heard(event)).encode()


ANY = hostile.values


@given(ANY, ANY, ANY, ANY, st.dictionaries(hostile.words, ANY, max_size=3))
def test_an_event_with_anything_in_place_of_its_texts_is_one_that_the_engine_can_use(
    one: Any, two: Any, three: Any, four: Any, usage: dict[str, Any]
) -> None:
    usable(
        [
            Called("j1", "t1", one, 1, two, {}),
            Progress("j1", "t1", one, two, three),
            Waiting("j1", "t1", one, two),
            Ended("j1", "t1", 1, one, two, usage, three, (four,), model=four, parked_seconds=one, remembered=two),
        ]
    )


LINE_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"  # besides the line feed: what Python takes for one
broken = st.lists(st.sampled_from([*LINE_ENDS, "7", "[" * 5000, "{}", '"', "\u202e\x7f", "x"]), max_size=6).map("".join)


@given(st.lists(hostile.words | broken, min_size=1, max_size=4))
def test_a_stream_is_read_line_by_line_as_it_was_written_and_commands_no_terminal(said: list[str]) -> None:
    texts = [event.text for text in said if isinstance(event := heard(Progress("j1", "t1", text)), Progress)]
    with hostile.folder() as home:
        files = JobFiles(home)
        (home / "jobs").mkdir()
        files.append("j1", "s.jsonl", [line(1.0, "t1", "call", f'"call":{quote(text)}') for text in texts])
        read = files.tail("j1", "s.jsonl")

    assert [read_line(one).get("call") for one in read] == texts
    assert [printable(one) for one in read] == read


# ---- Claude Code ---------------------------------------------------------------------------------


def speaking(said: bytes) -> subprocess.Popen[bytes]:
    """A process that writes these bytes."""
    with tempfile.TemporaryFile() as file:
        file.write(said)
        file.seek(0)
        return subprocess.Popen(
            ["sh", "-c", f"exec cat <&{file.fileno()}"], pass_fds=(file.fileno(),),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip


def understood(message: dict[str, Any]) -> Message | None:
    """What the SDK makes of a message. It checks little: what it stumbles over costs the turn."""
    try:
        return parse_message(message)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise Lost(Fault(f"the runner failed: {error}")) from error


async def listen(process: subprocess.Popen[bytes], turn: Turn) -> None:
    """Hear a process, as an instance does."""
    wire = Wire(process, turn.overhear)
    await wire.connect()
    try:
        async for message in wire.read_messages():
            if (parsed := understood(message)) is not None:
                turn.take_in(parsed)
    finally:
        await wire.close()


@settings(max_examples=60)
@given(streams(SAID))
def test_whatever_claude_code_writes_the_engine_can_use_or_the_turn_is_lost(said: bytes) -> None:
    events: list[TurnEvent] = []
    turn = Turn(ORDER, events.append)
    with speaking(said) as process, suppress(ClaudeSDKError, Lost):
        asyncio.run(listen(process, turn))
    faults = [fault_of(result, turn.wait_seconds, 0) for result in turn.results]
    assert all(window_of(result, turn.model) >= 0 for result in turn.results)
    usable([*events, turn.ended(text=turn.last, fault=faults[-1] if faults else None, boundary={})])


# ---- the programs of the settings ----------------------------------------------------------------


def call(given: tuple[str, dict[str, Any]]) -> bytes:
    """A call of a tool with the turn's token."""
    return json.dumps({"token": ORDER.token, "tool": given[0], "arguments": given[1]}).encode()


@given(streams(CODEX), st.integers(1, 50))
def test_whatever_a_program_prints_the_engine_can_use(said: bytes, size: int) -> None:
    told: list[TurnEvent] = []
    codex = CodexJson(lambda text, tool, use, over: told.append(Progress("j1", "t1", text, tool, use, over)))
    text = Text("session ([^ ]+)|(x)")
    for start in range(0, len(said), size):
        codex.take(said[start : start + size])
        text.take(said[start : start + size])
    codex.take(b"\n")
    for heard_of in (codex, text):
        usage, totals = heard_of.usage({"input_tokens": 5.0})
        ended = Ended("j1", "t1", 1, heard_of.text(), heard_of.session, usage, heard_of.fault)
        usable([*told, replace(ended, parked_seconds=parked(heard_of.fault))])
        assert len(heard_of.text()) <= TEXT_LIMIT
        json.dumps(totals, allow_nan=False)


@settings(max_examples=40)
@given(hostile.names, hostile.contents | streams(CODEX), st.integers(-5, 10**20))
def test_whatever_lies_where_codex_keeps_a_session_is_a_session_or_none(name: bytes, data: bytes, length: int) -> None:
    with hostile.folder() as home:
        place = home / ".codex" / "sessions" / "2026" / "01"
        place.mkdir(parents=True)
        (place / "rollout-s1.jsonl").write_bytes(data)
        (place.parent / os.fsdecode(name)).symlink_to(place)

        size = rollout.size(str(home), "s1")

        assert size == (data.rfind(b"\n") + 1)
        assert rollout.put_back(str(home), "s1", length)
        assert rollout.size(str(home), "s1") <= size


@settings(max_examples=30)
@given(st.lists(st.tuples(hostile.tools, hostile.objects).map(call) | hostile.contents | lines(CODEX), max_size=6))
def test_whatever_comes_through_the_hatch_is_a_call_or_is_refused(said: list[bytes]) -> None:
    calls: list[TurnEvent] = []
    with opened(calls) as place:
        for data in said:
            with socket.socket(socket.AF_UNIX) as one:
                one.settimeout(SECONDS)
                one.connect(place)
                one.sendall(data.replace(b"\n", b" ") + b"\n")
                answer = json.loads(one.makefile("rb").readline())
                assert answer["ok"] == (answer["text"] == "taken"), answer
    usable(calls)


@contextmanager
def opened(calls: list[TurnEvent]) -> Iterator[str]:
    """A hatch that takes every call, and where it is."""
    with hostile.folder() as home:
        folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        ready = threading.Event()

        def take(number: int, tool: str, arguments: Mapping[str, Any]) -> None:
            ready.wait(SECONDS)
            calls.append(Called("j1", "t1", ORDER.token, number, tool, arguments))
            hatch.reply(number, True, "taken", {})

        hatch = Hatch(folder, "s", ORDER.token, take)
        ready.set()
        try:
            yield str(home / "s")
        finally:
            hatch.close()
            os.close(folder)


@given(hostile.contents | ANY.map(lambda value: json.dumps({"handle": {"a": 1}, "messages": value}).encode()))
def test_whatever_lies_where_an_interrupted_turn_is_noted_is_a_note_or_none(data: bytes) -> None:
    with hostile.folder() as folder:
        (folder / "interrupted.json").write_bytes(data)
        home = Home(str(folder))
        home.note_interrupted({"a": 1}, "go")

        assert home.interrupted({"a": 1})[-1] == "go"
