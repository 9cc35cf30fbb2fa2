"""What the real runners hear: whatever a program in its cage writes, the engine can use it, or that turn is lost."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any, cast

from claude_agent_sdk import ClaudeSDKError, Message
from claude_agent_sdk._internal.message_parser import parse_message
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from parley.base.redaction import Secrets
from parley.base.text import printable
from parley.engine.files.streams import Line, Lines, read_line, write
from parley.engine.turn.finish import bounded, text_in
from parley.engine.world import World
from parley.machine.job_files import JobFiles
from parley.ports.turns import Called, Ended, Order, Progress, Site, TurnEvent, Waiting
from parley.runners.claude.agent_home import AgentHome, InterruptedMessage
from parley.runners.claude.claude_turn import ClaudeTurn
from parley.runners.claude.transport import CagedTransport
from parley.runners.claude.turn_results import Fault, Lost, fault_of, window_of
from parley.runners.command import codex_session
from parley.runners.command.program_output import TEXT_LIMIT, CodexOutput, TextOutput, parked
from parley.runners.command.tool_socket import ToolSocket
from tests.fuzz import hostile_strategies
from tests.fuzz.hostile_strategies import places, spoilt

SECONDS = 30.0
ORDER = Order(
    turn="t1",
    job="j1",
    epoch=1,
    token="token",
    agent="coder",
    thread="dispatch:d",
    message="m",
    sender="lead",
    state="EXECUTE",
    visit=1,
    site=Site("/nowhere"),
    home="/nowhere",
    handle="",
    may_ask=True,
    time_limit_seconds=60.0,
    tools=(),
)
USED = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3}
SAID: tuple[dict[str, Any], ...] = (
    {
        "type": "assistant",
        "uuid": "u",
        "parent_tool_use_id": None,
        "session_id": "s",
        "message": {
            "role": "assistant",
            "model": "m",
            "usage": USED,
            "content": [
                {"type": "text", "text": "hello"},
                {"type": "tool_use", "id": "x", "name": "mcp__parley__Send", "input": {"command": "ls"}},
            ],
        },
    },
    {
        "type": "user",
        "uuid": "u",
        "parent_tool_use_id": None,
        "session_id": "s",
        "message": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "x", "content": "y", "is_error": False}],
        },
    },
    {"type": "system", "subtype": "init", "session_id": "s", "mcp_servers": [{"name": "parley", "status": "ok"}]},
    {"type": "system", "subtype": "api_retry", "session_id": "s", "retry_delay_ms": 5, "error_status": 429},
    {
        "type": "stream_event",
        "uuid": "u",
        "session_id": "s",
        "parent_tool_use_id": None,
        "event": {"type": "message_delta", "usage": {"output_tokens": 5}},
    },
    {
        "type": "rate_limit_event",
        "uuid": "u",
        "session_id": "s",
        "rate_limit_info": {"status": "rejected", "resetsAt": 1},
    },
    {
        "type": "result",
        "subtype": "success",
        "duration_ms": 1,
        "duration_api_ms": 1,
        "is_error": True,
        "num_turns": 1,
        "session_id": "s",
        "result": "done",
        "api_error_status": 500,
        "errors": ["e"],
        "usage": USED,
        "permission_denials": [{"tool_name": "Bash", "tool_use_id": "x", "tool_input": {"command": "ls"}}],
        "model_usage_since_last_result": {"m": {"inputTokens": 1, "costUSD": 0.5}},
        "modelUsage": {"m": {"contextWindow": 200000}},
    },
)
CODEX: tuple[dict[str, Any], ...] = (
    {"type": "thread.started", "thread_id": "t"},
    {"type": "item.started", "item": {"id": "i", "type": "command_execution", "command": "ls", "status": "begun"}},
    {"type": "item.completed", "item": {"id": "i", "type": "mcp_tool_call", "tool": "Send", "server": "parley"}},
    {"type": "item.completed", "item": {"type": "agent_message", "text": "hello"}},
    {"type": "item.completed", "item": {"type": "file_change", "changes": [{"path": "a", "kind": "add"}]}},
    {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 2}},
    {"type": "turn.failed", "error": {"message": "try again in 5 s"}},
)


@st.composite
def lines(draw: st.DrawFn, events: tuple[dict[str, Any], ...]) -> bytes:
    """A line of a stream: an event in which something is not as it should be, or anything else."""
    if draw(st.integers(0, 3)) == 0:
        return draw(hostile_strategies.contents | hostile_strategies.outcomes).replace(b"\n", b" ")
    event = draw(st.sampled_from(events))
    changed = spoilt(event, draw(st.sampled_from(list(places(event)))), draw(hostile_strategies.values))
    return json.dumps(changed).encode()


def streams(events: tuple[dict[str, Any], ...]) -> st.SearchStrategy[bytes]:
    """What a program writes."""
    return st.lists(lines(events), max_size=8).map(b"\n".join)


def usable(events: list[TurnEvent]) -> None:
    """All that is told can be used by the engine."""
    for event in events:
        repr(bounded(event) if isinstance(event, Ended) else event).encode("utf-8", "replace")


ANY = hostile_strategies.values


@given(ANY, ANY, ANY, ANY, st.dictionaries(hostile_strategies.words, ANY, max_size=3))
def test_an_event_with_anything_in_place_of_its_texts_is_one_that_the_engine_can_use(
    one: Any, two: Any, three: Any, four: Any, usage: dict[str, Any]
) -> None:
    usable(
        [
            Called(job="j1", turn="t1", token=one, number=1, tool=two, arguments={}),
            Progress(job="j1", turn="t1", text=one, tool=two, use=three),
            Waiting("j1", "t1", one, two),
            Ended(
                job="j1",
                turn="t1",
                epoch=1,
                text=one,
                handle=two,
                usage=usage,
                fault=three,
                refusals=(four,),
                model=four,
                parked_seconds=one,
                remembered=two,
            ),
        ]
    )


LINE_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"  # besides the line feed: what Python takes for one
broken = st.lists(st.sampled_from([*LINE_ENDS, "7", "[" * 5000, "{}", '"', "\u202e\x7f", "x"]), max_size=6).map("".join)


@given(st.lists(hostile_strategies.words | broken, min_size=1, max_size=4))
def test_a_stream_is_read_line_by_line_as_it_was_written_and_commands_no_terminal(said: list[str]) -> None:
    texts = [text_in(text, TEXT_LIMIT) for text in said]
    with hostile_strategies.folder() as home:
        files = JobFiles(home)
        (home / "jobs").mkdir()
        waiting: Lines = defaultdict(list)
        waiting["j1", "s.jsonl"] = [Line(1.0, "t1", "call", {"call": text}) for text in texts]
        write(cast("World", SimpleNamespace(files=files, secrets=Secrets())), waiting)
        read = files.tail("j1", "s.jsonl")

    assert [line and line.call for line in map(read_line, read)] == texts
    assert [printable(one) for one in read] == read


# ---- Claude Code ---------------------------------------------------------------------------------


def speaking(said: bytes) -> subprocess.Popen[bytes]:
    """A process that writes these bytes."""
    with tempfile.TemporaryFile() as file:
        file.write(said)
        file.seek(0)
        return subprocess.Popen(
            ["sh", "-c", f"exec cat <&{file.fileno()}"],
            pass_fds=(file.fileno(),),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


def understood(message: dict[str, Any]) -> Message | None:
    """What the SDK makes of a message. It checks little: what it stumbles over costs the turn."""
    try:
        return parse_message(message)
    except (TypeError, KeyError, AttributeError, ValueError) as error:
        raise Lost(Fault(f"the runner failed: {error}")) from error


async def listen(process: subprocess.Popen[bytes], turn: ClaudeTurn) -> None:
    """Hear a process, as an instance does."""
    wire = CagedTransport(process, turn.overhear)
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
    turn = ClaudeTurn(ORDER, events.append)
    with speaking(said) as process, suppress(ClaudeSDKError, Lost):
        asyncio.run(listen(process, turn))
    faults = [fault_of(result, turn.wait_seconds, 0) for result in turn.results]
    assert all(window_of(result, turn.model) >= 0 for result in turn.results)
    usable([*events, turn.ended(text=turn.last, fault=faults[-1] if faults else None)])


# ---- the programs of the settings ----------------------------------------------------------------


def call(given: tuple[str, dict[str, Any]]) -> bytes:
    """A call of a tool with the turn's token."""
    return json.dumps({"token": ORDER.token, "tool": given[0], "arguments": given[1]}).encode()


@given(streams(CODEX), st.integers(1, 50))
def test_whatever_a_program_prints_the_engine_can_use(said: bytes, size: int) -> None:
    told: list[TurnEvent] = []
    codex = CodexOutput(
        lambda text, using: told.append(Progress(job="j1", turn="t1", text=text, **(using._asdict() if using else {})))
    )
    text = TextOutput("session ([^ ]+)|(x)")
    for start in range(0, len(said), size):
        codex.take(said[start : start + size])
        text.take(said[start : start + size])
    codex.take(b"\n")
    for heard_of in (codex, text):
        usage, totals = heard_of.usage({"input_tokens": 5.0})
        ended = Ended(
            job="j1",
            turn="t1",
            epoch=1,
            text=heard_of.text(),
            handle=heard_of.session,
            usage=usage,
            fault=heard_of.fault,
        )
        usable([*told, replace(ended, parked_seconds=parked(heard_of.fault))])
        assert len(heard_of.text()) <= TEXT_LIMIT
        json.dumps(totals, allow_nan=False)


@settings(max_examples=40)
@given(hostile_strategies.names, hostile_strategies.contents | streams(CODEX), st.integers(-5, 10**20))
def test_whatever_lies_where_codex_keeps_a_session_is_a_session_or_none(name: bytes, data: bytes, length: int) -> None:
    with hostile_strategies.folder() as home:
        place = home / ".codex" / "sessions" / "2026" / "01"
        place.mkdir(parents=True)
        (place / "rollout-s1.jsonl").write_bytes(data)
        (place.parent / os.fsdecode(name)).symlink_to(place)

        size = codex_session.size(str(home), "s1")

        assert size == (data.rfind(b"\n") + 1)
        assert codex_session.put_back(str(home), "s1", length)
        assert codex_session.size(str(home), "s1") <= size


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(hostile_strategies.tools, hostile_strategies.objects).map(call)
        | hostile_strategies.contents
        | lines(CODEX),
        max_size=6,
    )
)
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
    with hostile_strategies.folder() as home:
        folder = os.open(home, os.O_RDONLY | os.O_DIRECTORY)
        ready = threading.Event()

        def take(number: int, tool: str, arguments: Mapping[str, Any]) -> None:
            ready.wait(SECONDS)
            calls.append(Called(job="j1", turn="t1", token=ORDER.token, number=number, tool=tool, arguments=arguments))
            tool_socket.reply(number, True, "taken", {})

        tool_socket = ToolSocket(folder, "s", ORDER.token, take)
        ready.set()
        try:
            yield str(home / "s")
        finally:
            tool_socket.close()
            os.close(folder)


@given(
    hostile_strategies.contents | ANY.map(lambda value: json.dumps({"handle": {"a": 1}, "messages": value}).encode())
)
def test_whatever_lies_where_an_interrupted_turn_is_noted_is_a_note_or_none(data: bytes) -> None:
    with hostile_strategies.folder() as folder:
        (folder / "interrupted.json").write_bytes(data)
        home = AgentHome(str(folder))
        home.note_interrupted({"a": 1}, InterruptedMessage("m1", "go"))

        assert home.interrupted({"a": 1})[-1] == InterruptedMessage("m1", "go")
